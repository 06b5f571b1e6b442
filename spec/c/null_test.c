/* SPDX-License-Identifier: MIT */
/*
 * The null backend, driven through its function table by a host that is just
 * enough for it (spec/support/plugins/mini_host.h).
 *
 *   null_test portico-null.so
 */
#include "mini_host.h"

#include <signal.h>

static const pco_backend_api *api;
static const pco_fs_api *fs;

/* ---- helpers ------------------------------------------------------------ */

static pco_sandbox *create(mini_host *h) {
  pco_create_opts o = pco_create_opts_init();
  pco_op op = {.expect = SANDBOX};
  REQUIRE(api->create(h->backend, &o, &op) == 0 && op.completions == 1);
  REQUIRE(op.sandbox && op.fd == -1);
  return op.sandbox;
}

static void destroy(pco_sandbox *s) {
  pco_op op = {.expect = NOTHING};
  REQUIRE(api->destroy(s, &op) == 0 && op.completions == 1 && !op.code);
}

#define ARGV(...) ((const char *const[]){__VA_ARGS__, NULL})

static pco_op spawn_op(pco_sandbox *s, const char *const *argv, uint32_t flags,
                       pco_sink *out, pco_sink *err) {
  pco_spawn_opts o = pco_spawn_opts_init();
  pco_op op = {.expect = PROCESS};
  o.argv = argv;
  o.flags = flags;
  o.out = out;
  o.err = err;
  REQUIRE(api->spawn(s, &o, &op) == 0 && op.completions == 1);
  return op;
}

static pco_process *spawn(pco_sandbox *s, const char *const *argv,
                          uint32_t flags, pco_sink *out, pco_sink *err) {
  pco_op op = spawn_op(s, argv, flags, out, err);
  REQUIRE(op.process && !op.code);
  return op.process;
}

static void read_start(pco_process *p, pco_sink *sink) {
  sink->reading = true;
  REQUIRE(api->read_start(p, sink) == 0);
}

/* Waits for the end and gives the exit code, or minus the signal. */
static int end_of(mini_host *h, pco_process *p) {
  pco_op op = {.expect = EXIT};
  REQUIRE(api->wait(p, &op) == 0);
  REQUIRE(wait_op(h, &op, 5000) && !op.code);
  return op.exit.signal ? -op.exit.signal : op.exit.exit_code;
}

static bool has_ended(pco_process *p) {
  pco_op op = {.expect = EXIT};
  REQUIRE(api->wait(p, &op) == 0);
  if (op.completions)
    return true;
  op_cancel(&op);
  REQUIRE(op.completions == 1 && op.code == UV_ECANCELED);
  return false;
}

static int send_signal(pco_process *p, int signo) {
  pco_op op = {.expect = NOTHING};
  REQUIRE(api->signal(p, signo, 0, &op) == 0 && op.completions == 1);
  return op.code;
}

static void close_stdin(pco_process *p) {
  pco_op op = {.expect = NOTHING};
  REQUIRE(api->close_stdin(p, &op) == 0 && op.completions == 1 && !op.code);
}

/* ---- backends and sandboxes --------------------------------------------- */

static pco_op create_op(mini_host *h, const pco_create_opts *o) {
  pco_op op = {.expect = SANDBOX};
  REQUIRE(api->create(h->backend, o, &op) == 0 && op.completions == 1);
  return op;
}

static void test_open(void) {
  mini_host h;
  char room[300];
  pco_error err = pco_error_in(room, sizeof room);
  pco_pair setting = {"speed", "9"};
  mini_start(&h, api);
  int rc = api->open(&h.host, &setting, 1, &h.backend, &err);
  check(rc == UV_EINVAL && err.code == rc && strstr(err.message, "'speed'"),
        "open refuses a setting that it does not know, by name");
  mini_stop(&h);
  mini_open(&h, api);
  pco_op op = {.expect = PROBE};
  REQUIRE(api->probe(h.backend, &op) == 0);
  check(op.caps == PCO_CAP_LIST && op.n > 5, "probe tells what it can");
  check(api->get_extension(h.backend, PCO_FS_ID) &&
            !api->get_extension(h.backend, "pco.fs/999"),
        "an extension by its id, NULL for others");
  mini_close(&h);
}

