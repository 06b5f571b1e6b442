/* SPDX-License-Identifier: MIT */
/*
 * A sandbox: what a backend created, with its processes, and the agent inside
 * if it has one.
 *
 *   CREATING -> RUNNING -> CLOSING -> CLOSED
 *                 |  |        ^ ^       ^
 *                 |  +-> DEAD + |       |   (its agent ended by itself)
 *                 +-> DETACHING +-------+   (it is left running)
 *
 * One that was made by another program, and is attached to, is CREATING until
 * it is known what runs there.  It stays whatever becomes of us: only a close
 * that somebody asked for ends it.
 *
 * Lives on one loop.  References: the Lua handle, each process, each op on it,
 * and the loop until CLOSED.  A pending call is told ClosedError when the
 * sandbox is closed, ConnectionError when it died.
 */
#ifndef PCO_SANDBOX_H
#define PCO_SANDBOX_H

#include "agent_link.h"
#include "backend.h"

enum {
  PCO__SANDBOX_CREATING,
  PCO__SANDBOX_RUNNING,
  PCO__SANDBOX_DETACHING,
  PCO__SANDBOX_DEAD,
  PCO__SANDBOX_CLOSING,
  PCO__SANDBOX_CLOSED
};

typedef struct pco__sandbox {
  pco__backend *backend; /* a reference */
  pco__loop *loop;       /* the backend's */
  pco_sandbox *plugin;   /* the plugin's; NULL before and after */
  pco__link *link;       /* owned; NULL without an agent */
  const pco_fs_api *fs;  /* the plugin's, of a sandbox without an agent */
  char *id;              /* owned */
  char *name;            /* owned; or NULL */
  char *image;           /* owned; or NULL */
  char *cwd;             /* owned; of a sandbox without an agent: where relative
                            paths start; or NULL */
  pco_pair *labels;      /* owned with its strings */
  size_t n_labels;
  double created;  /* seconds since 1970 */
  double expires;  /* the same; 0: never */
  int64_t pid;     /* of the agent, as it says; 0: none */
  bool foreign;    /* its commands run under another id, as the plugin says */
  bool detachable; /* it may be left running; what its commands write goes
                      through the agent, which then keeps it */
  bool stays;      /* we are attached to it: nobody is not the end of it */
  int state;
  pco__node node;      /* in backend->sandboxes, until CLOSED */
  pco__node processes; /* of pco__process.node */
  pco__node departed;  /* of pco__process.departed_node; see departed.h */
  uint64_t n_exits;    /* of its processes, so far */
  size_t n_departed;
  size_t departed_bytes;
  pco__node ops;     /* pending calls that are not of a process */
  pco__node closers; /* ops that wait for the close */
  unsigned n_holds;  /* calls that end before it is CLOSED */
  bool destroyed;    /* the plugin's is gone: only they are waited for */
  pco__error *death; /* why it is DEAD; owned */
  atomic_uint refs;
  pco__op *create_op; /* while CREATING */
  struct pco__sandbox_calls *calls;
} pco__sandbox;

/* Creates a sandbox; op completes with *out of the op set, or fails and nothing
 * is left.  opts is kept by the op's arena.  [loop] */
void pco__sandbox_create(pco__backend *b, const pco_create_opts *opts,
                         pco__op *op, pco__sandbox **out);
/* The same for one that was detached; when it fails the sandbox stays as it
 * was. id is kept by the op's arena.  [loop] */
void pco__sandbox_attach(pco__backend *b, const char *id, pco__op *op,
                         pco__sandbox **out);
/* Cancels either: what comes late is undone, then the op completes. */
void pco__sandbox_create_cancel(pco__sandbox *sb);
/* Begins to close; op (may be NULL) completes when it is gone.  [loop] */
void pco__sandbox_close(pco__sandbox *sb, pco__op *op);
/* Begins to leave it running; op (may be NULL) completes when it is left, or
 * fails, and nothing has changed.  [loop] */
void pco__sandbox_detach(pco__sandbox *sb, pco__op *op);
/* op fails, if it is not too late. */
void pco__sandbox_detach_cancel(pco__sandbox *sb, const pco__op *op);
/* Nobody holds it any more: closes it, or leaves one that stays. */
void pco__sandbox_abandon(pco__sandbox *sb);
/* 0, or the error that a new call on it gets. */
pco__error *pco__sandbox_check(const pco__sandbox *sb);
/* What runs in it goes on. */
static inline bool pco__sandbox_lives(const pco__sandbox *sb) {
  return sb->state < PCO__SANDBOX_DEAD;
}
/* The sandbox is not CLOSED before as many calls of let_go. */
void pco__sandbox_hold(pco__sandbox *sb);
void pco__sandbox_let_go(pco__sandbox *sb);
void pco__sandbox_ref(pco__sandbox *sb);
void pco__sandbox_unref(pco__sandbox *sb);

#endif /* PCO_SANDBOX_H */
