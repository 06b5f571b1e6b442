/* SPDX-License-Identifier: MIT */
/*
 * Calls of a host in C on sandboxes; see portico/sandbox.h and embed_call.c.
 *
 * All of it is for the runtime's thread.  What a portal runs is reached only
 * through its op, as from Lua.
 */
#ifndef PCO_EMBED_CALL_H
#define PCO_EMBED_CALL_H

#include "embed.h"
#include "portico/sandbox.h"
#include "sandbox_ops.h"

struct pco_box {
  pco__node node;  /* in rt->boxes */
  pco_runtime *rt; /* NULL: it is gone, and so is all below but the portal */
  pco__loop *loop;
  pco__portal *portal; /* a reference; and a use, while in_use */
  bool in_use;         /* counted in portal->users */
  bool closed;
  pco__op *leaving;      /* a reference; a detach, or NULL */
  char *id;              /* owned */
  pco__sandbox *sandbox; /* a reference */
  pco__backend *backend; /* a reference; it is of this box alone */
};

struct pco_command {
  pco__node node;  /* in rt->commands */
  pco_runtime *rt; /* NULL: it is gone */
  pco__loop *loop;
  pco__portal *portal;   /* a reference; or NULL */
  pco__process *process; /* a reference */
};

/* Takes what the op of a call has found, which has ended well, and makes the
 * next one, not started; NULL: that was all, or the op has an error now. */
typedef pco__op *(*pco__next_fn)(pco_pending *p);

struct pco_pending {
  pco__node node;      /* in rt->calls */
  pco_runtime *rt;     /* NULL: it is gone */
  pco__op *op;         /* a reference */
  pco__portal *portal; /* a reference; or NULL */
  bool in_use;         /* create: counted in portal->users */
  bool counted;        /* in rt->n_calls: it goes on, in ticks */
  bool held;           /* by the host */
  pco_done_fn done;
  void *ud;
  pco__arena arena; /* of what it told of the error */
  const pco_error *error;
  struct pco__entry **entries; /* in the arena, in order; NULL: not asked */
  size_t n_entries;
  char *told;               /* owned; the last path of a progress */
  pco__next_fn next;        /* a call of several ops; NULL: the last one */
  struct pco__found *found; /* owned; of a walk */
  bool looks;               /* its op asks for a look at each notice */
};

/* Where a call is made, and how it is told. */
typedef struct pco__caller {
  pco_runtime *rt;
  pco__loop *loop;
  pco_done_fn done;
  void *ud;
  pco_pending **out;
} pco__caller;

/* What every call begins with: *out is NULL until one has been made. */
static inline pco__caller pco__call_from(pco_done_fn done, void *ud,
                                         pco_pending **out) {
  if (out)
    *out = NULL;
  return (pco__caller){.done = done, .ud = ud, .out = out};
}

/* Checks the caller, of a portal's box or not; 0 or a code. */
int pco__call_check(const pco__caller *c);
/* Makes an op in a pending; NULL without memory. */
pco_pending *pco__call_new(const pco__caller *c, const pco__op_class *cls,
                           size_t size);
/* Starts it, and gives it to the host; or, if its arena failed, drops it.
 * Returns 0 or a code. */
int pco__call_start(const pco__caller *c, pco_pending *p);
/* Drops one that was not started; returns code. */
int pco__call_drop(pco_pending *p, int code);
/* Copies a string to the arena of its op; NULL stays NULL. */
const char *pco__call_copy(pco_pending *p, const char *s);
/* A NULL-terminated list of strings, the same. */
char **pco__call_copy_list(pco_pending *p, const char *const *list);
/* Frees what a walk has noted; NULL may be given. */
void pco__found_free(struct pco__found *found);
/* Whether a pending may be asked from here: 0, or a code of misuse. */
int pco__call_check_pending(const pco_pending *p);
/* The pending, if its call has ended on this thread: 0, PCO_EBUSY, misuse. */
int pco__call_ended(pco_pending *p);
/* True if the op is of this class. */
static inline bool pco__call_is(const pco_pending *p,
                                const pco__op_class *cls) {
  return p->op->cls == cls;
}

/* 0, or why a box cannot be used. */
int pco__box_check(pco_box *box);

/* ---- calls that open a backend ------------------------------------------- */

/* *own: the options as we know them, given or not; *create: those for a new
 * box, if own->create is not NULL then.  0 or a code. */
int pco__box_options(pco_runtime *rt, const pco_box_opts *given,
                     pco_box_opts *own, pco_create_opts *create);
/* Makes the pending of such a call, on the loop that the options say; *opening
 * is for its op.  0 or a code. */
int pco__box_call(pco__caller *c, const pco_box_opts *opts,
                  const pco__op_class *cls, size_t size, pco_pending **p,
                  pco__opening *opening);

#endif /* PCO_EMBED_CALL_H */
