/* SPDX-License-Identifier: MIT */
/*
 * Who could change a file: the question before code of it is run.
 */
#ifndef PCO_SYS_OWNERSHIP_H
#define PCO_SYS_OWNERSHIP_H

#include <stddef.h>
#include <sys/stat.h>

/* Checks that nobody but root and the effective user can change what the file
 * at path is: the file and every directory above it belong to one of them and
 * are not writable by group or others (a sticky directory like /tmp may be, if
 * what is in it belongs to one of them).  path is absolute and free of links
 * (realpath).  Returns 0 and *st, the file's own; -EPERM and a text that names
 * the component and says what would be right; or what lstat said.  Once this
 * holds it stays so, whatever other users do: a later open by path has no race.
 * [any] */
int pco__path_owned(const char *path, struct stat *st, char *why, size_t size);

#endif /* PCO_SYS_OWNERSHIP_H */