static void test_create_options(void) {
  mini_host h;
  mini_open(&h, api);
  pco_create_opts o = pco_create_opts_init();
  pco_limits limits = pco_limits_init();
  limits.memory_bytes = 1;
  o.limits = &limits;
  pco_op op = create_op(&h, &o);
  check(op.code == PCO_EUNSUPPORTED && strstr(op.text, "'limits.memory'"),
        "an option that it cannot do is refused by name");
  o = pco_create_opts_init();
  o.network = "host";
  check(create_op(&h, &o).code == PCO_EUNSUPPORTED, "so is a network");
  pco_pair setting = {"x", "y"};
  o = pco_create_opts_init();
  o.settings = &setting;
  o.n_settings = 1;
  check(create_op(&h, &o).code == UV_EINVAL, "and a setting");
  o = pco_create_opts_init();
  o.name = "mine";
  o.cwd = "/a/b";
  op = create_op(&h, &o);
  check(!op.code && pco_streq(op.text, "mine") && pco_streq(op.path, "/a/b"),
        "a wished id and working directory");
  check(create_op(&h, &o).code == UV_EEXIST, "an id that is taken");
  o.name = "../x";
  check(create_op(&h, &o).code == UV_EINVAL, "an id that is none");
  o.flags = 1u << 30;
  pco_op unused = {.expect = SANDBOX};
  check(api->create(h.backend, &o, &unused) == UV_EINVAL && !unused.completions,
        "an unknown flag is rejected");
  mini_close(&h);
}

static void test_list_and_destroy_id(void) {
  mini_host a, b;
  mini_open(&a, api);
  mini_open(&b, api);
  pco_create_opts o = pco_create_opts_init();
  o.name = "one";
  pco_sandbox *one = create_op(&a, &o).sandbox;
  o.name = "two";
  create_op(&b, &o);
  pco_process *p = spawn(one, ARGV("sleep", "9"), 0, NULL, NULL);
  pco_op wait = {.expect = EXIT};
  api->wait(p, &wait);
  pco_op list = {.expect = LIST};
  REQUIRE(api->list(a.backend, &list) == 0);
  check(strstr(list.bytes, "one ") && strstr(list.bytes, "two "),
        "list shows those of every instance");
  op_free(&list);
  pco_op op = {.expect = NOTHING};
  REQUIRE(api->destroy_id(b.backend, "one", &op) == 0);
  check(wait_op(&b, &op, 1000) && !op.code, "another instance ends it by id");
  check(wait_op(&a, &wait, 1000) && wait.exit.signal == SIGKILL &&
            wait.exit.flags & PCO_EXIT_GONE,
        "its command ends with it");
  check(spawn_op(one, ARGV("true"), 0, NULL, NULL).code == PCO_EGONE,
        "its handle says that it is gone");
  op = (pco_op){.expect = NOTHING};
  REQUIRE(api->destroy_id(b.backend, "one", &op) == 0);
  check(op.completions == 1 && op.code == UV_ENOENT, "again: there is none");
  destroy(one);
  op = (pco_op){.expect = NOTHING};
  REQUIRE(api->destroy_id(b.backend, "two", &op) == 0);
  list = (pco_op){.expect = LIST};
  REQUIRE(api->list(a.backend, &list) == 0);
  check(pco_streq(list.bytes, ""), "nothing is listed any more");
  op_free(&list);
  mini_close(&a);
  mini_close(&b);
}

/* ---- commands ----------------------------------------------------------- */

static void test_exit_codes(mini_host *h, pco_sandbox *s) {
  pco_sink out = {0}, err = {0};
  pco_process *p = spawn(s, ARGV("true"), 0, &out, &err);
  check(end_of(h, p) == 0 && end_of(h, p) == 0, "true, waited for twice");
  check(out.eofs == 1 && err.eofs == 1 && out.len == 0,
        "each stream ends once, unread");
  check(send_signal(p, SIGTERM) == UV_ESRCH, "no signal after the end");
  api->release_process(p);
  check(end_of(h, spawn(s, ARGV("false"), 0, NULL, NULL)) == 1, "false");
  check(end_of(h, spawn(s, ARGV("exit", "255"), 0, NULL, NULL)) == 255,
        "exit 255");
  check(end_of(h, spawn(s, ARGV("exit", "256"), 0, NULL, NULL)) == 2,
        "exit 256 is no code");
}

