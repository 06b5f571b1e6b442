/* SPDX-License-Identifier: MIT */
/*
 * Sandboxes from C, without Lua: on the runtime's loop with callbacks, and on a
 * portal by blocking; the same calls on each backend.
 */
#include <math.h>
#include <signal.h>

#include "embed_host.h"
#include "portico/sandbox.h"

#define S INT64_C(1000000000)

static pco_runtime *rt;
static const char *backend;
static bool portal;
static int n_done;

static void on_done(void *ud, pco_pending *pending) {
  n_done++;
  *(int *)ud = pco_pending_code(pending);
}

/* Each call of the tests: with a callback in ticks, or waited for. */
static pco_pending *over(int rc, pco_pending **out) {
  if (rc < 0) {
    printf("# %s: %s\n", pco_errname(rc), pco_last_message(rt));
    return NULL;
  }
  pco_pending *p = *out;
  rc = pco_pending_wait(p, 60 * S);
  if (rc < 0)
    printf("# wait: %s\n", pco_errname(rc));
  const pco_error *err = pco_pending_error(p);
  if (err)
    printf("# %s: %s\n", pco_errname(err->code), err->message);
  return p;
}

/* The code of a call, which is released. */
static int code(int rc, pco_pending **out) {
  pco_pending *p = over(rc, out);
  if (!p)
    return rc;
  rc = pco_pending_code(p);
  pco_pending_release(p);
  return rc;
}

static pco_box *new_box(void) {
  pco_box_opts o = {.size = sizeof o, .backend = backend};
  pco_pending *p = NULL;
  o.flags = portal ? PCO_BOX_PORTAL : 0;
  p = over(pco_box_create(rt, &o, NULL, NULL, &p), &p);
  pco_box *box = p ? pco_pending_box(p) : NULL;
  embed_ok(p && !pco_pending_box(p), "a box is taken once");
  pco_pending_release(p);
  return box;
}

static void test_exec(pco_box *box) {
  pco_exec_result r = {.size = sizeof r};
  pco_exec_opts o = {.size = sizeof o};
  o.shell = "cat; echo problem >&2; exit 3";
  o.input = "hello";
  o.input_len = 5;
  pco_pending *p = NULL;
  p = over(pco_exec(box, &o, NULL, NULL, &p), &p);
  embed_is(pco_pending_result(p, &r), 0, "a command has a result");
  embed_ok(r.code == 3 && r.reason == PCO_BY_EXIT && r.eof == 1 && r.pid > 0,
           "its exit");
  embed_ok(r.out_len == 5 && memcmp(r.out, "hello", 5) == 0, "its stdout");
  embed_ok(r.err_len == 8 && memcmp(r.err, "problem\n", 8) == 0, "its stderr");
  pco_pending_release(p);

  o.flags = PCO_EXEC_CHECK;
  p = over(pco_exec(box, &o, NULL, NULL, &p), &p);
  embed_is(pco_pending_code(p), PCO_EEXIT, "with CHECK it fails");
  embed_is(pco_pending_result(p, &r), 0, "with a result all the same");
  pco_pending_release(p);

  const char *argv[] = {"/no/such/program", NULL};
  pco_exec_opts none = {.size = sizeof none, .argv = argv};
  embed_is(code(pco_exec(box, &none, NULL, NULL, &p), &p), UV_ENOENT,
           "a program that is not there");

  pco_exec_opts slow = {.size = sizeof slow, .shell = "echo part; sleep 100"};
  slow.timeout_ns = S / 5;
  p = over(pco_exec(box, &slow, NULL, NULL, &p), &p);
  embed_is(pco_pending_code(p), PCO_ETIMEDOUT, "one that takes too long");
  embed_ok(pco_pending_result(p, &r) == 0 && r.out_len == 5 &&
               r.reason == PCO_BY_TIMEOUT,
           "with what it said");
  pco_pending_release(p);

  slow.timeout_ns = 0;
  embed_is(pco_exec(box, &slow, NULL, NULL, &p), 0, "one that goes on");
  embed_is(pco_pending_code(p), PCO_EBUSY, "has no outcome yet");
  embed_is(pco_pending_wait(p, S / 100), PCO_ECALLTIMEOUT, "waited too short");
  embed_is(pco_pending_cancel(p), 0, "cancelled");
  embed_is(code(0, &p), PCO_ECANCELED, "it ends so");
}

