/* SPDX-License-Identifier: MIT */
/* A loop with posted and deferred calls and a heap of timers; see loop.h. */
#include "loop.h"

#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "runtime.h"
#include "sys/uv_watchers.h"

#define NS_PER_MS 1000000u

static void calls_init(pco__calls *q) {
  q->first = NULL;
  q->last = &q->first;
}

static void calls_append(pco__calls *q, pco__call *call) {
  call->next = NULL;
  *q->last = call;
  q->last = &call->next;
}

/* Runs all that are there now; what they add comes the next time. */
static void calls_run(pco__call *call) {
  while (call) {
    pco__call *next = call->next;
    call->fn(call);
    call = next;
  }
}

static pco__call *calls_take(pco__calls *q) {
  pco__call *first = q->first;
  calls_init(q);
  return first;
}

static void run_posted(pco__loop *loop) {
  pthread_mutex_lock(&loop->lock);
  pco__call *first = calls_take(&loop->posted);
  atomic_store(&loop->news, false);
  pthread_mutex_unlock(&loop->lock);
  calls_run(first);
}

static void on_wakeup(uv_async_t *handle) {
  run_posted(PCO_CONTAINER(handle, pco__loop, wakeup));
}

static void on_idle(uv_idle_t *handle) {
  pco__loop *loop = PCO_CONTAINER(handle, pco__loop, idle);
  calls_run(calls_take(&loop->deferred));
  if (!loop->deferred.first)
    uv_idle_stop(handle);
}

int pco__loop_post(pco__loop *loop, pco__call *call) {
  return pco__loop_post_unless(loop, call, &loop->closed);
}

int pco__loop_post_unless(pco__loop *loop, pco__call *call, const bool *no) {
  pthread_mutex_lock(&loop->lock);
  int rc = loop->closed || *no ? UV_ECANCELED : 0;
  if (rc == 0) {
    bool was_empty = !loop->posted.first;
    calls_append(&loop->posted, call);
    atomic_store(&loop->news, true);
    /* Under the lock: once `closed` is set the handle may go at any time. */
    if (was_empty)
      uv_async_send(&loop->wakeup);
  }
  pthread_mutex_unlock(&loop->lock);
  return rc;
}

void pco__loop_defer(pco__loop *loop, pco__call *call) {
  calls_append(&loop->deferred, call);
  uv_idle_start(&loop->idle, on_idle);
}

/* Plugins may have handles that keep no loop alive, but not without a backend;
 * uv_backend_timeout() speaks of timers, deferred calls and handles that are
 * being closed. */
bool pco__loop_is_quiet(const pco__loop *loop) {
  const uv_loop_t *uv = &loop->uv;
  return !atomic_load_explicit(&loop->news, memory_order_acquire) &&
         pco__list_empty(&loop->backends) && uv->active_handles == 1 &&
         uv->active_reqs.count == 0 && uv_backend_timeout(uv) < 0 &&
         !pco__uv_has_new_watchers(uv);
}

double pco__now_seconds(void) {
  struct timeval tv;
  gettimeofday(&tv, NULL);
  return (double)tv.tv_sec + (double)tv.tv_usec / 1e6;
}

void pco__free_handle(uv_handle_t *handle) {
  free(handle);
}

/* ---- timers: a binary heap in heap[1 .. n_timers] ------------------------ */

static void heap_put(pco__loop *loop, size_t i, pco__timer *t) {
  loop->heap[i] = t;
  t->index = i;
}

static void sift_up(pco__loop *loop, size_t i, pco__timer *t) {
  for (; i > 1 && loop->heap[i / 2]->at > t->at; i /= 2)
    heap_put(loop, i, loop->heap[i / 2]);
  heap_put(loop, i, t);
}

static void sift_down(pco__loop *loop, size_t i, pco__timer *t) {
  size_t n = loop->n_timers;
  for (size_t child; (child = 2 * i) <= n; i = child) {
    if (child < n && loop->heap[child + 1]->at < loop->heap[child]->at)
      child++;
    if (t->at <= loop->heap[child]->at)
      break;
    heap_put(loop, i, loop->heap[child]);
  }
  heap_put(loop, i, t);
}

static void on_timer(uv_timer_t *handle);

