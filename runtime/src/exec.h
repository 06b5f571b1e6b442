/* SPDX-License-Identifier: MIT */
/*
 * exec: a command run to its end in one op, with input, captured output,
 * callbacks on the caller's thread, and a result.
 *
 * Callbacks: the loop queues chunks and the wish for input, and notifies; the
 * caller takes them with pco__exec_take, runs the script's functions, gives
 * input with pco__exec_give, and waits again.  What both threads touch is under
 * loop->lock.
 */
#ifndef PCO_EXEC_H
#define PCO_EXEC_H

#include "process.h"

typedef struct pco__exec {
  pco__op op;
  pco__spawn_opts opts;
  pco__sandbox *sandbox; /* a reference */
  pco__process *process; /* a reference; NULL before the start */
  pco__result *result;   /* a reference; set at completion, if there is one */
  const char *input;     /* in the op's arena, or NULL */
  size_t input_len;
  pco__error *input_error; /* owned; why not all of it was sent, or NULL */
  bool output_only;        /* sandbox:output */
  bool wants_chunks;       /* on_output or tee */
  bool asks_input;         /* input is a function */
  /* under loop->lock */
  pco__chunks chunks; /* for the caller */
  bool input_wanted;
  char *given; /* owned; what the caller's function returned */
  size_t given_len;
  bool given_end;
  bool poked; /* poke is on its way to the loop */
  pco__call poke;
} pco__exec;

extern const pco__op_class pco__exec_class;
extern const pco__op_class pco__output_class;

/* For the process that runs in it. */
void pco__exec_started(pco__exec *e);
void pco__exec_output(pco__exec *e, uint8_t stream, const char *data,
                      size_t len);
bool pco__exec_full(pco__exec *e);
void pco__exec_ended(pco__exec *e);

/* For the caller. */
void pco__exec_take(pco__exec *e, pco__chunks *chunks, bool *input_wanted);
/* Gives a chunk of input (data, freed by the exec), or its end (NULL). */
void pco__exec_give(pco__exec *e, char *data, size_t len);

#endif /* PCO_EXEC_H */
