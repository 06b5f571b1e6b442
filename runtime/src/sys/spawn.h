/* SPDX-License-Identifier: MIT */
/*
 * Starting a program of the host by posix_spawn: no fork of the host's memory,
 * no SIGCHLD; the exit is watched by a pidfd.
 */
#ifndef PCO_SYS_SPAWN_H
#define PCO_SYS_SPAWN_H

#include <stddef.h>
#include <stdint.h>

/* Starts `path` with descriptors 0 .. n_fds-1 taken from fds and all others
 * closed, in directory cwd (NULL: the host's), in a session of its own, with
 * signals at their defaults.  If exec_fd >= 0 the program is that descriptor
 * and path is NULL.  Gives a pidfd (O_CLOEXEC, the caller's) and returns 0, or
 * a negative errno.  [any] */
int pco__spawn(const char *path, int exec_fd, char *const argv[],
               char *const env[], const char *cwd, const int32_t *fds,
               size_t n_fds, int *pidfd);

#endif /* PCO_SYS_SPAWN_H */
