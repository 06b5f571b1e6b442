/* SPDX-License-Identifier: MIT */
/* SHA-256 (FIPS 180-4), to tell whether two files hold the same. */
#ifndef PCO_SHA256_H
#define PCO_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define PCO_SHA256_HEX 65 /* with its NUL */

typedef struct pco_sha256 {
  uint32_t state[8];
  uint64_t len;
  uint8_t block[64];
} pco_sha256;

void pco_sha256_begin(pco_sha256 *s);
void pco_sha256_add(pco_sha256 *s, const void *p, size_t len);
void pco_sha256_end(pco_sha256 *s, char hex[PCO_SHA256_HEX]);

#endif /* PCO_SHA256_H */