static void test_command(pco_box *box) {
  pco_exec_opts o = {.size = sizeof o, .flags = PCO_EXEC_STDIN};
  const char *argv[] = {"cat", NULL};
  o.argv = argv;
  pco_pending *p = NULL;
  p = over(pco_command_start(box, &o, NULL, NULL, &p), &p);
  pco_command *c = pco_pending_command(p);
  embed_ok(c && pco_command_pid(c) > 0, "a command is started");
  pco_pending_release(p);
  embed_is(code(pco_command_write(c, "ping", 4, NULL, NULL, &p), &p), 0,
           "written");
  p = over(pco_command_read(c, NULL, NULL, &p), &p);
  const char *data;
  size_t len;
  embed_ok(pco_pending_chunk(p, 0, &data, &len) == 1 && len == 4 &&
               memcmp(data, "ping", 4) == 0,
           "read");
  embed_is(pco_pending_chunk(p, 1, &data, &len), 0, "that is all");
  pco_pending_release(p);
  embed_is(code(pco_command_close_stdin(c, NULL, NULL, &p), &p), 0,
           "its input ends");
  p = over(pco_command_read(c, NULL, NULL, &p), &p);
  embed_ok(pco_pending_code(p) == 0 && !pco_pending_chunk(p, 0, &data, &len),
           "so does its output");
  pco_pending_release(p);
  p = over(pco_command_wait(c, NULL, NULL, &p), &p);
  pco_exec_result r = {.size = sizeof r};
  embed_ok(pco_pending_result(p, &r) == 0 && r.code == 0, "and it");
  pco_pending_release(p);
  pco_command_release(c);

  const char *sleeper[] = {"sleep", "100", NULL};
  pco_exec_opts s = {.size = sizeof s, .argv = sleeper};
  p = over(pco_command_start(box, &s, NULL, NULL, &p), &p);
  c = pco_pending_command(p);
  pco_pending_release(p);
  embed_is(pco_command_write(c, "x", 1, NULL, NULL, &p), PCO_EINVAL,
           "without PCO_EXEC_STDIN nothing is written");
  embed_is(code(pco_command_signal(c, SIGTERM, NULL, NULL, &p), &p), 0,
           "signalled");
  p = over(pco_command_kill(c, 0, NULL, NULL, &p), &p);
  embed_ok(pco_pending_result(p, &r) == 0 && r.signal == SIGTERM,
           "killed, after the signal");
  pco_pending_release(p);
  pco_command_release(c);
}