/* Sets the one uv timer to the first of the heap, or stops it. */
static void arm(pco__loop *loop) {
  if (loop->n_timers == 0) {
    uv_timer_stop(&loop->timer);
    return;
  }
  uint64_t now = uv_hrtime();
  uint64_t at = loop->heap[1]->at;
  uint64_t ms = at <= now ? 0 : (at - now + NS_PER_MS - 1) / NS_PER_MS;
  uv_update_time(&loop->uv);
  uv_timer_start(&loop->timer, on_timer, ms, 0);
}

static void on_timer(uv_timer_t *handle) {
  pco__loop *loop = PCO_CONTAINER(handle, pco__loop, timer);
  uint64_t now = uv_hrtime();
  while (loop->n_timers && loop->heap[1]->at <= now) {
    pco__timer *t = loop->heap[1];
    pco__timer_stop(loop, t);
    t->fn(t);
  }
  arm(loop);
}

static int heap_reserve(pco__loop *loop) {
  if (loop->n_timers + 1 < loop->heap_size)
    return 0;
  size_t size = loop->heap_size ? loop->heap_size * 2 : 16;
  pco__timer **heap = realloc(loop->heap, size * sizeof(pco__timer *));
  if (!heap)
    return UV_ENOMEM;
  loop->heap = heap;
  loop->heap_size = size;
  return 0;
}

int pco__timer_start(pco__loop *loop, pco__timer *timer, uint64_t after) {
  pco__timer_stop(loop, timer);
  int rc = heap_reserve(loop);
  if (rc < 0)
    return rc;
  uint64_t now = uv_hrtime();
  timer->at = after > UINT64_MAX - now ? UINT64_MAX : now + after;
  loop->n_timers++;
  sift_up(loop, loop->n_timers, timer);
  if (timer->index == 1)
    arm(loop);
  return 0;
}

void pco__timer_stop(pco__loop *loop, pco__timer *timer) {
  size_t i = timer->index;
  if (i == 0)
    return;
  timer->index = 0;
  pco__timer *last = loop->heap[loop->n_timers--];
  if (last != timer) {
    if (i > 1 && loop->heap[i / 2]->at > last->at)
      sift_up(loop, i, last);
    else
      sift_down(loop, i, last);
  }
  if (loop->n_timers == 0)
    uv_timer_stop(&loop->timer);
}

/* ---- life ---------------------------------------------------------------- */

/* The parts of libuv that open descriptors. */
static int open_uv(pco__loop *loop) {
  loop->uv.backend_fd = -1;
  int rc = uv_loop_init(&loop->uv);
  if (rc < 0) { /* libuv forgets its first descriptor if it gets no second */
    if (loop->uv.backend_fd >= 0)
      close(loop->uv.backend_fd);
    return rc;
  }
  rc = uv_async_init(&loop->uv, &loop->wakeup, on_wakeup);
  if (rc < 0) /* it may have made its descriptor already; the loop owns it */
    uv_loop_close(&loop->uv);
  return rc;
}

int pco__loop_init(pco__loop *loop, struct pco__runtime *runtime,
                   bool is_portal) {
  memset(loop, 0, sizeof *loop);
  loop->runtime = runtime;
  loop->is_portal = is_portal;
  calls_init(&loop->posted);
  calls_init(&loop->deferred);
  pco__list_init(&loop->done);
  pco__list_init(&loop->heard);
  pco__list_init(&loop->backends);
  pco__runtime_occupy_stdio(runtime);
  int rc = open_uv(loop);
  if (rc < 0)
    return rc;
  uv_timer_init(&loop->uv, &loop->timer);
  uv_idle_init(&loop->uv, &loop->idle);
  pthread_mutex_init(&loop->lock, NULL);
  return 0;
}

void pco__loop_deinit(pco__loop *loop) {
  pthread_mutex_lock(&loop->lock);
  loop->closed = true;
  pthread_mutex_unlock(&loop->lock);
  run_posted(loop);
  while (loop->deferred.first)
    calls_run(calls_take(&loop->deferred));
  uv_close((uv_handle_t *)&loop->wakeup, NULL);
  uv_close((uv_handle_t *)&loop->timer, NULL);
  uv_close((uv_handle_t *)&loop->idle, NULL);
  uv_run(&loop->uv, loop->stuck ? UV_RUN_NOWAIT : UV_RUN_DEFAULT);
  uv_loop_close(&loop->uv); /* stuck: busy, and its descriptors stay */
  free(loop->heap);
}
