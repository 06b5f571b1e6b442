/* SPDX-License-Identifier: MIT */
/*
 * The place of a command among cgroups: its SPAWN is held back until the keeper
 * has made the leaves that its supervisor, and it itself, are to be in
 * (leaves.h); then they go to the supervisor, and the SPAWN behind them.
 */
#ifndef PCO_PLACES_H
#define PCO_PLACES_H

#include "cgroup.h"
#include "clock.h"
#include "commands.h"
#include "request.h"

#include <stdbool.h>

/* That the keeper may be silent while somebody waits for it. */
#define PCO_PLACE_TIME (10 * PCO_S)

/* Holds the SPAWN in f for s and asks for what it needs; f's descriptors are
 * s's then. */
void pco_places_begin(struct pco_agent *a, pco_sup *s, pco_frame *f,
                      const pco_request *r);
/* The keeper's answer for a supervisor that waits for it; the descriptors
 * become ours. */
void pco_places_answer(struct pco_agent *a, pco_sup *s, bool own,
                       const pco_cgroup_answer *answer, const int *fds,
                       unsigned n_fds);
/* Refuses a SPAWN for limits that want a cgroup, where there is no keeper. */
void pco_places_refuse(struct pco_agent *a, uint64_t op, uint32_t limits);
/* Forgets what is held for s, which is going. */
void pco_places_drop(pco_sup *s);

#endif /* PCO_PLACES_H */