static void test_files(pco_box *box) {
  pco_pending *p = NULL;
  const char *data;
  size_t len;
  pco_file_opts parents = {.size = sizeof parents, .flags = PCO_FS_PARENTS};
  pco_file_opts append = {.size = sizeof append, .flags = PCO_FS_APPEND};
  pco_file_opts missing = {.size = sizeof missing,
                           .flags = PCO_FILE_MISSING_OK | PCO_FS_RECURSIVE};
  embed_is(code(pco_file_mkdir(box, "d/e", &parents, NULL, NULL, &p), &p), 0,
           "directories");
  embed_is(code(pco_file_write(box, "d/b", "one", 3, NULL, NULL, NULL, &p), &p),
           0, "a file");
  embed_is(
      code(pco_file_write(box, "d/b", "two", 3, &append, NULL, NULL, &p), &p),
      0, "more of it");
  p = over(pco_file_read(box, "d/b", NULL, NULL, NULL, &p), &p);
  embed_ok(pco_pending_bytes(p, &data, &len) == 0 && len == 6 &&
               memcmp(data, "onetwo", 6) == 0,
           "read");
  pco_pending_release(p);
  embed_is(code(pco_file_rename(box, "d/b", "d/a", NULL, NULL, NULL, &p), &p),
           0, "renamed");
  pco_stat st = {.struct_size = sizeof st};
  p = over(pco_file_stat(box, "d/a", NULL, NULL, NULL, &p), &p);
  embed_ok(pco_pending_entry(p, 0, &st) == 1 && st.size == 6 &&
               st.type == PCO_FILE && !pco_pending_entry(p, 1, &st),
           "its attributes");
  pco_pending_release(p);
  p = over(pco_file_list(box, "d", NULL, NULL, NULL, &p), &p);
  bool good = pco_pending_entry(p, 0, &st) == 1 && strcmp(st.name, "a") == 0;
  good = good && pco_pending_entry(p, 1, &st) == 1 && st.type == PCO_DIRECTORY;
  embed_ok(good && pco_pending_entry(p, 2, &st) == 0, "listed in order");
  pco_pending_release(p);
  embed_is(code(pco_file_remove(box, "d", &missing, NULL, NULL, &p), &p), 0,
           "removed");
  embed_is(code(pco_file_remove(box, "d", &missing, NULL, NULL, &p), &p), 0,
           "again");
  p = over(pco_file_read(box, "d/a", NULL, NULL, NULL, &p), &p);
  const pco_error *err = pco_pending_error(p);
  embed_ok(err && err->code == UV_ENOENT && strcmp(err->path, "d/a") == 0,
           "a file that is gone, with its name");
  pco_pending_release(p);
}

/* All that comes of a command's terminal until `text`. */
static bool says(pco_command *c, const char *text) {
  char all[4096] = "";
  size_t n = 0;
  bool found = false;
  for (int i = 0; i < 100 && !found; i++) {
    pco_pending *p = NULL;
    const char *data = NULL;
    size_t len = 0;
    p = over(pco_command_read(c, NULL, NULL, &p), &p);
    if (!p || pco_pending_chunk(p, 0, &data, &len) == 0)
      i = 100;
    if (n + len < sizeof all && len > 0)
      memcpy(all + n, data, len);
    n += len;
    all[n < sizeof all ? n : 0] = '\0';
    found = strstr(all, text) != NULL;
    pco_pending_release(p);
  }
  return found;
}

static void test_terminal(pco_box *box) {
  pco_exec_opts o = {.size = sizeof o, .flags = PCO_EXEC_PTY};
  o.shell = "test -t 0 && stty size && read x && stty size";
  o.cols = 100;
  pco_pending *p = NULL;
  p = over(pco_command_start(box, &o, NULL, NULL, &p), &p);
  pco_command *c = pco_pending_command(p);
  pco_pending_release(p);
  embed_ok(says(c, "24 100"), "a command has a terminal of this size");
  embed_is(code(pco_command_resize(c, 90, 30, NULL, NULL, &p), &p), 0,
           "it is resized");
  embed_is(code(pco_command_write(c, "\n", 1, NULL, NULL, &p), &p), 0,
           "and written to");
  embed_ok(says(c, "30 90"), "the command sees that");
  embed_is(pco_command_resize(c, 0, 1, NULL, NULL, &p), PCO_EINVAL,
           "no columns");
  embed_is(code(pco_command_wait(c, NULL, NULL, &p), &p), 0, "it ends");
  pco_command_release(c);

  o.flags |= PCO_EXEC_MERGE;
  embed_is(pco_command_start(box, &o, NULL, NULL, &p), PCO_EINVAL,
           "streams beside a terminal");
  o.flags = 0;
  embed_is(pco_command_start(box, &o, NULL, NULL, &p), PCO_EINVAL,
           "a size without one");
  o.cols = 0;
  o.shell = "sleep 100";
  p = over(pco_command_start(box, &o, NULL, NULL, &p), &p);
  c = pco_pending_command(p);
  pco_pending_release(p);
  embed_is(pco_command_resize(c, 80, 24, NULL, NULL, &p), PCO_EINVAL,
           "a command without one has no size");
  embed_is(code(pco_command_kill(c, 0, NULL, NULL, &p), &p), 0,
           "and is killed");
  pco_command_release(c);
}

