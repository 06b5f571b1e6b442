/* SPDX-License-Identifier: MIT */
/*
 * The newest bytes of a stream that nobody reads for now: at most
 * PCO_RELAY_CREDIT, older ones are dropped.
 */
#ifndef PCO_RING_H
#define PCO_RING_H

#include <stddef.h>
#include <stdint.h>

typedef struct pco_ring {
  uint8_t *data; /* of PCO_RELAY_CREDIT bytes; owned; NULL: none yet */
  size_t at;     /* of the first */
  size_t len;
} pco_ring;

/* Makes its memory, once: 0 or -ENOMEM. */
int pco_ring_init(pco_ring *g);
void pco_ring_free(pco_ring *g);
/* Adds at most as many bytes as it holds; how many old ones it dropped. */
size_t pco_ring_add(pco_ring *g, const uint8_t *data, size_t len);
/* The oldest bytes that lie in one piece, at most `most`; how many. */
size_t pco_ring_peek(const pco_ring *g, size_t most, const uint8_t **data);
/* Takes the n oldest out. */
void pco_ring_take(pco_ring *g, size_t n);

#endif /* PCO_RING_H */
