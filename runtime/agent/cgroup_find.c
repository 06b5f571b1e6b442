/* SPDX-License-Identifier: MIT */
/*
 * See cgroup_find.h.
 *
 * /proc/self/cgroup says in which cgroup of each hierarchy this process is, as
 * a path from the root of the hierarchy (as this cgroup namespace sees it);
 * mountinfo says which part of a hierarchy is mounted where.  A path P is below
 * the mount point M of the part R as M/(P without R).
 */
#include "cgroup_find.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_LINE (2 * PATH_MAX + 1024) /* longer ones are none of ours */

const char *const pco_cgroup_controllers[3] = {"memory", "pids", "cpu"};

/* ---- text --------------------------------------------------------------- */

int pco_cgroup_read(int dir, const char *name, char *out, size_t size) {
  int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  ssize_t n = read(fd, out, size - 1);
  int error = errno;
  close(fd);
  out[n > 0 ? n : 0] = 0;
  return n < 0 ? -error : 0;
}

static bool is_end(char c) {
  return !c || strchr(" ,\n", c);
}

/* True if the text, words between spaces or commas, has this one. */
static bool has_word(const char *text, const char *word) {
  size_t len = strlen(word);
  for (const char *at = text; (at = strstr(at, word)); at += len)
    if ((at == text || is_end(at[-1])) && is_end(at[len]))
      return true;
  return false;
}

uint32_t pco_cgroup_words(const char *text) {
  uint32_t found = 0;
  for (int i = 0; i < 3; i++)
    if (has_word(text, pco_cgroup_controllers[i]))
      found |= 1u << i;
  return found;
}

typedef struct reader {
  int fd;
  size_t at, len;
  char buf[4096];
} reader;

static bool next_byte(reader *r, char *out) {
  if (r->at == r->len) {
    ssize_t n = read(r->fd, r->buf, sizeof r->buf);
    r->at = 0;
    r->len = n > 0 ? (size_t)n : 0;
  }
  if (r->at == r->len)
    return false;
  *out = r->buf[r->at++];
  return true;
}

/* The next line, without its end; false at the end of the file.  One that is
 * too long is empty. */
static bool next_line(reader *r, char line[MAX_LINE]) {
  size_t len = 0;
  char c = 0;
  bool any = false;
  while (next_byte(r, &c) && c != '\n') {
    any = true;
    if (len < MAX_LINE)
      line[len++] = c;
  }
  if (len == MAX_LINE)
    len = 0;
  line[len] = 0;
  return any || c == '\n';
}

static int open_reader(reader *r, const char *path) {
  r->at = r->len = 0;
  r->fd = open(path, O_RDONLY | O_CLOEXEC);
  return r->fd < 0 ? -errno : 0;
}

/* ---- where this process is ---------------------------------------------- */

typedef struct places {
  char v1[3][PATH_MAX]; /* by controller; "": none of v1 */
  char v2[PATH_MAX];
} places;

/* "4:memory:/a/b", "0::/a/b"; a path with a colon is a path. */
static void take_place(char *line, places *own) {
  char *names = strchr(line, ':');
  char *path = names ? strchr(names + 1, ':') : NULL;
  if (!path)
    return;
  *names++ = 0;
  *path++ = 0;
  if (*path != '/')
    return;
  if (strcmp(line, "0") == 0 && !*names)
    snprintf(own->v2, sizeof own->v2, "%s", path);
  uint32_t found = pco_cgroup_words(names);
  for (int i = 0; i < 3; i++)
    if (found >> i & 1)
      snprintf(own->v1[i], sizeof own->v1[i], "%s", path);
}

static int read_places(const char *file, places *own) {
  static char line[MAX_LINE];
  reader r;
  int rc = open_reader(&r, file);
  if (rc != 0)
    return rc;
  memset(own, 0, sizeof *own);
  while (next_line(&r, line))
    take_place(line, own);
  close(r.fd);
  return 0;
}