static pco_file *open_file(pco_box *box, const char *path, const char *mode) {
  pco_pending *p = NULL;
  p = over(pco_file_open(box, path, mode, NULL, NULL, NULL, &p), &p);
  pco_file *f = p ? pco_pending_file(p) : NULL;
  embed_ok(p && !pco_pending_file(p), "a file is taken once");
  pco_pending_release(p);
  return f;
}

static bool reads(pco_file *f, uint64_t at, const char *want) {
  pco_pending *p = NULL;
  const char *data = NULL;
  size_t len = 0;
  p = over(pco_file_read_at(f, at, 100, NULL, NULL, &p), &p);
  bool good = p && pco_pending_bytes(p, &data, &len) == 0 &&
              len == strlen(want) && memcmp(data, want, len) == 0;
  pco_pending_release(p);
  return good;
}

/* Places and lengths that no file has; the box is there afterwards. */
static void test_places(pco_box *box) {
  const uint64_t last = INT64_MAX;
  pco_pending *p = NULL;
  pco_file_opts o = {.size = sizeof o, .offset = last + 1};
  pco_file *f = open_file(box, "places", "w+");
  embed_is(pco_file_read_at(f, last + 1, 1, NULL, NULL, &p), PCO_EINVAL,
           "no place to read at");
  embed_ok(strstr(pco_last_message(rt), "9223372036854775808") != NULL,
           "which is named");
  embed_is(pco_file_write_at(f, UINT64_MAX, "a", 1, NULL, NULL, &p), PCO_EINVAL,
           "none to write at");
  embed_is(pco_file_truncate(f, UINT64_MAX, NULL, NULL, &p), PCO_EINVAL,
           "no size");
  embed_is(pco_file_read(box, "places", &o, NULL, NULL, &p), PCO_EINVAL,
           "nor with the path");
  embed_ok(code(pco_file_write_at(f, last, "a", 1, NULL, NULL, &p), &p) < 0,
           "beyond the last one nothing is written");
  embed_is(code(pco_file_read_at(f, 0, SIZE_MAX, NULL, NULL, &p), &p), 0,
           "more than there is may be asked for");
  o.offset = 0;
  o.length = UINT64_MAX;
  embed_is(code(pco_file_read(box, "places", &o, NULL, NULL, &p), &p), 0,
           "also with the path");
  pco_file_release(f);
}

static void test_open_files(pco_box *box) {
  pco_pending *p = NULL;
  pco_stat st = {.struct_size = sizeof st};
  pco_file *f = open_file(box, "open", "w+");
  embed_is(code(pco_file_write_at(f, 3, "def", 3, NULL, NULL, &p), &p), 0,
           "written at a place");
  embed_is(code(pco_file_write_at(f, 0, "abc", 3, NULL, NULL, &p), &p), 0,
           "and before it");
  embed_ok(reads(f, 0, "abcdef") && reads(f, 4, "ef") && reads(f, 9, ""),
           "read at places, the end included");
  embed_is(code(pco_file_truncate(f, 4, NULL, NULL, &p), &p), 0,
           "made shorter");
  embed_is(code(pco_file_sync(f, NULL, NULL, &p), &p), 0, "put to the disk");
  p = over(pco_file_stat_open(f, NULL, NULL, &p), &p);
  embed_ok(pco_pending_entry(p, 0, &st) == 1 && st.size == 4, "looked at");
  pco_pending_release(p);
  pco_pending *q = NULL;
  embed_is(pco_file_read_at(f, 0, 4, NULL, NULL, &p), 0, "a call that goes on");
  int second = pco_file_read_at(f, 0, 4, NULL, NULL, &q);
  embed_ok(second == PCO_EBUSY || (second == 0 && portal),
           "keeps others away, unless it was quick");
  if (second == 0)
    code(0, &q);
  embed_is(code(0, &p), 0, "and ends");
  embed_is(code(pco_file_close(f, NULL, NULL, &p), &p), 0, "closed");
  embed_is(pco_file_sync(f, NULL, NULL, &p), PCO_ECLOSED, "no more calls");
  pco_file_release(f);

  embed_is(code(pco_file_copy(box, "open", "copy", NULL, NULL, NULL, &p), &p),
           0, "copied");
  embed_is(pco_file_copy(box, "open", "", NULL, NULL, NULL, &p), PCO_EINVAL,
           "not to nowhere");
  f = open_file(box, "copy", "r");
  embed_ok(reads(f, 0, "abcd"), "what is in it");
  embed_is(pco_file_write_at(f, 0, "x", 1, NULL, NULL, &p), UV_EBADF,
           "not opened for writing");
  pco_file_release(f); /* unclosed */
  embed_is(pco_file_open(box, "copy", "rw", NULL, NULL, NULL, &p), PCO_EINVAL,
           "a mode that is none");
  embed_ok(strstr(pco_last_message(rt), "\"r\"") != NULL, "those that are");
  embed_is(code(pco_file_open(box, "copy", "wx", NULL, NULL, NULL, &p), &p),
           UV_EEXIST, "a file that is to be new");
  embed_is(pco_file_sync(NULL, NULL, NULL, &p), PCO_EINVAL, "no file");
  pco_file_release(NULL);
}

