/* SPDX-License-Identifier: MIT */
/*
 * Processes without end.
 *
 *   bomb moving    many lines of processes, each of which starts the next in a
 *                  session of its own and ends: who is found is gone already.
 *                  Goes on until it is killed.
 *   bomb growing   everybody starts others, in sessions of their own, until
 *                  there are no more to be had; goes on too
 *   bomb naive     the second, and somebody who kills all its children until
 *                  there are none; success is that the bomb outlives that
 *   bomb count N   refused if N children cannot be had at once
 *   bomb hold N    takes up to N children, prints how many it has, and keeps
 *                  them until the end of its standard input
 */
#include "attack.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LINES 40
#define STACK 2048 /* bytes for a child that only waits */

static long wanted;

/* ---- the bombs ---------------------------------------------------------- */

static void move_on(void) {
  for (;;) {
    pid_t pid = fork();
    if (pid > 0)
      _exit(0);
    if (pid == 0)
      setsid();
  }
}

static void start_moving(void) {
  for (int i = 0; i < LINES; i++)
    if (fork() == 0)
      move_on();
}

static void moving(void) {
  signal(SIGTERM, SIG_IGN);
  start_moving();
  for (;;)
    pause();
}

static void grow(void) {
  for (;;)
    if (fork() == 0)
      setsid();
    else
      while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

static void growing(void) {
  signal(SIGTERM, SIG_IGN);
  grow();
}

/* ---- who kills children until there are none ---------------------------- */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void kill_children(void) {
  char text[4096];
  int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  if (n < 0)
    give_up("/proc/thread-self/children");
  close(fd);
  text[n] = '\0';
  for (char *at = text, *end; *at; at = end) {
    long pid = strtol(at, &end, 10);
    if (end == at)
      break;
    kill((pid_t)pid, SIGKILL);
    at = end;
  }
}

static void naive(void) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (fork() == 0)
    grow();
  usleep(200000);
  double end = now() + 2;
  while (now() < end) {
    kill_children();
    while (waitpid(-1, NULL, WNOHANG) > 0)
      ;
    if (waitpid(-1, NULL, WNOHANG) < 0)
      return; /* there is none */
  }
  went_through("killing children");
}

/* ---- counting ----------------------------------------------------------- */

static int wait_for_end(void *arg) {
  (void)arg;
  while (pause() < 0)
    ;
  return 0;
}

/* They are processes that share this one's memory: copies of it would cost
 * more time than all the rest of a test with thousands of them. */
static long take_children(void) {
  char *stacks = malloc((size_t)wanted * STACK);
  long n = 0;
  if (!stacks)
    give_up("malloc");
  while (n < wanted) {
    pid_t pid =
        clone(wait_for_end, stacks + (n + 1) * STACK, CLONE_VM | SIGCHLD, NULL);
    if (pid < 0 && errno != EAGAIN)
      give_up("clone");
    if (pid < 0)
      break;
    n++;
  }
  return n;
}

static void drop_children(void) {
  signal(SIGTERM, SIG_IGN);
  kill(0, SIGTERM);
  while (wait(NULL) > 0)
    ;
}

static void count(void) {
  long n = take_children();
  drop_children();
  fprintf(stderr, "%ld children\n", n);
  if (n == wanted)
    went_through("clone");
}

static void hold(void) {
  char byte;
  printf("%ld\n", take_children());
  fflush(stdout);
  while (read(0, &byte, 1) > 0)
    ;
  drop_children();
}

int main(int argc, char **argv) {
  static const way ways[] = {{"moving", moving},
                             {"growing", growing},
                             {"naive", naive},
                             {"count", count},
                             {"hold", hold}};
  wanted = argc > 2 ? atol(argv[2]) : 0;
  return take_way(ways, COUNT(ways), argc > 1 ? argv[1] : NULL);
}