/* ---- mounts ------------------------------------------------------------- */

typedef struct mount {
  bool v2;
  uint32_t limits; /* v1: whose controllers it has */
  char root[PATH_MAX];
  char point[PATH_MAX];
} mount;

/* Copies a field of mountinfo, in which "\040" is a space. */
static void decode(const char *from, char *to, size_t size) {
  size_t n = 0;
  while (*from && n + 1 < size) {
    unsigned byte;
    if (from[0] == '\\' && sscanf(from + 1, "%3o", &byte) == 1) {
      to[n++] = (char)byte;
      from += 4;
    } else {
      to[n++] = *from++;
    }
  }
  to[n] = 0;
}

/* "id parent dev root point options ... - type source options" */
static bool parse_mount(char *line, mount *m) {
  char *tail = strstr(line, " - ");
  char *field[5], *save = NULL;
  if (!tail)
    return false;
  *tail = 0;
  tail += 3;
  for (int i = 0; i < 5; i++)
    if (!(field[i] = strtok_r(i ? NULL : line, " ", &save)))
      return false;
  char *type = strtok_r(tail, " ", &save);
  char *source = strtok_r(NULL, " ", &save);
  char *options = source ? strtok_r(NULL, " ", &save) : NULL;
  if (!options)
    return false;
  m->v2 = strcmp(type, "cgroup2") == 0;
  if (!m->v2 && strcmp(type, "cgroup") != 0)
    return false;
  m->limits = m->v2 ? 0 : pco_cgroup_words(options);
  decode(field[3], m->root, sizeof m->root);
  decode(field[4], m->point, sizeof m->point);
  return true;
}

/* The next mount of a cgroup hierarchy. */
static bool next_mount(reader *r, mount *m) {
  static char line[MAX_LINE];
  while (next_line(r, line))
    if (parse_mount(line, m))
      return true;
  return false;
}

/* What is left of a path behind a directory it is in (or is): "" or "/x";
 * NULL if it is not there. */
static const char *below(const char *path, const char *dir) {
  size_t len = strcmp(dir, "/") == 0 ? 0 : strlen(dir);
  if (strncmp(path, dir, len) != 0 || (path[len] && path[len] != '/'))
    return NULL;
  return strcmp(path + len, "/") == 0 ? "" : path + len;
}

/* The directory of a path of the hierarchy, if the mount shows it. */
static bool map(const mount *m, const char *path, char out[PATH_MAX]) {
  const char *rest = below(path, m->root);
  return rest && snprintf(out, PATH_MAX, "%s%s", m->point, rest) < PATH_MAX;
}

/* ---- the base ----------------------------------------------------------- */

/* A base that is a directory of a mount becomes a path of the hierarchy. */
static int find_base(const pco_cgroup *g, char out[PATH_MAX]) {
  static mount m;
  reader r;
  size_t best = 0;
  snprintf(out, PATH_MAX, "%s", g->base);
  int rc = open_reader(&r, g->system.mounts);
  if (rc != 0)
    return rc;
  while (next_mount(&r, &m)) {
    const char *rest = below(g->base, m.point);
    const char *root = strcmp(m.root, "/") == 0 && rest && *rest ? "" : m.root;
    if (!rest || strlen(m.point) <= best)
      continue;
    best = strlen(m.point);
    if (snprintf(out, PATH_MAX, "%s%s", root, rest) >= PATH_MAX)
      rc = -ENAMETOOLONG;
  }
  close(r.fd);
  return rc;
}

static void cut_last(char *path) {
  char *slash = strrchr(path, '/');
  if (slash)
    slash[slash == path] = 0;
}

/* True if that cgroup is the caller's to use, and has controllers to hand on
 * that are wanted. */
