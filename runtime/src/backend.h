/* SPDX-License-Identifier: MIT */
/*
 * An open backend: one instance of a plugin on one loop, and the host side of
 * the plugin ABI.
 *
 * Everything is for the loop's thread, except the reference count.  A backend
 * is in loop->backends from open until the plugin completed its close(); the
 * Lua handle and its sandboxes hold references to the memory.
 */
#ifndef PCO_BACKEND_H
#define PCO_BACKEND_H

#include "op.h"
#include "portico/plugin.h"

typedef struct pco__backend {
  pco_host host; /* what the plugin sees; host_data is this backend */
  const pco_backend_info *info; /* the plugin's, static */
  pco_backend *plugin;          /* the plugin's */
  pco__loop *loop;              /* borrowed */
  pco__node node;               /* in loop->backends */
  pco__node sandboxes;          /* of pco__sandbox.node */
  pco__node closers;            /* ops that wait for the close */
  atomic_uint refs;
  bool closing;
  bool closed;           /* the plugin's close() completed */
  bool plugin_closing;   /* written under loop->lock: its posts are refused */
  atomic_bool abandoned; /* its loop ended without it */
  struct pco__plugin_call *close_call; /* made at open: closing cannot fail */
} pco__backend;

/* Opens the plugin's backend on a loop; *out has one reference.  Takes the use
 * of the plugin that pco__loader_open counted, also when it fails.  [loop] */
int pco__backend_open(pco__loop *loop, const pco_backend_info *info,
                      const pco_pair *settings, size_t n_settings,
                      pco__backend **out, pco__error **err);
/* Begins to close: sandboxes first, then the plugin's instance.  op (may be
 * NULL) completes when all is gone.  [loop] */
void pco__backend_close(pco__backend *b, pco__op *op);
/* The same when nobody asked for it: sandboxes that stay are left. */
void pco__backend_abandon(pco__backend *b);
/* Called by a sandbox that has ended: a closing backend may go on. */
void pco__backend_sandbox_gone(pco__backend *b);
/* Closes every backend of a loop and runs the loop until they are closed, at
 * most 20 s, then leaves the rest behind; used when a loop ends.  [loop] */
void pco__backend_close_all(pco__loop *loop);
void pco__backend_ref(pco__backend *b);
void pco__backend_unref(pco__backend *b);

/* ---- ops of the plugin ABI ---------------------------------------------- */

/* A call into a plugin.  take() runs inside the plugin's complete() and copies
 * what it needs of the borrowed result; done() runs in the next turn of the
 * loop, so that what it starts never re-enters the plugin. */
struct pco_op {
  pco__backend *backend;
  void (*take)(pco_op *op, const void *result);
  void (*done)(pco_op *op, pco__error *err); /* takes err */
  pco__error *err;
  pco_cancel_fn cancel;
  void *cancel_arg;
  pco__call call;
  pco__call cancel_call;
  bool completed;
  bool cancel_asked;
  bool cancel_queued; /* cancel_call is on its way */
};

/* Prepares op, which its owner keeps until done() ran. */
void pco__plugin_op_init(pco_op *op, pco__backend *b,
                         void (*take)(pco_op *op, const void *result),
                         void (*done)(pco_op *op, pco__error *err));
/* To be called with what the plugin's function returned: a rejected op is
 * completed with that error. */
void pco__plugin_op_submitted(pco_op *op, int rc);
/* Asks the plugin to end it early, once. */
void pco__plugin_op_cancel(pco_op *op);

#endif /* PCO_BACKEND_H */
