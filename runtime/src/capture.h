/* SPDX-License-Identifier: MIT */
/*
 * What is kept of one output stream within a bound: its head and its tail, half
 * of the bound each; the middle is dropped and counted.
 */
#ifndef PCO_CAPTURE_H
#define PCO_CAPTURE_H

#include <stddef.h>
#include <stdint.h>

typedef struct pco__capture {
  char *data; /* owned; [0, head) head, [head, max) a ring of the tail */
  size_t max;
  size_t len; /* bytes held */
  size_t cap;
  size_t ring;      /* where the next byte of the tail goes, once full */
  uint64_t dropped; /* bytes that are neither in the head nor in the tail */
} pco__capture;

void pco__capture_init(pco__capture *c, size_t max);
/* Adds bytes; 0 or UV_ENOMEM (then they count as dropped). */
int pco__capture_add(pco__capture *c, const char *data, size_t len);
/* How much is in front of the gap. */
size_t pco__capture_head(const pco__capture *c);
/* Puts the tail in order, so that data[0, len) is head and tail. */
void pco__capture_finish(pco__capture *c);
void pco__capture_free(pco__capture *c);

#endif /* PCO_CAPTURE_H */
