/* SPDX-License-Identifier: MIT */
/*
 * Sandboxes from C, without Lua: on the runtime's loop with callbacks, and on a
 * portal by blocking; the same calls on each backend.
 */
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "embed_boxes.h"

static int n_done;

static void on_done(void *ud, pco_pending *pending) {
  n_done++;
  *(int *)ud = pco_pending_code(pending);
}

static void test_exec(pco_box *box) {
  pco_exec_result r = {.size = sizeof r};
  pco_exec_opts o = {.size = sizeof o};
  o.shell = "cat; echo problem >&2; exit 3";
  o.input = "hello";
  o.input_len = 5;
  pco_pending *p = NULL;
  p = embed_over(pco_exec(box, &o, NULL, NULL, &p), &p);
  embed_is(pco_pending_result(p, &r), 0, "a command has a result");
  embed_ok(r.code == 3 && r.reason == PCO_BY_EXIT && r.eof == 1 && r.pid > 0,
           "its exit");
  embed_ok(r.out_len == 5 && memcmp(r.out, "hello", 5) == 0, "its stdout");
  embed_ok(r.err_len == 8 && memcmp(r.err, "problem\n", 8) == 0, "its stderr");
  pco_pending_release(p);

  struct {
    pco_exec_result r;
    uint64_t behind;
  } old = {.behind = 7};
  memset(&old.r, 7, sizeof old.r);
  old.r.size = offsetof(pco_exec_result, limit);
  p = embed_over(pco_exec(box, &o, NULL, NULL, &p), &p);
  embed_is(pco_pending_result(p, &old.r), 0, "the result of an older program");
  embed_ok(old.r.code == 3 && old.r.out_len == 5 && old.r.out_cut != 5,
           "is filled as far as it goes");
  old.r.size = 8;
  embed_is(pco_pending_result(p, &old.r), PCO_ESIZE, "there was none so small");
  pco_pending_release(p);

  pco_exec_opts much = {.size = sizeof much, .max_output = 100};
  much.shell = "head -c 1000 /dev/zero; sleep 100 & exit";
  much.drain_ns = 1;
  p = embed_over(pco_exec(box, &much, NULL, NULL, &p), &p);
  embed_ok(pco_pending_result(p, &r) == 0 && r.out_len == 100 &&
               r.out_bytes == 1000 && r.out_cut == 50 && r.err_cut == 0 &&
               r.eof == 0 && !r.limit,
           "what is too much is cut in the middle");
  pco_pending_release(p);

  o.flags = PCO_EXEC_CHECK;
  p = embed_over(pco_exec(box, &o, NULL, NULL, &p), &p);
  embed_is(pco_pending_code(p), PCO_EEXIT, "with CHECK it fails");
  embed_is(pco_pending_result(p, &r), 0, "with a result all the same");
  pco_pending_release(p);

  const char *argv[] = {"/no/such/program", NULL};
  pco_exec_opts none = {.size = sizeof none, .argv = argv};
  embed_is(embed_code(pco_exec(box, &none, NULL, NULL, &p), &p), UV_ENOENT,
           "a program that is not there");

  pco_exec_opts as = {.size = sizeof as, .shell = "touch marker"};
  as.user = "no-such-user";
  embed_is(embed_code(pco_exec(box, &as, NULL, NULL, &p), &p), UV_ENOENT,
           "a user that is not there");
  as.user = "";
  embed_is(pco_exec(box, &as, NULL, NULL, &p), PCO_EINVAL, "an empty one");
  as.user = "0:12345"; /* of `local` only, and only for root */
  as.shell = "test $(id -G) = 12345 && test ! -e marker";
  p = embed_over(pco_exec(box, &as, NULL, NULL, &p), &p);
  int as_code = pco_pending_code(p);
  embed_ok(as_code == UV_EPERM || (as_code == 0 && geteuid() == 0),
           "a user, with its rights or not at all");
  embed_ok(as_code < 0 || (pco_pending_result(p, &r) == 0 && r.code == 0),
           "and no command that failed has run");
  pco_pending_release(p);

  pco_exec_opts slow = {.size = sizeof slow, .shell = "echo part; sleep 100"};
  slow.timeout_ns = S / 5;
  p = embed_over(pco_exec(box, &slow, NULL, NULL, &p), &p);
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
  embed_is(embed_code(0, &p), PCO_ECANCELED, "it ends so");
}

