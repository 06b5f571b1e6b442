/* SPDX-License-Identifier: MIT */
/*
 * The wire format: what is written is read again, and what is broken in any
 * way is refused.  usage: wire_test [SEED]
 */
#include "../../runtime/agent/wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int failed, count;

static void ok(bool good, const char *text) {
  printf("%sok %d - %s\n", good ? "" : "not ", ++count, text);
  failed += !good;
}

/* ---- helpers ------------------------------------------------------------ */

static uint64_t state;

static uint32_t next_random(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33);
}

/* A copy of exactly the payload, so that a sanitizer sees a read past it. */
static uint8_t *copy(const uint8_t *p, size_t len) {
  uint8_t *q = malloc(len ? len : 1);
  if (!q)
    exit(1);
  if (len)
    memcpy(q, p, len);
  return q;
}

static int check_copy(const uint8_t *p, size_t len) {
  uint8_t *q = copy(p, len);
  int rc = pco_wire_check(q, len);
  free(q);
  return rc;
}

static void entry(pco_wire_buf *b, const char *name) {
  pco_wire_nest_begin(b, PCO_TAG_ENTRY);
  pco_wire_string(b, PCO_TAG_NAME, name);
  pco_wire_number(b, PCO_TAG_SIZE, 42);
  pco_wire_nest_end(b);
}

/* A frame with a field of every kind. */
static void build(pco_wire_buf *b) {
  pco_wire_begin(b, PCO_WIRE_REPLY, PCO_WIRE_MORE, 77);
  pco_wire_number(b, PCO_TAG_PID, UINT64_C(0x0102030405060708));
  pco_wire_string(b, PCO_TAG_PATH, "a/b");
  pco_wire_bytes(b, PCO_TAG_DATA, "x\0y", 3);
  entry(b, "one");
  entry(b, "two");
  pco_wire_string(b, PCO_TAG_MESSAGE, "");
  pco_wire_end(b, 2);
}

/* ---- tests -------------------------------------------------------------- */

static void test_round_trip(void) {
  pco_wire_buf b = {0};
  build(&b);
  pco_wire_header h;
  ok(b.error == 0 && pco_wire_header_read(b.data, &h) == 0, "a header");
  ok(h.size == b.len - PCO_WIRE_HEADER && h.type == PCO_WIRE_REPLY &&
         h.n_fds == 2 && h.flags == PCO_WIRE_MORE && h.op == 77,
     "is read as it was written");
  uint16_t tags[] = {PCO_TAG_PID,   PCO_TAG_PATH,  PCO_TAG_DATA,
                     PCO_TAG_ENTRY, PCO_TAG_ENTRY, PCO_TAG_MESSAGE};
  pco_wire_iter it;
  pco_wire_field f;
  bool good = true;
  pco_wire_iter_init(&it, b.data + PCO_WIRE_HEADER, h.size);
  for (size_t i = 0; i < 6; i++) {
    good = good && pco_wire_next(&it, &f) == 1 && f.tag == tags[i];
    if (i == 0)
      good = good && f.number == UINT64_C(0x0102030405060708);
    if (i == 1)
      good = good && f.len == 3 && memcmp(f.data, "a/b", 3) == 0;
    if (i == 2)
      good = good && f.len == 3 && memcmp(f.data, "x\0y", 3) == 0;
    if (i == 3) {
      pco_wire_iter in;
      pco_wire_field g;
      pco_wire_enter(&in, &f);
      good = good && pco_wire_next(&in, &g) == 1 && g.tag == PCO_TAG_NAME;
      good = good && pco_wire_next(&in, &g) == 1 && g.number == 42;
      good = good && pco_wire_next(&in, &g) == 0;
    }
  }
  ok(good && f.len == 0 && pco_wire_next(&it, &f) == 0, "and so are fields");
  ok(pco_wire_check(b.data + PCO_WIRE_HEADER, h.size) == 0, "check agrees");
  pco_wire_begin(&b, PCO_WIRE_PING, 0, 1);
  ok(pco_wire_end(&b, 0) == 0 && b.len == PCO_WIRE_HEADER,
     "a buffer can be used again, and a frame be empty");
  pco_wire_buf_free(&b);
}