static void test_refused(pco_sandbox *s) {
  pco_op op = spawn_op(s, ARGV("ls"), 0, NULL, NULL);
  check(op.code == UV_ENOENT && pco_streq(op.path, "ls"),
        "a command that it does not have");
  op = spawn_op(s, ARGV("/bin/sh", "-c", "echo"), 0, NULL, NULL);
  check(op.code == PCO_EUNSUPPORTED && strstr(op.text, "null has no shell"),
        "no shell");
  op = spawn_op(s, ARGV("true"), PCO_SPAWN_PTY, NULL, NULL);
  check(op.code == PCO_EUNSUPPORTED, "no terminal");
  pco_spawn_opts o = pco_spawn_opts_init();
  op = (pco_op){.expect = PROCESS};
  o.argv = ARGV("true");
  o.cwd = "/nowhere";
  REQUIRE(api->spawn(s, &o, &op) == 0);
  check(op.code == UV_ENOENT && pco_streq(op.path, "/nowhere") &&
            strstr(op.text, "working directory"),
        "a working directory that is missing is not the program");
}

static void test_echo(mini_host *h, pco_sandbox *s) {
  pco_sink out = {.greedy = true}, err = {.greedy = true};
  pco_process *p = spawn(s, ARGV("echo", "a", "b c", ""), 0, &out, &err);
  check(!out.len && !has_ended(p), "nothing comes before it is asked for");
  read_start(p, &out);
  check(pco_streq(out.data, "a b c \n") && end_of(h, p) == 0, "echo");
  api->release_process(p);
  sink_free(&out);
  p = spawn(s, ARGV("echo", "x"), 0, NULL, NULL);
  check(end_of(h, p) == 0, "output that nobody wants holds nothing back");
  api->release_process(p);
  out = (pco_sink){.greedy = true};
  p = spawn(s, ARGV("cat", "/none"), PCO_SPAWN_MERGE, &out, NULL);
  read_start(p, &out);
  check(end_of(h, p) == 1 && strstr(out.data, "cat: /none: "),
        "merge: errors go where the output goes");
  api->release_process(p);
  sink_free(&out);
}

/* A reader that takes one piece at a time. */
static void test_back_pressure(mini_host *h, pco_sandbox *s) {
  size_t len = 1024 * 1024;
  char *arg = malloc(len + 1);
  REQUIRE(arg);
  for (size_t i = 0; i < len; i++)
    arg[i] = (char)('a' + i % 26);
  arg[len] = '\0';
  pco_sink out = {0}, err = {0};
  pco_process *p = spawn(s, ARGV("echo", arg), 0, &out, &err);
  size_t asked = 0;
  while (!out.eofs) {
    REQUIRE(out.len == len + 1 || !has_ended(p));
    read_start(p, &out);
    REQUIRE(out.pushes == ++asked);
  }
  check(end_of(h, p) == 0 && out.len == len + 1 &&
            memcmp(out.data, arg, len) == 0 && asked > 8,
        "1 MiB through a reader that is full after every piece");
  api->release_process(p);
  sink_free(&out);
  free(arg);
}

static void test_cat_stdin(mini_host *h, pco_sandbox *s) {
  pco_sink out = {.greedy = true}, err = {0};
  pco_process *p = spawn(s, ARGV("cat"), 0, &out, &err);
  check(end_of(h, p) == 0, "cat with an empty stdin ends");
  api->release_process(p);
  out = (pco_sink){.greedy = true};
  err = (pco_sink){0};
  p = spawn(s, ARGV("cat"), PCO_SPAWN_STDIN, &out, &err);
  /* As much as two pipes of a real cat take, and more than that. */
  size_t room = 64 * 1024;
  char *big = calloc(1, 2 * room);
  REQUIRE(big);
  memset(big + 1, 'x', 2 * room - 1);
  pco_iov few[] = {{"one\0", 4}, {"", 0}, {"two", 3}};
  pco_iov many[] = {{big, room}, {big + room, room}};
  pco_op op = {.expect = NOTHING}, other = {.expect = NOTHING};
  REQUIRE(api->write(p, few, 3, &op) == 0);
  check(op.completions == 1 && !op.code, "a write that fits in a pipe is done");
  op = (pco_op){.expect = NOTHING};
  REQUIRE(api->write(p, many, 2, &op) == 0);
  check(!op.completions, "a longer write waits for the reader");
  check(api->write(p, few, 1, &other) == UV_EBUSY, "one write at a time");
  close_stdin(p);
  check(!has_ended(p), "what was written is not lost by closing");
  read_start(p, &out);
  check(op.completions == 1 && !op.code && out.len == 7 + 2 * room &&
            memcmp(out.data, "one\0two", 7) == 0 &&
            memcmp(out.data + 7, big, 2 * room) == 0,
        "and completes when it has gone, zero bytes and all");
  check(end_of(h, p) == 0 && out.eofs == 1, "then cat ends");
  close_stdin(p);
  op = (pco_op){.expect = NOTHING};
  free(big);
  REQUIRE(api->write(p, few, 1, &op) == 0);
  check(op.code == UV_EPIPE, "a write after that: EPIPE");
  api->release_process(p);
  sink_free(&out);
}