static void test_command(pco_box *box) {
  pco_exec_opts o = {.size = sizeof o, .flags = PCO_EXEC_STDIN};
  const char *argv[] = {"cat", NULL};
  o.argv = argv;
  pco_pending *p = NULL;
  p = embed_over(pco_command_start(box, &o, NULL, NULL, &p), &p);
  pco_command *c = pco_pending_command(p);
  embed_ok(c && pco_command_pid(c) > 0, "a command is started");
  pco_pending_release(p);
  embed_is(embed_code(pco_command_write(c, "ping", 4, NULL, NULL, &p), &p), 0,
           "written");
  p = embed_over(pco_command_read(c, NULL, NULL, &p), &p);
  const char *data;
  size_t len;
  embed_ok(pco_pending_chunk(p, 0, &data, &len) == 1 && len == 4 &&
               memcmp(data, "ping", 4) == 0,
           "read");
  embed_is(pco_pending_chunk(p, 1, &data, &len), 0, "that is all");
  pco_pending_release(p);
  embed_is(embed_code(pco_command_close_stdin(c, NULL, NULL, &p), &p), 0,
           "its input ends");
  p = embed_over(pco_command_read(c, NULL, NULL, &p), &p);
  embed_ok(pco_pending_code(p) == 0 && !pco_pending_chunk(p, 0, &data, &len),
           "so does its output");
  pco_pending_release(p);
  p = embed_over(pco_command_wait(c, NULL, NULL, &p), &p);
  pco_exec_result r = {.size = sizeof r};
  embed_ok(pco_pending_result(p, &r) == 0 && r.code == 0, "and it");
  pco_pending_release(p);
  pco_command_release(c);

  const char *sleeper[] = {"sleep", "100", NULL};
  pco_exec_opts s = {.size = sizeof s, .argv = sleeper};
  p = embed_over(pco_command_start(box, &s, NULL, NULL, &p), &p);
  c = pco_pending_command(p);
  pco_pending_release(p);
  embed_is(pco_command_write(c, "x", 1, NULL, NULL, &p), PCO_EINVAL,
           "without PCO_EXEC_STDIN nothing is written");
  embed_is(embed_code(pco_command_signal(c, SIGTERM, NULL, NULL, &p), &p), 0,
           "signalled");
  p = embed_over(pco_command_kill(c, 0, NULL, NULL, &p), &p);
  embed_ok(pco_pending_result(p, &r) == 0 && r.signal == SIGTERM,
           "killed, after the signal");
  pco_pending_release(p);
  pco_command_release(c);
}

static pco_command *start(pco_box *box, const char *line, uint32_t flags) {
  pco_pending *p = NULL;
  pco_exec_opts o = {.size = sizeof o, .shell = line, .flags = flags};
  p = embed_over(pco_command_start(box, &o, NULL, NULL, &p), &p);
  pco_command *c = pco_pending_command(p);
  pco_pending_release(p);
  return c;
}

static int wait_for(pco_command *c, const pco_wait_opts *o) {
  pco_pending *p = NULL;
  return embed_code(pco_command_wait_for(c, o, NULL, NULL, &p), &p);
}

/* Output that comes in pieces, is on one stream, or never; and what is not
 * taken by looking. */