/* The bytes themselves: another implementation must agree with them. */
static void test_bytes(void) {
  static const uint8_t want[] = {
      16, 0,  0, 0, 17, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0,  /* header */
      11, 16, 0, 0, 8,  0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0}; /* SIGNO 9 */
  pco_wire_buf b = {0};
  pco_wire_begin(&b, PCO_WIRE_SIGNAL, 0, 5);
  pco_wire_number(&b, PCO_TAG_SIGNO, 9);
  pco_wire_end(&b, 0);
  ok(b.len == sizeof want && memcmp(b.data, want, sizeof want) == 0,
     "the bytes are those of the specification");
  pco_wire_buf_free(&b);
}

/* Cut anywhere, a payload is either broken or ends with a whole field. */
static void test_truncated(void) {
  pco_wire_buf b = {0};
  build(&b);
  size_t len = b.len - PCO_WIRE_HEADER, whole = 0;
  const uint8_t *p = b.data + PCO_WIRE_HEADER;
  bool good = true;
  for (size_t n = 0; n <= len; n++) {
    int rc = check_copy(p, n);
    good = good && (rc == 0 || rc == -EPROTO);
    whole += rc == 0;
  }
  ok(good, "cut at every byte");
  ok(whole == 7, "it is whole only between fields");
  pco_wire_buf_free(&b);
}

static int header(uint32_t size, uint8_t n_fds, uint8_t flags, uint64_t op) {
  uint8_t bytes[16] = {0};
  pco_wire_header h;
  for (int i = 0; i < 4; i++)
    bytes[i] = (uint8_t)(size >> 8 * i);
  bytes[6] = n_fds;
  bytes[7] = flags;
  for (int i = 0; i < 8; i++)
    bytes[8 + i] = (uint8_t)(op >> 8 * i);
  return pco_wire_header_read(bytes, &h);
}

static void test_headers(void) {
  ok(header(PCO_WIRE_MAX_PAYLOAD, 3, 1, UINT64_MAX) == 0, "the bounds");
  ok(header(PCO_WIRE_MAX_PAYLOAD + 1, 0, 0, 1) == -EPROTO, "size");
  ok(header(UINT32_MAX, 0, 0, 1) == -EPROTO, "size 2^32-1");
  ok(header(0, 4, 0, 1) == -EPROTO, "four descriptors");
  ok(header(0, 0, 2, 1) == -EPROTO, "an unknown flag");
  ok(header(0, 0, 0, 0) == -EPROTO, "op 0");
}

static int check_field(uint16_t tag, uint16_t zero, uint32_t len,
                       const void *data, size_t given) {
  uint8_t bytes[64] = {(uint8_t)tag, (uint8_t)(tag >> 8), (uint8_t)zero,
                       (uint8_t)(zero >> 8)};
  for (int i = 0; i < 4; i++)
    bytes[4 + i] = (uint8_t)(len >> 8 * i);
  if (given)
    memcpy(bytes + 8, data, given);
  return check_copy(bytes, 8 + given);
}

static void test_fields(void) {
  ok(check_field(PCO_TAG_PATH, 0, 3, "a\0b", 3) == -EPROTO, "NUL in a string");
  ok(check_field(PCO_TAG_DATA, 0, 3, "a\0b", 3) == 0, "but not in bytes");
  ok(check_field(PCO_TAG_PID, 0, 4, "abcd", 4) == -EPROTO, "a short number");
  ok(check_field(PCO_TAG_PID, 0, 9, "123456789", 9) == -EPROTO, "a long one");
  ok(check_field(PCO_TAG_PATH, 1, 1, "a", 1) == -EPROTO, "padding not zero");
  ok(check_field(PCO_TAG_PATH, 0, UINT32_MAX, "a", 1) == -EPROTO,
     "a length of 2^32-1");
  ok(check_field(PCO_TAG_PATH, 0, 2, "a", 1) == -EPROTO, "a length too long");
  ok(check_field(0x5001, 0, 0, "", 0) == -EPROTO, "an unknown kind");
  ok(check_field(0x0001, 0, 0, "", 0) == -EPROTO, "kind 0");
  ok(check_field(PCO_TAG_STRING + 999, 0, 1, "a", 1) == 0,
     "an unknown tag of a known kind is skipped");
}

