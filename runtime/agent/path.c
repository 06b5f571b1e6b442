/* SPDX-License-Identifier: MIT */
/*
 * The confined walk; see path.h.
 *
 * Links in /proc such as /proc/PID/cwd or /proc/PID/fd/N do not hold the text
 * that the kernel follows, and lead anywhere; they are refused.  So are
 * /proc/self and what leads there, and the directory itself: it is the agent's
 * own, of which the agent may read and write more than any command.
 */
#include "path.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#define MAX_LINKS 40
#define MAX_TEXT  (PCO_PATH_TEXT + PATH_MAX)

typedef struct walk {
  pco_place *at;
  char text[MAX_TEXT]; /* what is still to be walked, from `next` on */
  char *next;
  int links;
  int flags;
} walk;

/* ---- the stack ---------------------------------------------------------- */

static bool borrowed(const pco_place *p, int level) {
  return level < p->paths->n_base && p->stack[level] == p->paths->base[level];
}

static void pop(pco_place *p) {
  p->n_stack--;
  if (!borrowed(p, p->n_stack))
    close(p->stack[p->n_stack]);
}

static int push(pco_place *p, int fd) {
  if (p->n_stack == PCO_PATH_DEPTH) {
    close(fd);
    return -ENAMETOOLONG;
  }
  p->stack[p->n_stack++] = fd;
  return 0;
}

static void forget_target(pco_place *p) {
  if (p->fd >= 0)
    close(p->fd);
  p->fd = -1;
}

void pco_place_deinit(pco_place *p) {
  forget_target(p);
  while (p->n_stack > 0)
    pop(p);
}

static void to_root(pco_place *p) {
  while (p->n_stack > 1)
    pop(p);
}

static void start_at(pco_place *p, int levels) {
  memcpy(p->stack, p->paths->base, (size_t)levels * sizeof(int));
  p->n_stack = levels;
}

/* ---- text --------------------------------------------------------------- */

static char *skip_slashes(const char *s) {
  while (*s == '/')
    s++;
  return (char *)s;
}

/* The length of the component that s starts with. */
static size_t component(const char *s) {
  return strcspn(s, "/");
}

/* Compares component by component: what follows `prefix` in `path`, or NULL. */
static const char *below(const char *path, const char *prefix) {
  if (!prefix || *path != '/')
    return NULL;
  for (;;) {
    prefix = skip_slashes(prefix);
    path = skip_slashes(path);
    if (!*prefix)
      return path;
    size_t n = component(path);
    if (n == 1 && *path == '.') {
      path += n;
      continue;
    }
    if (n != component(prefix) || strncmp(path, prefix, n) != 0)
      return NULL;
    path += n;
    prefix += n;
  }
}

/* What is left of an absolute path behind the root, in any spelling of it. */
static const char *behind_root(const pco_paths *p, const char *path) {
  const char *rest = below(path, p->root);
  if (!rest)
    rest = below(path, p->alias);
  return rest ? rest : below(path, p->real);
}

/* Puts `head` before what is still to be walked.  An absolute one goes on from
 * the root. */
static int put_before(walk *w, const char *head) {
  pco_place *at = w->at;
  if (*head == '/') {
    head = behind_root(at->paths, head);
    if (!head)
      return -EXDEV;
    to_root(at);
  }
  size_t n = strlen(head), rest = strlen(w->next);
  if (n + 1 + rest + 1 > MAX_TEXT)
    return -ENAMETOOLONG;
  memmove(w->text + n + 1, w->next, rest + 1);
  memcpy(w->text, head, n);
  w->text[n] = '/';
  if (rest == 0)
    w->text[n] = 0;
  w->next = w->text;
  return 0;
}

/* ---- steps -------------------------------------------------------------- */

static bool is_in_proc(int fd) {
  struct statfs fs;
  return fstatfs(fd, &fs) != 0 || fs.f_type == PROC_SUPER_MAGIC;
}

/* Whether a directory is the agent's own in a procfs, or that of the worker who
 * asks; the name says it first, which costs nothing. */
bool pco_path_is_own_proc(const pco_paths *p, int dir, const char *name) {
  char *end;
  long pid = strtol(name, &end, 10);
  return (pid == p->agent || pid == getpid()) && !*end && is_in_proc(dir);
}

/* Walks the text of the link that w->at->fd is, in place of its name. */
static int follow(walk *w) {
  char text[PATH_MAX];
  pco_place *at = w->at;
  if (++w->links > MAX_LINKS || is_in_proc(at->fd))
    return -ELOOP;
  ssize_t n = readlinkat(at->fd, "", text, sizeof text);
  if (n <= 0 || n == sizeof text)
    return n < 0 ? -errno : n == 0 ? -ENOENT : -ENAMETOOLONG;
  text[n] = 0;
  forget_target(at);
  return put_before(w, text);
}

/* Opens the name in the current directory without following it. */
static int look(pco_place *at, int flags) {
  int fd = openat(pco_place_dir(at), at->name,
                  O_PATH | O_NOFOLLOW | O_CLOEXEC | flags);
  return fd >= 0 ? fd : -errno;
}

/* Goes one component down: a directory, or a link to be walked. */
static int step_down(walk *w) {
  pco_place *at = w->at;
  if (pco_path_is_own_proc(at->paths, pco_place_dir(at), at->name))
    return -EACCES;
  int fd = look(at, O_DIRECTORY);
  if (fd == -ENOENT && (w->flags & PCO_WALK_PARENTS)) {
    if (mkdirat(pco_place_dir(at), at->name, 0777) != 0 && errno != EEXIST)
      return -errno;
    fd = look(at, O_DIRECTORY);
  }
  if (fd >= 0)
    return push(at, fd);
  if (fd != -ENOTDIR)
    return fd;
  at->fd = look(at, 0);
  if (at->fd < 0)
    return at->fd;
  if (fstat(at->fd, &at->st) != 0)
    return -errno;
  if (S_ISLNK(at->st.st_mode))
    return follow(w);
  if (!S_ISDIR(at->st.st_mode))
    return -ENOTDIR;
  fd = at->fd; /* it became a directory just now */
  at->fd = -1;
  return push(at, fd);
}