static void test_cancel(mini_host *h, pco_sandbox *s) {
  pco_sink out = {0}, err = {0};
  pco_process *p = spawn(s, ARGV("cat"), PCO_SPAWN_STDIN, &out, &err);
  static char data[100 * 1024]; /* more than a pipe takes */
  pco_iov buf = {data, sizeof data};
  pco_op write = {.expect = NOTHING};
  REQUIRE(api->write(p, &buf, 1, &write) == 0);
  op_cancel(&write);
  check(write.code == UV_ECANCELED, "a write can be cancelled");
  pco_op a = {.expect = EXIT}, b = {.expect = EXIT};
  REQUIRE(api->wait(p, &a) == 0 && api->wait(p, &b) == 0);
  op_cancel(&a);
  check(a.code == UV_ECANCELED && !b.completions, "so can one wait of two");
  write = (pco_op){.expect = NOTHING};
  REQUIRE(api->write(p, &buf, 1, &write) == 0);
  check(send_signal(p, SIGUSR1) == 0 && !b.completions,
        "a signal that null ignores");
  check(send_signal(p, SIGTERM) == 0 && b.exit.signal == SIGTERM &&
            b.exit.exit_code == -1,
        "one that ends it");
  check(write.code == UV_EPIPE, "its write ends too");
  check(out.eofs == 1 && err.eofs == 1 && end_of(h, p) == -SIGTERM,
        "its streams end, its result stays");
  api->release_process(p);
}

static void test_sleep(mini_host *h, pco_sandbox *s) {
  uint64_t start = uv_hrtime();
  pco_process *p = spawn(s, ARGV("sleep", "0.05"), 0, NULL, NULL);
  int code = end_of(h, p);
  check(code == 0 && uv_hrtime() - start >= 49000000, "sleep takes its time");
  api->release_process(p);
  p = spawn(s, ARGV("sleep", "99"), PCO_SPAWN_STDIN, NULL, NULL);
  pco_iov buf = {"never read", 10};
  pco_op op = {.expect = NOTHING};
  REQUIRE(api->write(p, &buf, 1, &op) == 0);
  check(op.completions == 1 && !op.code,
        "a stdin that is not read takes a pipe full");
  check(send_signal(p, SIGKILL) == 0 && end_of(h, p) == -SIGKILL,
        "sleep can be killed");
  api->release_process(p);
  p = spawn(s, ARGV("sleep", "x"), 0, NULL, NULL);
  check(end_of(h, p) == 1, "sleep of no number");
  api->release_process(p);
  p = spawn(s, ARGV("sleep", "0.01"), 0, NULL, NULL);
  api->release_process(p);
  uv_run(&h->loop, UV_RUN_DEFAULT);
  check(true, "a released process runs to its end");
}

/* What the host may do inside push(). */

static void stop_inside(pco_sink *sink) {
  sink->reading = false;
  api->read_stop(sink->arg, sink);
}

static void release_inside(pco_sink *sink) {
  api->release_process(sink->arg);
}

static void kill_inside(pco_sink *sink) {
  REQUIRE(send_signal(sink->arg, SIGKILL) == 0);
}

static void destroy_inside(pco_sink *sink) {
  destroy(sink->arg);
}