/* Whether the events that come include one of these. */
static bool hears(pco_watch *w, uint32_t type, const char *path) {
  bool found = false;
  for (int i = 0; i < 20 && !found; i++) {
    pco_pending *p = NULL;
    pco_watch_event e = {.size = sizeof e};
    p = over(pco_watch_next(w, NULL, NULL, &p), &p);
    for (size_t n = 0; p && pco_pending_event(p, n, &e) == 1; n++)
      found |= e.type == type && strcmp(e.path, path) == 0;
    if (!p || pco_pending_code(p) < 0)
      i = 20;
    pco_pending_release(p);
  }
  return found;
}

static void test_watch(pco_box *box) {
  pco_pending *p = NULL;
  pco_file_opts below = {.size = sizeof below, .flags = PCO_FS_RECURSIVE};
  pco_file_opts parents = {.size = sizeof parents, .flags = PCO_FS_PARENTS};
  code(pco_file_mkdir(box, "seen/below", &parents, NULL, NULL, &p), &p);
  p = over(pco_watch_open(box, "seen", &below, NULL, NULL, &p), &p);
  pco_watch *w = p ? pco_pending_watch(p) : NULL;
  embed_ok(w && !pco_pending_watch(p), "a watch is taken once");
  pco_pending_release(p);
  code(pco_file_mkdir(box, "seen/below/a", NULL, NULL, NULL, &p), &p);
  embed_ok(hears(w, PCO_WATCH_CREATE, "below/a"),
           "a new directory is heard of");
  code(pco_file_remove(box, "seen/below/a", NULL, NULL, NULL, &p), &p);
  embed_ok(hears(w, PCO_WATCH_REMOVE, "below/a"), "and its end");
  pco_watch_event e = {.size = 1};
  pco_pending *q = NULL;
  embed_is(pco_watch_next(w, NULL, NULL, &p), 0, "one waits");
  embed_is(pco_watch_next(w, NULL, NULL, &q), PCO_EBUSY, "so no other does");
  embed_is(pco_pending_event(p, 0, &e), PCO_EBUSY, "nothing has come yet");
  embed_is(code(pco_watch_close(w, NULL, NULL, &q), &q), 0, "closed under it");
  embed_ok(code(0, &p) < 0, "which ends the wait");
  embed_is(pco_watch_next(w, NULL, NULL, &p), PCO_ECLOSED, "no more events");
  pco_watch_release(w);
  embed_is(pco_watch_next(NULL, NULL, NULL, &p), PCO_EINVAL, "no watch");
  p = over(pco_watch_open(box, "seen", NULL, NULL, NULL, &p), &p);
  pco_watch_release(pco_pending_watch(p)); /* unclosed */
  pco_pending_release(p);
  code(pco_file_mkdir(box, "short", NULL, NULL, NULL, &p), &p);
  p = over(pco_watch_open(box, "short", NULL, NULL, NULL, &p), &p);
  w = p ? pco_pending_watch(p) : NULL;
  pco_pending_release(p);
  code(pco_file_remove(box, "short", NULL, NULL, NULL, &p), &p);
  embed_ok(hears(w, PCO_WATCH_REMOVE, ""), "what is watched is gone");
  e.size = sizeof e;
  p = over(pco_watch_next(w, NULL, NULL, &p), &p);
  embed_ok(pco_pending_code(p) == 0 && pco_pending_event(p, 0, &e) == 0,
           "and there are no more events");
  pco_pending_release(p);
  pco_watch_release(w);
  code(pco_watch_open(box, "seen", NULL, NULL, NULL, &p), &p); /* not taken */
}

