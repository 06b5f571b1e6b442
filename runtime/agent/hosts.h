/* SPDX-License-Identifier: MIT */
/*
 * An agent with a door has one host after the other: letting one go, taking the
 * next, and what each may hear (wire.h says it from the host's side).
 *
 * Nobody is let go in the middle of things: whoever finds out that the host is
 * gone says so here, and pco_hosts_tick() does it at the end of the turn.
 *
 * Without a door there is one host, and the agent ends with it.
 */
#ifndef PCO_HOSTS_H
#define PCO_HOSTS_H

#include "request.h"

#include <stdbool.h>
#include <stdint.h>

struct pco_agent;

typedef struct pco_hosts {
  bool many;     /* there is a door */
  bool over;     /* this one is to be let go; nothing is said to it any more */
  bool broken;   /* ... because it broke the protocol: nor is it heard */
  bool greeted;  /* its HELLO came */
  bool listed;   /* it knows the commands of those before */
  int next;      /* the stream of the next one, owned; or -1 */
  uint64_t base; /* the highest request of those before */
  uint64_t greeting; /* the HELLO that is being answered, or 0 */
} pco_hosts;

void pco_hosts_init(struct pco_agent *a, bool many);
void pco_hosts_deinit(struct pco_agent *a);
/* The stream has ended. */
void pco_hosts_gone(struct pco_agent *a);
/* It broke the protocol. */
void pco_hosts_broken(struct pco_agent *a);
/* Another one has come; who is there now is let go. */
void pco_hosts_come(struct pco_agent *a, int fd);
/* True if the host is to get that frame. */
bool pco_hosts_hears(const struct pco_agent *a, uint16_t type, uint64_t op);
/* True if a request has a number that it may have now; notes it. */
bool pco_hosts_in_order(struct pco_agent *a, const pco_request *r);
/* True if a request of one that is gone by now does not have to be done. */
bool pco_hosts_ignore(const struct pco_agent *a, const pco_request *r);

/* True if pco_hosts_tick() has something to do. */
bool pco_hosts_pending(const struct pco_agent *a);
/* Once a turn. */
void pco_hosts_tick(struct pco_agent *a);

#endif /* PCO_HOSTS_H */