static void test_wait_for(pco_box *box) {
  pco_pending *p = NULL;
  pco_wait_opts o = {.size = sizeof o, .output = "re%dy", .output_len = 5};
  pco_command *c = start(box,
                         "printf 're%%'; read x; printf 'dy\\n'; "
                         "echo problem >&2; read x; exit 4",
                         PCO_EXEC_STDIN);
  embed_is(pco_command_wait_for(c, &o, NULL, NULL, &p), 0, "a text waited for");
  embed_is(pco_pending_wait(p, S / 20), PCO_ECALLTIMEOUT, "half of it is none");
  pco_pending *q = NULL;
  embed_code(pco_command_write(c, "\n", 1, NULL, NULL, &q), &q);
  embed_is(embed_code(0, &p), 0, "all of it is");
  o.streams = PCO_WAIT_STDERR;
  o.timeout_ns = S / 20;
  embed_is(wait_for(c, &o), PCO_ECALLTIMEOUT, "on the other stream it is not");
  o = (pco_wait_opts){.size = sizeof o, .output = "problem", .output_len = 7};
  embed_is(wait_for(c, &o), 0, "what is there already");
  const char *data;
  size_t len;
  p = embed_over(pco_command_read(c, NULL, NULL, &p), &p);
  embed_ok(p && pco_pending_chunk(p, 0, &data, &len) == 1 && len >= 3 &&
               memcmp(data, "re%", 3) == 0,
           "looking takes nothing");
  pco_pending_release(p);
  o.output = "never";
  o.output_len = 5;
  embed_is(pco_command_wait_for(c, &o, NULL, NULL, &p), 0, "what never comes");
  embed_code(pco_command_write(c, "\n", 1, NULL, NULL, &q), &q);
  p = embed_over(0, &p);
  const pco_error *err = pco_pending_error(p);
  embed_ok(err && err->code == PCO_EEXIT && strstr(err->message, "code 4"),
           "ends with the command, and says how");
  pco_pending_release(p);
  pco_command_release(c);

  c = start(box, "sleep 100", 0);
  o = (pco_wait_opts){.size = sizeof o, .port = 1, .timeout_ns = S / 20};
  embed_is(wait_for(c, &o), PCO_ECALLTIMEOUT, "a port that nobody opens");
  o.timeout_ns = 0;
  embed_is(pco_command_wait_for(c, &o, NULL, NULL, &p), 0, "waited for again");
  embed_code(pco_command_kill(c, 0, NULL, NULL, &q), &q);
  embed_is(embed_code(0, &p), PCO_EEXIT, "until the command is killed");
  o.output = "both";
  o.output_len = 4;
  embed_is(wait_for(c, &o), PCO_EINVAL, "a port and a text");
  o.port = 0;
  o.output_len = 0;
  embed_is(wait_for(c, &o), PCO_EINVAL, "neither");
  o.size = 3;
  embed_is(wait_for(c, &o), PCO_ESIZE, "a wrong size");
  embed_is(wait_for(c, NULL), PCO_EINVAL, "nothing to wait for");
  pco_command_release(c);
}

/* The number of commands that a look tells of. */
static size_t count(pco_box *box, uint32_t flags, int64_t pid,
                    pco_command_info *last) {
  pco_pending *p = NULL;
  pco_command_info i = {.size = sizeof i};
  size_t n = 0;
  p = embed_over(pco_box_commands(box, flags, NULL, NULL, &p), &p);
  for (; p && pco_pending_command_info(p, n, &i) == 1; n++)
    if (i.pid == pid) {
      *last = i;
      last->argv = NULL;
      embed_text(i.argv[0], "/bin/sh", "what runs is named");
    }
  pco_pending_release(p);
  return n;
}

