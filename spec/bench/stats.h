/* SPDX-License-Identifier: MIT */
/* Time and medians, for the floor programs.  They print numbers only:
 * microseconds, or MB/s, which run.lua reads. */
#ifndef BENCH_STATS_H
#define BENCH_STATS_H

#include <stdlib.h>
#include <time.h>

static inline double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Sorts the samples. */
static inline double median(double *samples, size_t n) {
  qsort(samples, n, sizeof *samples, compare_doubles);
  return samples[n / 2];
}

#endif /* BENCH_STATS_H */
