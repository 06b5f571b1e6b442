/* SPDX-License-Identifier: MIT */
/*
 * A bump allocator for the arguments of one op: many small strings and arrays
 * that are made on the caller's thread, read on the loop's thread and freed
 * together.  A failed allocation sticks, so that callers check once.
 */
#ifndef PCO_ARENA_H
#define PCO_ARENA_H

#include <stdbool.h>
#include <stddef.h>

typedef struct pco__arena {
  struct pco__arena_block *blocks; /* owned */
  size_t left;                     /* bytes free in the first block */
  bool failed;                     /* an allocation failed */
} pco__arena;                      /* zeroed is empty */

/* Returns `size` zeroed bytes, aligned for anything, or NULL without memory. */
void *pco__arena_alloc(pco__arena *a, size_t size);
/* Copies len bytes and adds a NUL. */
char *pco__arena_copy(pco__arena *a, const char *s, size_t len);
/* Copies a C string. */
char *pco__arena_string(pco__arena *a, const char *s);
/* Frees everything; the arena is empty then. */
void pco__arena_free(pco__arena *a);

#endif /* PCO_ARENA_H */
