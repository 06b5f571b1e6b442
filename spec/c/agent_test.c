/* SPDX-License-Identifier: MIT */
/*
 * A real agent: commands, kills, the end of the stream, hostile frames.
 * usage: agent_test AGENT
 *
 * Everything happens in a temporary directory that the test removes; every
 * process that a test starts is found and counted by a mark in its arguments,
 * so that one that got away makes the test fail (and is killed).
 */
#include "agent_client.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define S  UINT64_C(1000000000)
#define MS UINT64_C(1000000)

static const char *agent;
static char dir[64];  /* the temporary directory */
static char mark[64]; /* in the arguments of what must not survive */

/* ---- helpers ------------------------------------------------------------ */

static const char *in_dir(const char *name) {
  static char path[4][256];
  static int i;
  i = (i + 1) % 4;
  snprintf(path[i], sizeof path[i], "%s/%s", dir, name);
  return path[i];
}

static void make_file(const char *name, const char *text, mode_t mode) {
  int fd = open(in_dir(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (write(fd, text, strlen(text)) < 0)
    perror("write");
  fchmod(fd, mode);
  close(fd);
}

static int read_file(const char *path, char *buf, size_t size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, buf, size - 1);
  buf[n < 0 ? 0 : n] = 0;
  if (fd >= 0)
    close(fd);
  return (int)n;
}

/* Living processes whose arguments hold the text; kills them if asked. */
static int count_processes(const char *text, bool end_them) {
  DIR *d = opendir("/proc");
  int n = 0;
  for (struct dirent *e; d && (e = readdir(d));) {
    char path[300], line[4096];
    int pid = atoi(e->d_name);
    if (pid <= 0 || pid == getpid())
      continue;
    snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
    int len = read_file(path, line, sizeof line);
    for (int i = 0; i + 1 < len; i++)
      if (!line[i])
        line[i] = ' ';
    if (len <= 0 || !strstr(line, text))
      continue;
    n++;
    if (end_them)
      kill(pid, SIGKILL);
  }
  if (d)
    closedir(d);
  return n;
}

static int processes_left(int ms) {
  int n = 0;
  for (int i = 0; i < ms / 10 && (n = count_processes(mark, false)) > 0; i++)
    usleep(10000);
  return n;
}

/* Waits until `want` processes of the test run. */
static bool processes_come(int want, int ms) {
  for (int i = 0; i < ms / 10; i++) {
    if (count_processes(mark, false) >= want)
      return true;
    usleep(10000);
  }
  return false;
}

static int children_of(int pid) {
  char path[64], line[8192];
  int n = 0;
  snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
  read_file(path, line, sizeof line);
  for (char *p = line; *p; p++)
    n += *p == ' ';
  return n;
}

static int fds_of(int pid) {
  char path[64];
  int n = 0;
  snprintf(path, sizeof path, "/proc/%d/fd", pid);
  DIR *d = opendir(path);
  while (d && readdir(d))
    n++;
  if (d)
    closedir(d);
  return d ? n : -1;
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A shell command with the mark as its $0. */
static uint64_t start_sh(client *c, const char *script, uint64_t timeout,
                         uint64_t grace) {
  const char *const argv[] = {"/bin/sh", "-c", script, mark, NULL};
  spawn s = {.argv = argv, .timeout = timeout, .grace = grace};
  return client_spawn(c, &s);
}

static ending sh(client *c, const char *script) {
  return client_end(c, start_sh(c, script, 0, 0), 20000);
}

static ending sh_output(client *c, const char *script, const char *const *env,
                        unsigned flags, char *out, size_t size) {
  const char *const argv[] = {"/bin/sh", "-c", script, NULL};
  spawn s = {.argv = argv, .env = env, .flags = flags};
  return client_output(c, &s, false, out, size);
}

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
      "/bin/sh", "-c", "id -u; id -g; id -G; echo $HOME $USER; echo $X", NULL};
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
  OK(strcmp(out, "65534\n65534\n65534\n/nonexistent nobody\ny\n") == 0,
     "user, groups, HOME and USER follow: %s", out);
  s.env = home;
  client_output(c, &s, false, out, sizeof out);
  OK(strstr(out, "/own nobody") != NULL, "unless the request set them");
  s.user = "1234:4321";
  client_output(c, &s, false, out, sizeof out);
  OK(strncmp(out, "1234\n4321\n4321\n", 15) == 0, "a user by number");
  s.user = "12x";
  fails(client_end(c, client_spawn(c, &s), 5000), EINVAL, PCO_STAGE_USER,
        "not a number");
}

