/* SPDX-License-Identifier: MIT */
/*
 * TAP for test programs of one file, and the end of those that cannot go on.
 */
#ifndef TAP_H
#define TAP_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define REQUIRE(x)                                                             \
  do {                                                                         \
    if (!(x)) {                                                                \
      printf("Bail out! %s:%d: %s\n", __FILE__, __LINE__, #x);                 \
      fflush(stdout);                                                          \
      abort();                                                                 \
    }                                                                          \
  } while (0)

static int tap_count, tap_failed;

__attribute__((unused)) static void check(bool ok, const char *what) {
  printf("%sok %d - %s\n", ok ? "" : "not ", ++tap_count, what);
  tap_failed += !ok;
}

__attribute__((unused)) static int tap_end(void) {
  printf("1..%d\n", tap_count);
  return tap_failed != 0;
}

#endif /* TAP_H */