static void test_looks(pco_box *box) {
  pco_pending *p = NULL;
  pco_command_info i = {.size = sizeof i};
  pco_command *c = start(box, "exec sleep 100", 0);
  int64_t pid = pco_command_pid(c);
  embed_is((long)count(box, 0, pid, &i), 1, "one command runs");
  embed_ok(i.pid == pid && !i.ended && i.started > 1e9, "since then");
  pco_command_release(c);
  p = embed_over(pco_box_command(box, pid, NULL, NULL, &p), &p);
  c = pco_pending_command(p);
  embed_ok(c && pco_command_pid(c) == pid && !pco_pending_command(p),
           "it is found by its pid, once");
  pco_pending_release(p);
  embed_code(pco_command_kill(c, 0, NULL, NULL, &p), &p);
  pco_command_release(c);
  embed_is((long)count(box, 0, pid, &i), 0, "none runs");
  embed_ok(count(box, PCO_LOOK_ENDED, pid, &i) >= 1 && i.ended &&
               i.signal == SIGKILL && i.code == 137,
           "how it ended is known");
  embed_is(embed_code(pco_box_command(box, 999999, NULL, NULL, &p), &p),
           UV_ESRCH, "no such command");
  embed_is(pco_box_command(box, -1, NULL, NULL, &p), PCO_EINVAL, "no pid");
  embed_is(pco_box_commands(box, 8, NULL, NULL, &p), PCO_EINVAL,
           "an unknown flag of a look");

  pco_box_info b = {.size = sizeof b};
  p = embed_over(pco_box_look(box, NULL, NULL, &p), &p);
  embed_ok(p && pco_pending_info(p, &b) == 0 && b.state == PCO_STATE_RUNNING &&
               strcmp(b.id, pco_box_id(box)) == 0 &&
               strcmp(b.backend, embed_backend) == 0 && b.created > 1e9,
           "what a box is");
  embed_is(pco_pending_path(p, 0, &(const char *){NULL}), UV_ENOENT,
           "an outcome that it has not");
  pco_pending_release(p);
  const char *name, *reason;
  int level, found = 0;
  p = embed_over(pco_box_probe(box, NULL, NULL, &p), &p);
  for (size_t n = 0;
       p && pco_pending_capability(p, n, &name, &level, &reason) == 1; n++)
    found += strcmp(name, "limits.memory") == 0 && level >= PCO_MISSING &&
             level <= PCO_NATIVE;
  embed_is(found, 1, "what a backend can enforce is told");
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
    p = embed_over(pco_command_read(c, NULL, NULL, &p), &p);
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
  p = embed_over(pco_command_start(box, &o, NULL, NULL, &p), &p);
  pco_command *c = pco_pending_command(p);
  pco_pending_release(p);
  embed_ok(says(c, "24 100"), "a command has a terminal of this size");
  embed_is(embed_code(pco_command_resize(c, 90, 30, NULL, NULL, &p), &p), 0,
           "it is resized");
  embed_is(embed_code(pco_command_write(c, "\n", 1, NULL, NULL, &p), &p), 0,
           "and written to");
  embed_ok(says(c, "30 90"), "the command sees that");
  embed_is(pco_command_resize(c, 0, 1, NULL, NULL, &p), PCO_EINVAL,
           "no columns");
  embed_is(embed_code(pco_command_wait(c, NULL, NULL, &p), &p), 0, "it ends");
  pco_command_release(c);

  o.flags |= PCO_EXEC_MERGE;
  embed_is(pco_command_start(box, &o, NULL, NULL, &p), PCO_EINVAL,
           "streams beside a terminal");
  o.flags = 0;
  embed_is(pco_command_start(box, &o, NULL, NULL, &p), PCO_EINVAL,
           "a size without one");
  o.cols = 0;
  o.shell = "sleep 100";
  p = embed_over(pco_command_start(box, &o, NULL, NULL, &p), &p);
  c = pco_pending_command(p);
  pco_pending_release(p);
  embed_is(pco_command_resize(c, 80, 24, NULL, NULL, &p), PCO_EINVAL,
           "a command without one has no size");
  embed_is(embed_code(pco_command_kill(c, 0, NULL, NULL, &p), &p), 0,
           "and is killed");
  pco_command_release(c);
}

static int refused(pco_box *box, pco_limits l, const char *text) {
  pco_pending *p = NULL;
  l.struct_size = l.struct_size ? l.struct_size : sizeof l;
  pco_exec_opts o = {.size = sizeof o, .shell = "true", .limits = &l};
  int rc = pco_exec(box, &o, NULL, NULL, &p);
  embed_ok(!p && strstr(pco_last_message(embed_rt), text), "and says why");
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
  p = embed_over(pco_exec(box, &o, NULL, NULL, &p), &p);
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
      printf("# %s\n", pco_last_message(embed_rt));
  }
  embed_is(n_done, 0, "no callback before a tick");
  embed_is(pco_run(embed_rt, NULL, 60 * S), 0, "ticks until nothing goes on");
  bool good = n_done == 20;
  for (int i = 0; i < 20; i++)
    good = good && codes[i] == 0;
  embed_ok(good, "each was called once, with its outcome");
}

