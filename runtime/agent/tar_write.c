/* SPDX-License-Identifier: MIT */
/*
 * Writing a tar; see tar.h.
 */
#include "tar.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SPLICE_LEAST (128u * 1024) /* below, copying is as good */
#define OCTAL_MAX    UINT64_C(077777777777)

/* A ustar header; all text. */
typedef struct header {
  char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8];
  char type, link[100], magic[8], user[32], group[32], major[8], minor[8];
  char prefix[155], rest[12];
} header;
_Static_assert(sizeof(header) == PCO_TAR_BLOCK, "a block");

static int flush(pco_tar_out *t) {
  size_t at = 0;
  while (at < t->len) {
    ssize_t n = write(t->fd, t->buf + at, t->len - at);
    if (n >= 0) {
      at += (size_t)n;
      continue;
    }
    if (errno == EINTR)
      continue;
    int rc = errno == EAGAIN ? t->wait->fn(t->wait, t->fd, POLLOUT) : -errno;
    if (rc < 0)
      return rc;
  }
  t->len = 0;
  return 0;
}

/* Makes room for `len` bytes, which fit. */
static int make_room(pco_tar_out *t, size_t len) {
  return sizeof t->buf - t->len < len ? flush(t) : 0;
}

int pco_tar_put(pco_tar_out *t, const void *p, size_t len) {
  const uint8_t *from = p;
  while (len > 0) {
    int rc = make_room(t, 1);
    if (rc < 0)
      return rc;
    size_t n = sizeof t->buf - t->len;
    n = n < len ? n : len;
    memcpy(t->buf + t->len, from, n);
    t->len += n;
    from += n;
    len -= n;
  }
  return 0;
}

int pco_tar_zeros(pco_tar_out *t, uint64_t len) {
  static const uint8_t zeros[4096];
  int rc = 0;
  while (rc == 0 && len > 0) {
    size_t n = len < sizeof zeros ? (size_t)len : sizeof zeros;
    rc = pco_tar_put(t, zeros, n);
    len -= n;
  }
  return rc;
}

int pco_tar_pad(pco_tar_out *t, uint64_t stored) {
  return pco_tar_zeros(t, -stored % PCO_TAR_BLOCK);
}

int pco_tar_finish(pco_tar_out *t) {
  int rc = pco_tar_zeros(t, UINT64_C(2) * PCO_TAR_BLOCK);
  return rc < 0 ? rc : flush(t);
}

/* ---- headers ------------------------------------------------------------ */

/* Digits, and a NUL in the last place. */
static void octal(char *to, size_t size, uint64_t value) {
  to[--size] = 0;
  for (; size > 0; value >>= 3)
    to[--size] = (char)('0' + (value & 7));
}

static int put_block(pco_tar_out *t, const char *name, char type, unsigned mode,
                     uint64_t size, int64_t mtime, const char *link) {
  header h;
  memset(&h, 0, sizeof h);
  memcpy(h.name, name, strnlen(name, sizeof h.name));
  octal(h.mode, sizeof h.mode, mode);
  octal(h.uid, sizeof h.uid, 0);
  octal(h.gid, sizeof h.gid, 0);
  octal(h.size, sizeof h.size, size);
  octal(h.mtime, sizeof h.mtime, mtime < 0 ? 0 : (uint64_t)mtime & OCTAL_MAX);
  h.type = type;
  if (link)
    memcpy(h.link, link, strnlen(link, sizeof h.link));
  memcpy(h.magic, "ustar\00000", 8);
  memset(h.sum, ' ', sizeof h.sum);
  unsigned sum = 0;
  for (size_t i = 0; i < sizeof h; i++)
    sum += ((const uint8_t *)&h)[i];
  octal(h.sum, sizeof h.sum - 1, sum);
  return pco_tar_put(t, &h, sizeof h);
}

/* Records of a pax header, in memory that grows. */
typedef struct records {
  char *text;
  size_t len, cap;
  bool failed;
} records;

static bool make_room_for(records *r, size_t len) {
  if (r->len + len <= r->cap)
    return true;
  size_t cap = (r->len + len) * 2;
  char *text = r->failed ? NULL : realloc(r->text, cap);
  if (!text) {
    r->failed = true;
    return false;
  }
  r->text = text;
  r->cap = cap;
  return true;
}

/* "LENGTH KEY=VALUE\n", where LENGTH counts itself. */
static void add_record(records *r, const char *key, const char *value) {
  size_t plain = strlen(key) + strlen(value) + 3;
  size_t len = plain + 1;
  char digits[24];
  for (;;) {
    size_t n = (size_t)snprintf(digits, sizeof digits, "%zu", len);
    if (plain + n == len)
      break;
    len = plain + n;
  }
  if (!make_room_for(r, len + 1))
    return;
  snprintf(r->text + r->len, len + 1, "%s %s=%s\n", digits, key, value);
  r->len += len;
}

