/* SPDX-License-Identifier: MIT */
/*
 * process:wait_for: until the output matches a pattern, or until a TCP port of
 * the sandbox is listened on.
 *
 * A looker at output takes nothing: it gets copies of what lies unread and of
 * what comes, keeps others from draining that meanwhile, and lets at most as
 * much come as a reader does.  Lua's patterns need the caller's thread, so the
 * loop hands over the copies and notifies, the caller looks (the op's event),
 * and says by a cancel that it has seen enough.  What comes in many pieces is
 * not matched from its beginning at each: see lua_wait_for.c.  Ports are asked
 * of the agent again and again.  Whatever the condition, the end of the process
 * ends the wait.
 */
#ifndef PCO_WAIT_FOR_H
#define PCO_WAIT_FOR_H

#include "process_ops.h"

/* What the caller has found out. */
enum {
  PCO__LOOK_ON,
  PCO__LOOK_FOUND,
  PCO__LOOK_IN_VAIN, /* the output has ended */
  PCO__LOOK_FAILED   /* see complaint */
};

/* What one stream has given the caller to look at. */
typedef struct pco__looked_text {
  char *bytes; /* owned */
  size_t len;
  size_t room;
  size_t seen; /* bytes that were there at the last look */
} pco__looked_text;

typedef struct pco__wait_for_op {
  pco__process_op base;
  /* output */
  const char *pattern; /* in the arena; or NULL */
  size_t pattern_len;
  bool plain;                    /* no character of it is magic */
  bool looks_at[PCO__N_STREAMS]; /* which streams */
  /* output, under loop->lock */
  pco__chunks arrived;
  bool begun; /* all that there was at the start has arrived */
  bool ended; /* nothing more will arrive */
  bool full;  /* nothing more will arrive before somebody reads */
  int verdict;
  /* output, the caller's */
  pco__looked_text text[PCO__N_STREAMS];
  size_t whole; /* bytes that looks at everything had */
  bool looked;
  int found_in;
  pco__error *complaint; /* owned */
  /* port */
  uint16_t port;
  uint64_t pause; /* ns */
  pco__timer again;
} pco__wait_for_op;

extern const pco__op_class pco__wait_output_class;
extern const pco__op_class pco__wait_port_class;

bool pco__is_wait_for(const pco__op *op);

/* ---- for the process ----------------------------------------------------- */

/* True while somebody looks at the output. */
bool pco__looked_at(const pco__process *p);
/* Bytes came, and are about to be queued. */
void pco__show_output(pco__process *p, uint8_t stream, const char *data,
                      size_t len);
/* The process may have ended, or what is unread grown too big. */
void pco__tell_lookers(pco__process *p);

/* ---- lua_wait_for.c ------------------------------------------------------ */

struct lua_State;
int pco__process_wait_for(struct lua_State *L);
int pco__push_wait_for(struct lua_State *L, pco__op *op);
/* L may be NULL for a plain text: a host in C has nothing else. */
void pco__look_at_output(struct lua_State *L, pco__op *op, bool completed);

#endif /* PCO_WAIT_FOR_H */
