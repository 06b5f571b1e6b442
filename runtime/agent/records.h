/* SPDX-License-Identifier: MIT */
/*
 * What an agent with a door knows of its commands, for hosts that come later:
 * those that live, and how the last PCO_COMMANDS_KEPT ended.
 *
 * A record begins with the SPAWN; one that did not start has none.  It is let
 * go only when nothing of its command lives any more and too many such are
 * there, and what lies in the rings of its streams with it.
 *
 * Invariant: records are in the order of their ops.  Memory is bounded by
 * processes and RECORDS_TEXT: what does not fit keeps little of its arguments.
 */
#ifndef PCO_RECORDS_H
#define PCO_RECORDS_H

#include "request.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct pco_agent;

/* How a command ended, as its EXIT says. */
typedef struct pco_record_end {
  uint64_t code, signal, reason, duration, limit;
  bool has_limit;
} pco_record_end;

typedef struct pco_record {
  struct pco_record *next, *prev;
  uint64_t op;
  uint64_t pid;    /* 0: it has not started */
  int64_t started; /* ns since 1970 */
  bool terminal, merged;
  bool forget;   /* once its end was told and its streams have ended */
  bool told;     /* a host has heard of its end */
  bool ended;    /* `end` is set */
  uint64_t gone; /* the how-manieth of which nothing lives; 0: it may */
  pco_record_end end;
  size_t text_len; /* its arguments, each with its NUL */
  char text[];
} pco_record;

typedef struct pco_records {
  pco_record *first, *last;
  size_t text;     /* bytes of arguments in all */
  size_t n_gone;   /* those of which nothing lives */
  uint64_t n_ever; /* of these, that there ever were */
} pco_records;

/* The life of a command; without a door these do nothing. */
void pco_records_add(struct pco_agent *a, const pco_frame *f,
                     const pco_request *r);
void pco_records_started(struct pco_agent *a, uint64_t op, uint64_t pid);
/* With the fields of its EXIT, or of a frame that has a STARTED's. */
void pco_records_started_by(struct pco_agent *a, const pco_frame *f);
void pco_records_exited(struct pco_agent *a, uint64_t op, const void *fields,
                        size_t len);
/* Nothing of it lives any more. */
void pco_records_gone(struct pco_agent *a, uint64_t op);
/* An output of it has ended. */
void pco_records_settle(struct pco_agent *a, uint64_t op);
/* It did not start. */
void pco_records_drop(struct pco_agent *a, uint64_t op);

bool pco_records_has(const struct pco_agent *a, uint64_t op);

/* Answers COMMANDS. */
void pco_records_tell(struct pco_agent *a, uint64_t op);
void pco_records_deinit(struct pco_agent *a);

#endif /* PCO_RECORDS_H */
