/* SPDX-License-Identifier: MIT */
/*
 * A real agent: commands, their output and environment, what cannot be started.
 * usage: agent_test AGENT
 */
#include "agent_place.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- commands ----------------------------------------------------------- */

static void test_hello(client *c) {
  uint64_t op = client_begin(c, PCO_WIRE_HELLO);
  client_number(c, PCO_TAG_VERSION_MIN, 1);
  client_number(c, PCO_TAG_VERSION_MAX, 9);
  client_send(c, NULL, 0);
  frame *f = client_take(c, op, 5000);
  char *cwd = frame_text(f, PCO_TAG_CWD);
  IS(frame_number(f, PCO_TAG_VERSION, 0), 1, "HELLO gives the version");
  IS(frame_number(f, PCO_TAG_PID, 0), c->agent, "HELLO gives the pid");
  IS(frame_number(f, PCO_TAG_UID, 9), geteuid(), "HELLO gives the uid");
  OK(cwd && strcmp(cwd, dir) == 0, "HELLO gives the cwd");
  free(cwd);
  free(f);
  op = client_begin(c, PCO_WIRE_HELLO);
  client_number(c, PCO_TAG_VERSION_MIN, 7);
  client_number(c, PCO_TAG_VERSION_MAX, 9);
  client_send(c, NULL, 0);
  f = client_take(c, op, 5000);
  IS(frame_number(f, PCO_TAG_ERRNO, 0), EPROTONOSUPPORT,
     "a host that is too new is told so");
  free(f);
  IS(client_simple(c, PCO_WIRE_PING, 5000), 0, "PING");
}

static void test_exit(client *c) {
  const char *const yes[] = {"true", NULL};
  const char *const no[] = {"false", NULL};
  ending e = client_run(c, yes);
  OK(e.started && e.exited && e.code == 0 && e.signal == 0 && e.pid > 0,
     "true exits 0");
  IS(e.reason, PCO_REASON_EXITED, "with reason exited");
  e = client_run(c, no);
  OK(e.exited && e.code == 1, "false exits 1");
  e = sh(c, "exit 127");
  OK(e.exited && e.code == 127, "exit code 127 is an exit code");
  e = sh(c, "exit 255");
  IS(e.code, 255, "exit 255");
  e = sh(c, "kill -SEGV $$");
  OK(e.exited && e.code == 139 && e.signal == SIGSEGV &&
         e.reason == PCO_REASON_SIGNALED,
     "death by signal");
  e = sh(c, "sleep 0.2");
  OK(e.duration > 150 * MS && e.duration < 5 * S, "duration");
}

static void test_output(client *c) {
  char out[4096];
  ending e = sh_output(c, "echo hello; echo err >&2", NULL, 0, out, sizeof out);
  OK(e.code == 0 && strcmp(out, "hello\n") == 0, "stdout through a pipe");
  const char *const argv[] = {"/bin/sh", "-c", "echo a; echo b >&2; echo c",
                              NULL};
  spawn s = {.argv = argv};
  client_output(c, &s, true, out, sizeof out);
  OK(strcmp(out, "a\nb\nc\n") == 0, "merge keeps the order");
  sh_output(c, "cat; readlink /proc/self/fd/0", NULL, 0, out, sizeof out);
  OK(strcmp(out, "/dev/null\n") == 0, "stdin is null");
  sh_output(c,
            "for f in /proc/self/fd/*; do readlink $f >/dev/null && "
            "echo ${f##*/}; done",
            NULL, 0, out, sizeof out);
  OK(strncmp(out, "0\n1\n2\n", 6) == 0, "0, 1, 2 are open: %s", out);
  sh_output(c, "ls /proc/self/fd | wc -l", NULL, 0, out, sizeof out);
  IS(atoi(out), 4, "nothing but 0, 1, 2 (and ls's own)");
}

/* The exit code of a script with closed streams, by a bit for each. */
static int code_with_closed(client *c, unsigned closed, const char *script) {
  const char *const argv[] = {"sh", "-c", script, NULL};
  spawn s = {.argv = argv};
  for (int i = 0; i < 3; i++)
    s.kind[i] = closed >> i & 1 ? PCO_STDIO_CLOSED : PCO_STDIO_NULL;
  return client_end(c, client_spawn(c, &s), 5000).code;
}

