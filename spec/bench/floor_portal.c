/* SPDX-License-Identifier: MIT */
/*
 * floor_portal COUNT: a call from one thread to a libuv loop on another and
 * back, COUNT times: a locked queue, uv_async_send, a futex for the reply.
 * Prints the median in microseconds.  It is the least that a portal can cost.
 *
 * floor_portal stream CHUNK PROGRAM ARGUMENT...: reads the program's stdout by
 * such calls, CHUNK bytes at most in each.  Prints MB/s: what a stream without
 * batches gives.
 */
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <uv.h>

#include "stats.h"

struct call {
  struct call *next;
  int fd; /* to read from; -1: nothing to do */
  char *buffer;
  size_t size;
  ssize_t n; /* what read gave */
  _Atomic uint32_t done;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct call *queue; /* under lock */
static bool stop;          /* under lock */
static uv_async_t wakeup;

static void on_wakeup(uv_async_t *async) {
  pthread_mutex_lock(&lock);
  struct call *call = queue;
  queue = NULL;
  bool stopping = stop;
  pthread_mutex_unlock(&lock);
  while (call != NULL) {
    struct call *next = call->next; /* gone once it is done */
    if (call->fd >= 0)
      call->n = read(call->fd, call->buffer, call->size);
    atomic_store(&call->done, 1);
    syscall(SYS_futex, &call->done, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    call = next;
  }
  if (stopping)
    uv_close((uv_handle_t *)async, NULL);
}

static void *run_loop(void *loop) {
  uv_run(loop, UV_RUN_DEFAULT);
  return NULL;
}

static void submit(struct call *call) {
  pthread_mutex_lock(&lock);
  if (call != NULL) {
    call->next = queue;
    queue = call;
  } else {
    stop = true;
  }
  pthread_mutex_unlock(&lock);
  uv_async_send(&wakeup);
}

static void run(struct call *call) {
  submit(call);
  while (!atomic_load(&call->done))
    syscall(SYS_futex, &call->done, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

static int measure_calls(size_t count) {
  double *samples = calloc(count, sizeof *samples);
  if (count == 0 || samples == NULL)
    return 2;
  for (size_t i = 0; i < count; i++) {
    double began = now_us();
    run(&(struct call){.fd = -1});
    samples[i] = now_us() - began;
  }
  printf("%.3f\n", median(samples, count));
  free(samples);
  return 0;
}

static __attribute__((noinline)) pid_t start(char **argv, int out) {
  pid_t pid = vfork();
  if (pid == 0) {
    dup2(out, STDOUT_FILENO);
    execv(argv[0], argv);
    _exit(127);
  }
  return pid;
}

static int measure_stream(size_t chunk, char **argv) {
  char *buffer = malloc(chunk);
  int ends[2], status;
  if (buffer == NULL || pipe2(ends, O_CLOEXEC) != 0)
    return 2;
  double began = now_us(), bytes = 0;
  pid_t pid = start(argv, ends[1]);
  close(ends[1]);
  for (;;) {
    struct call call = {.fd = ends[0], .buffer = buffer, .size = chunk};
    run(&call);
    if (call.n <= 0)
      break;
    bytes += (double)call.n;
  }
  if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
    return 4;
  printf("%.3f\n", bytes / (now_us() - began));
  free(buffer);
  return 0;
}

int main(int argc, char **argv) {
  uv_loop_t loop;
  pthread_t thread;
  if (argc < 2)
    return 2;
  if (uv_loop_init(&loop) != 0 || uv_async_init(&loop, &wakeup, on_wakeup) ||
      pthread_create(&thread, NULL, run_loop, &loop) != 0)
    return 3;
  int rc = argc > 3 && strcmp(argv[1], "stream") == 0
               ? measure_stream(strtoul(argv[2], NULL, 10), argv + 3)
               : measure_calls(strtoul(argv[1], NULL, 10));
  submit(NULL);
  pthread_join(thread, NULL);
  uv_loop_close(&loop);
  return rc;
}
