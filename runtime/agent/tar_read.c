/* SPDX-License-Identifier: MIT */
/*
 * Reading a tar that somebody else wrote; see tar.h.
 */
#include "tar.h"

#include "through.h"
#include "write_all.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where the fields of a ustar header are. */
enum {
  AT_NAME = 0,
  AT_MODE = 100,
  AT_SIZE = 124,
  AT_MTIME = 136,
  AT_SUM = 148,
  AT_TYPE = 156,
  AT_LINK = 157,
  AT_MAGIC = 257,
  AT_PREFIX = 345
};
#define NAME_SIZE   100u
#define PREFIX_SIZE 155u
#define DIGEST_SIZE 64u

/* What a pax header says of the entry behind it. */
typedef struct pax {
  bool path, link, mtime, size, digest;
  bool sparse_size, sparse_map, sparse_name;
  int64_t seconds;
  uint32_t ns;
  uint64_t bytes, real_size, numblocks;
  size_t n_data;
} pax;

int pco_tar_in_init(pco_tar_in *t) {
  t->path = malloc(PCO_TAR_MAX_PATH);
  t->link = malloc(PCO_TAR_MAX_PATH);
  t->digest = malloc(DIGEST_SIZE + 1);
  t->data = malloc(PCO_TAR_MAX_DATA * sizeof *t->data);
  return t->path && t->link && t->digest && t->data ? 0 : -ENOMEM;
}

void pco_tar_in_deinit(pco_tar_in *t) {
  free(t->path);
  free(t->link);
  free(t->digest);
  free(t->data);
  free(t->pax);
  t->path = t->link = t->digest = t->pax = NULL;
  t->data = NULL;
}

static int bad(pco_tar_in *t, const char *why) {
  t->why = why;
  return -EBADMSG;
}

/* ---- bytes -------------------------------------------------------------- */

/* Reads what there is into p: > 0, 0 at the end of the stream. */
static ssize_t receive(pco_tar_in *t, void *p, size_t len) {
  for (;;) {
    ssize_t n = read(t->fd, p, len);
    if (n >= 0)
      return n;
    if (errno == EINTR)
      continue;
    int rc = errno == EAGAIN ? t->wait->fn(t->wait, t->fd, POLLIN) : -errno;
    if (rc < 0)
      return rc;
  }
}

/* Has something in the buffer: 1, 0 at the end of the stream. */
static int fill(pco_tar_in *t) {
  if (t->at < t->len)
    return 1;
  t->at = 0;
  t->len = 0;
  ssize_t n = receive(t, t->buf, sizeof t->buf);
  if (n < 0)
    return (int)n;
  t->len = (size_t)n;
  return n > 0;
}

static int take(pco_tar_in *t, void *to, size_t len) {
  uint8_t *p = to;
  while (len > 0) {
    int rc = fill(t);
    if (rc <= 0)
      return rc < 0 ? rc : -ENODATA;
    size_t n = t->len - t->at < len ? t->len - t->at : len;
    if (p) {
      memcpy(p, t->buf + t->at, n);
      p += n;
    }
    t->at += n;
    len -= n;
  }
  return 0;
}

static int skip(pco_tar_in *t, uint64_t len) {
  int rc = 0;
  while (rc == 0 && len > 0) {
    size_t n = len < sizeof t->buf ? (size_t)len : sizeof t->buf;
    rc = take(t, NULL, n);
    len -= n;
  }
  return rc;
}

/* ---- numbers ------------------------------------------------------------ */

/* Octal digits between blanks, ended by a blank or NUL or the field's end. */
static bool octal(const uint8_t *p, size_t size, uint64_t *out) {
  size_t i = 0;
  *out = 0;
  while (i < size && p[i] == ' ')
    i++;
  size_t first = i;
  for (; i < size && p[i] >= '0' && p[i] <= '7'; i++)
    *out = *out << 3 | (uint64_t)(p[i] - '0');
  if (i == first && i < size && p[i] != 0)
    return false;
  for (; i < size; i++)
    if (p[i] != ' ' && p[i] != 0)
      return false;
  return true;
}

/* Decimal digits up to `end`; INT64_MAX at most.  What follows them, or NULL.
 */
