/* SPDX-License-Identifier: MIT */
/*
 * Files of machine code: where ours is, and whether another one is fit to be
 * loaded into this process.
 */
#ifndef PCO_SYS_IMAGE_H
#define PCO_SYS_IMAGE_H

#include <stddef.h>

/* Finds the absolute path, without links, of the file that the code or data at
 * address was loaded from.  Returns 0 or a negative code.  [any] */
int pco__image_path(const void *address, char *out, size_t size);

/* What a look into a shared library finds, without running a line of it. */
typedef struct pco__image_facts {
  int has_symbol; /* 1: it defines the symbol; 0: not; -1: cannot tell */
  char other[64]; /* another defined symbol with the same prefix, or "" */
} pco__image_facts;

/* Checks that the regular file at path is a whole shared library for this
 * machine: the loader of the C library dies by SIGBUS on a cut one, and tells
 * a foreign machine as "no such file".  Looks for the symbol, and for others
 * that begin with its first prefix_len letters.  Returns 0, or a negative code
 * and a text.  [any] */
int pco__image_check(const char *path, const char *symbol, size_t prefix_len,
                     pco__image_facts *out, char *why, size_t why_size);

#endif /* PCO_SYS_IMAGE_H */
