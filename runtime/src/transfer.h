/* SPDX-License-Identifier: MIT */
/*
 * upload and download: a tree moved between host and sandbox in one op.
 *
 * One process packs, another unpacks, and a pipe is between them: one is a
 * worker of the sandbox's agent, the other one of an agent that is started here
 * for this call, the helper.  Nothing of what is moved goes through this
 * process.  Both are asked by the same requests, and each is a side; what was
 * done is believed of the helper's side alone.
 *
 *   upload     PACK: helper    UNPACK: sandbox    SURVEY: sandbox
 *   download   PACK: sandbox   UNPACK: helper     SURVEY: helper
 *
 * A SURVEY, of the target, is only there with only_changed; PACK reads it.
 *
 * The op ends when all sides have answered and the helper has ended; a sandbox
 * that was asked to stop, and does not say so in time, is not waited for.  Its
 * sandbox is not closed before.
 */
#ifndef PCO_TRANSFER_OP_H
#define PCO_TRANSFER_OP_H

#include "sandbox.h"
#include "watch.h"

enum { PCO__PACK, PCO__UNPACK, PCO__SURVEY, PCO__N_SIDES };

#define PCO__MAX_SKIPPED     10000
#define PCO__DEFAULT_ENTRIES 1000000u             /* of a download */
#define PCO__DEFAULT_BYTES   (UINT64_C(64) << 30) /* the same */

struct pco__transfer;

typedef struct pco__side {
  pco__link_request request;
  struct pco__transfer *transfer;
  bool ours;    /* the helper's */
  bool pending; /* asked, and not answered; then it holds the op */
  bool given_up;
  pco__error *error; /* owned */
} pco__side;

typedef struct pco__skipped {
  char *path;    /* owned */
  char *message; /* owned; or NULL */
  int code;
} pco__skipped;

typedef struct pco__progress {
  char *path; /* owned; or NULL */
  uint64_t bytes;
  uint64_t files;
  uint64_t total;
  bool has_total;
} pco__progress;

typedef struct pco__transfer {
  pco__op op;
  pco__sandbox *sandbox; /* a reference */
  bool upload;
  bool only_changed;
  bool tells;         /* on_progress */
  const char *source; /* in the arena, as the others */
  const char *target;
  const char *words; /* for all sides, each with its NUL */
  size_t words_len;
  /* The loop's. */
  pco__side sides[PCO__N_SIDES];
  pco__link *helper;
  int pidfd; /* of the helper; -1: it has ended */
  pco__watch exit;
  pco__timer timer;
  int patience; /* whose time was over: 1 the sandbox's, 2 the helper's */
  bool held;    /* the sandbox waits for us */
  /* The result. */
  uint64_t files;
  uint64_t directories;
  uint64_t bytes;
  pco__skipped *skipped; /* owned */
  size_t n_skipped;
  /* Under loop->lock. */
  pco__progress progress;
  bool has_progress;
} pco__transfer;

extern const pco__op_class pco__upload_class;
extern const pco__op_class pco__download_class;

/* Takes the newest progress, whose path is the caller's then; false: there is
 * none.  [caller] */
bool pco__transfer_take(pco__transfer *t, pco__progress *out);

/* lua_transfer.c */
int pco__push_transfer(struct lua_State *L, pco__op *op);
bool pco__offer_progress(struct lua_State *L, pco__op *op);

#endif /* PCO_TRANSFER_OP_H */
