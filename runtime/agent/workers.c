/* SPDX-License-Identifier: MIT */
/*
 * The agent's side of file work; see workers.h.
 *
 * Workers run the same program and are no more trusted or distrusted than the
 * agent; still a command of the same user can stop or kill one, so what is
 * asked of one is remembered and answered whatever happens to it.
 */
#include "workers.h"

#include "agent.h"
#include "clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PCO_WORKER_PATIENCE (20 * PCO_MS)
#define PCO_WORKER_GRACE    (250 * PCO_MS)
#define IDLE_TIME           (5 * PCO_S)

static void on_worker(void *arg, uint32_t events);

/* ---- one worker ---------------------------------------------------------- */

static void flush(pco_agent *a, pco_worker *w) {
  uint32_t want = a->workers.paused ? 0 : EPOLLIN;
  pco_channel_flush(&w->chan);
  if (pco_channel_queued(&w->chan) > 0)
    want |= EPOLLOUT;
  pco_source_want(a->epoll, &w->source, want);
}

static int make_process(pco_agent *a, pco_worker *w, const int fds[2]) {
  w->pid = fork();
  if (w->pid == 0)
    pco_worker_main(a, fds[1]);
  if (w->pid < 0)
    return -errno;
  w->pidfd = (int)syscall(SYS_pidfd_open, w->pid, 0);
  return w->pidfd < 0 ? -errno : 0;
}

/* Stops talking to it: one that lives ends by itself. */
static void disconnect(pco_agent *a, pco_worker *w) {
  if (w->source.fn)
    pco_source_remove(a->epoll, &w->source);
  pco_channel_deinit(&w->chan);
  if (w->pidfd >= 0)
    close(w->pidfd);
  w->pidfd = -1;
}

static pco_worker *create(pco_agent *a) {
  int fds[2];
  pco_worker *w = calloc(1, sizeof *w);
  if (!w || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    free(w);
    return NULL;
  }
  w->agent = a;
  w->pidfd = -1;
  w->kill_at = PCO_NEVER;
  pco_channel_init(&w->chan, fds[0]);
  int rc = make_process(a, w, fds);
  close(fds[1]);
  if (rc == 0) {
    w->source = (pco_source){.fd = fds[0], .fn = on_worker, .arg = w};
    rc = pco_source_add(a->epoll, &w->source, a->workers.paused ? 0 : EPOLLIN);
  }
  if (rc != 0) {
    w->source.fn = NULL;
    disconnect(a, w);
    free(w);
    return NULL;
  }
  w->next = a->workers.first;
  a->workers.first = w;
  a->workers.n++;
  return w;
}

/* Takes it out; its memory lives to the end of the turn. */
static void let_go(pco_agent *a, pco_worker *w) {
  pco_worker **at = &a->workers.first;
  while (*at != w)
    at = &(*at)->next;
  *at = w->next;
  a->workers.n--;
  disconnect(a, w);
  w->next = a->workers.gone;
  a->workers.gone = w;
}

/* It died or is to: its request is answered, and the work is not done again,
 * since nobody knows how far it came. */
static void lose(pco_agent *a, pco_worker *w) {
  if (w->pidfd >= 0)
    syscall(SYS_pidfd_send_signal, w->pidfd, SIGKILL, NULL, 0);
  if (w->op && w->cancelled)
    pco_answer_error(a, w->op, ECANCELED, NULL, NULL);
  else if (w->op)
    pco_answer_error(a, w->op, EIO, NULL,
                     "the process of the sandbox that did it was killed");
  let_go(a, w);
}

/* ---- the line ------------------------------------------------------------ */

static int add_frame(pco_waiting *q, const pco_frame *f) {
  size_t size = PCO_WIRE_HEADER + f->header.size;
  uint8_t *p = realloc(q->frames, q->len + size);
  if (!p)
    return -ENOMEM;
  memcpy(p + q->len, f->payload - PCO_WIRE_HEADER, size);
  q->frames = p;
  q->len += size;
  return 0;
}

static void free_waiting(pco_waiting *q) {
  if (q)
    free(q->frames);
  free(q);
}

/* Takes out the one behind `before` (NULL: the first). */
static pco_waiting *leave_line(pco_workers *s, pco_waiting *before) {
  pco_waiting *q = before ? before->next : s->line;
  if (before)
    before->next = q->next;
  else
    s->line = q->next;
  if (s->last == q)
    s->last = before;
  s->n_waiting--;
  return q;
}

