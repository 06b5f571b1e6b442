/* SPDX-License-Identifier: MIT */
/*
 * Waiting for a word in memory to change, in a way that a signal ends: a
 * condition variable would go on waiting after Ctrl-C (pthread_cond_wait never
 * returns EINTR), a futex does not.
 */
#ifndef PCO_FUTEX_H
#define PCO_FUTEX_H

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Sleeps while *word == value.  Returns 0 when woken or the value differs,
 * -EINTR after a signal, -ETIMEDOUT after `ns` (negative: no limit). */
static inline int pco__futex_wait(atomic_uint *word, unsigned value,
                                  int64_t ns) {
  struct timespec ts = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
  long rc = syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value,
                    ns < 0 ? NULL : &ts, NULL, 0);
  if (rc == 0 || errno == EAGAIN)
    return 0;
  return -errno;
}

static inline void pco__futex_wake(atomic_uint *word) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

#endif /* PCO_FUTEX_H */
