/* SPDX-License-Identifier: MIT */
/*
 * File work in processes of its own, so that a file system that is slow or dead
 * delays only what is done on it.
 *
 * A worker is a fork of the agent that has one request at a time: it gets the
 * frames of that request as the host sent them, and what it answers goes to the
 * host as it is.  Requests wait in a line.  One worker does them one after the
 * other; another is made when the first in line has waited PCO_WORKER_PATIENCE
 * and all are busy, up to PCO_MAX_WORKERS.  Those with nothing to do for some
 * seconds are let go.
 *
 * What is opened stays open in the worker that opened it: that one is set apart
 * (`holds`), gets what is asked of that file or watch, as it comes, and is an
 * ordinary one again when it was closed.  It is not killed when it is slow to
 * answer a CANCEL, for the file would be lost with it: the agent answers, and
 * the worker's own answer is dropped when it comes.  Only one that does not
 * close is killed.
 *
 * CANCEL is passed on; a worker that does not answer it in PCO_WORKER_GRACE is
 * killed, and the agent answers.  So does it for one that dies.  Where no
 * process can be made, the agent does the work itself.
 */
#ifndef PCO_WORKERS_H
#define PCO_WORKERS_H

#include "channel.h"
#include "litter.h"
#include "request.h"
#include "source.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct pco_agent;

#define PCO_MAX_WORKERS 8
#define PCO_MAX_WAITING 512 /* requests in line */
#define PCO_MAX_OPEN    128 /* files and watches that are open */
#define PCO_MAX_ASKED   64  /* requests to one of these */

/* What was asked of an open file. */
typedef struct pco_asked {
  uint64_t op;
  int64_t answer_at; /* it was cancelled; or PCO_NEVER */
  bool answered;     /* by the agent */
  bool closes;       /* FILE_CLOSE */
} pco_asked;

typedef struct pco_worker {
  struct pco_worker *next;
  struct pco_agent *agent;
  pid_t pid;
  int pidfd;
  pco_channel chan;
  pco_source source;
  uint64_t op;        /* of its request; 0: idle */
  bool opens;         /* that is an OPEN or WATCH */
  bool holds;         /* what `op` opened */
  pco_litter *litter; /* owned; or NULL */
  pco_asked *asked;   /* of what it holds: PCO_MAX_ASKED; owned */
  size_t n_asked;
  int64_t kill_at; /* its request was cancelled; or PCO_NEVER */
  bool cancelled;
  bool tidies; /* a tree is unpacked: it needs time to remove that */
} pco_worker;

/* A request in line, with all frames of it that came. */
typedef struct pco_waiting {
  struct pco_waiting *next;
  uint64_t op;
  int64_t since;
  size_t len;
  uint8_t *frames; /* owned */
  uint8_t n_fds;   /* those of the first frame; owned */
  int fds[PCO_WIRE_MAX_FDS];
  bool opens; /* OPEN or WATCH */
  bool tidies;
} pco_waiting;

typedef struct pco_workers {
  pco_worker *first;
  pco_worker *gone; /* to be freed at the end of the turn */
  size_t n;         /* but for those that hold something */
  size_t n_holding;
  pco_waiting *line, *last;
  size_t n_waiting;
  int64_t retire_at; /* when idle ones are let go; or PCO_NEVER */
  bool paused;       /* nothing is read from them: the host is slow */
  bool failed;       /* no process could be made for the first in line */
} pco_workers;

void pco_workers_init(struct pco_agent *a);
/* Passes a file request on, now or later, with the frame's descriptors. */
void pco_workers_request(struct pco_agent *a, pco_frame *f,
                         const pco_request *r);
/* The same for one on what is open. */
void pco_workers_opened(struct pco_agent *a, pco_frame *f,
                        const pco_request *r);
/* The same for DATA and CANCEL of an earlier one; false if it is not here. */
bool pco_workers_data(struct pco_agent *a, const pco_frame *f);
bool pco_workers_cancel(struct pco_agent *a, const pco_frame *f);

/* The host is gone: what was asked is not done, and what is open is closed. */
void pco_workers_let_go(struct pco_agent *a);

/* Says whether a child is a worker. */
bool pco_workers_has(const struct pco_agent *a, pid_t pid);
/* One of them ended. */
void pco_workers_reaped(struct pco_agent *a, pid_t pid);

/* Stops or goes on reading what they answer. */
void pco_workers_pause(struct pco_agent *a, bool paused);
/* When pco_workers_tick() has something to do, or PCO_NEVER. */
int64_t pco_workers_next(const struct pco_agent *a);
/* Once a turn. */
void pco_workers_tick(struct pco_agent *a);
/* Ends them, with a moment to remove what was not finished.  Who is left is
 * for pco_commands_end() to kill. */
void pco_workers_end(struct pco_agent *a);
/* Forgets all. */
void pco_workers_deinit(struct pco_agent *a);

/* The process itself (worker.c): `a` is the agent's, as the fork left it, and
 * `fd` its end of the socketpair. */
_Noreturn void pco_worker_main(struct pco_agent *a, int fd);
/* Closes all but 0 to 2, `fd` (-1: none) and the directories that paths begin
 * at. */
void pco_worker_close_others(const struct pco_agent *a, int fd);

#endif /* PCO_WORKERS_H */