static void test_nesting(void) {
  pco_wire_buf in = {0}, b = {0};
  pco_wire_begin(&in, PCO_WIRE_REPLY, 0, 1);
  entry(&in, "x");
  pco_wire_end(&in, 0);
  pco_wire_begin(&b, PCO_WIRE_REPLY, 0, 1);
  pco_wire_bytes(&b, PCO_TAG_ENTRY, in.data + PCO_WIRE_HEADER,
                 in.len - PCO_WIRE_HEADER);
  pco_wire_end(&b, 0);
  ok(check_copy(b.data + PCO_WIRE_HEADER, b.len - PCO_WIRE_HEADER) == -EPROTO,
     "an entry in an entry");
  ok(check_field(PCO_TAG_ENTRY, 0, 3, "abc", 3) == -EPROTO,
     "an entry of garbage");
  ok(check_field(PCO_TAG_ENTRY, 0, 0, "", 0) == 0, "an empty entry");
  pco_wire_buf_free(&in);
  pco_wire_buf_free(&b);
}

static bool name_is_good(const char *s) {
  pco_wire_field f = {.tag = PCO_TAG_NAME,
                      .len = (uint32_t)strlen(s),
                      .data = (const uint8_t *)s};
  return pco_wire_is_entry_name(&f);
}

static void test_names(void) {
  ok(name_is_good("a") && name_is_good("...") && name_is_good(".a") &&
         name_is_good("..a") && name_is_good("\n") && name_is_good("\xff"),
     "names");
  ok(!name_is_good("") && !name_is_good(".") && !name_is_good("..") &&
         !name_is_good("a/b") && !name_is_good("/"),
     "no names");
}

static void test_encoder_errors(void) {
  pco_wire_buf b = {0};
  pco_wire_begin(&b, PCO_WIRE_REPLY, 0, 1);
  pco_wire_bytes(&b, PCO_TAG_PATH, "a\0b", 3);
  pco_wire_number(&b, PCO_TAG_PID, 1);
  ok(pco_wire_end(&b, 0) == -EINVAL, "NUL in a string sticks");
  char *big = calloc(1, PCO_WIRE_MAX_PAYLOAD);
  pco_wire_begin(&b, PCO_WIRE_REPLY, 0, 1);
  ok(b.error == 0, "until the next frame");
  pco_wire_bytes(&b, PCO_TAG_DATA, big, PCO_WIRE_MAX_PAYLOAD - 8);
  ok(pco_wire_end(&b, 0) == 0, "the largest payload");
  pco_wire_number(&b, PCO_TAG_PID, 1);
  ok(pco_wire_end(&b, 0) == -EMSGSIZE, "and one field more");
  free(big);
  pco_wire_buf_free(&b);
}

/* Whatever is changed, moved or cut, the walk ends and stays inside. */
static void test_mutations(void) {
  pco_wire_buf b = {0};
  build(&b);
  size_t len = b.len - PCO_WIRE_HEADER;
  size_t accepted = 0;
  for (int i = 0; i < 100000; i++) {
    size_t n = next_random() % 8 == 0 ? next_random() % (len + 1) : len;
    uint8_t *p = copy(b.data + PCO_WIRE_HEADER, n);
    for (uint32_t k = next_random() % 4 + 1; n && k > 0; k--)
      p[next_random() % n] = (uint8_t)next_random();
    if (n > 32 && next_random() % 4 == 0) /* reorder */
      memmove(p + next_random() % (n - 16), p + next_random() % (n - 16), 16);
    pco_wire_iter it;
    pco_wire_field f;
    int rc, fields = 0;
    pco_wire_iter_init(&it, p, n);
    while ((rc = pco_wire_next(&it, &f)) == 1 && fields++ < 1000)
      if (f.data < p || f.data + f.len > p + n)
        exit(3);
    accepted += pco_wire_check(p, n) == 0;
    free(p);
  }
  ok(accepted > 0 && accepted < 100000, "100,000 mutations");
  pco_wire_buf_free(&b);
}

int main(int argc, char **argv) {
  state = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL);
  printf("# seed %llu\n", (unsigned long long)state);
  test_round_trip();
  test_bytes();
  test_truncated();
  test_headers();
  test_fields();
  test_nesting();
  test_names();
  test_encoder_errors();
  test_mutations();
  printf("1..%d\n", count);
  return failed ? 1 : 0;
}