static void test_inside_push(mini_host *h) {
  static char arg[200001];
  memset(arg, 'x', sizeof arg - 1);
  pco_sandbox *s = create(h);
  pco_sink out = {.greedy = true, .on_push = stop_inside}, err = {0};
  pco_process *p = spawn(s, ARGV("echo", arg), 0, &out, &err);
  out.arg = p;
  read_start(p, &out);
  check(out.pushes == 1, "read_stop inside push stops it");
  out.on_push = kill_inside;
  read_start(p, &out);
  check(out.eofs == 1 && end_of(h, p) == -SIGKILL, "kill inside push");
  api->release_process(p);
  sink_free(&out);

  out = (pco_sink){.greedy = true, .on_push = release_inside};
  p = spawn(s, ARGV("echo", arg), 0, &out, NULL);
  out.arg = p;
  read_start(p, &out);
  check(out.pushes == 1 && !out.eofs, "release inside push: no more of it");
  sink_free(&out);

  out = (pco_sink){.greedy = true, .on_push = destroy_inside, .arg = s};
  p = spawn(s, ARGV("echo", arg), 0, &out, NULL);
  read_start(p, &out);
  check(out.pushes == 1 && out.eofs == 1, "destroy inside push");
  check(end_of(h, p) == -SIGKILL, "a handle outlives its sandbox");
  api->release_process(p);
  sink_free(&out);
}

/* ---- files -------------------------------------------------------------- */

static int write_file(pco_sandbox *s, const char *path, const char *text,
                      uint32_t flags) {
  pco_iov buf = {text, strlen(text)};
  pco_op op = {.expect = NOTHING};
  REQUIRE(fs->write(s, path, 0, flags, &buf, 1, &op) == 0);
  REQUIRE(op.completions == 1);
  return op.code;
}

static bool file_is(pco_sandbox *s, const char *path, const char *text) {
  pco_op op = {.expect = DATA};
  REQUIRE(fs->read(s, path, 0, 1 << 20, 0, &op) == 0);
  bool ok = !op.code && op.more && pco_streq(op.bytes, text);
  op_free(&op);
  return ok;
}

static int stat_code(pco_sandbox *s, const char *path, pco_stat *out) {
  pco_op op = {.expect = STAT};
  REQUIRE(fs->stat(s, path, 0, &op) == 0 && op.completions == 1);
  if (out)
    *out = op.stat;
  return op.code;
}

static int make_dir(pco_sandbox *s, const char *path, uint32_t flags) {
  pco_op op = {.expect = NOTHING};
  REQUIRE(fs->mkdir(s, path, 0, flags, &op) == 0 && op.completions == 1);
  return op.code;
}

static int remove_path(pco_sandbox *s, const char *path, uint32_t flags) {
  pco_op op = {.expect = NOTHING};
  REQUIRE(fs->remove(s, path, flags, &op) == 0 && op.completions == 1);
  return op.code;
}

static int rename_path(pco_sandbox *s, const char *a, const char *b,
                       uint32_t flags) {
  pco_op op = {.expect = NOTHING};
  REQUIRE(fs->rename(s, a, b, flags, &op) == 0 && op.completions == 1);
  return op.code;
}

static void test_files(pco_sandbox *s) {
  pco_stat st;
  check(!write_file(s, "/workspace/a", "one", 0) &&
            file_is(s, "/workspace/a", "one"),
        "write and read");
  check(!write_file(s, "/workspace/a", "two", PCO_FS_APPEND) &&
            file_is(s, "/workspace/a", "onetwo"),
        "append");
  check(!stat_code(s, "/workspace/../workspace/./a", &st) && st.size == 6 &&
            st.mode == 0644 && st.type == PCO_FILE && st.mtime_ns > 0,
        "stat, by a path with dots");
  check(write_file(s, "/x/y", "z", 0) == UV_ENOENT &&
            !write_file(s, "/x/y", "z", PCO_FS_PARENTS) &&
            file_is(s, "/x/y", "z"),
        "a parent is made if asked for");
  check(write_file(s, "/x", "z", 0) == UV_EISDIR &&
            write_file(s, "/x/y/z", "z", 0) == UV_ENOTDIR &&
            write_file(s, "/x/y/", "z", 0) == UV_ENOTDIR,
        "a directory is no file and the reverse");
  check(stat_code(s, "/none", NULL) == UV_ENOENT &&
            stat_code(s, "/x/y/z", NULL) == UV_ENOTDIR &&
            stat_code(s, "/../../x", NULL) == 0,
        "missing, through a file, above the root");
  pco_op op = {.expect = STAT};
  check(fs->stat(s, "x", 0, &op) == UV_EINVAL && !op.completions,
        "a relative path is rejected");
  check(make_dir(s, "/x", 0) == UV_EEXIST &&
            !make_dir(s, "/x", PCO_FS_PARENTS) &&
            make_dir(s, "/x/y", PCO_FS_PARENTS) == UV_EEXIST &&
            make_dir(s, "/p/q", 0) == UV_ENOENT &&
            !make_dir(s, "/p/q/", PCO_FS_PARENTS),
        "mkdir");
  check(remove_path(s, "/p", 0) == UV_ENOTEMPTY &&
            !remove_path(s, "/p", PCO_FS_RECURSIVE) &&
            remove_path(s, "/p", 0) == UV_ENOENT &&
            remove_path(s, "/", PCO_FS_RECURSIVE) == UV_EBUSY,
        "remove");
}

