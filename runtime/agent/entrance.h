/* SPDX-License-Identifier: MIT */
/*
 * How hosts come to an agent with a door.
 *
 * In a sandbox with a keeper that has the door, and passes streams on over a
 * socket (--door).  Without one (the backend `local`) the agent has it itself
 * (--listen), and does what a keeper would: who attaches gets one end of a
 * stream, and its connection is the control socket.  Then there is no host at
 * first; one has to come in PCO_FIRST_VISIT.
 */
#ifndef PCO_ENTRANCE_H
#define PCO_ENTRANCE_H

#include "clock.h"
#include "door.h"
#include "source.h"

#include <stdbool.h>
#include <stdint.h>

struct pco_agent;

#define PCO_FIRST_VISIT (30 * PCO_S)

/* Where it is; -1 or NULL: not given. */
typedef struct pco_entrance_options {
  int visits; /* the keeper's socket */
  int listener, dir, info;
  const char *name;
  uint64_t ttl_ms;
} pco_entrance_options;

typedef struct pco_entrance {
  pco_source source; /* of the keeper's socket, or the door */
  pco_door door;
  pco_source control; /* its fd is -1 if nobody is attached */
  bool detached;      /* its end is not the sandbox's */
  int64_t first_by;   /* somebody has to come; or PCO_NEVER */
  uint32_t asked;     /* PCO_KEEPER_BY_* */
} pco_entrance;

static inline bool pco_entrance_wanted(const pco_entrance_options *o) {
  return o->visits >= 0 || o->listener >= 0;
}

/* 0 or a negative errno. */
int pco_entrance_init(struct pco_agent *a, const pco_entrance_options *o);
/* When pco_entrance_tick() has something to do, or PCO_NEVER. */
int64_t pco_entrance_next(const struct pco_agent *a);
void pco_entrance_tick(struct pco_agent *a);
/* All is over: tells who waits for that, and removes the files. */
void pco_entrance_close(struct pco_agent *a);

#endif /* PCO_ENTRANCE_H */
