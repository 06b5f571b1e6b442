/* SPDX-License-Identifier: MIT */
/*
 * Patterns of file names, by bytes: "*", "?", "[a-z]", "[!a-z]", "\" before a
 * byte that is meant as itself, and "**" for any directories between.
 */
#ifndef PCO_GLOB_H
#define PCO_GLOB_H

#include <stdbool.h>
#include <stddef.h>

/* One component of a pattern. */
typedef struct pco__glob_part {
  enum {
    PCO__GLOB_LITERAL,  /* this name */
    PCO__GLOB_WILDCARD, /* the names that match */
    PCO__GLOB_ANY_DEPTH /* "**" */
  } kind;
  const char *text; /* of a literal without its backslashes */
} pco__glob_part;

/* Says whether a name matches a component; a name that begins with a dot does
 * only if the component begins with one, too, or `hidden`. */
bool pco__glob_matches(const pco__glob_part *part, const char *name,
                       bool hidden);
/* Takes a pattern apart, in place; "." and repeated "**" are left out.  Gives
 * the number of parts, or -1 if there are more than `max`. */
int pco__glob_split(char *pattern, pco__glob_part *parts, int max);

#endif /* PCO_GLOB_H */
