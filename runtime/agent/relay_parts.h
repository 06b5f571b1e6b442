/* SPDX-License-Identifier: MIT */
/*
 * What the files of relays tell each other: relay.c has their life,
 * relay_output.c and relay_input.c what passes through, relay_start.c where
 * their descriptors come from.
 */
#ifndef PCO_RELAY_PARTS_H
#define PCO_RELAY_PARTS_H

#include "relay.h"

/* ---- life (relay.c) ------------------------------------------------------ */

/* That of a command, or NULL. */
pco_relay *pco_relay_find(const struct pco_agent *a, uint64_t op);
/* A live one without streams; NULL without memory. */
pco_relay *pco_relay_create(struct pco_agent *a, uint64_t op);
/* Lets go of it once no stream is left. */
void pco_relay_discard_if_ended(pco_relay *r);

/* Watches a source, or not.  One that cannot be watched (no memory, no watcher,
 * no pipe) would leave the host waiting for ever: false, and it is to end. */
bool pco_relay_watch(struct pco_agent *a, pco_source *s, bool *watched,
                     bool wanted, uint32_t events);
void pco_relay_close_source(struct pco_agent *a, pco_source *s, bool *watched);

/* ---- output (relay_output.c) --------------------------------------------- */

void pco_relay_out_init(pco_relay_out *o, pco_relay *r, uint8_t stream);
/* From now on it is read from fd (taken). */
void pco_relay_out_open(pco_relay_out *o, int fd);
/* True until its end was told. */
bool pco_relay_out_is_open(const pco_relay_out *o);
/* Nobody reads it for now: 0, or -ENOMEM without memory for a ring. */
int pco_relay_out_adopt(pco_relay_out *o);
/* Reads it when there is something, if it may. */
void pco_relay_out_watch(pco_relay_out *o);
/* The host is slow, or no longer. */
void pco_relay_out_go_on(pco_relay_out *o);

/* If it is adopted, what was kept is lost, and it ends. */
void pco_relay_out_give_up(pco_relay_out *o);
/* The host is gone: it is adopted; without memory for a ring it ends. */
void pco_relay_out_let_go(pco_relay_out *o);

/* ---- input (relay_input.c) ----------------------------------------------- */

void pco_relay_in_init(pco_relay_in *in, pco_relay *r);
/* From now on it is written to fd (taken); one below 0 is the errno of who
 * made it.  0 or a negative errno. */
int pco_relay_in_open(pco_relay_in *in, int fd);
/* Writes what was sent so far. */
void pco_relay_in_pass(pco_relay_in *in);

#endif /* PCO_RELAY_PARTS_H */