static bool hands_on(const char *dir, uint32_t want) {
  char text[256] = "";
  int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return false;
  bool good =
      faccessat(fd, ".", W_OK, AT_EACCESS) == 0 &&
      faccessat(fd, "cgroup.procs", W_OK, AT_EACCESS) == 0 &&
      pco_cgroup_read(fd, "cgroup.subtree_control", text, sizeof text) == 0 &&
      (pco_cgroup_words(text) & want);
  close(fd);
  return good;
}

/* "auto" in v2, for an ordinary user. */
static bool find_own_v2(const mount *m, const char *own, uint32_t want,
                        char out[PATH_MAX]) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s", own);
  for (;; cut_last(path)) {
    if (map(m, path, out) && hands_on(out, want))
      return true;
    if (strcmp(path, "/") == 0)
      return map(m, own, out);
  }
}

/* The nearest directory above both. */
static bool find_common(const mount *m, const char *own, const char *base,
                        char out[PATH_MAX]) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s", base);
  while (!below(own, path))
    cut_last(path);
  return map(m, path, out);
}

static bool find_v2(const pco_cgroup *g, const mount *m, const char *own,
                    const char *base, uint32_t want, char out[PATH_MAX]) {
  if (base)
    return map(m, base, out);
  if (g->system.ordinary)
    return find_own_v2(m, own, want, out);
  return map(m, strcmp(own, "/") == 0 ? "/" : "/portico", out);
}

/* ---- trees -------------------------------------------------------------- */

static uint32_t placed(const pco_cgroup *g) {
  uint32_t limits = 0;
  for (uint32_t i = 0; i < g->n_trees; i++)
    limits |= g->trees[i].limits;
  return limits;
}

static pco_cgroup_tree *add_tree(pco_cgroup *g, bool v2, uint32_t limits,
                                 const char *dir) {
  pco_cgroup_tree *t = &g->trees[g->n_trees++];
  t->v2 = v2;
  t->limits = limits;
  t->base = t->top = -1;
  t->common[0] = 0;
  snprintf(t->dir, sizeof t->dir, "%s", dir);
  return t;
}

static void take_v2(pco_cgroup *g, const mount *m, const char *own,
                    const char *base, uint32_t left, uint32_t want) {
  char dir[PATH_MAX];
  if (!left || !*own || !find_v2(g, m, own, base, want, dir))
    return;
  pco_cgroup_tree *t = add_tree(g, true, left, dir);
  if (base && !find_common(m, own, base, t->common))
    t->common[0] = 0; /* it is above what is mounted: nobody can say */
}

/* Takes a mount for the controllers that it has and no earlier one had. */
static void take_mount(pco_cgroup *g, const mount *m, const places *own,
                       const char *base, uint32_t want) {
  char dir[PATH_MAX];
  uint32_t v1 = 0, left = 7u & ~placed(g);
  for (int i = 0; i < 3; i++)
    v1 |= own->v1[i][0] ? 1u << i : 0;
  if (m->v2) {
    take_v2(g, m, own->v2, base, left & ~v1, want);
    return;
  }
  left &= v1 & m->limits;
  for (int i = 0; left && i < 3; i++)
    if (left >> i & 1 && map(m, base ? base : own->v1[i], dir)) {
      add_tree(g, false, left, dir);
      return;
    }
}

int pco_cgroup_find(pco_cgroup *g, uint32_t want) {
  static places own;
  static mount m;
  char base[PATH_MAX];
  bool is_auto = strcmp(g->base, "auto") == 0;
  reader r;
  int rc = read_places(g->system.self, &own);
  if (rc == 0 && !is_auto)
    rc = find_base(g, base);
  if (rc == 0)
    rc = open_reader(&r, g->system.mounts);
  if (rc != 0)
    return rc;
  while (g->n_trees < PCO_CGROUP_MAX_TREES && next_mount(&r, &m))
    take_mount(g, &m, &own, is_auto ? NULL : base, want);
  close(r.fd);
  return 0;
}
