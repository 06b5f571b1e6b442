/* SPDX-License-Identifier: MIT */
/*
 * floor_portal COUNT: a call from one thread to a libuv loop on another and
 * back, COUNT times: a locked queue, uv_async_send, a futex for the reply.
 * Prints the median in microseconds.  It is the least that a portal can cost.
 */
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <uv.h>

#include "stats.h"

struct call {
  struct call *next;
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

int main(int argc, char **argv) {
  size_t count = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
  double *samples = calloc(count, sizeof *samples);
  uv_loop_t loop;
  pthread_t thread;
  if (count == 0 || samples == NULL)
    return 2;
  if (uv_loop_init(&loop) != 0 || uv_async_init(&loop, &wakeup, on_wakeup) ||
      pthread_create(&thread, NULL, run_loop, &loop) != 0)
    return 3;
  for (size_t i = 0; i < count; i++) {
    double start = now_us();
    struct call call = {0};
    submit(&call);
    while (!atomic_load(&call.done))
      syscall(SYS_futex, &call.done, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    samples[i] = now_us() - start;
  }
  submit(NULL);
  pthread_join(thread, NULL);
  uv_loop_close(&loop);
  printf("%.3f\n", median(samples, count));
  return 0;
}
