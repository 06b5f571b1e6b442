/* SPDX-License-Identifier: MIT */
/*
 * File operations that take more than one turn of the loop.
 *
 * Jobs take turns: each turn of the loop runs one step of one job, and none
 * while the host is slow to read (PCO_OUT_LOW).  A job is known by its op,
 * which is answered exactly once: by a step, by its data function, or by
 * CANCEL.
 *
 * A kind of job embeds pco_job as its first member.
 */
#ifndef PCO_JOB_H
#define PCO_JOB_H

#include "request.h"
#include "source.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pco_agent;
typedef struct pco_job pco_job;

#define PCO_MAX_JOBS 512

struct pco_job {
  pco_job *next;
  uint64_t op;
  char *path;    /* as the caller gave it, for errors; owned */
  bool answered; /* cancelled: it only cleans up, in steps */
  bool waiting;  /* for a descriptor: no step until it is ready */
  pco_source source;
  struct pco_agent *agent;
  /* Does a little.  True: there is more to do; false: it has answered.  NULL
   * for a job that only waits for DATA. */
  bool (*step)(struct pco_agent *a, pco_job *j);
  /* Takes a DATA frame.  As step.  NULL: the host may send none. */
  bool (*data)(struct pco_agent *a, pco_job *j, const pco_request *r);
  /* Was cancelled, and answered for: true if it still has steps to do, which
   * then answer nothing.  NULL: it has none. */
  bool (*cancel)(pco_job *j);
  /* Gives up what the job holds, finished or not, and frees it. */
  void (*destroy)(pco_job *j);
};

typedef struct pco_jobs {
  pco_job *first, *last;
  size_t n;
  size_t n_steps; /* jobs that have a step, and do not wait */
} pco_jobs;

/* Makes a job of `size` bytes, zeroed but for its head, and not yet in the
 * list.  NULL after answering with an error. */
void *pco_job_create(struct pco_agent *a, size_t size, const pco_request *r,
                     const char *path);
/* Frees the head; for destroy functions. */
void pco_job_free(pco_job *j);
/* Puts it into the list, which owns it from now on. */
void pco_job_start(struct pco_agent *a, pco_job *j);

/* From a step: no other one until fd, which the job owns, is ready for `events`
 * (EPOLLIN or EPOLLOUT).  0 or a negative errno. */
int pco_job_wait(struct pco_agent *a, pco_job *j, int fd, uint32_t events);

/* No other one until pco_job_resume(), which does nothing else. */
void pco_job_pause(struct pco_agent *a, pco_job *j);
void pco_job_resume(struct pco_agent *a, pco_job *j);

/* A DATA frame: false if the host broke the protocol. */
bool pco_jobs_data(struct pco_agent *a, const pco_request *r);
/* Ends a job early and answers ECANCELED; an unknown op is ignored. */
void pco_jobs_cancel(struct pco_agent *a, uint64_t op);
/* One step of the next job. */
void pco_jobs_step(struct pco_agent *a);
/* True if a step could be done now. */
bool pco_jobs_ready(const struct pco_agent *a);
/* Ends all jobs, without answers. */
void pco_jobs_end(struct pco_agent *a);

#endif /* PCO_JOB_H */
