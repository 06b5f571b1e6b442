/* SPDX-License-Identifier: MIT */
/*
 * An op: one call that waits.
 *
 * It is made on the caller's thread, started on its loop's thread, completes
 * exactly once there, and hands its result back to the caller's thread.  Life:
 *
 *   made      by its class's maker; one reference, the caller's
 *   submitted pco__op_submit: a second reference, the loop's.  On a portal the
 *             start is posted, else it runs at once
 *   events    any number of times: pco__op_notify asks the caller to look at
 *             what the op has for it (output for a callback)
 *   completed pco__op_complete: the error or the result is set, the caller is
 *             woken, the loop's reference goes
 *
 * Who may touch what: before submitting, the caller; until completion, the
 * loop's thread (what both touch in between is guarded by loop->lock); after
 * completion, the caller again.  Timeouts and cancellation live here; a class
 * only has to end early when its cancel() is called.
 *
 * In a forked child the loop is the parent's, and what an op started there, or
 * only cancelled, did would reach the parent's sandboxes: nothing is started or
 * cancelled.
 */
#ifndef PCO_OP_H
#define PCO_OP_H

#include "arena.h"
#include "error.h"
#include "loop.h"

struct lua_State;
struct pco__task;
struct pco_pending;
typedef struct pco__op pco__op;

typedef struct pco__op_class {
  const char *name; /* "exec" */
  /* Not cancelled with its task, and may be started by a cancelled one:
   * closing things is how a cancelled task ends. */
  bool shielded;
  /* Starts the work.  [loop] */
  void (*start)(pco__op *op);
  /* Asks for an early end; called at most once, never after completion.  The
   * op still completes.  NULL: it ends soon by itself.  [loop] */
  void (*cancel)(pco__op *op);
  /* Asked before a completion counts; true: it is held back, *err is taken,
   * and pco__op_complete will be called again.  May change *err.  Optional.
   * [loop] */
  bool (*hold)(pco__op *op, pco__error **err);
  /* Pushes the results of an op that completed without error; returns their
   * number, or PCO__OP_AGAIN: what came is not enough, make another. [caller]
   */
  int (*push)(struct lua_State *L, pco__op *op);
  /* Looks at what the op has for its caller, after each pco__op_notify and once
   * more when it has completed, before push: it may then change op->error.
   * Must not raise.  Optional.  [caller] */
  void (*event)(struct lua_State *L, pco__op *op, bool completed);
  /* Pushes what the script's function of this call (pco__keep_callback) is to
   * be called with next; false: nothing, and nothing is pushed.  [caller] */
  bool (*offer)(struct lua_State *L, pco__op *op);
  /* Makes another op like this one; NULL without memory.  For classes whose
   * push may say PCO__OP_AGAIN.  [caller] */
  pco__op *(*again)(const pco__op *op);
  /* What the op borrowed of its caller must not be touched any more: called
   * when the caller leaves before the op has completed.  Optional.  [caller] */
  void (*give_back)(pco__op *op);
  /* The loop goes before the op, which has ended: lets go of what `destroy` has
   * to end there.  Optional.  [loop] */
  void (*leave)(pco__op *op);
  /* Frees what the op owns beside its arena and error.  May be NULL.  [any] */
  void (*destroy)(pco__op *op);
} pco__op_class;

#define PCO__OP_AGAIN (-1)

enum { PCO__OP_PENDING, PCO__OP_EVENT, PCO__OP_DONE };

struct pco__op {
  const pco__op_class *cls;
  pco__loop *loop;     /* borrowed */
  unsigned generation; /* of the runtime that it was made in */
  pco__arena arena;
  pco__error *error; /* owned; set by completion */
  atomic_uint refs;
  atomic_uint word; /* PCO__OP_*: what the caller waits on */
  pco__call call;   /* start, posted to a portal */
  pco__call cancel_call;
  atomic_int cancel_wish; /* code to cancel with, written by the caller */
  int64_t timeout;        /* ns, of the call; negative: none */
  pco__timer timer;
  int cancel_code;        /* why it was cancelled, or 0.  [loop] */
  bool completed;         /* [loop] */
  pco__node done_node;    /* async: in loop->done when the caller should look */
  pco__node owner_node;   /* in the list of what it works on, if any */
  struct pco__task *task; /* async: who waits */
  struct pco_pending *pending; /* async: of a host in C, which waits; then it is
                                  put in loop->heard, not in loop->done */
};

/* Makes a zeroed op of `size` bytes; NULL without memory. */
pco__op *pco__op_new(const pco__op_class *cls, size_t size, pco__loop *loop);
void pco__op_unref(pco__op *op);
/* Starts the op; after a failed post (the portal is closed) it is completed
 * with PCO_ECLOSED, in a forked child with PCO_EFORKED.  [caller] */
void pco__op_submit(pco__op *op);
/* Finishes the op; takes err (NULL: success).  If it was cancelled and failed,
 * the error says why it was cancelled.  [loop] */
void pco__op_complete(pco__op *op, pco__error *err);
/* Tells the caller to look (see "events" above).  [loop] */
void pco__op_notify(pco__op *op);
/* Cancels for the reason `code`; the first reason counts.  [loop] */
void pco__op_cancel_now(pco__op *op, int code);
/* The same from the caller's thread; nothing in a forked child. */
void pco__op_cancel(pco__op *op, int code);
/* Waits on a portal's op: PCO__OP_EVENT or PCO__OP_DONE; -EINTR after a signal,
 * -ETIMEDOUT after `ns` (negative: no limit).  [caller] */
int pco__op_wait(pco__op *op, int64_t ns);

#endif /* PCO_OP_H */
