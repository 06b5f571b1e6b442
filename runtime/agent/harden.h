/* SPDX-License-Identifier: MIT */
/*
 * Making the process independent of how its host started it, and hard to touch
 * for what runs beside it.
 */
#ifndef PCO_HARDEN_H
#define PCO_HARDEN_H

#include <stddef.h>

/* Every signal gets its default action, for what is started later; all of them
 * are blocked here, so that only KILL and STOP from the same user reach this
 * process.  Must come before any child. */
void pco_harden_signals(void);
/* The most that pco_harden_fds() keeps. */
#define PCO_HARDEN_FDS 8
/* Closes everything but 0, 1, 2 and these n, which are made close-on-exec (-1:
 * there is none), and makes sure that 0, 1, 2 are open and not a terminal.  0
 * or a negative errno. */
int pco_harden_fds(const int *fds, size_t n);
/* 0 if fd is a stream socket, or a negative errno. */
int pco_harden_check_stream(int fd);
/* A session of its own, no core file, no ptrace, a name, orphans come here. */
void pco_harden_process(void);

/* Asks for short turns on the processor, which come soon after a wake, also
 * when thousands of processes want it; they are not given on to children. Does
 * nothing where the kernel knows no such thing (before Linux 6.12). */
void pco_harden_turns(void);

#endif /* PCO_HARDEN_H */
