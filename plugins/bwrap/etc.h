/* SPDX-License-Identifier: MIT */
/*
 * The files of /etc that a sandbox without an image has of its own: they name
 * the two ids that exist inside, and nothing of the host.
 */
#ifndef BWRAP_ETC_H
#define BWRAP_ETC_H

#define BWRAP_N_ETC 4

/* The path inside of the file with that number. */
const char *bwrap_etc_path(int i);
/* Opens a new memfd, O_CLOEXEC, with its content; or a negative code. */
int bwrap_etc_open(int i);

#endif /* BWRAP_ETC_H */