static void test_mistakes(pco_box *box) {
  pco_pending *p = NULL;
  pco_exec_opts o = {.size = sizeof o};
  embed_is(pco_exec(box, &o, NULL, NULL, &p), PCO_EINVAL, "nothing to run");
  embed_ok(!p && strstr(pco_last_message(embed_rt), "argv or shell"),
           "is said");
  o.size = 8;
  embed_is(pco_exec(box, &o, NULL, NULL, &p), PCO_ESIZE, "a wrong size");
  o.size = sizeof o;
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
  embed_ok(strstr(pco_last_message(embed_rt), "input is NULL") != NULL,
           "is said");
  o.input_len = 0;
  o.env = (const char *const[]){"A=1", "=2", NULL};
  embed_is(pco_exec(box, &o, NULL, NULL, &p), PCO_EINVAL,
           "a nameless variable");
  embed_ok(strstr(pco_last_message(embed_rt), "no name") != NULL, "is said");
  o.env = NULL;
  if (embed_portal)
    embed_is(pco_exec(box, &o, on_done, NULL, &p), PCO_EINVAL,
             "callbacks on a portal");
}

/* ---- where nothing may be called ----------------------------------------- */

typedef struct things {
  pco_box *box;
  pco_command *command;
  pco_file *file;
  pco_watch *watch;
  pco_pending *pending; /* that has ended */
} things;

/* Whether every function says this, and makes nothing. */
static bool all_say(const things *t, int want) {
  pco_pending *p = NULL;
  const pco_exec_opts exec = {.size = sizeof exec, .shell = "true"};
  const pco_wait_opts wait = {.size = sizeof wait, .port = 1};
  pco_box *b = t->box;
  pco_command *c = t->command;
  const int got[] = {
      pco_exec(b, &exec, NULL, NULL, &p),
      pco_command_start(b, &exec, NULL, NULL, &p),
      pco_box_close(b, NULL, NULL, &p),
      pco_box_probe(b, NULL, NULL, &p),
      pco_box_look(b, NULL, NULL, &p),
      pco_box_commands(b, 0, NULL, NULL, &p),
      pco_box_command(b, 1, NULL, NULL, &p),
      pco_file_read(b, "f", NULL, NULL, NULL, &p),
      pco_file_write(b, "f", "", 0, NULL, NULL, NULL, &p),
      pco_file_stat(b, "f", NULL, NULL, NULL, &p),
      pco_file_list(b, "f", NULL, NULL, NULL, &p),
      pco_file_mkdir(b, "f", NULL, NULL, NULL, &p),
      pco_file_remove(b, "f", NULL, NULL, NULL, &p),
      pco_file_rename(b, "f", "g", NULL, NULL, NULL, &p),
      pco_file_copy(b, "f", "g", NULL, NULL, NULL, &p),
      pco_file_chmod(b, "f", 0600, NULL, NULL, NULL, &p),
      pco_file_chown(b, "f", "0", NULL, NULL, NULL, &p),
      pco_file_symlink(b, "f", "g", NULL, NULL, NULL, &p),
      pco_file_readlink(b, "f", NULL, NULL, NULL, &p),
      pco_file_mktemp(b, NULL, NULL, NULL, NULL, NULL, &p),
      pco_file_usage(b, "f", NULL, NULL, NULL, &p),
      pco_file_glob(b, "f", NULL, NULL, NULL, &p),
      pco_file_walk(b, "f", NULL, NULL, NULL, &p),
      pco_file_open(b, "f", "r", NULL, NULL, NULL, &p),
      pco_watch_open(b, "f", NULL, NULL, NULL, &p),
      pco_tree_upload(b, "/f", "f", NULL, NULL, NULL, &p),
      pco_tree_download(b, "f", "/f", NULL, NULL, NULL, &p),
      pco_command_read(c, NULL, NULL, &p),
      pco_command_write(c, "", 0, NULL, NULL, &p),
      pco_command_close_stdin(c, NULL, NULL, &p),
      pco_command_resize(c, 1, 1, NULL, NULL, &p),
      pco_command_wait(c, NULL, NULL, &p),
      pco_command_wait_for(c, &wait, NULL, NULL, &p),
      pco_command_signal(c, 15, NULL, NULL, &p),
      pco_command_kill(c, 0, NULL, NULL, &p),
      pco_file_read_at(t->file, 0, 1, NULL, NULL, &p),
      pco_file_write_at(t->file, 0, "", 0, NULL, NULL, &p),
      pco_file_truncate(t->file, 0, NULL, NULL, &p),
      pco_file_sync(t->file, NULL, NULL, &p),
      pco_file_stat_open(t->file, NULL, NULL, &p),
      pco_file_close(t->file, NULL, NULL, &p),
      pco_watch_next(t->watch, NULL, NULL, &p),
      pco_watch_close(t->watch, NULL, NULL, &p),
  };
  bool good = !p;
  for (size_t i = 0; i < sizeof got / sizeof *got; i++)
    if (got[i] != want) {
      printf("# function %zu says %s\n", i, pco_errname(got[i]));
      good = false;
    }
  return good;
}

