/* SPDX-License-Identifier: MIT */
/* Handing a command's pipes over to the program; see pipes.c. */
#ifndef PCO_PIPES_H
#define PCO_PIPES_H

#include "process.h"

typedef struct pco__pipes_op {
  pco__op op;
  pco__process *process; /* a reference */
  int fds[3];            /* owned until pushed; -1: none */
} pco__pipes_op;

extern const pco__op_class pco__pipes_class;

#endif /* PCO_PIPES_H */
