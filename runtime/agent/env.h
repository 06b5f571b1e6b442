/* SPDX-License-Identifier: MIT */
/*
 * The environment of a command: the agent's own, changed by the request.
 *
 * Invariant: the result holds every key at most once, and the strings in it
 * are borrowed from the inputs.
 */
#ifndef PCO_ENV_H
#define PCO_ENV_H

#include <stddef.h>

/* Merges `changes` ("K=V" sets, "K" removes, the last of a key wins) into
 * `base` (or into nothing, if base is NULL).  Both end with NULL.  The array is
 * the caller's to free; NULL if there is no memory. */
char **pco_env_merge(char *const *base, char *const *changes);

/* The value of a key, or NULL. */
const char *pco_env_get(char *const *env, const char *key);

#endif /* PCO_ENV_H */