static void test_closed(client *c) {
  IS(code_with_closed(c, 1, "read x 2>/dev/null; cat; test $? = 1"), 0,
     "a closed stdin cannot be read");
  IS(code_with_closed(c, 2, "/bin/echo x && exit 9; exit 7"), 7,
     "a closed stdout cannot be written");
  IS(code_with_closed(c, 4, "/bin/echo x && /bin/echo x >&2 && exit 9; exit 7"),
     7, "nor a closed stderr, while stdout can");
  IS(code_with_closed(c, 7, "test $(ls /proc/self/fd | wc -l) = 4"), 0,
     "their numbers stay taken, and there is nothing else");
}

static void test_stdin(client *c) {
  int in[2], out[2];
  char text[64] = "";
  const char *const argv[] = {"cat", NULL};
  spawn s = {.argv = argv, .kind = {PCO_STDIO_FD, PCO_STDIO_FD, 0}};
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
    return;
  s.fd[0] = in[0];
  s.fd[1] = out[1];
  uint64_t op = client_spawn(c, &s);
  close(in[0]);
  close(out[1]);
  OK(write(in[1], "over", 4) == 4 && read(out[0], text, sizeof text) == 4 &&
         strcmp(text, "over") == 0,
     "stdin and stdout together");
  close(in[1]);
  ending e = client_end(c, op, 5000);
  OK(e.exited && e.code == 0, "end of stdin ends cat");
  IS(read(out[0], text, sizeof text), 0,
     "nobody else holds the ends of the pipes");
  close(out[0]);
}

static void test_environment_of_process(client *c) {
  char out[8192];
  sh_output(c, "grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status", NULL, 0, out,
            sizeof out);
  OK(strstr(out, "SigBlk:\t0000000000000000") != NULL, "empty signal mask");
  OK(strstr(out, "SigIgn:\t0000000000000000") != NULL, "nothing ignored: %s",
     out);
  sh_output(c,
            "cut -d' ' -f6 /proc/$$/stat; echo $$; cut -d' ' -f7 "
            "/proc/$$/stat",
            NULL, 0, out, sizeof out);
  int session = 0, pid = -1, tty = -1;
  OK(sscanf(out, "%d %d %d", &session, &pid, &tty) == 3 && session == pid &&
         tty == 0,
     "its own session, no terminal");
}

/* ---- what cannot be started --------------------------------------------- */

static ending try_start(client *c, const char *program, const char *path) {
  char entry[512];
  const char *const argv[] = {program, NULL};
  const char *env[] = {entry, NULL};
  snprintf(entry, sizeof entry, "PATH=%s", path ? path : "");
  spawn s = {.argv = argv, .env = path ? env : NULL};
  return client_end(c, client_spawn(c, &s), 10000);
}

static void fails(ending e, int error, int stage, const char *text) {
  OK(!e.started && e.error == error && e.stage == stage,
     "%s: errno %d stage %d (got %d %d) %s", text, error, stage, e.error,
     e.stage, e.message);
}

