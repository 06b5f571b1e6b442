/* SPDX-License-Identifier: MIT */
/*
 * A real agent: timeouts and kills reach every process of a command, and the
 * end of the stream, or the agent's death, those of all. usage: agent_kill_test
 * AGENT
 */
#include "agent_place.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* One that is to wait for its host, which makes the directory; `go` says that
 * it may begin, else the host dies.  Its exit status. */
static int wait_for_host(const char *box, bool go) {
  int stream[2], wait[2];
  OK(socketpair(AF_UNIX, SOCK_STREAM, 0, stream) == 0 && pipe(wait) == 0,
     "a stream and a pipe");
  pid_t pid = fork();
  if (pid == 0) {
    char fd[16], wait_fd[16];
    close(stream[0]);
    close(wait[1]);
    snprintf(fd, sizeof fd, "%d", stream[1]);
    snprintf(wait_fd, sizeof wait_fd, "%d", wait[0]);
    execl(agent, "portico-agent", "--fd", fd, "--wait", wait_fd, "--cwd", box,
          "--root", box, "--remove", box, (char *)NULL);
    _exit(99);
  }
  close(stream[1]);
  close(wait[0]);
  mkdir(box, 0700);
  OK(!go || write(wait[1], "", 1) == 1, "the byte");
  close(wait[1]);
  close(stream[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_wait(void) {
  char box[128];
  snprintf(box, sizeof box, "%s/made", dir);
  IS(wait_for_host(box, true), 0, "an agent that may begin serves its stream");
  OK(access(box, F_OK) != 0, "and removes the directory");
  IS(wait_for_host(box, false), 1, "one whose host has died does not begin");
  OK(access(box, F_OK) != 0, "and removes what was made for it");
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

int main(int argc, char **argv) {
  client c;
  if (!place_init(argc > 1 ? argv[1] : NULL))
    return 2;
  signal(SIGPIPE, SIG_IGN);
  client_start(&c, agent, dir, NULL);
  test_timeout(&c);
  test_kill(&c);
  test_kill_is_not_others(&c);
  test_second_kill_is_faster(&c);
  test_escapers(&c);
  test_background(&c);
  test_fork_bomb(&c);
  test_kill_all(&c);
  test_dead_supervisor(&c);
  int status = client_stop(&c);
  OK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the agent exits 0");
  test_end_of_stream(false);
  test_end_of_stream(true);
  test_agent_killed();
  test_wait();
  test_remove_only();
  return place_done();
}
