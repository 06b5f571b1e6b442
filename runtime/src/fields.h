/* SPDX-License-Identifier: MIT */
/*
 * Looking up the fields of a frame that came from an agent.  The frame's format
 * was checked by the link; here a field is looked up by tag, once, within the
 * range that its meaning allows.
 */
#ifndef PCO_FIELDS_H
#define PCO_FIELDS_H

#include "error.h"
#include "wire.h"

/* Gives the number of a field: 1 if it is there once and <= max, 0 if it is
 * not there (*out untouched), -EPROTO if it is there twice or too big. */
int pco__field_number(const pco_wire_header *h, const uint8_t *payload,
                      uint16_t tag, uint64_t max, uint64_t *out);
/* Gives a copy (the caller frees it) of a string field, or NULL. */
char *pco__field_string(const pco_wire_header *h, const uint8_t *payload,
                        uint16_t tag);
/* The name of a PCO_LIMIT_*; NULL for none.  Static. */
const char *pco__limit_name(uint64_t limit);
/* Makes an error of an ERROR frame; NULL if the frame makes no sense. */
pco__error *pco__field_error(const pco_wire_header *h, const uint8_t *payload);

#endif /* PCO_FIELDS_H */