static pco_waiting *find_waiting(const pco_workers *s, uint64_t op,
                                 pco_waiting **before) {
  *before = NULL;
  for (pco_waiting *q = s->line; q; *before = q, q = q->next)
    if (q->op == op)
      return q;
  return NULL;
}

static pco_worker *find(const pco_agent *a, uint64_t op) {
  pco_worker *w = a->workers.first;
  while (w && w->op != op)
    w = w->next;
  return w;
}

/* Gives an idle worker the first request in line. */
static void begin(pco_agent *a, pco_worker *w) {
  pco_waiting *q = leave_line(&a->workers, NULL);
  /* All frames at once: to the channel they are bytes. */
  pco_frame f = {.payload = q->frames + PCO_WIRE_HEADER,
                 .header = {.size = (uint32_t)(q->len - PCO_WIRE_HEADER)}};
  w->op = q->op;
  w->cancelled = false;
  w->kill_at = PCO_NEVER;
  int rc = pco_channel_relay(&w->chan, &f);
  free_waiting(q);
  if (rc != 0)
    lose(a, w);
  else
    flush(a, w);
}

/* Gives work to who is idle. */
static void serve(pco_agent *a) {
  pco_worker *w;
  while (a->workers.line && (w = find(a, 0)) != NULL)
    begin(a, w);
}

/* No process can be made: the agent does the first in line. */
static void do_it_here(pco_agent *a) {
  pco_waiting *q = leave_line(&a->workers, NULL);
  for (size_t at = 0; at < q->len && !a->ending;) {
    pco_frame f = {.payload = q->frames + at + PCO_WIRE_HEADER};
    pco_request r;
    if (pco_wire_header_read(q->frames + at, &f.header) != 0 ||
        pco_request_parse(&f, &r) != 0)
      break; /* it was checked before */
    pco_dispatch_here(a, &f, &r);
    at += PCO_WIRE_HEADER + f.header.size;
  }
  free_waiting(q);
}

/* Makes a worker for the first in line; false if there can be no more. */
static bool grow(pco_agent *a) {
  if (a->workers.n == PCO_MAX_WORKERS)
    return false;
  pco_worker *w = create(a);
  if (w)
    begin(a, w);
  else if (a->workers.n == 0)
    do_it_here(a);
  else
    a->workers.failed = true; /* those that are there will come to it */
  return w || a->workers.n == 0;
}

/* ---- answers ------------------------------------------------------------- */

static bool on_frame(pco_agent *a, pco_worker *w, const pco_frame *f) {
  if (f->header.n_fds != 0)
    return false;
  if (w->op == 0 || f->header.op != w->op)
    return true; /* what was on its way when it was cancelled */
  if (pco_channel_relay(&a->host, f) != 0)
    a->ending = true;
  if (f->header.flags & PCO_WIRE_MORE)
    return true;
  w->op = 0;
  w->kill_at = PCO_NEVER;
  a->workers.retire_at = pco_now() + IDLE_TIME;
  a->workers.failed = false;
  return true;
}

static void on_worker(void *arg, uint32_t events) {
  pco_worker *w = arg;
  pco_agent *a = w->agent;
  if (events & EPOLLOUT)
    flush(a, w);
  if (!(events & ~(uint32_t)EPOLLOUT))
    return;
  int rc = pco_channel_receive(&w->chan);
  if (rc == -EAGAIN)
    return;
  pco_frame f;
  bool good = rc == 1;
  while (good && (rc = pco_channel_next(&w->chan, &f)) == 1)
    good = on_frame(a, w, &f);
  if (!good || rc < 0)
    lose(a, w);
  serve(a);
}

/* ---- requests ------------------------------------------------------------ */

void pco_workers_request(pco_agent *a, const pco_frame *f,
                         const pco_request *r) {
  pco_workers *s = &a->workers;
  pco_waiting *q = s->n_waiting < PCO_MAX_WAITING ? calloc(1, sizeof *q) : NULL;
  if (!q || add_frame(q, f) != 0) {
    pco_answer_error(a, r->op, EAGAIN, NULL,
                     "too many file operations at once");
    free_waiting(q);
    return;
  }
  q->op = r->op;
  q->since = pco_now();
  if (s->last)
    s->last->next = q;
  else
    s->line = q;
  s->last = q;
  s->n_waiting++;
  serve(a);
  if (s->line && s->n == 0)
    grow(a);
}