static void test_start_errors(client *c) {
  bool root = geteuid() == 0;
  make_file("plain", "hello", 0644);
  make_file("noexec", "\x01\x02\x03\x04", 0755);
  make_file("script", "#!/no/such/interpreter -x\n", 0755);
  mkdir(in_dir("d"), 0755);
  ending e = try_start(c, "no-such-program", NULL);
  fails(e, ENOENT, PCO_STAGE_EXEC, "missing program");
  OK(strcmp(e.path, "no-such-program") == 0, "the error names it");
  fails(try_start(c, in_dir("missing"), NULL), ENOENT, PCO_STAGE_EXEC,
        "missing path");
  fails(try_start(c, "", NULL), ENOENT, PCO_STAGE_EXEC, "empty name");
  fails(try_start(c, in_dir("plain"), NULL), EACCES, PCO_STAGE_EXEC,
        "not executable");
  e = try_start(c, in_dir("d"), NULL);
  fails(e, EACCES, PCO_STAGE_EXEC, "a directory");
  OK(strstr(e.message, "directory") != NULL, "the error says directory");
  fails(try_start(c, in_dir("noexec"), NULL), ENOEXEC, PCO_STAGE_EXEC,
        "unknown format");
  e = try_start(c, in_dir("script"), NULL);
  fails(e, ENOENT, PCO_STAGE_INTERPRETER, "interpreter missing");
  OK(strstr(e.message, "/no/such/interpreter") != NULL, "the error names it");
  const char *const argv[] = {"true", NULL};
  spawn s = {.argv = argv, .cwd = "/no/such/dir"};
  e = client_end(c, client_spawn(c, &s), 5000);
  fails(e, ENOENT, PCO_STAGE_CWD, "missing cwd");
  OK(strcmp(e.path, "/no/such/dir") == 0, "the error names the cwd");
  s.cwd = in_dir("plain");
  fails(client_end(c, client_spawn(c, &s), 5000), ENOTDIR, PCO_STAGE_CWD,
        "cwd is a file");
  s.cwd = NULL;
  s.user = "no-such-user";
  e = client_end(c, client_spawn(c, &s), 5000);
  fails(e, ENOENT, PCO_STAGE_USER, "unknown user");
  (void)root;
}

static void test_busy_text(client *c) {
  char out[64];
  read_file("/proc/self/exe", out, sizeof out);
  make_file("busy", "#!/bin/sh\nexit 5\n", 0755);
  int fd = open(in_dir("busy"), O_WRONLY | O_CLOEXEC);
  double start = seconds();
  ending e = try_start(c, in_dir("busy"), NULL);
  if (e.started) {
    /* newer kernels let scripts be executed while they are written */
    tap_skip("ETXTBSY", "this kernel does not refuse it");
  } else {
    fails(e, ETXTBSY, PCO_STAGE_EXEC, "file open for writing");
    OK(seconds() - start > 0.04, "after trying for 50 ms");
  }
  close(fd);
  IS(try_start(c, in_dir("busy"), NULL).code, 5, "and then it runs");
}

static void test_path_rules(client *c) {
  char path[1024];
  mkdir(in_dir("p1"), 0755);
  mkdir(in_dir("p2"), 0755);
  mkdir(in_dir("p3"), 0755);
  make_file("p1/prog", "#!/bin/sh\nexit 1\n", 0644); /* not executable */
  make_file("p2/prog", "#!/bin/sh\nexit 2\n", 0755);
  make_file("p3/prog", "#!/bin/sh\nexit 3\n", 0755);
  mkdir(in_dir("p1/dirname"), 0755);
  snprintf(path, sizeof path, "%s/p1:%s/p2:%s/p3", dir, dir, dir);
  IS(try_start(c, "prog", path).code, 2,
     "one that may not be executed does not end the search");
  snprintf(path, sizeof path, "%s/p1:/nonexistent:%s/plain", dir, dir);
  ending e = try_start(c, "prog", path);
  fails(e, EACCES, PCO_STAGE_EXEC, "only that one: EACCES is remembered");
  OK(strcmp(e.path, in_dir("p1/prog")) == 0, "the error names it: %s", e.path);
  fails(try_start(c, "dirname", in_dir("p1")), ENOENT, PCO_STAGE_EXEC,
        "a directory in PATH is no program");
  make_file("p1/scr", "#!/no/such\n", 0755);
  fails(try_start(c, "scr", in_dir("p1")), ENOENT, PCO_STAGE_INTERPRETER,
        "missing interpreter in PATH");
  make_file("p3/bad", "\x01\x02", 0755);
  fails(try_start(c, "bad", in_dir("p3")), ENOEXEC, PCO_STAGE_EXEC,
        "ENOEXEC in PATH");
  const char *const local[] = {"./p3/prog", NULL};
  IS(client_run(c, local).code, 3, "a relative path from the agent's cwd");
  const char *const up[] = {"./prog", NULL};
  spawn s = {.argv = up, .cwd = in_dir("p2")};
  IS(client_end(c, client_spawn(c, &s), 5000).code, 2,
     "a relative path after the change of cwd");
  const char *const removed[] = {"PATH", NULL};
  const char *const argv[] = {"true", NULL};
  s = (spawn){.argv = argv, .env = removed};
  IS(client_end(c, client_spawn(c, &s), 5000).exited, 1,
     "without PATH there is a default");
  IS(try_start(c, "prog", "p3:p2").code, 3, "relative entries");
  s = (spawn){.argv = (const char *const[]){"prog", NULL},
              .env = (const char *const[]){"PATH=:/nonexistent", NULL},
              .cwd = in_dir("p2")};
  IS(client_end(c, client_spawn(c, &s), 5000).code, 2,
     "an empty entry is the cwd");
  if (geteuid() == 0) {
    tap_skip("a directory in PATH that cannot be searched", "root can");
    return;
  }
  mkdir(in_dir("locked"), 0755);
  make_file("locked/prog", "#!/bin/sh\nexit 9\n", 0755);
  chmod(in_dir("locked"), 0);
  fails(try_start(c, "prog", in_dir("locked")), ENOENT, PCO_STAGE_EXEC,
        "a directory that cannot be searched counts as missing");
  chmod(in_dir("locked"), 0755);
}

