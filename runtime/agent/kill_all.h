/* SPDX-License-Identifier: MIT */
/*
 * KILL_ALL: one answer for what many supervisors are asked at once.
 *
 * Each is asked by a KILL with the number of the KILL_ALL; whoever has
 * answered, or died, is a step.  The answer goes out with the last one, and
 * while some were lost only when their orphans are buried.  At most
 * PCO_MAX_KILL_ALL at once.
 */
#ifndef PCO_KILL_ALL_H
#define PCO_KILL_ALL_H

#include "agent.h"

/* One that waits for its caller's own step, and for those that the caller adds
 * to `waiting`; NULL: too many. */
pco_kill_all *pco_kill_all_begin(pco_agent *a, uint64_t op);
/* One supervisor less to wait for. */
void pco_kill_all_step(pco_agent *a, uint64_t op);
/* A supervisor's answer: a step, and who survived. */
void pco_kill_all_reply(pco_agent *a, const pco_frame *f);
/* What survived of the lost may be of any. */
void pco_kill_all_orphans(pco_agent *a, const pid_t *pids, size_t n);
/* No lost supervisor is left to wait for. */
void pco_kill_all_buried(pco_agent *a);

#endif /* PCO_KILL_ALL_H */