/* Of a runtime that lives: those that only ask, too. */
static bool none_answers(const things *t, int want) {
  const char *data;
  size_t len;
  pco_stat st = {.struct_size = sizeof st};
  pco_tree_progress g = {.size = sizeof g};
  const int got[] = {
      (int)pco_command_pid(t->command),
      pco_pending_code(t->pending),
      pco_pending_wait(t->pending, 0),
      pco_pending_cancel(t->pending),
      pco_pending_bytes(t->pending, &data, &len),
      pco_pending_entry(t->pending, 0, &st),
      pco_pending_path(t->pending, 0, &data),
      pco_pending_progress(t->pending, &g),
  };
  bool good = all_say(t, want) && !pco_pending_error(t->pending);
  pco_pending_release(t->pending); /* does nothing */
  pco_command_release(t->command);
  pco_file_release(t->file);
  pco_watch_release(t->watch);
  pco_box_release(t->box);
  for (size_t i = 0; i < sizeof got / sizeof *got; i++)
    good &= got[i] == want;
  return good;
}

static void *in_thread(void *arg) {
  things *t = (things *)arg;
  return none_answers(t, PCO_ETHREAD) ? t : NULL;
}

static bool in_child(const things *t) {
  int status = -1;
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0)
    _exit(none_answers(t, PCO_EFORKED) ? 0 : 1);
  waitpid(pid, &status, 0);
  return status == 0;
}

static void test_places(void) {
  pco_pending *p = NULL;
  things t = {0};
  embed_rt = embed_new(NULL);
  t.box = embed_box();
  t.command = start(t.box, "sleep 100", PCO_EXEC_STDIN);
  p = embed_over(pco_file_open(t.box, "f", "w+", NULL, NULL, NULL, &p), &p);
  t.file = pco_pending_file(p);
  pco_pending_release(p);
  p = embed_over(pco_watch_open(t.box, ".", NULL, NULL, NULL, &p), &p);
  t.watch = pco_pending_watch(p);
  pco_pending_release(p);
  t.pending = embed_over(pco_box_look(t.box, NULL, NULL, &p), &p);
  pthread_t thread;
  void *good = NULL;
  if (pthread_create(&thread, NULL, in_thread, &t) == 0)
    pthread_join(thread, &good);
  embed_ok(good, "every function tells another thread");
  embed_ok(in_child(&t), "and a forked child");
  pco_shutdown(embed_rt, S);
  embed_ok(all_say(&t, PCO_ECLOSED), "and what comes after a shutdown");
  pco_runtime_destroy(embed_rt);
  embed_ok(all_say(&t, PCO_ECLOSED), "or the end");
  pco_pending_release(t.pending);
  pco_command_release(t.command);
  pco_file_release(t.file);
  pco_watch_release(t.watch);
  pco_box_release(t.box);
  embed_ok(all_say(&(things){0}, PCO_EINVAL), "or has nothing to call it on");
}