static void test_env(client *c) {
  char out[4096];
  const char *const env[] = {"A=1", "B=2", "A=3", "C=4", "C", "D", "E=", NULL};
  sh_output(c, "echo \"$A,$B,${C-unset},${E-unset},${BASE-unset}\"", env, 0,
            out, sizeof out);
  OK(strcmp(out, "3,2,unset,,base\n") == 0, "merge: %s", out);
  const char *const drop[] = {"BASE", NULL};
  sh_output(c, "echo ${BASE-unset}", drop, 0, out, sizeof out);
  OK(strcmp(out, "unset\n") == 0, "K removes K");
  const char *const argv[] = {"/usr/bin/env", NULL};
  spawn s = {.argv = argv, .env = env, .flags = PCO_SPAWN_FLAG_CLEAN_ENV};
  client_output(c, &s, false, out, sizeof out);
  OK(strcmp(out, "A=3\nB=2\nE=\n") == 0, "a clean environment: %s", out);
}

static void test_big_env(client *c) {
  enum { N = 20000 };
  char **env = calloc(N + 1, sizeof *env);
  for (int i = 0; env && i < N; i++) {
    env[i] = malloc(32);
    snprintf(env[i], 32, "K%d=%d", i % 1000, i);
  }
  char out[64];
  const char *const argv[] = {"/bin/sh", "-c", "echo $K7 $K999", NULL};
  spawn s = {.argv = argv, .env = (const char *const *)env};
  client_output(c, &s, false, out, sizeof out);
  OK(strcmp(out, "19007 19999\n") == 0, "20,000 changes, the last wins: %s",
     out);
  for (int i = 0; env && i < N; i++)
    free(env[i]);
  free(env);
}

static void test_too_big(client *c) {
  size_t size = 3u << 20;
  char *text = malloc(size + 1);
  memset(text, 'x', size);
  text[size] = 0;
  const char *const argv[] = {"true", text, NULL};
  ending e = client_run(c, argv);
  fails(e, E2BIG, PCO_STAGE_EXEC, "3 MiB in one argument");
  free(text);
}

static void test_user(client *c) {
  char out[512];
  const char *const argv[] = {
      "/bin/sh", "-c",
      "id -u; id -g; id -G; echo $HOME $USER $LOGNAME; echo $X", NULL};
  const char *const env[] = {"X=y", NULL};
  const char *const home[] = {"HOME=/own", NULL};
  spawn s = {.argv = argv, .env = env, .user = "nobody"};
  if (geteuid() != 0) {
    tap_skip("another user", "needs root");
    ending e = client_end(c, client_spawn(c, &s), 5000);
    fails(e, EPERM, PCO_STAGE_USER, "an ordinary user cannot become another");
    return;
  }
  client_output(c, &s, false, out, sizeof out);
  OK(strcmp(out, "65534\n65534\n65534\n/nonexistent nobody nobody\ny\n") == 0,
     "user, groups, HOME, USER and LOGNAME follow: %s", out);
  s.env = home;
  client_output(c, &s, false, out, sizeof out);
  OK(strstr(out, "/own nobody") != NULL, "unless the request set them");
  s.env = env;
  s.user = "nobody:4321";
  client_output(c, &s, false, out, sizeof out);
  OK(strncmp(out, "65534\n4321\n4321\n", 16) == 0, "a group of its own");
  s.user = "1234:4321";
  client_output(c, &s, false, out, sizeof out);
  OK(strncmp(out, "1234\n4321\n4321\n", 15) == 0, "a user by number");
  s.user = "12x";
  fails(client_end(c, client_spawn(c, &s), 5000), EINVAL, PCO_STAGE_USER,
        "not a number");
}

