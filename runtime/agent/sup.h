/* SPDX-License-Identifier: MIT */
/*
 * A supervisor as the agent sees it (pco_sup of commands.h): the process and
 * its channel, and the lists that it is in.  For commands.c and lost.c.
 */
#ifndef PCO_SUP_H
#define PCO_SUP_H

#include "commands.h"

/* Forks one and puts it into the live ones.  `on_events` is called with it as
 * arg when its channel has something.  0 or a negative errno. */
int pco_sup_create(struct pco_agent *a,
                   void (*on_events)(void *arg, uint32_t events),
                   pco_sup **out);
/* Stops talking to it; an idle one then ends by itself. */
void pco_sup_disconnect(struct pco_agent *a, pco_sup *s);
/* Frees one that is disconnected and in no list. */
void pco_sup_free(pco_sup *s);

void pco_sup_link(pco_sup **list, pco_sup *s);
void pco_sup_unlink(pco_sup **list, pco_sup *s);

/* The place of a counter, closed and empty. */
void pco_sup_close_counter(pco_counter *c);

#endif /* PCO_SUP_H */
