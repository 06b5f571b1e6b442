/* SPDX-License-Identifier: MIT */
/*
 * See sha256.h.
 */
#include "sha256.h"

#include <stdio.h>
#include <string.h>

static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t right(uint32_t x, unsigned n) {
  return x >> n | x << (32 - n);
}

static uint32_t big_endian(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 |
         p[3];
}

static void spread(const uint8_t block[64], uint32_t w[64]) {
  for (int i = 0; i < 16; i++)
    w[i] = big_endian(block + (ptrdiff_t)i * 4);
  for (int i = 16; i < 64; i++) {
    uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + w[i - 7] + (right(a, 7) ^ right(a, 18) ^ a >> 3) +
           (right(b, 17) ^ right(b, 19) ^ b >> 10);
  }
}

static void mix(pco_sha256 *s, const uint8_t block[64]) {
  uint32_t w[64], v[8];
  spread(block, w);
  memcpy(v, s->state, sizeof v);
  for (int i = 0; i < 64; i++) {
    uint32_t e = v[4], a = v[0];
    uint32_t x = v[7] + (right(e, 6) ^ right(e, 11) ^ right(e, 25)) +
                 ((e & v[5]) ^ (~e & v[6])) + K[i] + w[i];
    uint32_t y = (right(a, 2) ^ right(a, 13) ^ right(a, 22)) +
                 ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
    memmove(v + 1, v, 7 * sizeof *v);
    v[4] += x;
    v[0] = x + y;
  }
  for (int i = 0; i < 8; i++)
    s->state[i] += v[i];
}

void pco_sha256_begin(pco_sha256 *s) {
  static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372,
                                    0xa54ff53a, 0x510e527f, 0x9b05688c,
                                    0x1f83d9ab, 0x5be0cd19};
  memcpy(s->state, first, sizeof first);
  s->len = 0;
}

void pco_sha256_add(pco_sha256 *s, const void *p, size_t len) {
  const uint8_t *from = p;
  while (len > 0) {
    size_t at = s->len % 64;
    size_t n = 64 - at < len ? 64 - at : len;
    memcpy(s->block + at, from, n);
    s->len += n;
    from += n;
    len -= n;
    if (s->len % 64 == 0)
      mix(s, s->block);
  }
}

void pco_sha256_end(pco_sha256 *s, char hex[PCO_SHA256_HEX]) {
  uint64_t bits = s->len * 8;
  uint8_t size[8];
  for (int i = 0; i < 8; i++)
    size[i] = (uint8_t)(bits >> (56 - 8 * i));
  pco_sha256_add(s, "\x80", 1);
  while (s->len % 64 != 56)
    pco_sha256_add(s, "", 1);
  pco_sha256_add(s, size, sizeof size);
  for (int i = 0; i < 8; i++)
    snprintf(hex + (ptrdiff_t)i * 8, 9, "%08x", s->state[i]);
}