static const char *decimal(const char *p, const char *end, uint64_t *out) {
  const char *first = p;
  *out = 0;
  for (; p < end && *p >= '0' && *p <= '9'; p++) {
    uint64_t digit = (uint64_t)(*p - '0');
    if (*out > ((uint64_t)INT64_MAX - digit) / 10)
      return NULL;
    *out = *out * 10 + digit;
  }
  return p > first ? p : NULL;
}

static bool whole(const char *p, const char *end, uint64_t *out) {
  return decimal(p, end, out) == end;
}

/* "-12.345": what is behind nine digits of the fraction is dropped. */
static bool moment(const char *p, const char *end, pax *x) {
  bool minus = p < end && *p == '-';
  uint64_t s;
  p = decimal(p + minus, end, &s);
  if (!p)
    return false;
  uint32_t ns = 0, unit = 100000000;
  if (p < end && *p == '.')
    for (p++; p < end && *p >= '0' && *p <= '9'; p++, unit /= 10)
      ns += (uint32_t)(*p - '0') * unit;
  x->seconds = minus ? -(int64_t)s : (int64_t)s;
  x->ns = ns;
  if (minus && ns) {
    x->seconds--;
    x->ns = 1000000000u - ns;
  }
  return p == end;
}

/* ---- pax ---------------------------------------------------------------- */

static bool text(char *to, size_t size, const char *p, const char *end) {
  size_t len = (size_t)(end - p);
  if (len >= size || memchr(p, 0, len))
    return false;
  memcpy(to, p, len);
  to[len] = 0;
  return true;
}

/* "OFFSET,SIZE,OFFSET,SIZE...": ascending, none over another. */
static bool map(pco_tar_in *t, const char *p, const char *end, pax *x) {
  uint64_t from = 0;
  x->n_data = 0;
  while (p < end) {
    pco_tar_piece d;
    if (x->n_data == PCO_TAR_MAX_DATA || !(p = decimal(p, end, &d.offset)) ||
        p == end || *p++ != ',' || !(p = decimal(p, end, &d.size)) ||
        d.offset < from || d.size > (uint64_t)INT64_MAX - d.offset)
      return false;
    from = d.offset + d.size;
    t->data[x->n_data++] = d;
    if (p < end && *p++ != ',')
      return false;
  }
  return true;
}

static bool is(const char *key, size_t len, const char *name) {
  return strlen(name) == len && memcmp(key, name, len) == 0;
}

/* One record: false if its value makes no sense.  Others' are skipped. */
static bool record(pco_tar_in *t, pax *x, const char *key, size_t len,
                   const char *p, const char *end) {
  if (is(key, len, "GNU.sparse.name")) /* then "path" is made up */
    return x->sparse_name = x->path = text(t->path, PCO_TAR_MAX_PATH, p, end);
  if (is(key, len, "path") && x->sparse_name)
    return true;
  if (is(key, len, "path"))
    return x->path = text(t->path, PCO_TAR_MAX_PATH, p, end);
  if (is(key, len, "linkpath"))
    return x->link = text(t->link, PCO_TAR_MAX_PATH, p, end);
  if (is(key, len, "mtime"))
    return x->mtime = moment(p, end, x);
  if (is(key, len, "size"))
    return x->size = whole(p, end, &x->bytes);
  if (is(key, len, "GNU.sparse.size"))
    return x->sparse_size = whole(p, end, &x->real_size);
  if (is(key, len, "GNU.sparse.numblocks"))
    return whole(p, end, &x->numblocks);
  if (is(key, len, "GNU.sparse.map"))
    return x->sparse_map = map(t, p, end, x);
  if (is(key, len, "PORTICO.sha256"))
    return x->digest = text(t->digest, DIGEST_SIZE + 1, p, end);
  /* Another format of holes would be taken for plain content. */
  return len < 10 || memcmp(key, "GNU.sparse", 10) != 0;
}

static bool records(pco_tar_in *t, const char *p, size_t size, pax *x) {
  const char *end = p + size;
  while (p < end) {
    uint64_t len;
    const char *key = decimal(p, end, &len);
    if (!key || key == end || *key != ' ' || len > (uint64_t)(end - p) ||
        len < (uint64_t)(key - p) + 3 || p[len - 1] != '\n')
      return false;
    key++;
    const char *stop = p + len - 1;
    const char *equals = memchr(key, '=', (size_t)(stop - key));
    if (!equals || !record(t, x, key, (size_t)(equals - key), equals + 1, stop))
      return false;
    p += len;
  }
  return x->sparse_map == x->sparse_size &&
         (!x->sparse_map || x->numblocks == x->n_data);
}

