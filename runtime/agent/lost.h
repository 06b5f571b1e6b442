/* SPDX-License-Identifier: MIT */
/*
 * When a supervisor is dead or taken for dead: what its command left is killed,
 * and the agent gives the answers that it owed.
 *
 * A lost one waits in commands.lost until no process is left that may have been
 * below it, or the time for that is over.
 */
#ifndef PCO_LOST_H
#define PCO_LOST_H

#include "commands.h"

/* It is dead, or taken for dead. */
void pco_lost_add(struct pco_agent *a, pco_sup *s);
/* Once a turn while there are lost ones. */
void pco_lost_bury(struct pco_agent *a);
/* Answers what was passed on to it and will not be answered; `pids` are who
 * survived. */
void pco_lost_answer_pending(struct pco_agent *a, pco_sup *s, const pid_t *pids,
                             size_t n);
/* Of the source commands.sigchld: reaps. */
void pco_lost_on_sigchld(void *arg, uint32_t events);

#endif /* PCO_LOST_H */
