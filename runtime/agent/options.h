/* SPDX-License-Identifier: MIT */
/*
 * Values of the agent's options that are numbers or lists.
 */
#ifndef PCO_OPTIONS_H
#define PCO_OPTIONS_H

#include "launch.h"

#include <stdbool.h>
#include <stdint.h>

/* A number without a sign; false if it is not that. */
bool pco_parse_number(const char *text, uint64_t *out);
/* "memory=BYTES,pids=N,open_files=N", some of them; false if it is not that. */
bool pco_parse_limits(const char *text, pco_rlimits *out);
/* "none", "memory", "pids" or "memory,pids", as PCO_KEEPER_LIMIT_*. */
bool pco_parse_emulated(const char *text, uint32_t *out);

#endif /* PCO_OPTIONS_H */