static int refused(pco_box *box, pco_limits l, const char *text) {
  pco_pending *p = NULL;
  l.struct_size = l.struct_size ? l.struct_size : sizeof l;
  pco_exec_opts o = {.size = sizeof o, .shell = "true", .limits = &l};
  int rc = pco_exec(box, &o, NULL, NULL, &p);
  embed_ok(!p && strstr(pco_last_message(rt), text), "and says why");
  return rc;
}

static void test_limits(pco_box *box) {
  const double bad[] = {-1, 0.0001, 1e9, (double)NAN, (double)INFINITY};
  bool good = true;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    good &= refused(box, (pco_limits){.cpus = bad[i]}, "cpus") == PCO_EINVAL;
  embed_ok(good, "processors that cannot be");
  embed_is(refused(box, (pco_limits){.memory_bytes = 4096}, "4 MiB"),
           PCO_EINVAL, "too little memory");
  embed_is(refused(box, (pco_limits){.memory_bytes = UINT64_MAX}, "INT64_MAX"),
           PCO_EINVAL, "memory below zero");
  embed_is(refused(box, (pco_limits){.pids = (uint64_t)-1}, "pids"), PCO_EINVAL,
           "processes below zero");
  embed_is(refused(box, (pco_limits){.disk_bytes = 1 << 20}, "pco_create_opts"),
           PCO_EUNSUPPORTED, "a disk of a command's own");
  embed_is(refused(box, (pco_limits){.struct_size = 4}, "struct_size"),
           PCO_ESIZE, "limits of another size");
  pco_pending *p = NULL;
  pco_limits l = {.struct_size = sizeof l, .open_files = 99};
  pco_exec_opts o = {.size = sizeof o, .shell = "ulimit -n", .limits = &l};
  pco_exec_result r = {.size = sizeof r};
  p = over(pco_exec(box, &o, NULL, NULL, &p), &p);
  embed_ok(p && pco_pending_result(p, &r) == 0 && r.out_len == 3 &&
               memcmp(r.out, "99\n", 3) == 0,
           "a limit that can be is the command's");
  pco_pending_release(p);
}

/* Callbacks, many at once, without a handle. */
static void test_callbacks(pco_box *box) {
  int codes[20];
  const char *argv[] = {"true", NULL};
  pco_exec_opts o = {.size = sizeof o, .argv = argv};
  n_done = 0;
  for (int i = 0; i < 20; i++) {
    codes[i] = 1;
    if (pco_exec(box, &o, on_done, &codes[i], NULL) < 0)
      printf("# %s\n", pco_last_message(rt));
  }
  embed_is(n_done, 0, "no callback before a tick");
  embed_is(pco_run(rt, NULL, 60 * S), 0, "ticks until nothing goes on");
  bool good = n_done == 20;
  for (int i = 0; i < 20; i++)
    good = good && codes[i] == 0;
  embed_ok(good, "each was called once, with its outcome");
}