static void test_rename(pco_sandbox *s) {
  REQUIRE(!write_file(s, "/r/a", "a", PCO_FS_PARENTS));
  REQUIRE(!write_file(s, "/r/b", "b", 0) && !make_dir(s, "/r/d", 0));
  REQUIRE(!write_file(s, "/r/e/f", "f", PCO_FS_PARENTS));
  check(rename_path(s, "/r/a", "/r/b", 0) == UV_EEXIST &&
            !rename_path(s, "/r/a", "/r/b", PCO_FS_REPLACE) &&
            file_is(s, "/r/b", "a") && stat_code(s, "/r/a", NULL) == UV_ENOENT,
        "rename replaces only if asked to");
  check(rename_path(s, "/r/b", "/r/d", PCO_FS_REPLACE) == UV_EISDIR &&
            rename_path(s, "/r/d", "/r/b", PCO_FS_REPLACE) == UV_ENOTDIR &&
            rename_path(s, "/r/d", "/r/e", PCO_FS_REPLACE) == UV_ENOTEMPTY,
        "kinds do not replace each other");
  check(rename_path(s, "/r/e", "/r/e/g", 0) == UV_EINVAL &&
            !rename_path(s, "/r/e", "/r/d", PCO_FS_REPLACE) &&
            file_is(s, "/r/d/f", "f"),
        "a directory, but not into itself");
}

static void test_list(pco_sandbox *s) {
  static const char *const paths[] = {"/l/b", "/l/a", "/l/B", "/l/a\xff"};
  for (size_t i = 0; i < 4; i++)
    REQUIRE(!write_file(s, paths[i], "", PCO_FS_PARENTS));
  pco_op op = {.expect = STATS};
  REQUIRE(fs->list(s, "/l", NULL, 0, &op) == 0);
  check(pco_streq(op.bytes, "B a a\xff b ") && !op.more,
        "list is in byte order");
  op_free(&op);
  op = (pco_op){.expect = STATS};
  REQUIRE(fs->list(s, "/l", "B", 2, &op) == 0);
  check(pco_streq(op.bytes, "a a\xff ") && op.more, "a page of it");
  op_free(&op);
  op = (pco_op){.expect = STATS};
  REQUIRE(fs->list(s, "/l/a", NULL, 0, &op) == 0);
  check(op.code == UV_ENOTDIR, "list of a file");
}

static void test_file_limit(mini_host *h) {
  pco_sandbox *s = create(h);
  size_t len = 33u * 1024 * 1024;
  char *big = calloc(1, len);
  REQUIRE(big);
  pco_iov buf = {big, len};
  pco_op op = {.expect = NOTHING};
  REQUIRE(fs->write(s, "/big", 0, 0, &buf, 1, &op) == 0 && !op.code);
  op = (pco_op){.expect = NOTHING};
  REQUIRE(fs->write(s, "/big2", 0, 0, &buf, 1, &op) == 0);
  check(op.code == PCO_ELIMIT && stat_code(s, "/big2", NULL) == UV_ENOENT,
        "no more than 64 MiB of files, and nothing half written");
  op = (pco_op){.expect = NOTHING};
  REQUIRE(fs->write(s, "/big", 0, 0, &buf, 1, &op) == 0);
  check(!op.code, "replacing one needs no room for both");
  REQUIRE(!remove_path(s, "/big", 0));
  op = (pco_op){.expect = NOTHING};
  REQUIRE(fs->write(s, "/big2", 0, 0, &buf, 1, &op) == 0);
  check(!op.code, "removing gives the room back");
  free(big);
  destroy(s);
}

