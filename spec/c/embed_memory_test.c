/* SPDX-License-Identifier: MIT */
/*
 * portico/sandbox.h where an allocation fails: the n-th of a life with all
 * kinds of calls, or that and all after it; on the runtime's loop and on a
 * portal. Every call ends, and everything can be given back.  malloc and the
 * like are wrapped by the linker (spec/c/CMakeLists.txt), so those of libuv,
 * Lua and the plugins are not among them; what leaks is told by
 * AddressSanitizer.
 *
 * Every STRIDE-th n; all of them with PORTICO_HEAVY=100.  An argument, 0 to 3,
 * is the one of the four that is run.
 */
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "embed_boxes.h"
#include "test_dir.h"

enum { STRIDE = 31 };

/* ---- allocations --------------------------------------------------------- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *ptr, size_t size);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *ptr, size_t size);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);

static atomic_long left = -1; /* allocations until one fails; negative: none */
static atomic_bool failed;
static bool once;

static bool fails(void) {
  long n = atomic_load(&left);
  while (n >= 0) {
    long next = n > 0 ? n - 1 : once ? -1 : 0;
    if (!atomic_compare_exchange_weak(&left, &n, next))
      continue;
    if (n == 0)
      atomic_store(&failed, true);
    return n == 0;
  }
  return false;
}

void *__wrap_malloc(size_t size) {
  return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size) {
  return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *ptr, size_t size) {
  return fails() ? NULL : __real_realloc(ptr, size);
}

char *__wrap_strdup(const char *s) {
  return fails() ? NULL : __real_strdup(s);
}

char *__wrap_strndup(const char *s, size_t n) {
  return fails() ? NULL : __real_strndup(s, n);
}

/* ---- a life -------------------------------------------------------------- */

static const char *stuck; /* what did not end */

/* Waits for a call, whatever becomes of it; the pending, or NULL. */
static pco_pending *end(int rc, pco_pending *p, const char *what) {
  if (rc < 0 || !p) {
    if (rc >= 0 || p)
      stuck = what;
    return NULL;
  }
  rc = pco_pending_wait(p, 20 * S);
  if (rc < 0 && rc != UV_ENOMEM)
    stuck = what;
  (void)pco_pending_error(p);
  return p;
}