static void test_many(client *c) {
  const char *const argv[] = {"true", NULL};
  client_run(c, argv);
  int fds = client_fds(c->agent);
  bool good = true;
  for (int i = 0; i < 500; i++) {
    ending e = client_run(c, argv);
    good = good && e.exited && e.code == 0;
  }
  OK(good, "500 commands one after the other");
  usleep(100000);
  if (fds < 0)
    tap_skip("no descriptor is left in the agent", "/proc/PID/fd is root's");
  else
    /* Less is well: supervisors that were idle for long are let go. */
    OK(client_fds(c->agent) <= fds, "leave no descriptor in the agent (%d, %d)",
       client_fds(c->agent), fds);
  OK(children_of(c->agent) <= 4, "and no process but idle supervisors (%d)",
     children_of(c->agent));
  uint64_t ops[64];
  spawn s = {.argv = argv};
  for (int i = 0; i < 64; i++)
    ops[i] = client_spawn(c, &s);
  for (int i = 0; i < 64; i++)
    good = client_end(c, ops[i], 20000).exited && good;
  OK(good, "64 at once");
  usleep(200000);
  OK(children_of(c->agent) <= 4, "at most four supervisors stay (%d)",
     children_of(c->agent));
}

static void test_info(client *c) {
  uint64_t op = start_sh(c, "sleep 100", 0, 0);
  usleep(100000);
  uint64_t info = client_begin(c, PCO_WIRE_INFO);
  client_send(c, NULL, 0);
  frame *f = client_take(c, info, 2000);
  IS(frame_number(f, PCO_TAG_COUNT, 99), 1, "INFO counts one command");
  free(f);
  client_kill(c, op, 0, 5000);
  client_end(c, op, 1000);
}

/* Not what is private and dirty: of a program that was just built, and is not
 * on the disk yet, that is all of it. */
static void test_idle_size(client *c) {
  char path[64], line[4096];
  snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)c->agent);
  int n = read_file(path, line, sizeof line);
  const char *p = n > 0 ? strstr(line, "Anonymous:") : NULL;
  if (!p) {
    tap_skip("memory of an idle agent", "smaps_rollup cannot be read");
    return;
  }
  int kib = atoi(p + strlen("Anonymous:"));
  OK(kib < 300, "an idle agent has %d KiB of its own", kib);
}

static void test_signals_from_outside(client *c) {
  int list[] = {SIGTERM, SIGHUP, SIGINT, SIGUSR1, SIGALRM, SIGPIPE, SIGTSTP};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    kill(c->agent, list[i]);
  IS(client_simple(c, PCO_WIRE_PING, 2000), 0,
     "signals of other programs do not reach the agent");
}

int main(int argc, char **argv) {
  client c;
  if (!place_init(argc > 1 ? argv[1] : NULL))
    return 2;
  setenv("BASE", "base", 1);
  signal(SIGPIPE, SIG_IGN); /* must not reach the commands */
  sigset_t usr1;
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  sigprocmask(SIG_BLOCK, &usr1, NULL); /* nor this */
  client_start(&c, agent, dir, NULL);
  test_hello(&c);
  test_idle_size(&c);
  test_exit(&c);
  test_output(&c);
  test_stdin(&c);
  test_closed(&c);
  test_environment_of_process(&c);
  test_start_errors(&c);
  test_busy_text(&c);
  test_path_rules(&c);
  test_env(&c);
  test_big_env(&c);
  test_too_big(&c);
  test_user(&c);
  test_many(&c);
  test_info(&c);
  test_signals_from_outside(&c);
  int status = client_stop(&c);
  OK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the agent exits 0");
  return place_done();
}
