/* SPDX-License-Identifier: MIT */
/*
 * Passing bytes on; see pump.h.
 *
 * Reads and writes block, so each stream has a thread: what this program got as
 * its stdio may be a file or a terminal, which no loop can wait for, and is
 * shared with other programs, so that making it non-blocking would break them.
 * Whoever writes slowly is thereby held back, and nothing is kept here but one
 * buffer a stream.
 *
 * Bytes are copied, not spliced: a page of a file of the host must not lie in a
 * pipe that a sandbox reads.
 *
 * A thread that is stuck in a read of stdin, or in a write whose reader does
 * not read, is left to the end of the program.  The threads touch no Lua, take
 * no signals, and live on what is static here.
 */
#include "pump.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "stop.h"

#define BUFFER_SIZE (64u * 1024)
#define STACK_SIZE  (128u * 1024)
/* How long output is read that is not the command's own any more, but of
 * something that it left running.  As `drain` of spawn. */
#define DRAIN_MS 250

typedef struct pump {
  int from;
  int to;
  bool ended;   /* the command has, as this thread knows */
  int quota;    /* bytes that lay in the pipe then */
  int64_t late; /* when reading stops; 0: not yet known */
  char buffer[BUFFER_SIZE];
} pump;

/* By descriptor of ours: stdin, stdout, stderr. */
static pump pumps[3];
static const char *const names[] = {"stdin", "stdout", "stderr"};
static int ended_event = -1; /* readable once the command has ended */
static int done_event = -1;  /* written by each output that is done */
static int n_outputs;
static pthread_t main_thread;
static char failure[128];
static atomic_bool failed;                   /* failure is set for good */
static atomic_flag fails = ATOMIC_FLAG_INIT; /* somebody sets it */

/* ---- what is there ------------------------------------------------------- */

int pump_hold_stdio(void) {
  for (int fd = 0; fd < 3; fd++) {
    /* The lowest free number is this one. */
    if (fcntl(fd, F_GETFD) < 0 &&
        open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) < 0)
      return -errno;
  }
  return 0;
}

bool pump_can(int fd) {
  int flags = fcntl(fd, F_GETFL);
  int useless = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;
  return flags >= 0 && !(flags & O_PATH) && (flags & O_ACCMODE) != useless;
}

/* Nobody at the other end needs to wait for us any more. */
static void let_go(int fd) {
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0)
    return;
  dup2(null, fd);
  close(null);
}

static int64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- failures ------------------------------------------------------------ */

static void fail(const char *what, int fd, int error) {
  if (atomic_flag_test_and_set(&fails))
    return;
  snprintf(failure, sizeof failure, "cannot %s %s: %s", what, names[fd],
           strerror(error));
  atomic_store(&failed, true);
  pthread_kill(main_thread, SIGURG);
}

const char *pump_failure(void) {
  return atomic_load(&failed) ? failure : NULL;
}

/* ---- reading and writing ------------------------------------------------- */

ssize_t pump_read(int fd, char *data, size_t size) {
  for (;;) {
    ssize_t n = read(fd, data, size);
    if (n >= 0 || (errno != EAGAIN && errno != EINTR))
      return n;
    if (errno == EAGAIN)
      poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1);
  }
}

/* Writes all; 0, or -1 with errno. */
static int write_all(int fd, const char *data, size_t size) {
  while (size > 0) {
    ssize_t n = write(fd, data, size);
    if (n < 0 && errno == EAGAIN)
      poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
    else if (n < 0 && errno != EINTR)
      return -1;
    if (n > 0) {
      data += n;
      size -= (size_t)n;
    }
  }
  return 0;
}

/* ---- output -------------------------------------------------------------- */

/* Milliseconds for poll, once the command has ended.  What lay in the pipe then
 * is there at once, unless something in the sandbox has read it away. */
static int patience(pump *p) {
  if (p->quota > 0)
    return DRAIN_MS;
  if (p->late == 0)
    p->late = now_ms() + DRAIN_MS;
  int64_t left = p->late - now_ms();
  return left > 0 ? (int)left : 0;
}

/* Waits until there is something to read; false: there will be nothing. */
static bool await_output(pump *p) {
  struct pollfd fds[2] = {{.fd = p->from, .events = POLLIN},
                          {.fd = ended_event, .events = POLLIN}};
  for (;;) {
    int n = poll(fds, p->ended ? 1 : 2, p->ended ? patience(p) : -1);
    if (n == 0)
      return false;
    if (n < 0 && errno != EINTR)
      return true; /* read will say what is wrong */
    if (n > 0 && !p->ended && fds[1].revents) {
      p->ended = true;
      if (ioctl(p->from, FIONREAD, &p->quota) < 0)
        p->quota = 0;
      fds[0].revents = 0;
      continue;
    }
    if (n > 0)
      return true;
  }
}

