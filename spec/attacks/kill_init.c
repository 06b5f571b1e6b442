/* SPDX-License-Identifier: MIT */
/*
 * Signals to PID 1, which is the agent, in all ways that there are.  Refused
 * means here that it runs on as before, whatever the calls say: PID 1 of a
 * namespace cannot be killed from inside, and may ignore the rest.  Whether it
 * still answers is for the test to see.
 *
 * The control does the same to a child.
 */
#include "attack.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

static const int signals[] = {
    SIGUSR1, SIGTERM, SIGHUP,  SIGINT,  SIGQUIT, SIGSEGV, SIGABRT, SIGBUS,
    SIGTRAP, SIGSYS,  SIGTSTP, SIGCHLD, SIGALRM, SIGPIPE, SIGSTOP, SIGKILL};

/* Fills in state and parent of a process; false if there is none. */
static bool look(pid_t pid, char *state, pid_t *parent) {
  char path[64], line[512];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  FILE *f = fopen(path, "re");
  char *rest = f && fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
  if (f)
    fclose(f);
  int number = 0;
  if (!rest || sscanf(rest + 1, " %c %d", state, &number) != 2)
    return false;
  *parent = number;
  return true;
}

static void judge_health(pid_t pid) {
  char state = '?';
  pid_t parent;
  for (int i = 0; i < 20; i++) {
    poll(NULL, 0, 10);
    if (!look(pid, &state, &parent) || strchr("TtZX", state)) {
      went_through("stopped or gone");
      return;
    }
  }
}

/* Everything that sends a signal to a process.  Failures are refusals too. */
static void send(pid_t pid, int signo) {
  siginfo_t info = {.si_signo = signo, .si_code = SI_QUEUE};
  int fd = (int)syscall(SYS_pidfd_open, pid, 0);
  kill(pid, signo);
  syscall(SYS_tkill, pid, signo);
  syscall(SYS_tgkill, pid, pid, signo);
  syscall(SYS_rt_sigqueueinfo, pid, signo, &info);
  syscall(SYS_rt_tgsigqueueinfo, pid, pid, signo, &info);
  syscall(SYS_pidfd_send_signal, fd, signo, NULL, 0);
  close(fd);
}

static void send_each(pid_t pid) {
  for (int signo = SIGRTMIN; signo <= SIGRTMAX; signo++)
    send(pid, signo);
  for (size_t i = 0; i < COUNT(signals); i++)
    send(pid, signals[i]);
  judge_health(pid);
}

static void by_each_signal(void) {
  send_each(1);
}

static void to_a_child(void) {
  pid_t pid = fork();
  if (pid < 0)
    give_up("fork");
  if (pid == 0) {
    poll(NULL, 0, 10000);
    _exit(0);
  }
  send_each(pid);
}

static void by_threads(void) {
  DIR *dir = opendir("/proc/1/task");
  if (!dir)
    give_up("/proc/1/task");
  for (struct dirent *e; (e = readdir(dir));)
    for (size_t i = 0; atoi(e->d_name) > 0 && i < COUNT(signals); i++) {
      syscall(SYS_tkill, atoi(e->d_name), signals[i]);
      syscall(SYS_tgkill, 1, atoi(e->d_name), signals[i]);
    }
  closedir(dir);
  judge_health(1);
}

/* The kernel sends for us: who owns a descriptor hears of its input. */
static void by_descriptor(void) {
  int ends[2];
  for (size_t i = 0; i < COUNT(signals); i++) {
    if (pipe(ends) < 0)
      give_up("pipe");
    if (fcntl(ends[0], F_SETOWN, 1) == 0 &&
        fcntl(ends[0], F_SETSIG, signals[i]) == 0)
      fcntl(ends[0], F_SETFL, O_ASYNC | O_NONBLOCK);
    if (write(ends[1], "x", 1) != 1)
      give_up("write");
    close(ends[0]);
    close(ends[1]);
  }
  judge_health(1);
}

/* As many as the queue holds, and some more. */
static void by_flood(void) {
  for (int i = 0; i < 200000; i++)
    syscall(SYS_rt_sigqueueinfo, 1, SIGRTMIN + i % 30,
            &(siginfo_t){.si_signo = SIGRTMIN + i % 30, .si_code = SI_QUEUE});
  judge_health(1);
}

/* Whoever may be signalled, but for us; the supervisor too, so that the test
 * may not hear of our own end.  Only in a PID namespace of one's own. */
static void by_everybody(void) {
  char state;
  pid_t parent;
  if (!look(1, &state, &parent) || parent != 0)
    give_up("not without a PID namespace");
  kill(-1, SIGSTOP);
  kill(-1, SIGKILL);
  judge_health(1);
}

int main(int argc, char **argv) {
  static const way ways[] = {
      {"each", by_each_signal}, {"child", to_a_child},
      {"threads", by_threads},  {"descriptor", by_descriptor},
      {"flood", by_flood},      {"everybody", by_everybody}};
  return take_way(ways, COUNT(ways), argc > 1 ? argv[1] : NULL);
}
