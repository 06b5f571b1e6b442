/* SPDX-License-Identifier: MIT */
/*
 * Which program a program needs to be started: its #! line or its loader.
 * Used only to explain why an execve failed; never decides anything.
 */
#ifndef PCO_INTERP_H
#define PCO_INTERP_H

#include <stddef.h>

/* Writes the path of the interpreter that `path` names into buf (printable
 * ASCII, cut to size).  0, or -ENOENT if it cannot be read or names none. */
int pco_interp_of(const char *path, char *buf, size_t size);

#endif /* PCO_INTERP_H */
