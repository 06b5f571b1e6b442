/* SPDX-License-Identifier: MIT */
/*
 * Takes an amount of something and succeeds if it gets all of it.
 *
 *   fill bytes AMOUNT DIR   in a file
 *   fill files AMOUNT DIR   empty ones
 *   fill memory AMOUNT      what follows is in bytes; "hold" after it: says so
 *                           and keeps all until the end of standard input
 *   fill memfd AMOUNT
 *   fill shm AMOUNT         System V shared memory
 *   fill queues AMOUNT      POSIX message queues
 *
 * Whoever runs out of memory is killed instead, by the kernel.
 */
#include "attack.h"

#include <fcntl.h>
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK (1 << 20)

static long amount;
static const char *dir = "/tmp";
static char chunk[CHUNK];

/* Refused for want of room, or since nothing can be written there at all. */
static bool is_refusal(void) {
  return errno == ENOSPC || errno == EDQUOT || errno == ENOMEM ||
         errno == EROFS || errno == EACCES || errno == EMFILE;
}

static void end(const char *what, long left) {
  if (left <= 0)
    went_through(what);
  else if (!is_refusal())
    is_broken(what, strerror(errno));
}

/* Whoever has it all keeps it, if that is asked for. */
static void hold(long left) {
  char byte;
  if (left > 0 || strcmp(dir, "hold") != 0)
    return;
  puts("held");
  fflush(stdout);
  while (read(0, &byte, 1) > 0)
    ;
}

static long write_all(int fd) {
  long left = amount;
  while (left > 0) {
    ssize_t n = write(fd, chunk, CHUNK);
    if (n <= 0)
      break;
    left -= n;
  }
  return left;
}

static void bytes(void) {
  char path[4096];
  snprintf(path, sizeof path, "%s/fill", dir);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  end(path, fd < 0 ? amount : write_all(fd));
}

static void files(void) {
  char path[4096];
  long left = amount;
  for (; left > 0; left--) {
    snprintf(path, sizeof path, "%s/%ld", dir, left);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
      break;
    close(fd);
  }
  end(dir, left);
}

static void memory(void) {
  long left = amount;
  for (; left > 0; left -= CHUNK) {
    char *p = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
      break;
    memset(p, 1, CHUNK);
  }
  hold(left);
  end("memory", left);
}

static void memfd(void) {
  int fd = memfd_create("fill", MFD_CLOEXEC);
  if (fd < 0)
    give_up("memfd_create");
  long left = write_all(fd);
  hold(left);
  end("memfd", left);
}

/* In pieces as large as may be. */
static void shm(void) {
  long left = amount;
  size_t size = 16 * CHUNK;
  while (left > 0) {
    int id = shmget(IPC_PRIVATE, size, IPC_CREAT | 0600);
    char *p = id < 0 ? (char *)-1 : shmat(id, NULL, 0);
    if (p == (char *)-1) {
      size /= 2;
      if (size < 4096)
        break;
      continue;
    }
    memset(p, 1, size);
    shmdt(p);
    left -= (long)size;
  }
  end("shm", left);
}

/* As many messages as there may be, in as many queues. */
static void queues(void) {
  struct mq_attr attr = {.mq_maxmsg = 10, .mq_msgsize = 8192};
  char name[32];
  long left = amount;
  for (int i = 0; left > 0; i++) {
    snprintf(name, sizeof name, "/fill-%d", i);
    mqd_t q = mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, &attr);
    if (q < 0)
      break;
    for (int j = 0; j < 10 && mq_send(q, chunk, 8192, 0) == 0; j++)
      left -= 8192;
    mq_close(q);
  }
  end("queues", left);
}

int main(int argc, char **argv) {
  static const way ways[] = {{"bytes", bytes},   {"files", files},
                             {"memory", memory}, {"memfd", memfd},
                             {"shm", shm},       {"queues", queues}};
  amount = argc > 2 ? atol(argv[2]) : 0;
  dir = argc > 3 ? argv[3] : dir;
  return take_way(ways, COUNT(ways), argc > 1 ? argv[1] : NULL);
}
