/* SPDX-License-Identifier: MIT */
/*
 * See image_tar.h.  The order of things:
 *
 *   look     the index knows this file: done
 *   sweep    what killed processes left in the cache is removed
 *   claim    making/MARK is ours, or we look again a little later
 *   copy     the file's bytes into the cache, and their SHA-256
 *   unpack   the copy, into a tree
 *   seal     the tree is made the user's own (portico-agent --seal)
 *   add      it becomes the image of its key
 *   clean    making/MARK is removed
 *
 * The key must be that of the bytes which were unpacked, whoever may be writing
 * to the file: so both are done with a copy that nobody else can reach.  Key
 * and tree are made in two sandboxes, so that a tar which takes over the
 * program that unpacks it cannot claim another one's key.  Each of the two can
 * write in one directory of making/MARK only.
 *
 * One thing at a time is under way, a keeper, a process or a timer; when that
 * is over, or was ended because nobody waits any more, comes the next.
 */
#include "image_tar.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../runtime/agent/seal.h"
#include "../../runtime/agent/unpack.h"
#include "bwrap.h"
#include "image_step.h"

#define RETRY_MS 25

/* What a sandbox has made may be anything, a FIFO too. */
#define OPEN_MADE (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)

/* A file that was changed less than this many seconds before it was read may
 * change again without looking any different: clocks of file systems tick. */
#define SETTLED_S 2

/* One entry of an image for so many bytes of its bound, as in a tmpfs. */
#define BYTES_PER_ENTRY 4096u

#define COPY   "copy"   /* the directories of making/MARK, */
#define UNPACK "unpack" /* and what they get: */
#define TAR    "tar"
#define SUM    "sum"
#define TREE   PCO_UNPACK_TREE

typedef struct bwrap_unpack unpack;

struct bwrap_unpack {
  unpack *next; /* of the backend */
  bwrap_image_wait *waiters;
  char *named;         /* by the first that waits */
  const char *program; /* that decompresses */
  bool sealing;        /* but in some tests */
  int tar;
  struct stat st; /* of the file, as it was when it was asked for */
  bool settled;
  char mark[BWRAP_MARK_SIZE];
  char key[BWRAP_KEY_SIZE];
  bwrap_cache cache;
  int claim; /* what of making/ is ours, or -1 */
  bool own;  /* it is making/MARK, not something to be swept away */
  bwrap_step step;
  void (*then)(unpack *u); /* after it */
  bool ending;             /* nobody waits any more */
  int code;                /* why there is no image, or 0 */
  char why[PCO_MESSAGE_MAX];
};

static void look(unpack *u);
static void clean(unpack *u);

/* ---- the end ------------------------------------------------------------ */

static void tell(unpack *u, const char *path) {
  pco_error err = pco_error_init();
  err.code = u->code;
  err.source = PCO_SOURCE_PLUGIN;
  err.message = *u->why ? u->why : NULL;
  while (u->waiters) {
    bwrap_image_wait *w = u->waiters;
    u->waiters = w->next;
    w->unpack = NULL;
    w->fn(w, path, path ? NULL : &err);
  }
}

/* From here on nobody joins. */
static void leave_backend(unpack *u) {
  unpack **at = &u->step.backend->unpacks;
  while (*at && *at != u)
    at = &(*at)->next;
  if (*at)
    *at = u->next;
}

static void on_closed(bwrap_step *s) {
  unpack *u = BWRAP_CONTAINER(s, unpack, step);
  pco_backend *b = u->step.backend;
  tell(u, NULL);
  free(u->named);
  free(u);
  b->work--;
  bwrap_settle(b);
}

static void finish(unpack *u) {
  leave_backend(u);
  bwrap_cache_release(&u->claim);
  close(u->tar);
  bwrap_cache_close(&u->cache);
  bwrap_step_close(&u->step, on_closed);
}

PCO_PRINTF(3, 4)
static void fail(unpack *u, int code, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  u->code = code;
  vsnprintf(u->why, sizeof u->why, fmt, args);
  va_end(args);
  clean(u);
}