static void add_number(records *r, const char *key, uint64_t value) {
  char text[24];
  snprintf(text, sizeof text, "%llu", (unsigned long long)value);
  add_record(r, key, text);
}

static void add_mtime(records *r, const pco_tar_entry *e) {
  char text[48];
  int64_t s = e->mtime;
  uint32_t ns = e->mtime_ns;
  bool before = s < 0; /* then the sign is that of the fraction, too */
  if (before && ns > 0) {
    s++;
    ns = 1000000000u - ns;
  }
  snprintf(text, sizeof text, "%s%llu.%09u", before ? "-" : "",
           (unsigned long long)(before ? 0 - (uint64_t)s : (uint64_t)s), ns);
  add_record(r, "mtime", text);
}

static void add_map(records *r, const pco_tar_entry *e) {
  size_t size = e->n_data * 44 + 1, at = 0;
  char *text = malloc(size);
  if (!text) {
    r->failed = true;
    return;
  }
  text[0] = 0;
  for (size_t i = 0; i < e->n_data; i++)
    at += (size_t)snprintf(text + at, size - at, "%s%llu,%llu", i ? "," : "",
                           (unsigned long long)e->data[i].offset,
                           (unsigned long long)e->data[i].size);
  add_number(r, "GNU.sparse.size", e->size);
  add_number(r, "GNU.sparse.numblocks", e->n_data);
  add_record(r, "GNU.sparse.map", text);
  free(text);
}

static int put_pax(pco_tar_out *t, const pco_tar_entry *e, records *r) {
  if (strlen(e->path) > 100)
    add_record(r, "path", e->path);
  if (e->link && strlen(e->link) > 100)
    add_record(r, "linkpath", e->link);
  if (e->mtime_ns || e->mtime < 0 || (uint64_t)e->mtime > OCTAL_MAX)
    add_mtime(r, e);
  if (e->stored > OCTAL_MAX)
    add_number(r, "size", e->stored);
  if (e->data)
    add_map(r, e);
  if (e->digest)
    add_record(r, "PORTICO.sha256", e->digest);
  if (r->failed)
    return -ENOMEM;
  if (r->len > PCO_TAR_MAX_PAX)
    return -ENAMETOOLONG;
  if (r->len == 0)
    return 0;
  int rc = put_block(t, "pax", 'x', 0644, r->len, 0, NULL);
  if (rc == 0)
    rc = pco_tar_put(t, r->text, r->len);
  return rc == 0 ? pco_tar_pad(t, r->len) : rc;
}

int pco_tar_header(pco_tar_out *t, const pco_tar_entry *e) {
  static const char types[] = {'0', '5', '2'};
  records r = {0};
  int rc = put_pax(t, e, &r);
  free(r.text);
  if (rc < 0)
    return rc;
  uint64_t stored = e->stored > OCTAL_MAX ? 0 : e->stored;
  return put_block(t, e->path, types[e->type], e->mode & 07777, stored,
                   e->mtime, e->link);
}

/* ---- content ------------------------------------------------------------ */

/* Straight from the file to the pipe: 1 if some went, 0 at the end of the file,
 * -EINVAL if this file cannot. */
static ssize_t splice_some(pco_tar_out *t, int fd, uint64_t len) {
  size_t n = len < (1u << 20) ? (size_t)len : 1u << 20;
  for (;;) {
    ssize_t rc = splice(fd, NULL, t->fd, NULL, n, SPLICE_F_NONBLOCK);
    if (rc >= 0)
      return rc;
    if (errno == EINTR)
      continue;
    int failed =
        errno == EAGAIN ? t->wait->fn(t->wait, t->fd, POLLOUT) : -errno;
    if (failed < 0)
      return failed;
  }
}

static ssize_t read_some(pco_tar_out *t, int fd, uint64_t len) {
  int rc = make_room(t, sizeof t->buf / 4 < len ? sizeof t->buf / 4 : len);
  if (rc < 0)
    return rc;
  size_t n = sizeof t->buf - t->len;
  ssize_t got;
  do
    got = read(fd, t->buf + t->len, n < len ? n : (size_t)len);
  while (got < 0 && errno == EINTR);
  if (got > 0)
    t->len += (size_t)got;
  return got < 0 ? -errno : got;
}

int pco_tar_put_file(pco_tar_out *t, int fd, uint64_t len, bool may_splice,
                     uint64_t *done) {
  *done = 0;
  bool splices = may_splice && len >= SPLICE_LEAST;
  int rc = splices ? flush(t) : 0;
  while (rc == 0 && *done < len) {
    ssize_t n = splices ? splice_some(t, fd, len - *done)
                        : read_some(t, fd, len - *done);
    if (n == -EINVAL && splices) {
      splices = false;
      continue;
    }
    if (n <= 0)
      return (int)n;
    *done += (uint64_t)n;
  }
  return rc;
}
