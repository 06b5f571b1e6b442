/* SPDX-License-Identifier: MIT */
/*
 * The waiting calls on a process, but for exec: spawn, read, write,
 * close_stdin, resize, wait, poll, signal, kill, close.
 */
#ifndef PCO_PROCESS_OPS_H
#define PCO_PROCESS_OPS_H

#include "process.h"

typedef struct pco__process_op {
  pco__op op;
  pco__sandbox *sandbox; /* spawn: where; a reference */
  pco__process *process; /* a reference; spawn: the result */
  pco__spawn_opts opts;  /* spawn */
  pco__chunks chunks;    /* read: the result */
  bool ended;            /* read: no more output will come */
  bool iterates;         /* read: by an iterator, which keeps its claim */
  const char *data;      /* write; in the arena */
  size_t len;
  size_t written;      /* write: bytes that left before an error */
  pco__result *result; /* wait, poll, kill: a reference, or NULL */
  uint64_t grace;      /* kill, close; ns */
  int signo;           /* signal */
  bool acted;          /* signal, resize: it was done */
  uint16_t cols, rows; /* resize */
} pco__process_op;

extern const pco__op_class pco__spawn_class;
extern const pco__op_class pco__read_class;
extern const pco__op_class pco__chunks_class;
extern const pco__op_class pco__lines_class;
extern const pco__op_class pco__write_class;
extern const pco__op_class pco__close_stdin_class;
extern const pco__op_class pco__resize_class;
extern const pco__op_class pco__wait_class;
extern const pco__op_class pco__poll_class;
extern const pco__op_class pco__signal_class;
extern const pco__op_class pco__kill_class;
extern const pco__op_class pco__process_close_class;

/* From the process to its ops. */
void pco__op_spawned(pco__op *op, pco__process *p);
void pco__op_fed(pco__op *op, pco__process *p);
void pco__op_ended(pco__op *op, pco__process *p);
void pco__op_killed(pco__op *op, pco__process *p);
/* An iterator ended: its claim on the output goes. */
void pco__process_end_reader(pco__process *p);

#endif /* PCO_PROCESS_OPS_H */
