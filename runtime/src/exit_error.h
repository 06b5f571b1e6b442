/* SPDX-License-Identifier: MIT */
/*
 * The ExitError of a command: how it ended, and the last line that it wrote to
 * its standard error, which mostly says why.
 *
 * That line comes from inside: what a terminal might obey is escaped, and no
 * more than PCO__LAST_LINE bytes are shown.
 */
#ifndef PCO_EXIT_ERROR_H
#define PCO_EXIT_ERROR_H

#include "error.h"

#include <stdbool.h>
#include <stddef.h>

#define PCO__LAST_LINE 200

typedef struct pco__exit_words {
  const char *path; /* the program, or NULL */
  int code;
  const char *signal; /* its name, or NULL */
  bool oom;
  const char *err; /* standard error, len bytes */
  size_t len;
} pco__exit_words;

/* All is borrowed.  [any] */
pco__error *pco__exit_error(const pco__exit_words *w);

#endif /* PCO_EXIT_ERROR_H */