/* ---- timeouts and kills ------------------------------------------------- */

static void test_timeout(client *c) {
  double start = seconds();
  ending e = client_end(c, start_sh(c, "sleep 100", 200 * MS, 0), 10000);
  OK(e.exited && e.reason == PCO_REASON_TIMEOUT && e.signal == SIGKILL,
     "timeout with no grace kills");
  OK(seconds() - start < 20, "in time (%.2f s)", seconds() - start);
  e = client_end(
      c, start_sh(c, "trap 'exit 9' TERM; sleep 100 & wait", 200 * MS, 5 * S),
      10000);
  OK(e.code == 9 && e.signal == 0 && e.reason == PCO_REASON_TIMEOUT,
     "a program may end itself upon TERM");
  start = seconds();
  e = client_end(c,
                 start_sh(c, "trap '' TERM; while :; do sleep 0.05; done",
                          200 * MS, 500 * MS),
                 10000);
  OK(e.signal == SIGKILL && e.reason == PCO_REASON_TIMEOUT && e.survivors == 0,
     "one that ignores TERM is killed after the grace");
  OK(seconds() - start > 0.65 && seconds() - start < 20, "not before (%.2f s)",
     seconds() - start);
  e = client_end(c, start_sh(c, "exit 3", 5 * S, 0), 10000);
  OK(e.code == 3 && e.reason == PCO_REASON_EXITED, "no timeout, no reason");
  IS(processes_left(2000), 0, "nothing lives on");
}

static void test_kill(client *c) {
  uint64_t op = start_sh(c, "sleep 100 & sleep 100 & wait", 0, 0);
  processes_come(1, 3000);
  IS(client_kill(c, op, 0, 8000), 0, "KILL is answered without survivors");
  ending e = client_end(c, op, 1000);
  OK(e.exited && e.reason == PCO_REASON_KILLED && e.signal == SIGKILL,
     "EXIT says killed");
  IS(client_kill(c, op, 0, 2000), 0, "KILL after the end is a quick REPLY");
  IS(client_kill(c, 999999, 0, 2000), 0, "also of an unknown command");
  IS(client_signal(c, op, SIGTERM), -ESRCH, "SIGNAL after the end: ESRCH");
  op = start_sh(c, "kill -STOP $$; exit 4", 0, 0);
  usleep(200000);
  client_kill(c, op, 3 * S, 8000);
  e = client_end(c, op, 1000);
  OK(e.signal == SIGTERM && e.reason == PCO_REASON_KILLED,
     "a stopped process sees TERM (signal %d)", e.signal);
  op = start_sh(c, "trap 'exit 6' USR1; while :; do sleep 0.02; done", 0, 0);
  usleep(200000);
  IS(client_signal(c, op, SIGUSR1), 0, "SIGNAL");
  e = client_end(c, op, 5000);
  OK(e.code == 6 && e.reason == PCO_REASON_EXITED, "the program handled it");
}

static void test_kill_is_not_others(client *c) {
  uint64_t a = start_sh(c, "sleep 100 & wait", 0, 0);
  uint64_t b = start_sh(c, "sleep 0.5; exit 8", 0, 0);
  usleep(200000);
  client_kill(c, a, 0, 5000);
  IS(client_end(c, b, 5000).code, 8, "the other command was not hit");
  IS(client_end(c, a, 5000).reason, PCO_REASON_KILLED, "this one was");
}