static int read_pax(pco_tar_in *t, uint64_t size, pax *x) {
  if (size > PCO_TAR_MAX_PAX)
    return bad(t, "a header of more than a megabyte");
  free(t->pax);
  t->pax = malloc((size_t)size + 1);
  if (!t->pax)
    return -ENOMEM;
  int rc = take(t, t->pax, (size_t)size);
  if (rc == 0)
    rc = skip(t, -size % PCO_TAR_BLOCK);
  if (rc < 0)
    return rc;
  t->header_bytes += size;
  return records(t, t->pax, (size_t)size, x) ? 0 : bad(t, "a bad pax header");
}

/* ---- headers ------------------------------------------------------------ */

static bool is_zero(const uint8_t *block) {
  for (size_t i = 0; i < PCO_TAR_BLOCK; i++)
    if (block[i])
      return false;
  return true;
}

static bool sum_fits(const uint8_t *block) {
  uint64_t told, sum = 0;
  for (size_t i = 0; i < PCO_TAR_BLOCK; i++)
    sum += i >= AT_SUM && i < AT_SUM + 8 ? ' ' : block[i];
  return octal(block + AT_SUM, 8, &told) && told == sum;
}

/* What is not taken, in words. */
static const char *refusal(uint8_t type) {
  switch (type) {
  case '1':
    return "a hard link";
  case '3':
  case '4':
    return "a device";
  case '6':
    return "a FIFO";
  default:
    return "an entry of a kind that is not known";
  }
}

static void ustar_path(pco_tar_in *t, const uint8_t *block) {
  const char *name = (const char *)block + AT_NAME;
  const char *prefix = (const char *)block + AT_PREFIX;
  size_t n = 0;
  if (memcmp(block + AT_MAGIC, "ustar", 6) == 0 && *prefix) {
    n = strnlen(prefix, PREFIX_SIZE);
    memcpy(t->path, prefix, n);
    t->path[n++] = '/';
  }
  size_t len = strnlen(name, NAME_SIZE);
  memcpy(t->path + n, name, len);
  t->path[n + len] = 0;
}

static void ustar_link(pco_tar_in *t, const uint8_t *block) {
  size_t len = strnlen((const char *)block + AT_LINK, NAME_SIZE);
  memcpy(t->link, block + AT_LINK, len);
  t->link[len] = 0;
}

static bool kind_of(uint8_t type, pco_tar_type *out) {
  if (type != '0' && type != 0 && type != '5' && type != '2')
    return false;
  *out = type == '5'   ? PCO_TAR_DIRECTORY
         : type == '2' ? PCO_TAR_LINK
                       : PCO_TAR_FILE;
  return true;
}

/* The pieces lie within the file, and are what is stored. */
static bool map_fits(const pco_tar_in *t, const pax *x, uint64_t stored) {
  uint64_t sum = 0;
  for (size_t i = 0; i < x->n_data; i++)
    sum += t->data[i].size; /* they do not overlap: no more than INT64_MAX */
  return sum == stored &&
         (x->n_data == 0 ||
          t->data[x->n_data - 1].offset + t->data[x->n_data - 1].size <=
              x->real_size);
}

static int take_entry(pco_tar_in *t, const uint8_t *block, const pax *x,
                      pco_tar_entry *e) {
  uint64_t mode, size, mtime;
  memset(e, 0, sizeof *e);
  if (!kind_of(block[AT_TYPE], &e->type))
    return bad(t, refusal(block[AT_TYPE]));
  if (!octal(block + AT_MODE, 8, &mode) || !octal(block + AT_SIZE, 12, &size) ||
      !octal(block + AT_MTIME, 12, &mtime))
    return bad(t, "a header with a bad number");
  if (!x->path)
    ustar_path(t, block);
  if (!x->link)
    ustar_link(t, block);
  e->mode = (unsigned)mode & 07777;
  e->mtime = x->mtime ? x->seconds : (int64_t)mtime;
  e->mtime_ns = x->mtime ? x->ns : 0;
  e->stored = x->size ? x->bytes : size;
  e->size = x->sparse_map ? x->real_size : e->stored;
  e->path = t->path;
  e->link = e->type == PCO_TAR_LINK ? t->link : NULL;
  e->digest = x->digest ? t->digest : NULL;
  if (e->type != PCO_TAR_FILE && (e->stored != 0 || x->sparse_map))
    return bad(t, "content of what is no file");
  if (x->sparse_map && !map_fits(t, x, e->stored))
    return bad(t, "a bad map of a file with holes");
  e->data = x->sparse_map ? t->data : NULL;
  e->n_data = x->n_data;
  t->left = e->stored;
  t->pad = -e->stored % PCO_TAR_BLOCK;
  return 1;
}

