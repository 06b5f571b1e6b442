/* SPDX-License-Identifier: MIT */
/*
 * See keeper_words.h.
 */
#include "keeper_words.h"

#include "keeper.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_SIZE (8u << 20)
#define MAX_TTL  (UINT64_C(1) << 40) /* ms; fits all that counts time */

/* The words as a list that ends in NULL, and the next to be taken. */
typedef struct list {
  char **at;
  bool failed;
} list;

static const char *take(list *l) {
  if (*l->at)
    return *l->at++;
  l->failed = true;
  return "";
}

static uint64_t take_number(list *l, int base) {
  const char *s = take(l);
  char *end;
  errno = 0;
  uint64_t v = strtoull(s, &end, base);
  if (*s < '0' || *s > '9' || *end || errno)
    l->failed = true;
  return v;
}

static uint32_t take_id(list *l) {
  uint64_t v = take_number(l, 10);
  if (v >= UINT32_MAX)
    l->failed = true;
  return (uint32_t)v;
}

/* ---- the words ---------------------------------------------------------- */

static void take_uids(pco_keeper_words *w, list *l) {
  const char *how = take(l);
  w->two_ids = strcmp(how, "two") == 0;
  if (w->two_ids) {
    w->first_uid = take_id(l);
    w->first_gid = take_id(l);
    w->n_ids = take_id(l);
  } else if (strcmp(how, "one") != 0) {
    l->failed = true;
  }
}

static void take_tmpfs(pco_keeper_words *w, list *l) {
  w->tmpfs_bytes = take_number(l, 10);
  w->tmpfs_inodes = take_number(l, 10);
}

static void take_processes(pco_keeper_words *w, list *l) {
  w->processes = take_number(l, 10);
}

static void take_dir(pco_keeper_words *w, list *l) {
  pco_keeper_dir *d = &w->dirs[w->n_dirs++];
  d->name = take(l);
  d->mode = (mode_t)take_number(l, 8);
  d->owner = take_id(l);
}

static void take_bind(pco_keeper_words *w, list *l) {
  pco_keeper_bind *b = &w->binds[w->n_binds++];
  b->fd = -1;
  b->source = take(l);
  b->name = take(l);
}

static void take_entry(pco_keeper_words *w, list *l) {
  pco_keeper_bind *b = &w->binds[w->n_binds++];
  b->fd = -1;
  b->source = take(l);
  b->entry = take(l);
  b->name = take(l);
}

static void take_cgroup(pco_keeper_words *w, list *l) {
  w->cgroup_base = take(l);
  w->cgroup_name = take(l);
}

static void take_limit(pco_keeper_words *w, list *l) {
  const char *what = take(l);
  uint64_t amount = take_number(l, 10);
  if (strcmp(what, "memory") == 0)
    w->memory_max = amount;
  else if (strcmp(what, "pids") == 0)
    w->pids_max = amount;
  else if (strcmp(what, "cpus") == 0)
    w->millicpus = amount;
  else
    l->failed = true;
}

static int take_fd(list *l) {
  uint64_t v = take_number(l, 10);
  if (v < PCO_KEEPER_FIRST_FD || v > INT_MAX)
    l->failed = true;
  return (int)v;
}

static void take_door(pco_keeper_words *w, list *l) {
  w->door_listener = take_fd(l);
  w->door_dir = take_fd(l);
  w->door_info = take_fd(l);
  w->door_agent = take_fd(l);
  w->door_name = take(l);
}

static void take_ttl(pco_keeper_words *w, list *l) {
  w->ttl_ms = take_number(l, 10);
  if (w->ttl_ms == 0 || w->ttl_ms > MAX_TTL)
    l->failed = true;
}

static void take_launcher(pco_keeper_words *w, list *l) {
  w->launcher = l->at;
  take(l);
  while (*l->at)
    l->at++;
}

static const struct {
  const char *name;
  void (*fn)(pco_keeper_words *w, list *l);
} known[] = {{"uids", take_uids},     {"tmpfs", take_tmpfs},
             {"dir", take_dir},       {"bind", take_bind},
             {"entry", take_entry},   {"processes", take_processes},
             {"cgroup", take_cgroup}, {"limit", take_limit},
             {"door", take_door},     {"ttl", take_ttl},
             {"--", take_launcher}};

static int parse(pco_keeper_words *w, list *l, const char **wrong) {
  while (*l->at) {
    const char *word = take(l);
    size_t i = 0, n = sizeof known / sizeof *known;
    *wrong = word;
    while (i < n && strcmp(word, known[i].name) != 0)
      i++;
    if (i == n)
      return -EINVAL;
    known[i].fn(w, l);
    if (l->failed)
      return -EINVAL;
  }
  *wrong = w->launcher ? "ttl without a door" : "no launcher";
  return w->launcher && (w->door_name || !w->ttl_ms) ? 0 : -EINVAL;
}

/* ---- reading them ------------------------------------------------------- */

static int read_all(int fd, char **out, size_t *size) {
  struct stat st;
  if (fstat(fd, &st) != 0)
    return -errno;
  if (st.st_size <= 0 || st.st_size > MAX_SIZE)
    return -EMSGSIZE;
  char *memory = malloc((size_t)st.st_size);
  if (!memory)
    return -ENOMEM;
  ssize_t n = pread(fd, memory, (size_t)st.st_size, 0);
  if (n != st.st_size || memory[n - 1] != 0) {
    free(memory);
    return n < 0 ? -errno : -EINVAL;
  }
  *out = memory;
  *size = (size_t)n;
  return 0;
}

int pco_keeper_words_init(pco_keeper_words *w, int fd, const char **wrong) {
  size_t size = 0, n = 0;
  memset(w, 0, sizeof *w);
  *wrong = "words";
  int rc = read_all(fd, &w->memory, &size);
  if (rc < 0)
    return rc;
  for (size_t i = 0; i < size; i++)
    n += w->memory[i] == 0;
  /* As many places as there can be of each kind. */
  w->list = calloc(n + 1, sizeof *w->list);
  w->dirs = calloc(n, sizeof *w->dirs);
  w->binds = calloc(n, sizeof *w->binds);
  if (!w->list || !w->dirs || !w->binds)
    return -ENOMEM;
  char *at = w->memory;
  for (size_t i = 0; i < n; i++, at += strlen(at) + 1)
    w->list[i] = at;
  list l = {.at = w->list};
  return parse(w, &l, wrong);
}

void pco_keeper_words_deinit(pco_keeper_words *w) {
  free(w->memory);
  free(w->list);
  free(w->dirs);
  free(w->binds);
  memset(w, 0, sizeof *w);
}
