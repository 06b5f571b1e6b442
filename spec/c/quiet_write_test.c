/* SPDX-License-Identifier: MIT */
/*
 * Writing to a pipe whose reader goes away, in a program to which SIGPIPE does
 * what it does to most: it ends it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "sys/quiet_write.h"

enum { MORE = 1 << 20 }; /* than a pipe holds */

static int failed, count;

static void ok(bool good, const char *text) {
  printf("%sok %d - %s\n", good ? "" : "not ", ++count, text);
  fflush(stdout);
  failed += !good;
}

static void make_pipe(int ends[2]) {
  if (pipe2(ends, O_CLOEXEC) == 0)
    return;
  perror("pipe2");
  exit(1);
}

static bool is_pending(void) {
  sigset_t set;
  return sigpending(&set) == 0 && sigismember(&set, SIGPIPE);
}

static bool is_blocked(void) {
  sigset_t set;
  return pthread_sigmask(SIG_BLOCK, NULL, &set) == 0 &&
         sigismember(&set, SIGPIPE);
}

static void test_gone(void) {
  int ends[2];
  make_pipe(ends);
  close(ends[0]);
  ssize_t n = pco__quiet_write(ends[1], "x", 1);
  ok(n == -1 && errno == EPIPE, "a reader that is gone is EPIPE");
  close(ends[1]);
}

/* Closes the reader's end when the pipe is full, and the writer in the midst of
 * its call. */
static void *leave(void *arg) {
  int fd = *(const int *)arg;
  int held = 0;
  int size = fcntl(fd, F_GETPIPE_SZ);
  while (ioctl(fd, FIONREAD, &held) == 0 && held < size)
    usleep(1000);
  close(fd);
  return NULL;
}

static void test_leaves(void) {
  static char data[MORE];
  int ends[2];
  pthread_t thread;
  make_pipe(ends);
  pthread_create(&thread, NULL, leave, &ends[0]);
  ssize_t n = pco__quiet_write(ends[1], data, sizeof data);
  pthread_join(thread, NULL);
  ok(n > 0 && n < MORE, "one that goes meanwhile lets it write a part");
  n = pco__quiet_write(ends[1], data, sizeof data);
  ok(n == -1 && errno == EPIPE, "and no more");
  close(ends[1]);
}

/* As long as there is room: then nothing of it may wait for a reader. */
static void test_some(void) {
  static char data[MORE];
  struct pollfd p = {.events = POLLOUT};
  int ends[2];
  size_t sum = 0;
  make_pipe(ends);
  p.fd = ends[1];
  while (poll(&p, 1, 0) == 1 && sum < MORE) {
    ssize_t n = pco__quiet_write_some(ends[1], data, sizeof data);
    sum += n > 0 ? (size_t)n : MORE;
  }
  ok(sum == (size_t)fcntl(ends[1], F_GETPIPE_SZ), "what fits is written");
  close(ends[0]);
  ssize_t n = pco__quiet_write_some(ends[1], data, sizeof data);
  ok(n == -1 && errno == EPIPE, "and told when the reader is gone");
  close(ends[1]);
}

/* A signal that the program holds back for itself stays where it is. */
static void test_own(void) {
  sigset_t set;
  int ends[2];
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  raise(SIGPIPE);
  make_pipe(ends);
  close(ends[0]);
  ssize_t n = pco__quiet_write(ends[1], "x", 1);
  ok(n == -1 && errno == EPIPE && is_pending(), "one of its own is left alone");
  close(ends[1]);
}

int main(void) {
  alarm(120);
  signal(SIGPIPE, SIG_DFL);
  test_gone();
  test_leaves();
  test_some();
  ok(!is_pending() && !is_blocked(), "nothing of the signal is left");
  test_own();
  printf("1..%d\n", count);
  return failed != 0;
}
