/* SPDX-License-Identifier: MIT */
/*
 * A PNG without a library: each row is a stored block of deflate, which needs
 * no compression, only two checksums.
 */
#include "png.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The file that is being written, with the checksum of the chunk. */
typedef struct output {
  FILE *file;
  uint32_t crc;
  uint32_t a, b; /* Adler-32, of the rows */
} output;

static void put(output *o, const void *data, size_t len) {
  const unsigned char *p = data;
  for (size_t i = 0; i < len; i++) {
    o->crc ^= p[i];
    for (int bit = 0; bit < 8; bit++)
      o->crc = o->crc >> 1 ^ (o->crc & 1 ? 0xedb88320u : 0);
  }
  fwrite(data, 1, len, o->file);
}

static void put_number(output *o, uint32_t n) {
  unsigned char bytes[4] = {(unsigned char)(n >> 24), (unsigned char)(n >> 16),
                            (unsigned char)(n >> 8), (unsigned char)n};
  put(o, bytes, sizeof bytes);
}

static void begin_chunk(output *o, const char *type, uint32_t len) {
  put_number(o, len);
  o->crc = 0xffffffffu;
  put(o, type, 4);
}

static void end_chunk(output *o) {
  put_number(o, ~o->crc);
}

static void put_header(output *o, const canvas *c) {
  static const unsigned char signature[] = {137, 'P', 'N', 'G', 13, 10, 26, 10};
  static const unsigned char rgb8[] = {8, 2, 0, 0, 0};
  put(o, signature, sizeof signature);
  begin_chunk(o, "IHDR", 13);
  put_number(o, (uint32_t)c->width);
  put_number(o, (uint32_t)c->height);
  put(o, rgb8, sizeof rgb8);
  end_chunk(o);
}

static void sum_row(output *o, const unsigned char *row, size_t len) {
  for (size_t i = 0; i < len; i++) {
    o->a = (o->a + row[i]) % 65521;
    o->b = (o->b + o->a) % 65521;
  }
}

/* A row: 0, for no filter, and its colours. */
static void fill_row(const canvas *c, int y, unsigned char *row) {
  *row++ = 0;
  for (int x = 0; x < c->width; x++) {
    uint32_t color = c->pixels[y * c->width + x];
    *row++ = (unsigned char)(color >> 16);
    *row++ = (unsigned char)(color >> 8);
    *row++ = (unsigned char)color;
  }
}

static void put_rows(output *o, const canvas *c, unsigned char *row,
                     size_t len) {
  const unsigned char zlib[] = {0x78, 0x01};
  begin_chunk(o, "IDAT", (uint32_t)(2 + (5 + len) * (size_t)c->height + 4));
  put(o, zlib, sizeof zlib);
  for (int y = 0; y < c->height; y++) {
    unsigned char block[] = {y == c->height - 1, (unsigned char)len,
                             (unsigned char)(len >> 8), (unsigned char)~len,
                             (unsigned char)(~len >> 8)};
    fill_row(c, y, row);
    sum_row(o, row, len);
    put(o, block, sizeof block);
    put(o, row, len);
  }
  put_number(o, o->b << 16 | o->a);
  end_chunk(o);
}

int png_write(const canvas *c, const char *path) {
  size_t len = 1 + 3 * (size_t)c->width; /* of a row; a block has 64 KiB */
  unsigned char *row = malloc(len);
  output o = {.file = row ? fopen(path, "wb") : NULL, .a = 1};
  if (!o.file) {
    free(row);
    return -1;
  }
  put_header(&o, c);
  put_rows(&o, c, row, len);
  begin_chunk(&o, "IEND", 0);
  end_chunk(&o);
  free(row);
  int failed = ferror(o.file);
  return fclose(o.file) != 0 || failed ? -1 : 0;
}
