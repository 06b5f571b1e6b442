/* SPDX-License-Identifier: MIT */
/*
 * Writing all of a block to a file that does not make one wait.  It stands in a
 * header so that tar_read.c can be fuzzed by itself.
 */
#ifndef PCO_WRITE_ALL_H
#define PCO_WRITE_ALL_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

/* 0 or a negative errno. */
static inline int pco_write_all(int fd, const uint8_t *p, size_t len) {
  while (len > 0) {
    ssize_t n = write(fd, p, len);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return -errno;
    p += n;
    len -= (size_t)n;
  }
  return 0;
}

#endif /* PCO_WRITE_ALL_H */
