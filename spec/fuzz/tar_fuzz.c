/* SPDX-License-Identifier: MIT */
/*
 * Fuzzing the reader of tars: any bytes are either refused or read, and what is
 * given as an entry is within its bounds.
 *
 * With libFuzzer: clang -fsanitize=fuzzer,address tar_fuzz.c.
 * Without: -DPCO_FUZZ_STANDALONE gives a program [COUNT [SEED]] that runs
 * random inputs, made of headers that are nearly right.
 */
#include "../../runtime/agent/through.c"

#include "../../runtime/agent/tar_read.c"

#include <stdio.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool good) {
  if (!good)
    abort();
}

static int never(pco_tar_wait *w, int fd, short events) {
  (void)w;
  (void)fd;
  (void)events;
  return -ECANCELED;
}

static void check(const pco_tar_entry *e) {
  uint64_t sum = 0;
  require(strlen(e->path) < PCO_TAR_MAX_PATH && e->mode <= 07777 &&
          e->mtime_ns < 1000000000u);
  require(!e->link || strlen(e->link) < PCO_TAR_MAX_PATH);
  require(!e->digest || strlen(e->digest) <= DIGEST_SIZE);
  for (size_t i = 0; e->data && i < e->n_data; i++) {
    require(e->data[i].offset + e->data[i].size <= e->size);
    sum += e->data[i].size;
  }
  require(!e->data || sum == e->stored);
  require(e->type == PCO_TAR_FILE || (e->stored == 0 && !e->data));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static int fd = -1;
  static pco_tar_in in;
  pco_tar_wait wait = {never};
  pco_tar_entry e;
  uint8_t block[100];
  if (fd < 0)
    fd = memfd_create("tar", MFD_CLOEXEC);
  require(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size &&
          lseek(fd, 0, SEEK_SET) == 0);
  memset(&in, 0, offsetof(pco_tar_in, buf));
  in.fd = fd;
  in.wait = &wait;
  require(pco_tar_in_init(&in) == 0);
  int rc, n = 0;
  while ((rc = pco_tar_next(&in, &e)) == 1) {
    check(&e);
    ssize_t got = pco_tar_read(&in, block, sizeof block);
    require(got <= (ssize_t)sizeof block && ++n < 1000);
  }
  require(rc <= 0 && (rc != -EBADMSG || in.why));
  pco_tar_in_deinit(&in);
  return 0;
}

#ifdef PCO_FUZZ_STANDALONE
static uint64_t state;

static uint32_t next_random(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33);
}

static void put_sum(uint8_t *block) {
  unsigned sum = 0;
  memset(block + AT_SUM, ' ', 8);
  for (size_t i = 0; i < PCO_TAR_BLOCK; i++)
    sum += block[i];
  snprintf((char *)block + AT_SUM, 8, "%06o", sum);
}

/* A header whose sum is right, of content that mostly makes sense. */
static void make_header(uint8_t *block, char type, unsigned size) {
  static const char types[] = "00005522x17g";
  memset(block, 0, PCO_TAR_BLOCK);
  snprintf((char *)block, 100, "root/%u", next_random() % 100);
  snprintf((char *)block + AT_MODE, 8, "%07o", next_random() & 07777);
  snprintf((char *)block + AT_SIZE, 12, "%011o", size);
  snprintf((char *)block + AT_MTIME, 12, "%011o", next_random());
  block[AT_TYPE] =
      (uint8_t)(type ? type : types[next_random() % (sizeof types - 1)]);
  memcpy(block + AT_MAGIC, "ustar\00000", 8);
  if (next_random() % 10 == 0)
    block[next_random() % PCO_TAR_BLOCK] = (uint8_t)next_random();
  if (next_random() % 20)
    put_sum(block);
}

/* Records that are nearly right. */
static size_t make_records(char *p, size_t max) {
  static const char *const keys[] = {"path",
                                     "linkpath",
                                     "mtime",
                                     "size",
                                     "GNU.sparse.size",
                                     "GNU.sparse.numblocks",
                                     "GNU.sparse.map",
                                     "PORTICO.sha256",
                                     "GNU.sparse.name",
                                     "uid"};
  static const char *const values[] = {
      "1", "0",   "-1.5", "0,1", "0,1,5,2", "x/y", "", "9223372036854775807",
      "3", "1,2,"};
  size_t n = 0;
  for (uint32_t k = next_random() % 5; k > 0; k--) {
    char record[100];
    const char *key = keys[next_random() % 10];
    const char *value = values[next_random() % 10];
    size_t plain = strlen(key) + strlen(value) + 3;
    size_t len = plain + (plain + 2 > 9 ? 2 : 1);
    if (next_random() % 20 == 0)
      len += next_random() % 3 - 1u;
    int wrote = snprintf(record, sizeof record, "%zu %s=%s\n", len, key, value);
    if (n + (size_t)wrote > max)
      break;
    memcpy(p + n, record, (size_t)wrote);
    n += (size_t)wrote;
  }
  if (n && next_random() % 10 == 0)
    p[next_random() % n] = (char)next_random();
  return n;
}

static size_t make_input(uint8_t *p, size_t blocks) {
  size_t n = 0;
  while (n + 4 < blocks && next_random() % 8) {
    uint8_t *at = p + n * PCO_TAR_BLOCK;
    memset(at, 0, (size_t)3 * PCO_TAR_BLOCK);
    if (next_random() % 2) {
      size_t len = make_records((char *)at + PCO_TAR_BLOCK, PCO_TAR_BLOCK);
      make_header(at, 'x', (unsigned)len);
      n += 1 + (len > 0);
      at = p + n * PCO_TAR_BLOCK;
    }
    unsigned size = next_random() % 4 ? 0 : next_random() % 600;
    make_header(at, 0, size);
    n += 1 + (size + PCO_TAR_BLOCK - 1) / PCO_TAR_BLOCK;
  }
  size_t len = (n < blocks ? n : blocks) * PCO_TAR_BLOCK;
  return len && next_random() % 8 == 0 ? next_random() % len : len;
}

int main(int argc, char **argv) {
  long count = argc > 1 ? atol(argv[1]) : 50000;
  state = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
  static uint8_t input[16 * PCO_TAR_BLOCK];
  printf("# seed %llu, %ld inputs\n", (unsigned long long)state, count);
  for (long i = 0; i < count; i++)
    LLVMFuzzerTestOneInput(input, make_input(input, 14));
  printf("ok 1 - no input broke the reader\n1..1\n");
  return 0;
}
#endif
