/* SPDX-License-Identifier: MIT */
/*
 * The processes of a sandbox that have ended and have no handle any more: their
 * exit status is kept, within a bound, for whoever comes back with the pid.
 * Their output is not.  Each is held by a reference of the sandbox's list.
 */
#ifndef PCO_DEPARTED_H
#define PCO_DEPARTED_H

#include "process.h"

#define PCO__DEPARTED_COUNT 256u
#define PCO__DEPARTED_BYTES (1024u * 1024) /* of their argv */

/* Keeps a process that ended; takes the reference, and forgets the oldest. */
void pco__departed_keep(pco__process *p);
/* The one that ended last with this pid, or NULL; borrowed. */
pco__process *pco__departed_find(const pco__sandbox *sb, int64_t pid);
/* The caller holds the sandbox. */
void pco__departed_forget_all(pco__sandbox *sb);

#endif /* PCO_DEPARTED_H */