static void test_cat_files(mini_host *h, pco_sandbox *s) {
  REQUIRE(!write_file(s, "/workspace/f", "from a file\n", 0));
  pco_sink out = {.greedy = true}, err = {.greedy = true};
  pco_process *p =
      spawn(s, ARGV("cat", "f", "none", "/workspace/f"), 0, &out, &err);
  read_start(p, &out);
  check(!has_ended(p), "errors that nobody reads hold it back, as output does");
  read_start(p, &err);
  check(end_of(h, p) == 1 &&
            pco_streq(out.data, "from a file\nfrom a file\n") &&
            strstr(err.data, "cat: none: no such file"),
        "cat of files, one of them missing");
  api->release_process(p);
  sink_free(&out);
  sink_free(&err);
}

/* ---- ends --------------------------------------------------------------- */

static void test_destroy(mini_host *h) {
  pco_sandbox *s = create(h);
  pco_sink out = {0}, err = {0};
  pco_process *p = spawn(s, ARGV("sleep", "99"), 0, &out, &err);
  pco_op wait = {.expect = EXIT};
  REQUIRE(api->wait(p, &wait) == 0);
  destroy(s);
  check(wait.completions == 1 && wait.exit.signal == SIGKILL &&
            wait.exit.flags == PCO_EXIT_GONE && out.eofs == 1 && err.eofs == 1,
        "destroy ends what runs and then completes");
  check(end_of(h, p) == -SIGKILL && send_signal(p, SIGTERM) == UV_ESRCH,
        "the handle stays good");
  api->release_process(p);
}

static void test_close_with_all_open(void) {
  mini_host h;
  mini_open(&h, api);
  pco_sink out = {0};
  pco_op waits[3] = {{.expect = EXIT}, {.expect = EXIT}, {.expect = EXIT}};
  for (int i = 0; i < 3; i++) {
    pco_process *p =
        spawn(create(&h), ARGV("sleep", "99"), 0, i ? NULL : &out, NULL);
    REQUIRE(api->wait(p, &waits[i]) == 0);
  }
  uv_run(&h.loop, UV_RUN_NOWAIT);
  mini_close(&h);
  check(waits[0].completions && waits[1].completions && waits[2].completions &&
            out.eofs == 1,
        "close ends everything and leaves a clean loop");
}

/* Many loops at once, ending each other's sandboxes. */
static void *storm(void *arg) {
  unsigned seed = (unsigned)(uintptr_t)arg;
  mini_host h;
  mini_open(&h, api);
  for (int i = 0; i < 300; i++) {
    char id[16];
    seed = seed * 1103515245u + 12345u;
    snprintf(id, sizeof id, "s%u", seed >> 16 & 7);
    pco_create_opts o = pco_create_opts_init();
    o.name = id;
    pco_op made = create_op(&h, &o);
    if (made.sandbox)
      spawn_op(made.sandbox, ARGV("sleep", "99"), 0, NULL, NULL);
    pco_op op = {.expect = NOTHING}, list = {.expect = LIST};
    REQUIRE(api->list(h.backend, &list) == 0 && !list.code);
    op_free(&list);
    id[1] = (char)('0' + (seed >> 20 & 7));
    REQUIRE(api->destroy_id(h.backend, id, &op) == 0 &&
            (!op.code || op.code == UV_ENOENT));
    run_posts(&h);
    uv_run(&h.loop, UV_RUN_NOWAIT);
    if (made.sandbox && i % 2)
      destroy(made.sandbox);
  }
  mini_close(&h);
  return NULL;
}

static void test_storm(void) {
  pthread_t threads[4];
  for (uintptr_t i = 0; i < 4; i++)
    REQUIRE(!pthread_create(&threads[i], NULL, storm, (void *)(i + 1)));
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
  check(true, "four loops end each other's sandboxes");
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: null_test portico-null.so\n");
    return 2;
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  api = load_api(argv[1]);
  test_open();
  test_create_options();
  test_list_and_destroy_id();
  mini_host h;
  mini_open(&h, api);
  fs = api->get_extension(h.backend, PCO_FS_ID);
  pco_sandbox *s = create(&h);
  test_exit_codes(&h, s);
  test_refused(s);
  test_echo(&h, s);
  test_back_pressure(&h, s);
  test_cat_stdin(&h, s);
  test_cancel(&h, s);
  test_sleep(&h, s);
  test_inside_push(&h);
  test_files(s);
  test_rename(s);
  test_list(s);
  test_cat_files(&h, s);
  test_file_limit(&h);
  test_destroy(&h);
  mini_close(&h);
  test_close_with_all_open();
  test_storm();
  return tap_end();
}