/* Passes one bufferful on; false at the end. */
static bool pass_output(pump *p, int fd) {
  if (!await_output(p))
    return false;
  ssize_t n = pump_read(p->from, p->buffer, sizeof p->buffer);
  if (n <= 0)
    return false;
  if (p->ended)
    p->quota -= (int)n;
  if (write_all(p->to, p->buffer, (size_t)n) == 0)
    return true;
  if (errno == EPIPE)
    return false;
  /* What goes to a stderr that takes nothing is lost, here as there; and where
   * could it be said? */
  if (fd == STDERR_FILENO)
    return true;
  fail("write to", fd, errno);
  return false;
}

/* At its end the pipe is closed.  If nobody reads our output any more, the
 * command hears of that as it would without us: by a SIGPIPE of its own. */
static void *pump_out(void *arg) {
  pump *p = (pump *)arg;
  int fd = p->to;
  while (pass_output(p, fd))
    continue;
  close(p->from);
  /* Our errors still have to go to stderr. */
  if (fd == STDOUT_FILENO && !pump_failure())
    let_go(fd);
  uint64_t one = 1;
  write_all(done_event, (const char *)&one, sizeof one);
  return NULL;
}

/* ---- input --------------------------------------------------------------- */

/* Waits until there is something to read; false: nobody wants it. */
static bool await_input(pump *p) {
  struct pollfd fds[3] = {{.fd = p->from, .events = POLLIN},
                          {.fd = p->to}, /* POLLERR: no reader is left */
                          {.fd = ended_event, .events = POLLIN}};
  while (poll(fds, 3, -1) < 0)
    if (errno != EINTR)
      return true;
  return !fds[1].revents && !fds[2].revents;
}

/* A terminal that hung up has no more to give. */
static bool is_end(ssize_t n, int fd) {
  return n == 0 || (n < 0 && errno == EIO && isatty(fd));
}

/* Passes one bufferful on; false at the end. */
static bool pass_input(pump *p) {
  if (!await_input(p))
    return false;
  ssize_t n = pump_read(p->from, p->buffer, sizeof p->buffer);
  if (n > 0)
    return write_all(p->to, p->buffer, (size_t)n) == 0;
  if (!is_end(n, p->from))
    fail("read", STDIN_FILENO, errno);
  return false;
}

static void *pump_in(void *arg) {
  pump *p = (pump *)arg;
  while (pass_input(p))
    continue;
  /* After a failure the command must not take it for the end of its input; it
   * is about to be killed. */
  if (pump_failure())
    return NULL;
  close(p->to);
  let_go(p->from);
  return NULL;
}

/* ---- the beginning and the end ------------------------------------------- */

int pump_thread(void *(*run)(void *arg), void *arg) {
  pthread_attr_t attr;
  pthread_t thread;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_init(&attr);
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attr, STACK_SIZE);
  int rc = pthread_create(&thread, &attr, run, arg);
  pthread_attr_destroy(&attr);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return -rc;
}

static int start_one(int i, int pipe) {
  if (pipe < 0)
    return 0;
  /* Its description is ours alone. */
  if (fcntl(pipe, F_SETFL, 0) < 0)
    return -errno;
  pump *p = &pumps[i];
  p->from = i == 0 ? STDIN_FILENO : pipe;
  p->to = i == 0 ? pipe : i;
  int rc = pump_thread(i == 0 ? pump_in : pump_out, p);
  if (rc == 0 && i > 0)
    n_outputs++;
  return rc;
}

int pump_start(const int pipes[3]) {
  main_thread = pthread_self();
  ended_event = eventfd(0, EFD_CLOEXEC);
  done_event = eventfd(0, EFD_CLOEXEC);
  int rc = ended_event < 0 || done_event < 0 ? -errno : 0;
  for (int i = 0; i < 3 && rc == 0; i++)
    rc = start_one(i, pipes[i]);
  return rc; /* what is left open after a failure, the end of the program
                closes: it follows at once */
}

static void take_done(void) {
  uint64_t n = 0;
  if (read(done_event, &n, sizeof n) == (ssize_t)sizeof n)
    n_outputs -= (int)n;
}

int pump_finish(double seconds) {
  uint64_t one = 1;
  write_all(ended_event, (const char *)&one, sizeof one);
  int64_t late = seconds < 0 || seconds > INT_MAX / 1000
                     ? INT64_MAX
                     : now_ms() + (int64_t)(seconds * 1000);
  struct pollfd done = {.fd = done_event, .events = POLLIN};
  while (n_outputs > 0) {
    int64_t left = late - now_ms();
    int n = stop_poll(&done, left > INT_MAX ? -1 : left > 0 ? (int)left : 0);
    if (n < 0)
      return PUMP_INTERRUPTED;
    if (n == 0)
      return PUMP_LATE;
    take_done();
  }
  return PUMP_DONE;
}