/* The same for one that makes nothing. */
#define END(call)                                                              \
  do {                                                                         \
    pco_pending *p = NULL;                                                     \
    int began = call;                                                          \
    pco_pending_release(end(began, p, #call));                                 \
  } while (0)

static void live_commands(pco_box *box) {
  pco_exec_opts o = {.size = sizeof o, .shell = "cat; echo x >&2"};
  pco_wait_opts w = {.size = sizeof w, .output = "a", .output_len = 1};
  pco_pending *q = NULL;
  o.input = "hello";
  o.input_len = 5;
  END(pco_exec(box, &o, NULL, NULL, &p));
  o = (pco_exec_opts){.size = sizeof o, .shell = "cat"};
  o.flags = PCO_EXEC_STDIN;
  int rc = pco_command_start(box, &o, NULL, NULL, &q);
  q = end(rc, q, "start");
  pco_command *c = q ? pco_pending_command(q) : NULL;
  pco_pending_release(q);
  if (!c)
    return;
  END(pco_command_write(c, "abc", 3, NULL, NULL, &p));
  w.timeout_ns = S / 5; /* what was written may have failed */
  END(pco_command_wait_for(c, &w, NULL, NULL, &p));
  END(pco_box_commands(box, 0, NULL, NULL, &p));
  END(pco_command_close_stdin(c, NULL, NULL, &p));
  END(pco_command_kill(c, 0, NULL, NULL, &p));
  END(pco_command_read(c, NULL, NULL, &p));
  END(pco_command_wait(c, NULL, NULL, &p));
  pco_command_release(c);
}

static void live_files(pco_box *box) {
  pco_file_opts o = {.size = sizeof o, .flags = PCO_FS_PARENTS};
  pco_pending *q = NULL;
  END(pco_file_write(box, "d/e/f", "abc", 3, &o, NULL, NULL, &p));
  END(pco_file_read(box, "d/e/f", NULL, NULL, NULL, &p));
  END(pco_file_list(box, "d", NULL, NULL, NULL, &p));
  END(pco_file_glob(box, "d/**/f*", NULL, NULL, NULL, &p));
  END(pco_file_walk(box, "d", NULL, NULL, NULL, &p));
  END(pco_file_mktemp(box, NULL, "a*", NULL, NULL, NULL, &p));
  int rc = pco_watch_open(box, "d", NULL, NULL, NULL, &q);
  q = end(rc, q, "watch");
  pco_watch *w = q ? pco_pending_watch(q) : NULL;
  pco_pending_release(q);
  rc = pco_file_open(box, "d/g", "w", NULL, NULL, NULL, &q);
  q = end(rc, q, "open");
  pco_file *f = q ? pco_pending_file(q) : NULL;
  pco_pending_release(q);
  if (f)
    END(pco_file_write_at(f, 0, "abc", 3, NULL, NULL, &p));
  if (w && f) /* it is there, so there is an event */
    END(pco_watch_next(w, NULL, NULL, &p));
  pco_watch_release(w);
  pco_file_release(f);
}

static void live_trees(pco_box *box) {
  END(pco_tree_upload(box, in_dir("in"), "up", NULL, NULL, NULL, &p));
  END(pco_tree_download(box, "up", in_dir("out"), NULL, NULL, NULL, &p));
}

/* Options for boxes that are kept: all calls of a life see them alone. */
static pco_box_opts kept_options(void) {
  static pco_pair place = {.key = "state"};
  static char path[100];
  snprintf(path, sizeof path, "%s", in_dir("state"));
  place.value = path;
  return (pco_box_opts){.size = sizeof(pco_box_opts),
                        .backend = "local",
                        .backend_settings = &place,
                        .n_backend_settings = 1,
                        .flags = embed_portal ? PCO_BOX_PORTAL : 0};
}

static pco_box *taken(int rc, pco_pending *p, const char *what) {
  p = end(rc, p, what);
  pco_box *box = p ? pco_pending_box(p) : NULL;
  pco_pending_release(p);
  return box;
}

/* What fails may leave one that runs on. */
static void live_kept(void) {
  pco_create_opts c = {.struct_size = sizeof c,
                       .flags = PCO_CREATE_DETACHABLE,
                       .name = "kept",
                       .ttl = 3600};
  pco_box_opts o = kept_options(), with = o;
  pco_pending *q = NULL;
  with.create = &c;
  int rc = pco_box_create(embed_rt, &with, NULL, NULL, &q);
  pco_box *box = taken(rc, q, "create, to be kept");
  if (box)
    END(pco_box_detach(box, NULL, NULL, &p));
  pco_box_release(box);
  END(pco_boxes_list(embed_rt, &o, NULL, NULL, &p));
  q = NULL;
  rc = pco_box_attach(embed_rt, &o, "kept", NULL, NULL, &q);
  pco_box_release(taken(rc, q, "attach"));
  END(pco_boxes_destroy(embed_rt, &o, "kept", NULL, NULL, &p));
  END(pco_boxes_reap(embed_rt, &o, NULL, NULL, &p));
}

/* Ends what a life has left; true if nothing is there then. */
static bool end_kept(void) {
  pco_config c;
  pco_box_opts o = kept_options();
  pco_box_info info = {.size = sizeof info};
  pco_config_init(&c);
  if (pco_runtime_create(&c, &embed_rt) < 0)
    return false;
  END(pco_boxes_destroy(embed_rt, &o, "kept", NULL, NULL, &p));
  END(pco_boxes_reap(embed_rt, &o, NULL, NULL, &p));
  pco_pending *q = NULL;
  int rc = pco_boxes_list(embed_rt, &o, NULL, NULL, &q);
  q = end(rc, q, "list");
  bool none = pco_pending_listed(q, 0, &info) == 0;
  pco_pending_release(q);
  return pco_runtime_destroy(embed_rt) == 0 && none;
}

static void live(void) {
  pco_config c;
  pco_box_opts o = {.size = sizeof o, .backend = "local"};
  pco_pending *q = NULL;
  pco_config_init(&c);
  embed_rt = NULL;
  if (pco_runtime_create(&c, &embed_rt) < 0)
    return;
  o.flags = embed_portal ? PCO_BOX_PORTAL : 0;
  int rc = pco_box_create(embed_rt, &o, NULL, NULL, &q);
  q = end(rc, q, "create");
  pco_box *box = q ? pco_pending_box(q) : NULL;
  pco_pending_release(q);
  if (box) {
    live_commands(box);
    live_files(box);
    live_trees(box);
    END(pco_box_look(box, NULL, NULL, &p));
    END(pco_box_close(box, NULL, NULL, &p));
  }
  pco_box_release(box);
  live_kept();
  if (pco_runtime_destroy(embed_rt) < 0)
    stuck = "destroy";
}

/* ---- for every n --------------------------------------------------------- */

static void test(long stride) {
  bool good = true;
  long n = 0;
  live(); /* what is kept for the whole process is there then */
  int fds = embed_entries("/proc/self/fd");
  for (;; n += stride) {
    stuck = NULL;
    atomic_store(&failed, false);
    atomic_store(&left, n);
    live();
    atomic_store(&left, -1);
    if (!end_kept())
      stuck = "kept";
    int open = embed_entries("/proc/self/fd");
    if (stuck || open != fds)
      printf("# n = %ld: %s, %d descriptors of %d\n", n,
             stuck ? stuck : "all ended", open, fds);
    good = good && !stuck && open == fds;
    if (!atomic_load(&failed))
      break;
  }
  printf("# %ld allocations\n", n);
  embed_ok(n > 300, "there is much to fail");
  embed_ok(good, once ? "the n-th allocation fails" : "and all after it");
}

int main(int argc, char **argv) {
  const char *heavy = getenv("PORTICO_HEAVY");
  long stride = heavy && atoi(heavy) >= 100 ? 1 : STRIDE;
  embed_begin(argv[0]);
  if (!dir_make() || mkdir(in_dir("in"), 0755) < 0 ||
      mkdir(in_dir("state"), 0700) < 0)
    return 1;
  for (int i = 0; i < 4; i++) {
    embed_portal = i / 2;
    once = i % 2 == 0;
    if (argc == 1 || atoi(argv[1]) == i)
      test(stride);
  }
  embed_ok(dir_remove(), "tidied up");
  return embed_end();
}
