/* SPDX-License-Identifier: MIT */
/*
 * WATCH and EVENTS; see fs_watch.h.
 */
#include "fs_watch.h"

#include "fs.h"

#include "portico/plugin.h"

#include "clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FRAME_BYTES (64u * 1024) /* of events in one answer */

/* ---- the kernel's side --------------------------------------------------- */

static void read_events(pco_seen *s) {
  char block[32 * 1024] __attribute__((aligned(8)));
  int fd = s->source.fd;
  ssize_t n = read(fd, block, sizeof block);
  if (n < 0 && errno == EAGAIN)
    pco_seen_forget_told(s);
  for (ssize_t at = 0; at < n && s->source.fd == fd;) {
    const struct inotify_event *e = (const void *)(block + at);
    at += (ssize_t)(sizeof *e + e->len);
    if (!pco_seen_on_event(s, e))
      return;
  }
}

static void on_kernel(void *arg, uint32_t events) {
  (void)events;
  read_events(arg);
}

static void wake(pco_seen *s) {
  if (s->waiter && (s->first || s->error || s->ended))
    pco_job_resume(s->agent, s->waiter);
}

int pco_watch_timeout(const pco_agent *a) {
  const pco_seen *s = a->seen;
  int64_t until = INT64_MAX;
  if (s && s->any_told)
    return 0;
  if (s && s->move.cookie)
    until = s->move.until;
  if (s && s->check && s->check_at < until)
    until = s->check_at;
  if (until == INT64_MAX)
    return -1;
  int64_t left = (until - pco_now()) / PCO_MS + 1;
  return left < 0 ? 0 : (int)left;
}

void pco_watch_tick(pco_agent *a) {
  pco_seen *s = a->seen;
  if (!s)
    return;
  if (s->any_told) /* until the kernel has no more */
    read_events(s);
  if (!s->source.fn && s->source.fd >= 0) { /* it began anew */
    s->source.fn = on_kernel;
    if (pco_source_add(a->epoll, &s->source, EPOLLIN) != 0)
      s->error = ENOMEM;
  }
  if (s->move.cookie && s->move.until <= pco_now())
    pco_seen_end_move(s);
  pco_top_tick(s);
  wake(s);
}

/* ---- events -------------------------------------------------------------- */

static void put_event(pco_wire_buf *b, const pco_event *e) {
  pco_wire_nest_begin(b, PCO_TAG_EVENT);
  pco_wire_number(b, PCO_TAG_TYPE, e->type);
  if (e->path)
    pco_wire_string(b, PCO_TAG_PATH, e->path);
  if (e->from)
    pco_wire_string(b, PCO_TAG_TARGET_PATH, e->from);
  pco_wire_nest_end(b);
}

static const char *reason(int error) {
  if (error == ENOSPC)
    return "this user has no watches of directories left "
           "(fs.inotify.max_user_watches)";
  if (error == EMFILE)
    return "this user has no watches left (fs.inotify.max_user_instances)";
  return NULL;
}

static bool answer_events(pco_agent *a, pco_job *j) {
  pco_seen *s = a->seen;
  size_t n = 0;
  if (!s->first && !s->error && !s->ended) {
    pco_job_pause(a, j);
    return true;
  }
  if (!s->first && !s->ended) { /* what was seen before it is told first */
    pco_answer_error(a, j->op, s->error, s->path, reason(s->error));
    return false;
  }
  pco_wire_begin(&a->buf, PCO_WIRE_REPLY, 0, j->op);
  for (const pco_event *e = s->first; e && a->buf.len < FRAME_BYTES;
       e = e->next, n++)
    put_event(&a->buf, e);
  pco_answer(a);
  pco_seen_forget(s, n);
  return false;
}

static void destroy_waiter(pco_job *j) {
  if (j->agent->seen)
    j->agent->seen->waiter = NULL;
  pco_job_free(j);
}

static void on_events(pco_agent *a, pco_seen *s, const pco_request *r) {
  if (s->waiter) {
    pco_answer_error(a, r->op, EBUSY, s->path,
                     "another call waits for its events");
    return;
  }
  pco_job *j = pco_job_create(a, sizeof *j, r, s->path);
  if (!j)
    return;
  j->step = answer_events;
  j->destroy = destroy_waiter;
  s->waiter = j;
  pco_job_start(a, j);
}

bool pco_watch_opened(pco_agent *a, const pco_request *r) {
  pco_seen *s = a->seen;
  if (!s || s->op != pco_request_number(r, PCO_TAG_TARGET))
    return false;
  if (r->type == PCO_WIRE_EVENTS)
    on_events(a, s, r);
  else
    pco_answer_error(a, r->op, EINVAL, s->path, "this is a watch, no file");
  return true;
}

/* ---- beginning and end --------------------------------------------------- */

static void destroy(pco_seen *s) {
  if (s->source.fn)
    pco_source_remove(s->agent->epoll, &s->source);
  pco_seen_stop(s);
  pco_seen_forget(s, s->n_events);
  free(s->move.path);
  if (s->root >= 0)
    close(s->root);
  free(s->path);
  free(s->patterns);
  free(s);
}

void pco_watch_close(pco_agent *a, uint64_t target) {
  pco_seen *s = a->seen;
  if (!s || s->op != target)
    return;
  while (a->jobs.first)
    pco_jobs_cancel(a, a->jobs.first->op);
  a->seen = NULL;
  destroy(s);
}

static pco_seen *create(pco_agent *a, const pco_request *r, const char *path) {
  pco_seen *s = calloc(1, sizeof *s);
  if (!s)
    return NULL;
  s->agent = a;
  s->op = r->op;
  s->root = -1;
  s->source = (pco_source){.fd = -1, .arg = s};
  s->recursive = pco_fs_flag(r, PCO_FS_RECURSIVE);
  s->walk_flags = pco_fs_walk_flags(r) & PCO_WALK_NOFOLLOW;
  s->path = strdup(path);
  s->patterns = malloc(r->data.len + 1);
  if (!s->path || !s->patterns) {
    destroy(s);
    return NULL;
  }
  memcpy(s->patterns, r->data.s ? r->data.s : "", r->data.len);
  s->patterns[r->data.len] = 0;
  s->patterns_len = r->data.len;
  return s;
}

static int begin(pco_agent *a, pco_seen *s) {
  int rc = pco_seen_find(s, &s->root);
  if (rc == 0)
    rc = pco_seen_start(s);
  if (rc != 0)
    return rc;
  s->source.fn = on_kernel;
  rc = pco_source_add(a->epoll, &s->source, EPOLLIN);
  if (rc != 0)
    s->source.fn = NULL;
  return rc;
}

void pco_fs_watch(pco_agent *a, const pco_request *r) {
  char path[PCO_PATH_TEXT];
  if (!pco_fs_may_hold(a, r) || !pco_fs_path(a, r, PCO_TAG_PATH, path))
    return;
  pco_seen *s = create(a, r, path);
  int rc = s ? begin(a, s) : -ENOMEM;
  if (rc == 0) {
    a->seen = s;
    pco_answer_empty(a, r->op);
    return;
  }
  if (s)
    destroy(s);
  if (reason(-rc))
    pco_answer_error(a, r->op, -rc, path, reason(-rc));
  else
    pco_fs_walk_error(a, r->op, rc, path);
}
