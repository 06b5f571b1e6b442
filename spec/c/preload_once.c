/* SPDX-License-Identifier: MIT */
/*
 * Preloaded behind a sanitizer's runtime, this takes LD_PRELOAD out of the
 * environment again: the sanitizer is for the Lua under test and not for the
 * shells that a spec starts, some of which it breaks.
 */
#include <stdlib.h>

static __attribute__((constructor)) void forget(void) {
  unsetenv("LD_PRELOAD");
}
