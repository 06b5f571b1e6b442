/* SPDX-License-Identifier: MIT */
/*
 * The log: records from any thread, queued within a bound, taken by the Lua
 * state's thread at its next wait.  Without a logger nothing is kept.
 */
#ifndef PCO_LOG_H
#define PCO_LOG_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "portico/portico.h" /* the levels */

typedef struct pco__log_record {
  struct pco__log_record *next;
  int level;
  char text[];
} pco__log_record;

typedef struct pco__log {
  pthread_mutex_t lock;
  pco__log_record *first; /* owned; oldest first */
  pco__log_record **last;
  atomic_int count;    /* written under lock */
  unsigned dropped;    /* since the last take */
  atomic_bool enabled; /* a logger is set */
} pco__log;

void pco__log_init(pco__log *log);
void pco__log_deinit(pco__log *log);
/* Queues a record; the newest are dropped beyond 256.  [any] */
void pco__log_write(pco__log *log, int level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Takes what is queued (the caller frees each with free()) and how many were
 * dropped. */
pco__log_record *pco__log_take(pco__log *log, unsigned *dropped);

#endif /* PCO_LOG_H */
