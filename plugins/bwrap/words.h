/* SPDX-License-Identifier: MIT */
/*
 * Lists of words for another program, NUL-terminated one after the other, as
 * they travel in a memfd: the keeper's (keeper.h) and bubblewrap's (--args).
 * Nothing of them appears in a command line that the whole machine can read.
 */
#ifndef BWRAP_WORDS_H
#define BWRAP_WORDS_H

#include <stddef.h>

#include "portico/plugin_util.h"

/* Zeroed is empty.  The first failure sticks. */
typedef struct bwrap_words {
  char *data; /* owned */
  size_t len, room;
  int error; /* 0 or UV_ENOMEM */
} bwrap_words;

void bwrap_words_add(bwrap_words *w, const char *word);
/* Adds several, up to a NULL. */
void bwrap_words_add_all(bwrap_words *w, ...) __attribute__((sentinel));
PCO_PRINTF(2, 3)
void bwrap_words_addf(bwrap_words *w, const char *fmt, ...);
/* Gives a new memfd, O_CLOEXEC, with the words at its start, or a negative
 * code. */
int bwrap_words_memfd(const bwrap_words *w, const char *name);
void bwrap_words_deinit(bwrap_words *w);

/* The same for any text. */
int bwrap_text_memfd(const char *name, const char *text, size_t len);

#endif /* BWRAP_WORDS_H */
