/* SPDX-License-Identifier: MIT */
/*
 * Unpacking on the host, by a process that can write nowhere but in one
 * directory, and read nothing.
 *
 * What it holds is that directory, the pipe, and the socket that it tells its
 * progress through.  Landlock, where the kernel has it, allows it to make and
 * write files in the directory, and nothing else; the directory is its root, in
 * a user namespace of its own where it takes one; it has no capability, opens
 * no socket, and can get no rights.  One of the first two must hold, or it
 * refuses.
 */
#ifndef PCO_TRANSFER_CONFINE_H
#define PCO_TRANSFER_CONFINE_H

#include <stdbool.h>

/* Confines this process, which has one thread, to the directory `dir` for ever,
 * and closes all but dir, in and tell: 0, or a negative errno.  -EUSERS: the
 * namespace could be made by halves only, in which no file can be made; another
 * process may do without. */
int pco_transfer_confine(int dir, int in, int tell, bool in_namespace);

#endif /* PCO_TRANSFER_CONFINE_H */
