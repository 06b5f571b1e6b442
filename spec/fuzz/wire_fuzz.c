/* SPDX-License-Identifier: MIT */
/*
 * Fuzzing the decoder of wire.h: any bytes are either refused or walked, within
 * their bounds, and what is walked can be written again as the same bytes.
 *
 * With libFuzzer: clang -fsanitize=fuzzer,address wire_fuzz.c wire.c.  Without:
 * -DPCO_FUZZ_STANDALONE gives a program [COUNT [SEED]] that runs random inputs.
 */
#include "../../runtime/agent/wire.h"
#include "../c/frames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool good) {
  if (!good)
    abort();
}

/* Writes a field again, as it was read. */
static void rewrite(pco_wire_buf *b, const pco_wire_field *f) {
  if (PCO_TAG_KIND(f->tag) == PCO_TAG_NUMBER)
    pco_wire_number(b, f->tag, f->number);
  else
    pco_wire_bytes(b, f->tag, f->data, f->len);
}

static void walk(const uint8_t *p, size_t size) {
  pco_wire_iter it, inner;
  pco_wire_field f, g;
  pco_wire_buf b = {0};
  bool whole = pco_wire_check(p, size) == 0;
  int rc;
  pco_wire_begin(&b, PCO_WIRE_REPLY, 0, 1);
  pco_wire_iter_init(&it, p, size);
  while ((rc = pco_wire_next(&it, &f)) == 1) {
    require(f.data >= p && f.len <= (size_t)(p + size - f.data));
    if (PCO_TAG_KIND(f.tag) == PCO_TAG_NEST) {
      pco_wire_enter(&inner, &f);
      while (pco_wire_next(&inner, &g) == 1)
        require(PCO_TAG_KIND(g.tag) != PCO_TAG_NEST);
    }
    if (PCO_TAG_KIND(f.tag) == PCO_TAG_STRING)
      (void)pco_wire_is_entry_name(&f);
    rewrite(&b, &f);
  }
  require(!whole || rc == 0);
  if (whole && size <= PCO_WIRE_MAX_PAYLOAD)
    require(pco_wire_end(&b, 0) == 0 && b.len == PCO_WIRE_HEADER + size &&
            (size == 0 || memcmp(b.data + PCO_WIRE_HEADER, p, size) == 0));
  pco_wire_buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  pco_wire_header h;
  if (size >= PCO_WIRE_HEADER && pco_wire_header_read(data, &h) == 0) {
    require(h.size <= PCO_WIRE_MAX_PAYLOAD && h.op != 0 &&
            h.n_fds <= PCO_WIRE_MAX_FDS);
    walk(data + PCO_WIRE_HEADER, size - PCO_WIRE_HEADER);
  }
  walk(data, size);
  return 0;
}

#ifdef PCO_FUZZ_STANDALONE
static uint64_t state;

static uint32_t next_random(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33);
}

/* A header that is good but for its type, at times. */
static size_t make_header(uint8_t *p) {
  uint16_t type = frames_types[next_random() % FRAMES_N_TYPES];
  memset(p, 0, PCO_WIRE_HEADER);
  p[0] = (uint8_t)(next_random() % 64);
  p[4] = (uint8_t)(next_random() % 4 ? type : next_random());
  p[6] = (uint8_t)(next_random() % 5);
  p[7] = (uint8_t)(next_random() % 3);
  p[8] = (uint8_t)(next_random() % 4);
  return PCO_WIRE_HEADER;
}

static size_t make_fields(uint8_t *p, size_t max) {
  static const uint8_t kinds[] = {0x10, 0x20, 0x30, 0x40, 0x50, 0};
  size_t n = 0;
  for (uint32_t fields = next_random() % 8; fields > 0; fields--) {
    size_t len = next_random() % 3 ? 8 : next_random() % 24;
    if (n + 8 + len > max)
      break;
    uint8_t head[8] = {(uint8_t)(next_random() % 45), kinds[next_random() % 6],
                       0, 0, (uint8_t)len};
    if (next_random() % 2) { /* a tag that there is */
      uint16_t tag = frames_tags[next_random() % FRAMES_N_TAGS];
      head[0] = (uint8_t)tag;
      head[1] = (uint8_t)(tag >> 8);
    }
    memcpy(p + n, head, 8);
    for (size_t i = 0; i < len; i++)
      p[n + 8 + i] = (uint8_t)next_random();
    n += 8 + len;
  }
  for (uint32_t k = next_random() % 3; n && k > 0; k--)
    p[next_random() % n] = (uint8_t)next_random();
  return n && next_random() % 8 == 0 ? next_random() % n : n;
}

/* Bytes that look like fields often enough to get past the first check; some
 * with a header of any type before them. */
static size_t make_input(uint8_t *p, size_t max) {
  size_t head = next_random() % 2 ? make_header(p) : 0;
  return head + make_fields(p + head, max - head);
}

int main(int argc, char **argv) {
  long count = argc > 1 ? atol(argv[1]) : 200000;
  state = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
  printf("# seed %llu, %ld inputs\n", (unsigned long long)state, count);
  for (long i = 0; i < count; i++) {
    uint8_t input[512];
    size_t n = make_input(input, sizeof input);
    uint8_t *exact = malloc(n ? n : 1); /* so that a sanitizer sees the end */
    if (!exact)
      return 1;
    memcpy(exact, input, n);
    LLVMFuzzerTestOneInput(exact, n);
    free(exact);
  }
  printf("ok 1 - no input broke the decoder\n1..1\n");
  return 0;
}
#endif