static void test_mistakes(pco_box *box) {
  pco_pending *p = NULL;
  pco_exec_opts o = {.size = sizeof o};
  embed_is(pco_exec(box, &o, NULL, NULL, &p), PCO_EINVAL, "nothing to run");
  embed_ok(!p && strstr(pco_last_message(rt), "argv or shell"), "is said");
  o.size--;
  embed_is(pco_exec(box, &o, NULL, NULL, &p), PCO_ESIZE, "a wrong size");
  o.size++;
  o.shell = "true";
  o.flags = 1u << 31;
  embed_is(pco_exec(box, &o, NULL, NULL, &p), PCO_EINVAL, "an unknown flag");
  embed_is(pco_file_read(box, "", NULL, NULL, NULL, &p), PCO_EINVAL,
           "an empty path");
  embed_is(pco_exec(NULL, &o, NULL, NULL, &p), PCO_EINVAL, "no box");
  o.flags = 0;
  o.input_len = 5;
  embed_is(pco_exec(box, &o, NULL, NULL, &p), PCO_EINVAL,
           "no input of 5 bytes");
  embed_ok(strstr(pco_last_message(rt), "input is NULL") != NULL, "is said");
  o.input_len = 0;
  o.env = (const char *const[]){"A=1", "=2", NULL};
  embed_is(pco_exec(box, &o, NULL, NULL, &p), PCO_EINVAL,
           "a nameless variable");
  embed_ok(strstr(pco_last_message(rt), "no name") != NULL, "is said");
  o.env = NULL;
  if (portal)
    embed_is(pco_exec(box, &o, on_done, NULL, &p), PCO_EINVAL,
             "callbacks on a portal");
}

/* Calls that have made something, which nobody took when the runtime ended. */
static void test_untaken(void) {
  pco_pending *p[4] = {NULL};
  pco_exec_opts o = {.size = sizeof o, .shell = "sleep 100"};
  pco_box_opts bo = {.size = sizeof bo, .backend = backend};
  bo.flags = portal ? PCO_BOX_PORTAL : 0;
  rt = embed_new(NULL);
  pco_box *box = new_box();
  over(pco_file_open(box, "f", "w", NULL, NULL, NULL, &p[0]), &p[0]);
  over(pco_watch_open(box, ".", NULL, NULL, NULL, &p[1]), &p[1]);
  over(pco_command_start(box, &o, NULL, NULL, &p[2]), &p[2]);
  over(pco_box_create(rt, &bo, NULL, NULL, &p[3]), &p[3]);
  pco_box_release(box);
  embed_is(pco_runtime_destroy(rt), 0, "the runtime ends before its calls");
  embed_ok(!pco_pending_file(p[0]) && !pco_pending_watch(p[1]) &&
               !pco_pending_command(p[2]) && !pco_pending_box(p[3]),
           "what they made is gone");
  for (int i = 0; i < 4; i++)
    pco_pending_release(p[i]);
}

static void test_ends(void) {
  pco_pending *p = NULL;
  pco_exec_opts o = {.size = sizeof o, .shell = "sleep 100"};
  pco_box *box = new_box();
  embed_ok(pco_box_id(box) != NULL, "a box has an id");
  embed_is(pco_exec(box, &o, NULL, NULL, &p), 0, "a command runs in it");
  pco_pending *q = NULL;
  embed_is(code(pco_box_close(box, NULL, NULL, &q), &q), 0, "it is closed");
  embed_is(code(0, &p), PCO_ECLOSED, "the command hears of it");
  embed_is(pco_exec(box, &o, NULL, NULL, &p), PCO_ECLOSED, "no more calls");
  pco_box_release(box);

  box = new_box();
  pco_exec(box, &o, NULL, NULL, &p);
  pco_pending_release(p); /* while it runs */
  pco_box_release(box);   /* unclosed */

  box = new_box();
  pco_exec(box, &o, NULL, NULL, &p);
  pco_pending_release(p); /* while it runs */
  pco_command_start(box, &o, NULL, NULL, &q);
  pco_command *c = over(0, &q) ? pco_pending_command(q) : NULL;
  pco_pending_release(q);
  pco_exec(box, &o, NULL, NULL, &q);
  pco_file *f = open_file(box, "last", "w");
  pco_pending *r = NULL;
  embed_is(pco_runtime_destroy(rt), 0, "the runtime ends under all of them");
  embed_ok(pco_pending_code(q) < 0, "a call has failed then");
  embed_is(pco_exec(box, &o, NULL, NULL, &p), PCO_ECLOSED, "the box is closed");
  embed_is(pco_command_wait(c, NULL, NULL, &p), PCO_ECLOSED,
           "so is the command");
  embed_is(pco_file_sync(f, NULL, NULL, &r), PCO_ECLOSED, "and the file");
  pco_file_release(f);
  pco_pending_release(q);
  pco_command_release(c);
  pco_box_release(box);
}