/* The next block: 1; 0 for the end of the archive. */
static int next_block(pco_tar_in *t, uint8_t block[PCO_TAR_BLOCK]) {
  int rc = take(t, block, PCO_TAR_BLOCK);
  if (rc < 0)
    return rc;
  t->header_bytes += PCO_TAR_BLOCK;
  if (is_zero(block))
    return 0;
  return sum_fits(block) ? 1 : bad(t, "no tar header where one must be");
}

static int leave_entry(pco_tar_in *t) {
  int rc = skip(t, t->left);
  if (rc == 0)
    rc = skip(t, t->pad);
  t->left = t->pad = 0;
  return rc;
}

int pco_tar_next(pco_tar_in *t, pco_tar_entry *e) {
  uint8_t block[PCO_TAR_BLOCK];
  pax x = {0};
  uint64_t size;
  if (t->ended)
    return 0;
  int rc = leave_entry(t);
  if (rc == 0)
    rc = next_block(t, block);
  if (rc == 1 && block[AT_TYPE] == 'x') {
    rc = octal(block + AT_SIZE, 12, &size) ? read_pax(t, size, &x)
                                           : bad(t, "a header with a bad size");
    if (rc == 0)
      rc = next_block(t, block);
    if (rc == 0)
      rc = bad(t, "a pax header of nothing");
  }
  t->ended = rc == 0;
  return rc == 1 ? take_entry(t, block, &x, e) : rc;
}

/* ---- content ------------------------------------------------------------ */

ssize_t pco_tar_read(pco_tar_in *t, void *p, size_t len) {
  if (t->left == 0)
    return 0;
  int rc = fill(t);
  if (rc <= 0)
    return rc < 0 ? rc : -ENODATA;
  size_t n = t->len - t->at;
  n = n < len ? n : len;
  n = n < t->left ? n : (size_t)t->left;
  memcpy(p, t->buf + t->at, n);
  t->at += n;
  t->left -= n;
  return (ssize_t)n;
}

/* From the pipe into the file: > 0, or 0 at the end of the stream. */
static ssize_t pass_on(pco_tar_in *t, int fd, uint64_t len, bool *writing) {
  size_t n = len < PCO_THROUGH_SIZE ? (size_t)len : PCO_THROUGH_SIZE;
  size_t done;
  for (;;) {
    ssize_t rc = pco_through(t->fd, fd, NULL, n, &done);
    *writing = rc < 0;
    if (rc != -EAGAIN)
      return rc;
    *writing = false;
    int failed = t->wait->fn(t->wait, t->fd, POLLIN);
    if (failed < 0)
      return failed;
  }
}

/* What is in the buffer, or what comes into it. */
static int copy_buffer(pco_tar_in *t, int fd, uint64_t *len, bool *writing) {
  int rc = fill(t);
  if (rc <= 0)
    return rc < 0 ? rc : -ENODATA;
  size_t n = t->len - t->at < *len ? t->len - t->at : (size_t)*len;
  rc = pco_write_all(fd, t->buf + t->at, n);
  *writing = rc < 0;
  t->at += n;
  t->left -= n;
  *len -= n;
  return rc;
}

int pco_tar_copy(pco_tar_in *t, int fd, uint64_t len, bool *writing) {
  *writing = false;
  if (len > t->left)
    return -EINVAL;
  while (len > 0) {
    if (t->at < t->len || len < PCO_TAR_BUFFER / 2) {
      int rc = copy_buffer(t, fd, &len, writing);
      if (rc < 0)
        return rc;
      continue;
    }
    ssize_t n = pass_on(t, fd, len, writing);
    if (n <= 0)
      return n < 0 ? (int)n : -ENODATA;
    t->left -= (uint64_t)n;
    len -= (uint64_t)n;
  }
  return 0;
}
