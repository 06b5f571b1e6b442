/* SPDX-License-Identifier: MIT */
/*
 * Pieces of output on their way from a process to a script.  A chunk is one
 * allocation and has one owner; it crosses threads by moving.
 */
#ifndef PCO_CHUNK_H
#define PCO_CHUNK_H

#include <stddef.h>
#include <stdint.h>

enum { PCO__STDOUT, PCO__STDERR, PCO__TERMINAL, PCO__N_STREAMS };

/* Where its bytes are kept: a terminal's are stdout's. */
static inline int pco__stream_index(uint8_t stream) {
  return stream == PCO__STDERR;
}

/* "stdout", "stderr" or "pty". */
const char *pco__stream_name(uint8_t stream);

typedef struct pco__chunk {
  struct pco__chunk *next;
  uint8_t stream; /* PCO__STDOUT, PCO__STDERR or PCO__TERMINAL */
  size_t start;   /* bytes in front that were used already */
  size_t len;     /* end of the bytes */
  char data[];
} pco__chunk;

/* Chunks in order of arrival. */
typedef struct pco__chunks {
  pco__chunk *first; /* owned */
  pco__chunk **last;
  size_t bytes;
  size_t count;
} pco__chunks;

/* Makes an empty chunk with room for `size` bytes; NULL without memory. */
pco__chunk *pco__chunk_new(uint8_t stream, size_t size);
/* Sets the length of a new chunk and gives back room that is mostly empty. */
pco__chunk *pco__chunk_trim(pco__chunk *c, size_t len);

void pco__chunks_init(pco__chunks *q);
/* Copies len bytes to a new chunk at the end; 0 or UV_ENOMEM. */
int pco__chunks_add(pco__chunks *q, uint8_t stream, const void *data,
                    size_t len);
void pco__chunks_append(pco__chunks *q, pco__chunk *c);
/* Takes the first one, or NULL. */
pco__chunk *pco__chunks_shift(pco__chunks *q);
/* Moves all of `from` behind q. */
void pco__chunks_move(pco__chunks *q, pco__chunks *from);
/* Moves all of `from` in front of q. */
void pco__chunks_move_front(pco__chunks *q, pco__chunks *from);
void pco__chunks_free(pco__chunks *q);

#endif /* PCO_CHUNK_H */
