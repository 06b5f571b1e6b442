/* SPDX-License-Identifier: MIT */
/*
 * The list of file jobs; see job.h.
 */
#include "job.h"

#include "agent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void *pco_job_create(pco_agent *a, size_t size, const pco_request *r,
                     const char *path) {
  pco_job *j = NULL;
  int error = EAGAIN;
  if (a->jobs.n < PCO_MAX_JOBS) {
    error = ENOMEM;
    j = calloc(1, size);
  }
  if (j) {
    j->op = r->op;
    j->agent = a;
    j->path = strdup(path);
    if (j->path)
      return j;
    free(j);
  }
  pco_answer_error(a, r->op, error, path,
                   error == EAGAIN ? "too many file operations at once" : NULL);
  return NULL;
}

void pco_job_free(pco_job *j) {
  free(j->path);
  free(j);
}

static void append(pco_jobs *l, pco_job *j) {
  j->next = NULL;
  if (l->last)
    l->last->next = j;
  else
    l->first = j;
  l->last = j;
}

void pco_job_start(pco_agent *a, pco_job *j) {
  append(&a->jobs, j);
  a->jobs.n++;
  a->jobs.n_steps += j->step != NULL;
}

/* Takes out the job behind `before` (NULL: the first). */
static pco_job *take_out(pco_jobs *l, pco_job *before) {
  pco_job *j = before ? before->next : l->first;
  if (before)
    before->next = j->next;
  else
    l->first = j->next;
  if (l->last == j)
    l->last = before;
  return j;
}

/* It is ready, or only asks again; whoever cancelled it comes here, too. */
static void stop_waiting(pco_agent *a, pco_job *j) {
  if (!j->waiting)
    return;
  j->waiting = false;
  if (j->source.fn)
    pco_source_remove(a->epoll, &j->source);
  a->jobs.n_steps++;
}

static void on_ready(void *arg, uint32_t events) {
  pco_job *j = arg;
  (void)events;
  stop_waiting(j->agent, j);
}

int pco_job_wait(pco_agent *a, pco_job *j, int fd, uint32_t events) {
  j->source = (pco_source){.fd = fd, .fn = on_ready, .arg = j};
  int rc = pco_source_add(a->epoll, &j->source, events);
  if (rc != 0)
    return rc;
  j->waiting = true;
  a->jobs.n_steps--;
  return 0;
}

void pco_job_pause(pco_agent *a, pco_job *j) {
  j->source.fn = NULL;
  j->waiting = true;
  a->jobs.n_steps--;
}

void pco_job_resume(pco_agent *a, pco_job *j) {
  stop_waiting(a, j);
}

static void finish(pco_agent *a, pco_job *before) {
  pco_job *j = take_out(&a->jobs, before);
  stop_waiting(a, j);
  a->jobs.n--;
  a->jobs.n_steps -= j->step != NULL;
  j->destroy(j);
}

/* Finds a job; *before is the one in front of it. */
static pco_job *find(const pco_jobs *l, uint64_t op, pco_job **before) {
  *before = NULL;
  for (pco_job *j = l->first; j; *before = j, j = j->next)
    if (j->op == op)
      return j;
  return NULL;
}

bool pco_jobs_data(pco_agent *a, const pco_request *r) {
  pco_job *before;
  pco_job *j = find(&a->jobs, r->op, &before);
  if (!j || j->answered)
    return true; /* it was answered early, and the host did not know */
  if (!j->data)
    return false;
  if (!j->data(a, j, r))
    finish(a, before);
  return true;
}

void pco_jobs_cancel(pco_agent *a, uint64_t op) {
  pco_job *before;
  pco_job *j = find(&a->jobs, op, &before);
  if (!j || j->answered)
    return;
  pco_answer_error(a, op, ECANCELED, j->path, NULL);
  j->answered = true;
  stop_waiting(a, j);
  if (!j->cancel || !j->cancel(j))
    finish(a, before);
}

bool pco_jobs_ready(const pco_agent *a) {
  return a->jobs.n_steps > 0 && pco_channel_queued(&a->host) < PCO_OUT_LOW;
}

void pco_jobs_step(pco_agent *a) {
  pco_jobs *l = &a->jobs;
  pco_job *before = NULL, *j = l->first;
  while (j && (!j->step || j->waiting)) {
    before = j;
    j = j->next;
  }
  if (!j)
    return;
  if (!j->step(a, j))
    finish(a, before);
  else
    append(l, take_out(l, before)); /* the others' turn */
}

void pco_jobs_end(pco_agent *a) {
  while (a->jobs.first)
    finish(a, NULL);
}