/* Calls that have made something, which nobody took when the runtime ended. */
static void test_untaken(void) {
  pco_pending *p[4] = {NULL};
  pco_exec_opts o = {.size = sizeof o, .shell = "sleep 100"};
  pco_box_opts bo = {.size = sizeof bo, .backend = embed_backend};
  bo.flags = embed_portal ? PCO_BOX_PORTAL : 0;
  embed_rt = embed_new(NULL);
  pco_box *box = embed_box();
  embed_over(pco_file_open(box, "f", "w", NULL, NULL, NULL, &p[0]), &p[0]);
  embed_over(pco_watch_open(box, ".", NULL, NULL, NULL, &p[1]), &p[1]);
  embed_over(pco_command_start(box, &o, NULL, NULL, &p[2]), &p[2]);
  embed_over(pco_box_create(embed_rt, &bo, NULL, NULL, &p[3]), &p[3]);
  pco_box_release(box);
  embed_is(pco_runtime_destroy(embed_rt), 0,
           "the runtime ends before its calls");
  embed_ok(!pco_pending_file(p[0]) && !pco_pending_watch(p[1]) &&
               !pco_pending_command(p[2]) && !pco_pending_box(p[3]),
           "what they made is gone");
  for (int i = 0; i < 4; i++)
    pco_pending_release(p[i]);
}

static void test_ends(void) {
  pco_pending *p = NULL;
  pco_exec_opts o = {.size = sizeof o, .shell = "sleep 100"};
  pco_box *box = embed_box();
  embed_ok(pco_box_id(box) != NULL, "a box has an id");
  embed_is(pco_exec(box, &o, NULL, NULL, &p), 0, "a command runs in it");
  pco_pending *q = NULL;
  embed_is(embed_code(pco_box_close(box, NULL, NULL, &q), &q), 0,
           "it is closed");
  embed_is(embed_code(0, &p), PCO_ECLOSED, "the command hears of it");
  embed_is(pco_exec(box, &o, NULL, NULL, &p), PCO_ECLOSED, "no more calls");
  pco_box_release(box);

  box = embed_box();
  pco_exec(box, &o, NULL, NULL, &p);
  pco_pending_release(p); /* while it runs */
  pco_box_release(box);   /* unclosed */

  box = embed_box();
  pco_exec(box, &o, NULL, NULL, &p);
  pco_pending_release(p); /* while it runs */
  pco_command_start(box, &o, NULL, NULL, &q);
  pco_command *c = embed_over(0, &q) ? pco_pending_command(q) : NULL;
  pco_pending_release(q);
  pco_exec(box, &o, NULL, NULL, &q);
  pco_pending *made = NULL;
  made = embed_over(pco_file_open(box, "last", "w", NULL, NULL, NULL, &made),
                    &made);
  pco_file *f = pco_pending_file(made);
  pco_pending_release(made);
  pco_pending *many[5] = {NULL};
  pco_wait_opts w = {.size = sizeof w, .output = "never", .output_len = 5};
  pco_file_glob(box, "**/*", NULL, NULL, NULL, &many[0]);
  pco_file_walk(box, ".", NULL, NULL, NULL, &many[1]);
  pco_tree_upload(box, "/etc/passwd", "in", NULL, NULL, NULL, &many[2]);
  pco_box_command(box, pco_command_pid(c), NULL, NULL, &many[3]);
  pco_command_wait_for(c, &w, NULL, NULL, &many[4]);
  pco_pending *r = NULL;
  embed_is(pco_runtime_destroy(embed_rt), 0,
           "the runtime ends under all of them");
  for (int i = 0; i < 5; i++) {
    int rc = pco_pending_code(many[i]);
    embed_ok(rc < 0 || (rc == 0 && i != 4), "others have ended, one way");
    embed_ok(!pco_pending_command(many[i]), "and have made nothing");
    pco_pending_release(many[i]);
  }
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
  embed_rt = embed_new(NULL);
  pco_box *boxes[3];
  pco_exec_opts o = {.size = sizeof o, .shell = "sleep 100"};
  pco_pending *p[3] = {NULL};
  for (int i = 0; i < 3; i++) {
    boxes[i] = embed_box();
    pco_exec(boxes[i], &o, NULL, NULL, &p[i]);
  }
  embed_is(pco_shutdown(embed_rt, 5 * S), 0, "a shutdown with open boxes");
  int wakes = 0;
  while (pco_shutdown_done(embed_rt) == 0 && wakes < 100 &&
         embed_readable(pco_poll_fd(embed_rt), 15000)) {
    wakes++;
    pco_tick(embed_rt, 0, NULL);
  }
  printf("# %d wakes\n", wakes);
  embed_is(pco_shutdown_done(embed_rt), 1, "wakes its host until it is done");
  embed_ok(wakes < 100, "and no more than there is to do");
  for (int i = 0; i < 3; i++) {
    pco_pending_release(p[i]);
    pco_box_release(boxes[i]);
  }
  pco_runtime_destroy(embed_rt);
}

