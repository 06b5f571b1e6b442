/* SPDX-License-Identifier: MIT */
/*
 * A loop: one uv_loop_t with what every room of the runtime needs on it.
 *
 *   posted calls    from any thread, run on the loop's thread in order
 *   deferred calls  from the loop's thread, run in the next turn, so that a
 *                   completion inside a plugin's function never calls back
 *                   into it
 *   timers          a heap under one uv_timer_t
 *   done ops        (async only) waiting for the scheduler to resume their task
 *
 * A loop belongs to one thread: the Lua state's own (async) or a portal's.
 * Everything but pco__loop_post is for that thread only.
 */
#ifndef PCO_LOOP_H
#define PCO_LOOP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "list.h"

struct pco__runtime;

/* A call to make later; embedded in what it is about. */
typedef struct pco__call {
  struct pco__call *next;
  void (*fn)(struct pco__call *call);
} pco__call;

typedef struct pco__calls {
  pco__call *first;
  pco__call **last;
} pco__calls;

typedef struct pco__timer {
  void (*fn)(struct pco__timer *timer);
  uint64_t at;  /* uv_hrtime() */
  size_t index; /* in the heap, from 1; 0: not set */
} pco__timer;

typedef struct pco__loop {
  uv_loop_t uv;
  struct pco__runtime *runtime; /* borrowed; outlives the loop */
  bool stuck;                   /* a backend did not close: see deinit */
  bool is_portal;               /* another thread waits for our ops */
  uv_async_t wakeup;
  uv_timer_t timer;
  uv_idle_t idle; /* active while deferred calls wait */
  pthread_mutex_t lock;
  pco__calls posted; /* under lock */
  bool closed;       /* under lock: pco__loop_post fails */
  atomic_bool news;  /* something is posted; set under lock */
  pco__calls deferred;
  pco__timer **heap; /* owned; [1 .. n_timers] */
  size_t n_timers;
  size_t heap_size;
  pco__node done;     /* of pco__op.done_node */
  pco__node heard;    /* the same, of a host in C */
  pco__node backends; /* of pco__backend.node; see pco__backend_close_all */
} pco__loop;

/* Makes a loop; returns 0 or a libuv error, with nothing left behind. */
int pco__loop_init(pco__loop *loop, struct pco__runtime *runtime,
                   bool is_portal);
/* Refuses further posts for ever, runs the last ones, closes every handle. What
 * lives on it must have ended; handles of a stuck backend are left open.  The
 * lock stays: whoever frees the memory
 * destroys it.  [loop] */
void pco__loop_deinit(pco__loop *loop);
/* Runs call->fn(call) on the loop's thread; UV_ECANCELED once closed (the call
 * is then the caller's again).  [any] */
int pco__loop_post(pco__loop *loop, pco__call *call);
/* The same, refused as well if *no is true, which changes under loop->lock. */
int pco__loop_post_unless(pco__loop *loop, pco__call *call, const bool *no);
/* Runs call->fn(call) in the next turn. */
void pco__loop_defer(pco__loop *loop, pco__call *call);

/* True if a turn would find nothing for sure: no backend is open, nothing is
 * posted, no timer set, no handle alive but our own.  Costs no system call. */
bool pco__loop_is_quiet(const pco__loop *loop);

/* The time of day, in seconds since 1970.  [any] */
double pco__now_seconds(void);
/* A close callback that frees the handle itself. */
void pco__free_handle(uv_handle_t *handle);

/* Sets a timer to fire once, `after` ns from now; sets it again if it is set.
 * Returns 0 or UV_ENOMEM. */
int pco__timer_start(pco__loop *loop, pco__timer *timer, uint64_t after);
/* Stops a timer; nothing if it is not set. */
void pco__timer_stop(pco__loop *loop, pco__timer *timer);

#endif /* PCO_LOOP_H */
