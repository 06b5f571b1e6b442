/* SPDX-License-Identifier: MIT */
/* The library that needs_library.c misses: to be built as libportico-nope.so in
 * a directory that no RUNPATH names. */
int portico_spec_nope(void);

__attribute__((visibility("default"))) int portico_spec_nope(void) {
  return 0;
}
