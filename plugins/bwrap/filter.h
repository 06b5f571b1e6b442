/* SPDX-License-Identifier: MIT */
/*
 * The system calls that a sandbox may make, as two seccomp programs.
 *
 * Two, because libseccomp cannot allow a call except for some arguments: the
 * first is a list of calls that are allowed (everything else is ENOSYS, what is
 * dangerous by name EPERM, foreign architectures are killed), the second
 * refuses arguments of calls that the first allows.  Both are loaded by
 * bubblewrap before the agent is executed, so they hold for the agent too.
 * Calls allowed whatever their arguments cost next to nothing: the kernel keeps
 * a bitmap of them.
 */
#ifndef BWRAP_FILTER_H
#define BWRAP_FILTER_H

#include "portico/plugin.h"

#define BWRAP_N_FILTERS 2

/* Gives the programs as sealed memfds, O_CLOEXEC, made once a process and
 * shared (the caller neither closes nor reads them: a reader opens its own
 * description by /proc/self/fd/N, for the offset).  `weaken` is NULL, or in
 * builds for tests a list "a,b" of what to leave out (filter.c).  Returns 0,
 * or a negative code and *err.  [any] */
int bwrap_filters(const char *weaken, int out[BWRAP_N_FILTERS], pco_error *err);

#endif /* BWRAP_FILTER_H */