static void test_second_kill_is_faster(client *c) {
  uint64_t op = start_sh(c, "trap '' TERM; while :; do sleep 0.05; done", 0, 0);
  usleep(200000);
  uint64_t slow = client_begin(c, PCO_WIRE_KILL);
  client_number(c, PCO_TAG_TARGET, op);
  client_number(c, PCO_TAG_GRACE, 60 * S);
  client_number(c, PCO_TAG_REASON, PCO_REASON_TIMEOUT);
  client_send(c, NULL, 0);
  usleep(100000);
  IS(client_kill(c, op, 0, 5000), 0, "a second KILL goes faster");
  frame *f = client_take(c, slow, 2000);
  OK(f && f->header.type == PCO_WIRE_REPLY, "the first one is answered too");
  free(f);
  IS(client_end(c, op, 1000).reason, PCO_REASON_TIMEOUT,
     "the first reason stays");
}

static const char ESCAPER[] =
    "setsid sh -c '(setsid sleep 1000 $0 & setsid sh -c \"trap : TERM; while "
    ":; do sleep 0.1; done\" '$0' &) & ' $0 & sleep 1000";

static void test_escapers(client *c) {
  uint64_t op = start_sh(c, ESCAPER, 0, 0);
  processes_come(2, 3000);
  usleep(200000);
  OK(count_processes(mark, false) >= 2, "escapers run");
  IS(client_kill(c, op, 100 * MS, 8000), 0, "no survivors");
  IS(processes_left(100), 0, "double fork and setsid do not help");
  client_end(c, op, 1000);
}

static void test_background(client *c) {
  const char *out = in_dir("bg"), *go = in_dir("go");
  char script[768];
  unlink(out);
  unlink(go);
  snprintf(
      script, sizeof script,
      "(setsid sh -c 'until [ -e %s ]; do sleep 0.02; done; echo done >%s; "
      "sleep 1000' %s &) ; exit 3",
      go, out, mark);
  uint64_t op = start_sh(c, script, 0, 0);
  ending e = client_end(c, op, 20000);
  OK(e.code == 3 && access(out, F_OK) != 0,
     "EXIT does not wait for descendants");
  make_file("go", "", 0644);
  for (int i = 0; i < 200 && access(out, F_OK) != 0; i++)
    usleep(100000);
  OK(access(out, F_OK) == 0, "the background job goes on");
  IS(client_kill(c, op, 0, 8000), 0, "KILL after EXIT");
  IS(processes_left(100), 0, "ends it");
}

enum { ENOUGH = 20 }; /* processes of a bomb to be one */

/* A pipe holds as many tokens as there may be processes; each one that takes a
 * token forks twice, in new sessions, and ends, giving it back. */
static const char BOMB[] =
    "import os,sys,time\n"
    "lim=int(sys.argv[2])\n"
    "r,w=os.pipe()\n"
    "os.write(w,b'x'*lim)\n"
    "def go():\n"
    "  while True:\n"
    "    t=os.read(r,1)\n"
    "    if os.fork()==0:\n"
    "      os.setsid()\n"
    "    elif os.fork()==0:\n"
    "      os.setsid()\n"
    "    else:\n"
    "      time.sleep(0.001); os.write(w,t); os._exit(0)\n"
    "go()\n";

/* Starts a bomb; how many processes it has grown to when it is enough, or when
 * the time of its limit is nearly over. */
static int light(client *c, const char *size, bool first_stays,
                 uint64_t timeout, uint64_t *op) {
  char script[64];
  snprintf(script, sizeof script, "python3 -c \"$1\" $0 %s%s", size,
           first_stays ? "& sleep 1000" : "");
  const char *const argv[] = {"/bin/sh", "-c", script, mark, BOMB, NULL};
  spawn s = {.argv = argv, .timeout = timeout, .grace = 200 * MS};
  double until = seconds() + (double)(timeout ? timeout : 64 * S) / (double)S;
  *op = client_spawn(c, &s);
  int n = 0;
  while (n <= ENOUGH && seconds() < until - 1) {
    usleep(100000);
    n = count_processes(mark, false);
  }
  return n;
}

static void bomb_by_kill(client *c) {
  uint64_t op;
  int n = light(c, "60", false, 0, &op);
  client_end(c, op, 60000);
  IS(client_kill(c, op, 0, 20000), 0, "a bomb dies after its first process");
  OK(n > ENOUGH, "%d processes", n);
  IS(processes_left(100), 0, "nothing of it lives");
  count_processes(mark, true);
}

