/* SPDX-License-Identifier: MIT */
/*
 * Commands from C, without Lua: run, fed, read, waited for, looked at, limited;
 * on the runtime's loop with callbacks, and on a portal by blocking; the same
 * calls on each backend.
 */
#include <math.h>
#include <signal.h>
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
static int wait_for(pco_command *c, const pco_wait_opts *o) {
  pco_pending *p = NULL;
  return embed_code(pco_command_wait_for(c, o, NULL, NULL, &p), &p);
}

/* Output that comes in pieces, is on one stream, or never; and what is not
 * taken by looking. */
static void test_wait_for(pco_box *box) {
  pco_pending *p = NULL;
  pco_wait_opts o = {.size = sizeof o, .output = "re%dy", .output_len = 5};
  pco_command *c = embed_start(box,
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

  c = embed_start(box, "sleep 100", 0);
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
  pco_command *c = embed_start(box, "exec sleep 100", 0);
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
}

static void test_backend(void) {
  embed_with_box(test_box);
}

int main(int argc, char **argv) {
  (void)argc;
  embed_begin(argv[0]);
  embed_on_each(test_backend);
  return embed_end();
}