static void fail_at(unpack *u, const char *what, int code) {
  fail(u, code, "image %.300s: %s: %s", u->named, what, uv_strerror(code));
}

static void succeed(unpack *u) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/images/%s", u->step.backend->cache, u->key);
  leave_backend(u);
  tell(u, path);
  clean(u);
}

/* ---- one thing after the other ------------------------------------------ */

/* Cleaning is not given up. */
static void go_on(bwrap_step *s) {
  unpack *u = BWRAP_CONTAINER(s, unpack, step);
  if (u->ending && u->then != finish)
    fail(u, UV_ECANCELED, "cancelled");
  else
    u->then(u);
}

static void wait_for(unpack *u, unsigned ms, void (*then)(unpack *u)) {
  u->then = then;
  bwrap_step_time(&u->step, ms, go_on);
}

static int run_on_host(unpack *u, const char *const *argv,
                       void (*then)(unpack *u)) {
  u->then = then;
  return bwrap_step_host(&u->step, argv, go_on);
}

/* Runs a command that can write in a new directory of making/MARK only. */
static int run_inside(unpack *u, const char *const *argv, const char *dir,
                      int fd, void (*then)(unpack *u), pco_error *err) {
  char path[PATH_MAX];
  /* The ids of a sandbox that does not run yet are not known. */
  mode_t mode = geteuid() == 0 ? 0777 : 0700;
  if (mkdirat(u->claim, dir, 0700) < 0 || fchmodat(u->claim, dir, mode, 0) < 0)
    return -errno;
  snprintf(path, sizeof path, "%s/" BWRAP_CACHE_MAKING "/%s/%s",
           u->step.backend->cache, u->mark, dir);
  u->then = then;
  return bwrap_step_sandbox(&u->step, argv, path, fd, go_on, err);
}

/* ---- removing ----------------------------------------------------------- */

static int remove_made(unpack *u, const char *mark, void (*then)(unpack *u)) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/" BWRAP_CACHE_MAKING "/%s",
           u->step.backend->cache, mark);
  const char *argv[] = {"portico-agent", "--remove-only", path, NULL};
  return run_on_host(u, argv, then);
}

static void clean(unpack *u) {
  u->then = finish;
  if (!u->own || remove_made(u, u->mark, finish) < 0)
    finish(u);
}

static void on_swept(unpack *u) {
  bwrap_cache_release(&u->claim);
  look(u);
}

/* ---- what went wrong in a sandbox --------------------------------------- */

/* The disk of the cache is. */
static bool is_full(const unpack *u) {
  const char *text = u->step.keeper.last.text;
  return strstr(text, "No space left on device") ||
         strstr(text, "Disk quota exceeded");
}

