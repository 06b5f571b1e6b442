/* SPDX-License-Identifier: MIT */
/*
 * The one clock of the agent: CLOCK_MONOTONIC in nanoseconds, as int64_t.
 * Invariant: PCO_NEVER sorts after every time that can be reached, and no sum
 * of a time and a duration that was checked (request.c) overflows.
 */
#ifndef PCO_CLOCK_H
#define PCO_CLOCK_H

#include <stdint.h>
#include <time.h>

#define PCO_NEVER INT64_MAX
#define PCO_MS    INT64_C(1000000)
#define PCO_S     INT64_C(1000000000)

static inline int64_t pco_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * PCO_S + t.tv_nsec;
}

/* What is left until `at`, never negative. */
static inline struct timespec pco_until(int64_t at) {
  int64_t left = at - pco_now();
  if (left < 0)
    left = 0;
  return (struct timespec){.tv_sec = (time_t)(left / PCO_S),
                           .tv_nsec = (long)(left % PCO_S)};
}

#endif /* PCO_CLOCK_H */