/* Looks at the last component.  1: found, or missing; 0: it was a link. */
static int step_last(walk *w) {
  pco_place *at = w->at;
  memset(&at->st, 0, sizeof at->st);
  at->fd = look(at, 0);
  if (at->fd == -ENOENT) {
    at->fd = -1;
    return 1;
  }
  if (at->fd < 0)
    return at->fd;
  if (fstat(at->fd, &at->st) != 0)
    return -errno;
  if (!S_ISLNK(at->st.st_mode) || (w->flags & PCO_WALK_NOFOLLOW))
    return 1;
  return follow(w);
}

static int step_up(pco_place *at) {
  if (at->n_stack > 1)
    pop(at);
  else if (!at->paths->whole)
    return -EXDEV;
  return 0;
}

/* The path led to a directory that has no name of its own ("/", "a/.."). */
static int arrive_without_name(pco_place *at) {
  at->name[0] = 0;
  at->fd = openat(pco_place_dir(at), ".", O_PATH | O_CLOEXEC);
  if (at->fd < 0 || fstat(at->fd, &at->st) != 0)
    return -errno;
  return 1;
}

/* Takes the next component: 1 at the end of the walk, 0 to go on. */
static int step(walk *w) {
  pco_place *at = w->at;
  char *s = skip_slashes(w->next);
  size_t n = component(s);
  if (n == 0)
    return arrive_without_name(at);
  if (n > NAME_MAX)
    return -ENAMETOOLONG;
  w->next = s + n;
  if (n == 1 && s[0] == '.')
    return 0;
  if (n == 2 && s[0] == '.' && s[1] == '.')
    return step_up(at);
  memcpy(at->name, s, n);
  at->name[n] = 0;
  bool last = *skip_slashes(w->next) == 0;
  if (!last)
    return step_down(w);
  at->must_be_directory = at->must_be_directory || *w->next == '/';
  return step_last(w);
}

int pco_walk(const pco_paths *p, const char *path, int flags, pco_place *out) {
  walk w; /* its text is filled as far as it is used */
  w.at = out;
  w.flags = flags;
  w.links = 0;
  out->paths = p;
  out->fd = -1;
  out->n_stack = 0;
  out->must_be_directory = false;
  if (!*path)
    return -ENOENT;
  if (strlen(path) >= PCO_PATH_TEXT)
    return -ENAMETOOLONG;
  start_at(out, *path == '/' ? 1 : p->n_base);
  w.text[0] = 0;
  w.next = w.text;
  int rc = put_before(&w, path);
  while (rc == 0)
    rc = step(&w);
  if (rc == 1 && out->must_be_directory && out->fd >= 0 &&
      !S_ISDIR(out->st.st_mode))
    rc = -ENOTDIR;
  if (rc == 1)
    return 0;
  pco_place_deinit(out);
  return rc;
}

int pco_place_open(const pco_place *p, int flags, mode_t mode) {
  if (p->fd >= 0 && S_ISLNK(p->st.st_mode))
    return -ELOOP;
  int fd = openat(pco_place_dir(p), p->name[0] ? p->name : ".",
                  flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode);
  if (fd >= 0)
    return fd;
  return errno == ELOOP ? -ESTALE : -errno;
}

/* ---- the base ----------------------------------------------------------- */

/* Adds the directories between the root and the working directory. */
static int open_way(pco_paths *p, const char *rest) {
  char way[PATH_MAX], name[NAME_MAX + 1];
  snprintf(way, sizeof way, "%s", rest);
  for (char *s = skip_slashes(way); *s;) {
    size_t n = component(s);
    if (n > NAME_MAX || p->n_base == PCO_PATH_DEPTH / 2)
      return -ENAMETOOLONG;
    memcpy(name, s, n);
    name[n] = 0;
    int fd = openat(p->base[p->n_base - 1], name,
                    O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
      return -errno;
    p->base[p->n_base++] = fd;
    s = skip_slashes(s + n);
  }
  return 0;
}

/* How the kernel spells the directory. */
static int spell(int fd, char real[PATH_MAX]) {
  int back = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (back < 0)
    return -errno;
  int rc = fchdir(fd) == 0 && getcwd(real, PATH_MAX) ? 0 : -errno;
  if (fchdir(back) != 0)
    rc = -errno;
  close(back);
  return rc;
}

int pco_paths_init(pco_paths *p, const char *root, const char *alias) {
  char cwd[PATH_MAX];
  p->real[0] = 0;
  p->n_base = 0;
  p->root = root;
  p->alias = alias;
  p->agent = getpid();
  if (*root != '/' || (alias && *alias != '/'))
    return -EINVAL;
  int fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  p->base[p->n_base++] = fd;
  int rc = spell(fd, p->real);
  if (rc == 0 && !getcwd(cwd, sizeof cwd))
    rc = -errno;
  if (rc != 0)
    return rc;
  p->whole = strcmp(p->real, "/") == 0;
  const char *rest = below(cwd, p->real);
  return rest ? open_way(p, rest) : -EXDEV;
}

void pco_paths_deinit(pco_paths *p) {
  while (p->n_base > 0)
    close(p->base[--p->n_base]);
}
