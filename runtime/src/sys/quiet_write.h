/* SPDX-License-Identifier: MIT */
/* Writing to a pipe without the SIGPIPE that would end the host. */
#ifndef PCO_QUIET_WRITE_H
#define PCO_QUIET_WRITE_H

#include <stddef.h>
#include <sys/types.h>

/* As write(2), but a reader that is gone is only EPIPE: the signal is blocked
 * in this thread meanwhile and taken back if it was raised here.  [any] */
ssize_t pco__quiet_write(int fd, const void *data, size_t len);

/* The same for a descriptor that poll(2) says can be written: what fits, and
 * does not wait, even where the descriptor is a blocking one.  [any] */
ssize_t pco__quiet_write_some(int fd, const void *data, size_t len);

#endif /* PCO_QUIET_WRITE_H */
