/* SPDX-License-Identifier: MIT */
/*
 * Bytes out of a pipe and into a file, without a copy in this process.
 *
 * The kernel holds a pipe's lock as long as it splices from it into a file, and
 * whoever fills the pipe waits for that.  So what is there is first moved, page
 * by page and without a copy, into a pipe of this process's own, and spliced
 * from that: one side fills while the other writes.  That pipe is made when it
 * is first wanted, lives with the process, and is empty between two calls.
 */
#ifndef PCO_THROUGH_H
#define PCO_THROUGH_H

#include <stddef.h>
#include <sys/types.h>

#define PCO_THROUGH_SIZE (1024u * 1024) /* the most that one call moves */

/* Moves what is in `pipe`, up to `len` bytes, to `*at` of the file, or with
 * NULL to its current offset, and that on.  > 0: so much; 0: the end of the
 * stream; -EAGAIN: nothing is there, which waits for nobody.  Another negative
 * errno is the file's: *done bytes are in it all the same, and what else was
 * taken is lost. */
ssize_t pco_through(int pipe, int fd, off_t *at, size_t len, size_t *done);

#endif /* PCO_THROUGH_H */