static void fail_sandbox(unpack *u) {
  char line[300], room[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(room, sizeof room);
  bwrap_step_last_words(&u->step, line, sizeof line);
  if (is_full(u)) {
    fail(u, UV_ENOSPC, "image %.200s: no space in %.100s: %.150s", u->named,
         u->step.backend->cache, line);
    return;
  }
  bwrap_explain(&u->step.keeper, &err);
  fail(u, err.code ? err.code : PCO_EBACKEND, "image %.200s: %.250s", u->named,
       err.message ? err.message : "its sandbox ended");
}

/* It has not even started. */
static void fail_start(unpack *u, const pco_error *err, int code) {
  fail(u, code, "image %.200s: %.250s", u->named,
       err->message ? err->message : uv_strerror(code));
}

/* ---- add ---------------------------------------------------------------- */

static uint64_t max_entries(const unpack *u) {
  return u->step.backend->image_max / BYTES_PER_ENTRY + 1;
}

static void fail_bytes(unpack *u) {
  fail(u, PCO_ELIMIT,
       "image %.300s is more than image_max (%llu bytes) when unpacked",
       u->named, (unsigned long long)u->step.backend->image_max);
}

static void fail_entries(unpack *u) {
  fail(u, PCO_ELIMIT,
       "image %.300s has more than %llu files and directories, one for %u "
       "bytes of image_max",
       u->named, (unsigned long long)max_entries(u), BYTES_PER_ENTRY);
}

/* Only a root directory becomes an image. */
static int check_tree(const unpack *u, pco_error *err) {
  char path[PATH_MAX];
  bwrap_image m = {.named = strdup(u->named), .is_tar = true, .tar = -1};
  snprintf(path, sizeof path, "%s/" BWRAP_CACHE_MAKING "/%s/" UNPACK "/" TREE,
           u->step.backend->cache, u->mark);
  int rc = m.named ? bwrap_image_read(&m, path, err) : UV_ENOMEM;
  bwrap_image_deinit(&m);
  return rc;
}

static void use(unpack *u) {
  if (u->settled)
    bwrap_cache_remember(&u->cache, u->mark, u->key);
  succeed(u);
}

static void add(unpack *u) {
  char room[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(room, sizeof room);
  int rc = check_tree(u, &err);
  if (rc < 0) {
    fail(u, rc, "%s", err.message ? err.message : uv_strerror(rc));
    return;
  }
  rc = bwrap_cache_add(&u->cache, u->claim, UNPACK "/" TREE, u->key);
  if (rc < 0)
    fail_at(u, "adding it to the cache", rc);
  else
    use(u);
}

/* ---- seal --------------------------------------------------------------- */

static void on_sealed(unpack *u) {
  char text[200];
  bwrap_step_text(&u->step, text, sizeof text);
  switch (u->step.status) {
  case 0:
    add(u);
    break;
  case PCO_SEAL_BYTES:
    fail_bytes(u);
    break;
  case PCO_SEAL_ENTRIES:
    fail_entries(u);
    break;
  case PCO_SEAL_DEEP:
    fail(u, UV_EINVAL,
         "image %.300s has more than %d directories in each other", u->named,
         PCO_SEAL_DEPTH);
    break;
  case PCO_SEAL_FOREIGN:
    fail(u, UV_EINVAL, "image %.200s has in it what is not its own: %s",
         u->named, text);
    break;
  default:
    fail(u, PCO_EBACKEND, "image %.200s: its files cannot be made ours: %s",
         u->named, text);
  }
}

/* The agent's and the commands' id of the sandbox that unpacked. */
static void seal(unpack *u) {
  char path[PATH_MAX], numbers[4][24];
  bool root = geteuid() == 0;
  unsigned last = root ? u->step.keeper.start.uid : geteuid();
  snprintf(path, sizeof path, "%s/" BWRAP_CACHE_MAKING "/%s/" UNPACK "/" TREE,
           u->step.backend->cache, u->mark);
  snprintf(numbers[0], sizeof *numbers, "%u", root ? last - 1 : last);
  snprintf(numbers[1], sizeof *numbers, "%u", last);
  snprintf(numbers[2], sizeof *numbers, "%llu",
           (unsigned long long)u->step.backend->image_max);
  snprintf(numbers[3], sizeof *numbers, "%llu",
           (unsigned long long)max_entries(u));
  const char *argv[] = {"portico-agent", "--seal",   path,       numbers[0],
                        numbers[1],      numbers[2], numbers[3], NULL};
  int rc = run_on_host(u, argv, on_sealed);
  if (rc < 0)
    fail_at(u, "starting portico-agent", rc);
}

/* ---- unpack ------------------------------------------------------------- */

static void on_unpacked(unpack *u) {
  char line[300];
  bwrap_step_last_words(&u->step, line, sizeof line);
  switch (bwrap_step_exit_code(&u->step)) {
  case 0:
    (u->sealing ? seal : add)(u);
    break;
  case PCO_UNPACK_BAD:
    if (!is_full(u))
      fail(u, UV_EINVAL, "image %.200s cannot be unpacked: %s", u->named, line);
    else
      fail_sandbox(u);
    break;
  case PCO_UNPACK_BYTES:
    fail_bytes(u);
    break;
  case PCO_UNPACK_ENTRIES:
    fail_entries(u);
    break;
  case PCO_UNPACK_MISSING:
    fail(u, PCO_EUNAVAILABLE,
         "image %.200s needs the program %s, which is not installed: install "
         "the package %s",
         u->named, line, pco_streq(line, "xz") ? "xz-utils" : line);
    break;
  default:
    fail_sandbox(u);
  }
}

static void start_unpacking(unpack *u) {
  char room[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(room, sizeof room);
  char bytes[24], entries[24], input[16];
  const char *argv[] = {
      BWRAP_AGENT_PROGRAM, "--unpack", u->program, input, bytes, entries, NULL};
  snprintf(input, sizeof input, "%d", BWRAP_INPUT_FD);
  snprintf(bytes, sizeof bytes, "%llu",
           (unsigned long long)u->step.backend->image_max);
  snprintf(entries, sizeof entries, "%llu", (unsigned long long)max_entries(u));
  int fd = openat(u->claim, COPY "/" TAR, OPEN_MADE);
  int rc = fd < 0 ? -errno : run_inside(u, argv, UNPACK, fd, on_unpacked, &err);
  if (fd >= 0)
    close(fd);
  if (rc < 0)
    fail_start(u, &err, rc);
}

/* ---- copy --------------------------------------------------------------- */

/* What sha256sum has printed, if the copy is whole. */
static int read_key(unpack *u) {
  struct stat st;
  int fd = openat(u->claim, COPY "/" SUM, OPEN_MADE);
  ssize_t n = fd < 0 ? -1 : read(fd, u->key, sizeof u->key - 1);
  int rc = n < 0 ? -errno : 0;
  if (fd >= 0)
    close(fd);
  u->key[n < 0 ? 0 : n] = '\0';
  if (rc == 0 && fstatat(u->claim, COPY "/" TAR, &st, AT_SYMLINK_NOFOLLOW) < 0)
    rc = -errno;
  if (rc == 0 && (st.st_size != u->st.st_size || !bwrap_cache_is_key(u->key)))
    rc = UV_EBUSY;
  return rc;
}

static bool is_as_it_was(const unpack *u) {
  struct stat st;
  return fstat(u->tar, &st) == 0 && st.st_size == u->st.st_size &&
         st.st_mtim.tv_sec == u->st.st_mtim.tv_sec &&
         st.st_mtim.tv_nsec == u->st.st_mtim.tv_nsec;
}

static void on_copied(unpack *u) {
  char line[300];
  bwrap_step_last_words(&u->step, line, sizeof line);
  if (bwrap_step_exit_code(&u->step) == 127) {
    fail(u, PCO_EUNAVAILABLE,
         "image %.200s needs a program that is not installed (%s): install the "
         "package coreutils",
         u->named, line);
    return;
  }
  if (bwrap_step_exit_code(&u->step) != 0) {
    fail_sandbox(u);
    return;
  }
  int rc = read_key(u);
  if (rc == UV_EBUSY || !is_as_it_was(u))
    fail(u, UV_EBUSY, "image %.300s was changed while it was read", u->named);
  else if (rc < 0)
    fail_at(u, "reading its copy", rc);
  else if (!bwrap_cache_use(&u->cache, u->key))
    start_unpacking(u);
  else
    use(u);
}

static void copy(unpack *u) {
  char size[24], script[96], room[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(room, sizeof room);
  const char *argv[] = {"/bin/sh", "-c", script, "sh", size, NULL};
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  u->settled = u->st.st_ctim.tv_sec + SETTLED_S < now.tv_sec;
  snprintf(script, sizeof script,
           "head -c \"$1\" <&%d >" TAR " && sha256sum <" TAR " >" SUM,
           BWRAP_INPUT_FD);
  snprintf(size, sizeof size, "%lld", (long long)u->st.st_size);
  lseek(u->tar, 0, SEEK_SET);
  int rc = run_inside(u, argv, COPY, u->tar, on_copied, &err);
  if (rc < 0)
    fail_start(u, &err, rc);
}

/* ---- look, sweep, claim ------------------------------------------------- */

static void look(unpack *u) {
  char mark[BWRAP_MARK_SIZE];
  if (bwrap_cache_find(&u->cache, u->mark, u->key)) {
    succeed(u);
    return;
  }
  if (bwrap_cache_claim_dead(&u->cache, mark, &u->claim)) {
    int rc = remove_made(u, mark, on_swept);
    if (rc < 0)
      fail_at(u, "starting portico-agent", rc);
    return;
  }
  int rc = bwrap_cache_claim(&u->cache, u->mark, &u->claim);
  u->own = rc == 0;
  if (rc == 0)
    copy(u);
  else if (rc == UV_EBUSY)
    wait_for(u, RETRY_MS, look);
  else
    fail_at(u, "locking the cache", rc);
}

/* ---- who wants it ------------------------------------------------------- */

static unpack *find(const pco_backend *b, const char *mark) {
  unpack *u = b->unpacks;
  while (u && (u->ending || !pco_streq(u->mark, mark)))
    u = u->next;
  return u;
}

/* The cache becomes the unpack's. */
static unpack *create(pco_backend *b, const bwrap_plan *p,
                      const struct stat *st, const bwrap_cache *cache) {
  unpack *u = calloc(1, sizeof *u);
  char *named = strdup(p->image.named);
  int tar = fcntl(p->image.tar, F_DUPFD_CLOEXEC, 3);
  if (!u || !named || tar < 0 || bwrap_step_init(&u->step, b) < 0) {
    if (tar >= 0)
      close(tar);
    free(named);
    free(u);
    return NULL;
  }
  u->named = named;
  u->tar = tar;
  u->program = p->image.program;
  u->sealing = !bwrap_is_weak(p, "seal");
  u->st = *st;
  u->cache = *cache;
  u->claim = -1;
  bwrap_cache_mark(st, u->mark);
  u->next = b->unpacks;
  b->unpacks = u;
  b->work++;
  return u;
}

static int join(bwrap_image_wait *w, pco_backend *b, bwrap_plan *p,
                const struct stat *st, bwrap_cache *cache) {
  char mark[BWRAP_MARK_SIZE];
  bwrap_cache_mark(st, mark);
  unpack *u = find(b, mark);
  if (u) {
    bwrap_cache_close(cache);
  } else {
    u = create(b, p, st, cache);
    if (!u) {
      bwrap_cache_close(cache);
      return UV_ENOMEM;
    }
    wait_for(u, 0, look);
  }
  w->next = u->waiters;
  w->unpack = u;
  u->waiters = w;
  return 0;
}

int bwrap_image_want(bwrap_image_wait *w, pco_backend *b, bwrap_plan *p,
                     bwrap_image_fn fn, pco_error *err) {
  char mark[BWRAP_MARK_SIZE], key[BWRAP_KEY_SIZE], path[PATH_MAX];
  bwrap_cache cache;
  struct stat st;
  w->fn = fn;
  if (fstat(p->image.tar, &st) < 0)
    return -errno;
  if ((uint64_t)st.st_size > b->image_max)
    return pco_error_set(err, PCO_ELIMIT, PCO_SOURCE_PLUGIN,
                         "image %.300s is more than image_max (%llu bytes)",
                         p->image.named, (unsigned long long)b->image_max);
  int rc = bwrap_cache_open(&cache, b->cache, err);
  if (rc < 0)
    return rc;
  bwrap_cache_mark(&st, mark);
  if (!bwrap_cache_find(&cache, mark, key))
    return join(w, b, p, &st, &cache);
  bwrap_cache_close(&cache);
  snprintf(path, sizeof path, "%s/images/%s", b->cache, key);
  rc = bwrap_image_read(&p->image, path, err);
  return rc < 0 ? rc : 1;
}

void bwrap_image_leave(bwrap_image_wait *w) {
  unpack *u = w->unpack;
  bwrap_image_wait **at = &u->waiters;
  if (u->waiters == w && !w->next) {
    leave_backend(u);
    u->ending = true;
    if (u->then != finish)
      bwrap_step_hurry(&u->step);
    return;
  }
  while (*at != w)
    at = &(*at)->next;
  *at = w->next;
  w->unpack = NULL;
  pco_error err = pco_error_init();
  err.code = UV_ECANCELED;
  w->fn(w, NULL, &err);
}