/* A host that ticks only when it is told to.  The last that a shutdown waits
 * for may be the thread of a portal, whose end is no event on the loop. */
static void test_shutdown(void) {
  rt = embed_new(NULL);
  pco_box *boxes[3];
  pco_exec_opts o = {.size = sizeof o, .shell = "sleep 100"};
  pco_pending *p[3] = {NULL};
  for (int i = 0; i < 3; i++) {
    boxes[i] = new_box();
    pco_exec(boxes[i], &o, NULL, NULL, &p[i]);
  }
  embed_is(pco_shutdown(rt, 5 * S), 0, "a shutdown with open boxes");
  int wakes = 0;
  while (pco_shutdown_done(rt) == 0 && wakes < 100 &&
         embed_readable(pco_poll_fd(rt), 15000)) {
    wakes++;
    pco_tick(rt, 0, NULL);
  }
  printf("# %d wakes\n", wakes);
  embed_is(pco_shutdown_done(rt), 1, "wakes its host until it is done");
  embed_ok(wakes < 100, "and no more than there is to do");
  for (int i = 0; i < 3; i++) {
    pco_pending_release(p[i]);
    pco_box_release(boxes[i]);
  }
  pco_runtime_destroy(rt);
}

/* What libuv and a plugin keep for the whole process is there then. */
static void warm_up(void) {
  rt = embed_new(NULL);
  pco_box_release(new_box());
  pco_runtime_destroy(rt);
}

static void test_backend(void) {
  warm_up();
  int fds = embed_entries("/proc/self/fd");
  rt = embed_new(NULL);
  pco_box *box = new_box();
  if (!box)
    return;
  test_exec(box);
  test_command(box);
  test_files(box);
  test_terminal(box);
  test_open_files(box);
  test_places(box);
  test_watch(box);
  test_limits(box);
  test_mistakes(box);
  if (!portal)
    test_callbacks(box);
  pco_pending *p = NULL;
  embed_is(code(pco_box_close(box, NULL, NULL, &p), &p), 0, "closed");
  pco_box_release(box);
  test_ends();
  test_untaken();
  test_shutdown();
  embed_is(embed_entries("/proc/self/fd"), fds, "no descriptor is left");
}

static void test_refused(void) {
  pco_pending *p = NULL;
  rt = embed_new(NULL);
  pco_box_opts o = {.size = sizeof o, .backend = "no-such-backend"};
  embed_is(pco_box_create(rt, &o, NULL, NULL, &p), UV_ENOENT,
           "a backend that is not there");
  embed_ok(strstr(pco_last_message(rt), "no-such-backend") != NULL, "is named");
  o.backend = "local";
  pco_create_opts c = {.struct_size = 4};
  o.create = &c;
  embed_is(pco_box_create(rt, &o, NULL, NULL, &p), PCO_ESIZE,
           "options of another size");
  c = (pco_create_opts){.struct_size = sizeof c, .image = "debian"};
  embed_is(code(pco_box_create(rt, &o, NULL, NULL, &p), &p), PCO_EUNSUPPORTED,
           "what a backend cannot do");
  pco_runtime_destroy(rt);
}

int main(int argc, char **argv) {
  static const char *const names[] = {"local", "bwrap"};
  (void)argc;
  embed_begin(argv[0]);
  for (size_t i = 0; i < 2; i++) {
    if (!embed_has(names[i], "sandboxes in C"))
      continue;
    backend = names[i];
    for (int on_portal = 0; on_portal < 2; on_portal++) {
      printf("# %s%s\n", backend, on_portal ? ", on a portal" : "");
      portal = on_portal;
      test_backend();
    }
  }
  test_refused();
  return embed_end();
}