static void test_box(pco_box *box) {
  test_exec(box);
  test_command(box);
  test_wait_for(box);
  test_looks(box);
  test_terminal(box);
  test_limits(box);
  test_mistakes(box);
  if (!embed_portal)
    test_callbacks(box);
  pco_pending *p = NULL;
  embed_is(embed_code(pco_box_close(box, NULL, NULL, &p), &p), 0, "closed");
}

static void test_backend(void) {
  embed_with_box(test_box);
  embed_rt = embed_new(NULL);
  test_ends();
  test_untaken();
  test_shutdown();
  test_places();
}

static void count_backend(void *ud, const char *name, const char *path) {
  if (strcmp(name, "local") == 0 && strstr(path, "portico-local"))
    (*(int *)ud)++;
  if (strcmp(name, "bwrap") == 0)
    *(int *)ud += 100;
}

/* Those that there are, and that are allowed. */
static void test_backends(void) {
  static const char *const only[] = {"local", NULL};
  pco_config c;
  int found = 0;
  pco_config_init(&c);
  c.backends = only;
  embed_rt = embed_new(&c);
  embed_is(pco_list_backends(embed_rt, count_backend, &found), 0,
           "the backends");
  embed_is(found, 1, "are listed, but no other than may be used");
  embed_is(pco_list_backends(embed_rt, NULL, NULL), PCO_EINVAL, "to nobody");
  pco_runtime_destroy(embed_rt);
}

static void test_refused(void) {
  pco_pending *p = NULL;
  embed_rt = embed_new(NULL);
  pco_box_opts o = {.size = sizeof o, .backend = "no-such-backend"};
  embed_is(pco_box_create(embed_rt, &o, NULL, NULL, &p), UV_ENOENT,
           "a backend that is not there");
  embed_ok(strstr(pco_last_message(embed_rt), "no-such-backend") != NULL,
           "is named");
  o.backend = "local";
  pco_create_opts c = {.struct_size = 4};
  o.create = &c;
  embed_is(pco_box_create(embed_rt, &o, NULL, NULL, &p), PCO_ESIZE,
           "options of another size");
  struct {
    pco_create_opts c;
    uint64_t more;
  } big = {{.struct_size = sizeof big}, 0};
  o.create = &big.c;
  embed_is(embed_code(pco_box_create(embed_rt, &o, NULL, NULL, &p), &p), 0,
           "a later program's, with zero in what is new");
  big.more = 1;
  embed_is(pco_box_create(embed_rt, &o, NULL, NULL, &p), PCO_ESIZE,
           "with something there");
  big.c.struct_size = sizeof big.c;
  big.c.n_mounts = 1;
  embed_is(pco_box_create(embed_rt, &o, NULL, NULL, &p), PCO_EINVAL,
           "mounts that are not there");
  o.create = &c;
  c = (pco_create_opts){.struct_size = sizeof c, .image = "debian"};
  embed_is(embed_code(pco_box_create(embed_rt, &o, NULL, NULL, &p), &p),
           PCO_EUNSUPPORTED, "what a backend cannot do");
  pco_runtime_destroy(embed_rt);
}

int main(int argc, char **argv) {
  (void)argc;
  embed_begin(argv[0]);
  embed_on_each(test_backend);
  test_refused();
  test_backends();
  return embed_end();
}