/* How long it takes to grow is the machine's affair: a time limit that was over
 * before tells nothing, and the next one is longer. */
static void bomb_by_timeout(client *c) {
  int n = 0;
  for (uint64_t timeout = 4; n <= ENOUGH && timeout <= 64; timeout *= 2) {
    uint64_t op;
    n = light(c, "200", true, timeout * S, &op);
    ending e = client_end(c, op, (int)timeout * 1000 + 20000);
    OK(e.reason == PCO_REASON_TIMEOUT && e.survivors == 0,
       "a bomb of %d sessions ends by its timeout", n);
    IS(processes_left(100), 0, "nothing of it lives");
    count_processes(mark, true);
  }
  OK(n > ENOUGH, "%d processes", n);
}

static void test_fork_bomb(client *c) {
  if (system("python3 -c '' 2>/dev/null") != 0) {
    tap_skip("fork bomb", "needs python3");
    return;
  }
  bomb_by_kill(c);
  bomb_by_timeout(c);
}

static void test_kill_all(client *c) {
  uint64_t ops[5];
  for (int i = 0; i < 5; i++)
    ops[i] = start_sh(c, "setsid sleep 1000 & sleep 1000", 0, 0);
  usleep(200000);
  IS(client_simple(c, PCO_WIRE_KILL_ALL, 8000), 0, "KILL_ALL");
  bool good = true;
  for (int i = 0; i < 5; i++)
    good = client_end(c, ops[i], 100).reason == PCO_REASON_KILLED && good;
  OK(good, "every command had ended before the answer");
  IS(client_simple(c, PCO_WIRE_KILL_ALL, 8000), 0, "KILL_ALL of nothing");
}

/* A command kills its own supervisor. */
static void test_dead_supervisor(client *c) {
  uint64_t op = start_sh(c,
                         "setsid sleep 1000 & sleep 0.2; kill -9 $PPID; "
                         "sleep 1000",
                         0, 0);
  uint64_t other = start_sh(c, "sleep 1; exit 5", 0, 0);
  ending e = client_end(c, op, 8000);
  OK(e.exited && e.signal == SIGKILL && e.reason == PCO_REASON_KILLED,
     "a command that kills its supervisor has ended");
  IS(client_end(c, other, 8000).code, 5, "another one did not notice");
  IS(processes_left(2000), 0, "its processes are gone");
  op = start_sh(c, "kill -STOP $PPID; sleep 1000", 0, 0);
  usleep(300000);
  IS(client_simple(c, PCO_WIRE_PING, 1000), 0,
     "a stopped supervisor stops nobody else");
  IS(client_kill(c, op, 0, 15000), 0, "and its command can be killed");
  client_end(c, op, 15000);
  IS(processes_left(2000), 0, "with all of its processes");
}

