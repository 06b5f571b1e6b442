/* SPDX-License-Identifier: MIT */
/*
 * A request of the host, checked.
 *
 * Invariant: pco_request_parse() is the only way from bytes to a request.  One
 * that it lets through has every field that its type needs, none twice, every
 * number in range and as many descriptors as its STDIO says; the rest of the
 * agent does not check again.  Agent and supervisor both call it.
 */
#ifndef PCO_REQUEST_H
#define PCO_REQUEST_H

#include "channel.h"

#include <stdbool.h>
#include <stdint.h>

#define PCO_MAX_TIME UINT64_C(1000000000000000000) /* ns, about 31 years */

/* Bytes inside the frame, without a NUL at the end. */
typedef struct pco_text {
  const char *s; /* NULL if the field was not given */
  size_t len;
} pco_text;

typedef struct pco_request {
  uint16_t type;
  bool more; /* of a DATA frame */
  uint64_t op;
  uint64_t number[40]; /* by tag - PCO_TAG_NUMBER */
  uint64_t given;      /* bit n: number[n] was given */
  uint32_t n_argv;
  uint32_t n_env;
  uint8_t stdio[3];
  pco_text text[16]; /* by tag - PCO_TAG_STRING; the last of ARGV and ENV */
  pco_text data;
  int pipe; /* for contents: borrowed from the frame; -1: none */
} pco_request;

/* Checks f and fills r, which borrows from it: 0 or -EPROTO. */
int pco_request_parse(const pco_frame *f, pco_request *r);
/* The same for a request that the agent passes on: it has the descriptors of
 * the relayed streams, too (relay.h). */
int pco_request_parse_passed(const pco_frame *f, pco_request *r);

static inline bool pco_request_has(const pco_request *r, uint16_t tag) {
  return (r->given >> (tag - PCO_TAG_NUMBER) & 1) != 0;
}
/* PACK, UNPACK or SURVEY. */
static inline bool pco_request_moves_tree(uint16_t type) {
  return type >= PCO_WIRE_PACK && type <= PCO_WIRE_SURVEY;
}
/* The number, or 0 if it was not given. */
static inline uint64_t pco_request_number(const pco_request *r, uint16_t tag) {
  return r->number[tag - PCO_TAG_NUMBER];
}
static inline pco_text pco_request_text(const pco_request *r, uint16_t tag) {
  return r->text[tag - PCO_TAG_STRING];
}

#endif /* PCO_REQUEST_H */
