/* SPDX-License-Identifier: MIT */
/*
 * Calls of a host in C on files: what each is, and what it takes of
 * pco_file_opts.  What it does not take is refused: an agent that was sent it
 * would take the host for broken.
 */
#ifndef PCO_EMBED_FILE_H
#define PCO_EMBED_FILE_H

#include "embed_call.h"
#include "fs_ops.h"

/* What a call takes beside flags and a time. */
#define PCO__TAKES_MODE     1u
#define PCO__TAKES_RANGE    2u /* offset, length */
#define PCO__TAKES_MAX_SIZE 4u
#define PCO__TAKES_OWNER    8u
#define PCO__TAKES_PATTERNS 16u
#define PCO__TAKES_DEPTH    32u

typedef struct pco__file_call {
  const pco__op_class *cls;
  int kind;       /* PCO__FS_* */
  uint32_t flags; /* PCO_FS_*, PCO_FILE_* that it takes */
  unsigned takes; /* PCO__TAKES_* */
} pco__file_call;

static inline pco__fs_op *pco__file_op_of(const pco_pending *p) {
  return PCO_CONTAINER(p->op, pco__fs_op, op);
}

/* Makes an op on a path in a box; it is started by the caller.  path is NULL
 * where it may be.  *own: the options as we know them. */
int pco__file_op(pco_box *box, const pco__file_call *call, const char *path,
                 const pco_file_opts *opts, pco_file_opts *own, pco__caller *c,
                 pco_pending **p);
/* One that needs nothing more. */
int pco__file_simple(pco_box *box, const pco__file_call *call, const char *path,
                     const pco_file_opts *opts, pco__caller *c);
/* Copies what it writes: 0, or PCO_EINVAL, which is told. */
int pco__file_give(pco_runtime *rt, pco_pending *p, const void *data,
                   size_t len);
/* Copies what it is given as its second path; the same. */
int pco__file_aim(pco_runtime *rt, pco_pending *p, const char *target);
/* Whether this is no owner. */
bool pco__file_bad_owner(const char *owner);

#endif /* PCO_EMBED_FILE_H */