static void test_many(client *c) {
  const char *const argv[] = {"true", NULL};
  client_run(c, argv);
  int fds = fds_of(c->agent);
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
    OK(fds_of(c->agent) <= fds, "leave no descriptor in the agent (%d, %d)",
       fds_of(c->agent), fds);
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

/* ---- the end ------------------------------------------------------------ */

static void test_end_of_stream(bool shutdown_frame) {
  client c;
  char box[128];
  snprintf(box, sizeof box, "%s/box", dir);
  mkdir(box, 0755);
  char inner[160];
  snprintf(inner, sizeof inner, "%s/a", box);
  mkdir(inner, 0755);
  snprintf(inner, sizeof inner, "%s/a/out", box);
  if (symlink(dir, inner) != 0)
    return;
  make_file("keep", "x", 0644);
  const char *const args[] = {"--root", box, "--remove", box, NULL};
  client_start(&c, agent, box, args);
  start_sh(&c, ESCAPER, 0, 0);
  start_sh(&c, "trap '' TERM HUP INT; while :; do sleep 0.1; done", 0, 0);
  uint64_t last = start_sh(&c, "mkdir b; chmod 0 b; exit 0", 0, 0);
  client_end(&c, last, 5000);
  processes_come(3, 3000);
  double start = seconds();
  if (shutdown_frame) {
    IS(client_simple(&c, PCO_WIRE_SHUTDOWN, 2000), 0, "SHUTDOWN is answered");
    OK(client_ended(&c, 5000), "and the stream ends");
  }
  int status = client_stop(&c);
  OK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the agent exits 0");
  OK(seconds() - start < 20, "in time (%.2f s)", seconds() - start);
  IS(processes_left(50), 0, "every process is gone");
  OK(access(box, F_OK) != 0, "the directory is removed");
  OK(access(in_dir("keep"), F_OK) == 0, "what a link led to is not");
}

/* The agent is killed: its supervisors end what they own. */
static void test_agent_killed(void) {
  client c;
  client_start(&c, agent, dir, NULL);
  start_sh(&c, ESCAPER, 0, 0);
  start_sh(&c, "kill -STOP $PPID; sleep 1000", 0, 0);
  processes_come(3, 3000);
  usleep(200000);
  kill(c.agent, SIGKILL);
  IS(processes_left(3000), 0, "the death of the agent ends all commands");
  client_stop(&c);
  count_processes(mark, true);
}

static void test_remove_only(void) {
  char box[128], command[4096];
  snprintf(box, sizeof box, "%s/tree", dir);
  snprintf(command, sizeof command,
           "mkdir -p %s/x/y %s/z; ln -s / %s/x/root; chmod 0500 %s/x; d=%s/z; "
           "i=0; while [ $i -lt 80 ]; do d=$d/d; mkdir $d; i=$((i+1)); done; "
           "exec %s --remove-only %s",
           box, box, box, box, box, agent, box);
  int status = system(command);
  IS(WEXITSTATUS(status), 0, "--remove-only");
  OK(access(box, F_OK) != 0, "removes a deep tree with a locked directory");
  snprintf(command, sizeof command, "exec %s --remove-only / 2>/dev/null",
           agent);
  status = system(command);
  IS(WEXITSTATUS(status), 1, "but not /");
}

/* ---- broken frames ------------------------------------------------------ */

static void expect_broken(client *c, const char *text) {
  OK(client_ended(c, 3000), "%s ends the connection", text);
  int status = client_join(c, 3000);
  OK(WIFEXITED(status) && WEXITSTATUS(status) == 3, "%s: exit status 3", text);
  close(c->fd);
  c->fd = -1;
  client_stop(c);
}

static void broken_header(const char *text, const uint8_t bytes[16]) {
  client c;
  client_start(&c, agent, dir, NULL);
  client_raw(&c, bytes, 16);
  expect_broken(&c, text);
}

typedef void build_fn(client *c);

static void broken(const char *text, build_fn *build, int n_fds) {
  client c;
  int fds[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  client_start(&c, agent, dir, NULL);
  start_sh(&c, "sleep 1000", 0, 0);
  processes_come(1, 2000);
  build(&c);
  client_send(&c, fds, n_fds);
  expect_broken(&c, text);
  IS(processes_left(500), 0, "and everything");
}

static void b_signo(client *c) {
  client_begin(c, PCO_WIRE_SIGNAL);
  client_number(c, PCO_TAG_TARGET, 1);
  client_number(c, PCO_TAG_SIGNO, 4000);
}
static void b_mode(client *c) {
  client_begin(c, PCO_WIRE_MKDIR);
  client_string(c, PCO_TAG_PATH, "x");
  client_number(c, PCO_TAG_FLAGS, 0);
  client_number(c, PCO_TAG_MODE, 010000);
}
static void b_missing(client *c) {
  client_begin(c, PCO_WIRE_STAT);
  client_number(c, PCO_TAG_FLAGS, 0);
}
static void b_twice(client *c) {
  client_begin(c, PCO_WIRE_STAT);
  client_string(c, PCO_TAG_PATH, "x");
  client_string(c, PCO_TAG_PATH, "y");
  client_number(c, PCO_TAG_FLAGS, 0);
}
static void b_answer(client *c) {
  client_begin(c, PCO_WIRE_REPLY);
}
static void b_old_op(client *c) {
  c->op = 0;
  client_begin(c, PCO_WIRE_PING);
}
static void b_spawn(client *c, int stdio, int n, uint64_t timeout) {
  client_begin(c, PCO_WIRE_SPAWN);
  client_string(c, PCO_TAG_ARGV, "true");
  client_number(c, PCO_TAG_FLAGS, 0);
  client_number(c, PCO_TAG_TIMEOUT, timeout);
  for (int i = 0; i < n; i++)
    client_number(c, PCO_TAG_STDIO, (uint64_t)stdio);
}
static void b_two_stdio(client *c) {
  b_spawn(c, PCO_STDIO_NULL, 2, 1);
}
static void b_four_stdio(client *c) {
  b_spawn(c, PCO_STDIO_NULL, 4, 1);
}
static void b_bad_stdio(client *c) {
  b_spawn(c, PCO_STDIO_CLOSED + 1, 3, 1);
}
static void b_merge_stdin(client *c) {
  b_spawn(c, PCO_STDIO_MERGE, 3, 1);
}
static void b_no_fds(client *c) {
  b_spawn(c, PCO_STDIO_FD, 3, 1);
}
static void b_null(client *c) {
  b_spawn(c, PCO_STDIO_NULL, 3, 1);
}
static void b_timeout(client *c) {
  b_spawn(c, PCO_STDIO_NULL, 3, 0);
}
static void b_timeout_huge(client *c) {
  b_spawn(c, PCO_STDIO_NULL, 3, UINT64_MAX);
}
static void b_limit(client *c, uint16_t tag, uint64_t value) {
  b_spawn(c, PCO_STDIO_NULL, 3, 1);
  client_number(c, tag, value);
}
static void b_no_memory(client *c) {
  b_limit(c, PCO_TAG_LIMIT_MEMORY, 0);
}
static void b_no_pids(client *c) {
  b_limit(c, PCO_TAG_LIMIT_PIDS, 0);
}
static void b_pids_huge(client *c) {
  b_limit(c, PCO_TAG_LIMIT_PIDS, UINT64_C(1) << 63);
}
static void b_cpus_huge(client *c) {
  b_limit(c, PCO_TAG_LIMIT_CPUS, UINT64_C(1) << 32);
}
static void b_files_huge(client *c) {
  b_limit(c, PCO_TAG_LIMIT_OPEN_FILES, UINT64_MAX);
}
static void b_two_limits(client *c) {
  b_limit(c, PCO_TAG_LIMIT_OPEN_FILES, 9);
  client_number(c, PCO_TAG_LIMIT_OPEN_FILES, 9);
}
static void b_ping(client *c) {
  client_begin(c, PCO_WIRE_PING);
}
static void b_data_ahead(client *c) {
  client_begin(c, PCO_WIRE_DATA);
  pco_wire_bytes(&c->buf, PCO_TAG_DATA, "x", 1);
}
static void b_more(client *c) {
  pco_wire_begin(&c->buf, PCO_WIRE_PING, PCO_WIRE_MORE, ++c->op);
}
static void b_reason(client *c) {
  client_begin(c, PCO_WIRE_KILL);
  client_number(c, PCO_TAG_TARGET, 1);
  client_number(c, PCO_TAG_REASON, 7);
}

static void test_broken_frames(void) {
  broken_header("a payload of 4 GiB",
                (uint8_t[16]){255, 255, 255, 255, 2, 0, 0, 0, 1});
  broken_header("200 descriptors", (uint8_t[16]){0, 0, 0, 0, 2, 0, 200, 0, 1});
  broken_header("unknown flags", (uint8_t[16]){0, 0, 0, 0, 2, 0, 0, 2, 1});
  broken_header("op 0", (uint8_t[16]){0, 0, 0, 0, 2});
  broken_header("an unknown type", (uint8_t[16]){0, 0, 0, 0, 9, 9, 0, 0, 1});
  broken_header("descriptors that did not come",
                (uint8_t[16]){0, 0, 0, 0, 16, 0, 1, 0, 1});
  broken("signal 4000", b_signo, 0);
  broken("mode 010000", b_mode, 0);
  broken("no path", b_missing, 0);
  broken("two paths", b_twice, 0);
  broken("an answer", b_answer, 0);
  broken("a number used before", b_old_op, 0);
  broken("two stdio", b_two_stdio, 0);
  broken("four stdio", b_four_stdio, 0);
  broken("stdio of kind 5", b_bad_stdio, 0);
  broken("stdin merged", b_merge_stdin, 0);
  broken("three descriptors promised, none sent", b_no_fds, 0);
  broken("a descriptor too many", b_null, 1);
  broken("descriptors with a PING", b_ping, 2);
  broken("five descriptors", b_null, 5);
  broken("timeout 0", b_timeout, 0);
  broken("timeout 2^64-1", b_timeout_huge, 0);
  broken("no memory", b_no_memory, 0);
  broken("no processes", b_no_pids, 0);
  broken("2^63 processes", b_pids_huge, 0);
  broken("2^32 milliprocessors", b_cpus_huge, 0);
  broken("2^64-1 open files", b_files_huge, 0);
  broken("a limit twice", b_two_limits, 0);
  broken("DATA of a number to come", b_data_ahead, 0);
  broken("MORE on a request", b_more, 0);
  broken("reason 7", b_reason, 0);
}

/* Descriptors that travel with bytes that promise none. */
static void test_stray_descriptor(void) {
  client c;
  int fds[1] = {0};
  client_start(&c, agent, dir, NULL);
  client_begin(&c, PCO_WIRE_PING);
  client_send(&c, fds, 1); /* the header says one */
  expect_broken(&c, "a PING with a descriptor");
  client_start(&c, agent, dir, NULL);
  client_begin(&c, PCO_WIRE_PING);
  pco_wire_end(&c.buf, 0);
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control;
  struct iovec v = {c.buf.data, c.buf.len};
  struct msghdr m = {.msg_iov = &v,
                     .msg_iovlen = 1,
                     .msg_control = control.bytes,
                     .msg_controllen = sizeof control.bytes};
  struct cmsghdr *h = CMSG_FIRSTHDR(&m);
  h->cmsg_level = SOL_SOCKET;
  h->cmsg_type = SCM_RIGHTS;
  h->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(h), fds, sizeof(int));
  sendmsg(c.fd, &m, MSG_NOSIGNAL);
  expect_broken(&c, "a descriptor that no header promised");
}

static void test_half_a_frame(void) {
  client c;
  client_start(&c, agent, dir, NULL);
  client_raw(&c, (uint8_t[]){0, 0, 64, 0, 16, 0, 0, 0, 1}, 9);
  client_raw(&c, (uint8_t[]){0, 0, 0, 0, 0, 0, 0, 1, 2, 3}, 10);
  usleep(100000);
  char path[64], line[4096];
  snprintf(path, sizeof path, "/proc/%d/statm", (int)c.agent);
  read_file(path, line, sizeof line);
  long total = 0, resident = 0;
  sscanf(line, "%ld %ld", &total, &resident);
  OK(resident * 4 < 2048, "4 MiB declared, nothing allocated (%ld KiB)",
     resident * 4);
  int status = client_stop(&c);
  OK(WIFEXITED(status) && WEXITSTATUS(status) == 0,
     "the end amid a frame is an end");
}

static void test_byte_by_byte(client *c) {
  const char *const argv[] = {"/bin/sh", "-c", "exit 7", NULL};
  uint64_t op = client_begin(c, PCO_WIRE_SPAWN);
  for (const char *const *p = argv; *p; p++)
    client_string(c, PCO_TAG_ARGV, *p);
  client_number(c, PCO_TAG_FLAGS, 0);
  for (int i = 0; i < 3; i++)
    client_number(c, PCO_TAG_STDIO, PCO_STDIO_NULL);
  pco_wire_end(&c->buf, 0);
  for (size_t i = 0; i < c->buf.len; i++) {
    client_raw(c, c->buf.data + i, 1);
    usleep(200);
  }
  IS(client_end(c, op, 5000).code, 7, "a frame that comes byte by byte");
}

/* A host that sends and does not read must not make the agent grow. */
static void test_slow_reader(void) {
  client c;
  client_start(&c, agent, dir, NULL);
  int flags = fcntl(c.fd, F_GETFL);
  fcntl(c.fd, F_SETFL, flags | O_NONBLOCK);
  uint8_t frames[16 * 256];
  uint64_t op = 0;
  ssize_t n = 1;
  for (int i = 0; i < 20000 && n > 0; i++) {
    pco_wire_buf b = {0};
    for (int j = 0; j < 256; j++) {
      pco_wire_begin(&b, PCO_WIRE_INFO, 0, ++op);
      pco_wire_end(&b, 0);
      memcpy(frames + 16 * j, b.data, 16);
    }
    pco_wire_buf_free(&b);
    n = send(c.fd, frames, sizeof frames, MSG_NOSIGNAL);
    if (n < 0)
      usleep(300000);
    if (n < 0)
      n = send(c.fd, frames, sizeof frames, MSG_NOSIGNAL);
    if (n > 0 && n < (ssize_t)sizeof frames)
      break;
  }
  char path[64], line[4096];
  snprintf(path, sizeof path, "/proc/%d/statm", (int)c.agent);
  read_file(path, line, sizeof line);
  long total = 0, resident = 0;
  sscanf(line, "%ld %ld", &total, &resident);
  OK(op < 20000 * 256, "the agent stops reading");
  OK(resident * 4 < 6144, "and does not grow (%ld KiB)", resident * 4);
  client_stop(&c);
}

static void test_idle_size(client *c) {
  char path[64], line[4096];
  snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)c->agent);
  int n = read_file(path, line, sizeof line);
  const char *p = n > 0 ? strstr(line, "Private_Dirty:") : NULL;
  if (!p) {
    tap_skip("memory of an idle agent", "smaps_rollup cannot be read");
    return;
  }
  int kib = atoi(p + 14);
  OK(kib < 300, "an idle agent has %d KiB of its own", kib);
}