static void pass_frame(pco_agent *a, pco_worker *w, const pco_frame *f) {
  if (pco_channel_relay(&w->chan, f) != 0)
    lose(a, w);
  else
    flush(a, w);
}

bool pco_workers_data(pco_agent *a, const pco_frame *f) {
  pco_waiting *before;
  pco_worker *w = find(a, f->header.op);
  if (w) {
    pass_frame(a, w, f);
    return true;
  }
  pco_waiting *q = find_waiting(&a->workers, f->header.op, &before);
  if (!q)
    return false;
  if (add_frame(q, f) != 0) {
    pco_answer_error(a, q->op, ENOMEM, NULL, NULL);
    free_waiting(leave_line(&a->workers, before));
  }
  return true;
}

bool pco_workers_cancel(pco_agent *a, const pco_frame *f) {
  pco_waiting *before;
  pco_worker *w = find(a, f->header.op);
  if (w) {
    w->cancelled = true;
    w->kill_at = pco_now() + PCO_WORKER_GRACE;
    pass_frame(a, w, f);
    return true;
  }
  pco_waiting *q = find_waiting(&a->workers, f->header.op, &before);
  if (!q)
    return false;
  pco_answer_error(a, q->op, ECANCELED, NULL, NULL);
  free_waiting(leave_line(&a->workers, before));
  return true;
}

/* ---- the loop's side ----------------------------------------------------- */

bool pco_workers_has(const pco_agent *a, pid_t pid) {
  for (const pco_worker *w = a->workers.first; w; w = w->next)
    if (w->pid == pid)
      return true;
  return false;
}

void pco_workers_reaped(pco_agent *a, pid_t pid) {
  for (pco_worker *w = a->workers.first; w; w = w->next)
    if (w->pid == pid) {
      lose(a, w);
      return;
    }
}

void pco_workers_pause(pco_agent *a, bool paused) {
  if (a->workers.paused == paused)
    return;
  a->workers.paused = paused;
  for (pco_worker *w = a->workers.first; w; w = w->next)
    flush(a, w);
}

static int64_t earlier(int64_t a, int64_t b) {
  return a < b ? a : b;
}

int64_t pco_workers_next(const pco_agent *a) {
  const pco_workers *s = &a->workers;
  int64_t next = s->retire_at;
  if (s->line && s->n < PCO_MAX_WORKERS && !s->failed)
    next = earlier(next, s->line->since + PCO_WORKER_PATIENCE);
  for (const pco_worker *w = s->first; w; w = w->next)
    next = earlier(next, w->kill_at);
  return next;
}

static void retire_idle(pco_agent *a) {
  a->workers.retire_at = PCO_NEVER;
  for (pco_worker *w = a->workers.first, *next; w; w = next) {
    next = w->next;
    if (w->op == 0)
      let_go(a, w);
  }
}

static void free_gone(pco_agent *a) {
  for (pco_worker *w; (w = a->workers.gone);) {
    a->workers.gone = w->next;
    free(w);
  }
}

void pco_workers_tick(pco_agent *a) {
  pco_workers *s = &a->workers;
  free_gone(a);
  if (!s->first && !s->line) {
    s->retire_at = PCO_NEVER;
    return;
  }
  int64_t now = pco_now();
  for (pco_worker *w = s->first, *next; w; w = next) {
    next = w->next;
    if (w->kill_at <= now)
      lose(a, w);
  }
  serve(a);
  while (s->line && !s->failed &&
         (s->n == 0 || now - s->line->since >= PCO_WORKER_PATIENCE) && grow(a))
    ;
  if (s->retire_at <= now)
    retire_idle(a);
}

void pco_workers_end(pco_agent *a) {
  int64_t until = pco_now() + PCO_WORKER_GRACE;
  for (pco_worker *w = a->workers.first; w; w = w->next)
    pco_channel_deinit(&w->chan);
  for (const pco_worker *w = a->workers.first; w; w = w->next) {
    struct pollfd p = {.fd = w->pidfd, .events = POLLIN};
    int64_t left = (until - pco_now()) / PCO_MS;
    if (w->op)
      poll(&p, 1, left > 0 ? (int)left : 0);
  }
}

void pco_workers_init(pco_agent *a) {
  a->workers.retire_at = PCO_NEVER;
}

void pco_workers_deinit(pco_agent *a) {
  while (a->workers.first)
    let_go(a, a->workers.first);
  free_gone(a);
  while (a->workers.line)
    free_waiting(leave_line(&a->workers, NULL));
}
