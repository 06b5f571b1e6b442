/* SPDX-License-Identifier: MIT */
/*
 * Terminals: a pair of a master, which never leaves the agent, and a slave for
 * a command, from the sandbox's own /dev/ptmx.
 *
 * The slave belongs to who opens it: the agent's file system ids, which are
 * those of the commands (identity.h).
 */
#ifndef PCO_TERMINAL_H
#define PCO_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>

typedef struct pco_terminal {
  int master; /* does not block */
  int slave;
} pco_terminal;

/* Makes one of that size.  0 or a negative errno, then with both -1. */
int pco_terminal_open(pco_terminal *t, uint16_t cols, uint16_t rows, bool echo);
/* Changes the size; the kernel tells the foreground by SIGWINCH. */
int pco_terminal_resize(int master, uint16_t cols, uint16_t rows);

#endif /* PCO_TERMINAL_H */