static void test_signals_from_outside(client *c) {
  int list[] = {SIGTERM, SIGHUP, SIGINT, SIGUSR1, SIGALRM, SIGPIPE, SIGTSTP};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    kill(c->agent, list[i]);
  IS(client_simple(c, PCO_WIRE_PING, 2000), 0,
     "signals of other programs do not reach the agent");
}

static void remove_dir(void) {
  char command[256];
  snprintf(command, sizeof command, "chmod -R u+rwx %s; rm -rf %s", dir, dir);
  if (system(command) != 0)
    perror("rm");
}

int main(int argc, char **argv) {
  client c;
  if (argc < 2)
    return 2;
  agent = realpath(argv[1], NULL);
  snprintf(dir, sizeof dir, "/tmp/portico-agent-test-XXXXXX");
  if (!agent || !mkdtemp(dir))
    return 2;
  snprintf(mark, sizeof mark, "portico-mark-%d", (int)getpid());
  setenv("BASE", "base", 1);
  signal(SIGPIPE, SIG_IGN); /* must not reach the commands */
  sigset_t usr1;
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  sigprocmask(SIG_BLOCK, &usr1, NULL); /* nor this */

  /* What an agent that is killed leaves behind comes here, to be counted. */
  prctl(PR_SET_CHILD_SUBREAPER, 1);
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
  test_timeout(&c);
  test_kill(&c);
  test_kill_is_not_others(&c);
  test_second_kill_is_faster(&c);
  test_escapers(&c);
  test_background(&c);
  test_fork_bomb(&c);
  test_kill_all(&c);
  test_dead_supervisor(&c);
  test_many(&c);
  test_info(&c);
  test_byte_by_byte(&c);
  test_signals_from_outside(&c);
  int status = client_stop(&c);
  OK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the agent exits 0");
  test_end_of_stream(false);
  test_end_of_stream(true);
  test_agent_killed();
  test_remove_only();
  test_broken_frames();
  test_stray_descriptor();
  test_half_a_frame();
  test_slow_reader();
  IS(count_processes(mark, true), 0, "nothing is left behind");
  for (int i = 0; i < 100 && waitpid(-1, NULL, WNOHANG) >= 0; i++)
    usleep(10000);
  OK(waitpid(-1, NULL, WNOHANG) < 0, "and every orphan has ended");
  remove_dir();
  return tap_done();
}
