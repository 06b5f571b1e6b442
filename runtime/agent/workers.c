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
#include "fs.h"

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
#define CLOSE_TIME          (5 * PCO_S)  /* for a disk that is slow */
#define PCO_WORKER_TIDYING  (20 * PCO_S) /* removing what was unpacked */
#define IDLE_TIME           (5 * PCO_S)
#define KILLED              "the process of the sandbox that did it was killed"

static const char too_many_open[] =
    "128 files and watches are open, which is all that a sandbox may have: "
    "close some";
_Static_assert(PCO_MAX_OPEN == 128, "too_many_open says so");

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
  w->litter = pco_litter_new();
  w->pid = fork();
  if (w->pid == 0) {
    a->litter = w->litter;
    pco_worker_main(a, fds[1]);
  }
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
    pco_litter_free(w->litter);
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
  if (w->holds)
    a->workers.n_holding--;
  else
    a->workers.n--;
  disconnect(a, w);
  pco_litter_free(w->litter);
  w->litter = NULL;
  free(w->asked);
  w->asked = NULL;
  w->n_asked = 0;
  w->next = a->workers.gone;
  a->workers.gone = w;
}

/* What was asked of the file that is lost with it. */
static void lose_asked(pco_agent *a, pco_worker *w) {
  for (size_t i = 0; i < w->n_asked; i++) {
    const pco_asked *q = &w->asked[i];
    if (q->closes)
      pco_answer_empty(a, q->op);
    else if (!q->answered)
      pco_answer_error(a, q->op, EIO, NULL, KILLED);
  }
}

/* It died or is to: its request is answered, and the work is not done again,
 * since nobody knows how far it came. */
static void lose(pco_agent *a, pco_worker *w) {
  if (w->pidfd >= 0)
    syscall(SYS_pidfd_send_signal, w->pidfd, SIGKILL, NULL, 0);
  pco_litter_expect(a, w->pid, w->litter);
  w->litter = NULL;
  if (w->holds)
    lose_asked(a, w);
  else if (w->op && w->cancelled)
    pco_answer_error(a, w->op, ECANCELED, NULL, NULL);
  else if (w->op)
    pco_answer_error(a, w->op, EIO, NULL, KILLED);
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
  for (unsigned i = 0; q && i < q->n_fds; i++)
    close(q->fds[i]);
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

/* Moves the descriptors that wait to a frame. */
static void take_fds(pco_waiting *q, pco_frame *f) {
  f->header.n_fds = q->n_fds;
  memcpy(f->fds, q->fds, sizeof q->fds);
  q->n_fds = 0;
}

/* Gives an idle worker the first request in line. */
static void begin(pco_agent *a, pco_worker *w) {
  pco_waiting *q = leave_line(&a->workers, NULL);
  /* All frames at once: to the channel they are bytes. */
  pco_frame f = {.payload = q->frames + PCO_WIRE_HEADER,
                 .header = {.size = (uint32_t)(q->len - PCO_WIRE_HEADER)}};
  w->op = q->op;
  w->opens = q->opens;
  w->cancelled = false;
  w->tidies = q->tidies;
  w->kill_at = PCO_NEVER;
  take_fds(q, &f);
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
    if (pco_wire_header_read(q->frames + at, &f.header) != 0)
      break; /* it was checked before, */
    if (at == 0)
      take_fds(q, &f);
    if (pco_request_parse(&f, &r) != 0) {
      pco_frame_close_fds(&f);
      break; /* and so was this */
    }
    pco_dispatch_here(a, &f, &r);
    at += PCO_WIRE_HEADER + f.header.size;
  }
  free_waiting(q);
}

/* Makes a worker for the first in line; false if there can be no more. */
static bool grow(pco_agent *a) {
  if (a->workers.n >= PCO_MAX_WORKERS)
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

static pco_asked *find_asked(pco_worker *w, uint64_t op) {
  for (size_t i = 0; i < w->n_asked; i++)
    if (w->asked[i].op == op)
      return &w->asked[i];
  return NULL;
}

static void become_idle(pco_agent *a, pco_worker *w) {
  w->op = 0;
  w->kill_at = PCO_NEVER;
  a->workers.retire_at = pco_now() + IDLE_TIME;
  a->workers.failed = false;
}

/* It has closed what it held, and is one of the others again, if there are not
 * enough of them. */
static void hold_no_more(pco_agent *a, pco_worker *w) {
  lose_asked(a, w); /* there is nothing else, unless it is a liar */
  w->holds = false;
  w->n_asked = 0;
  a->workers.n_holding--;
  a->workers.n++;
  become_idle(a, w);
  if (a->workers.n > 2)
    let_go(a, w);
}

/* An answer of one that holds something. */
static bool on_asked_frame(pco_agent *a, pco_worker *w, const pco_frame *f) {
  pco_asked *q = find_asked(w, f->header.op);
  if (!q)
    return true; /* to what was cancelled before it was open */
  bool closes = q->closes;
  if (!q->answered)
    pco_answer_relay(a, f);
  if (f->header.flags & PCO_WIRE_MORE)
    return true;
  *q = w->asked[--w->n_asked];
  if (closes)
    hold_no_more(a, w);
  return true;
}

/* It has opened something and keeps that open from now on. */
static void hold(pco_agent *a, pco_worker *w) {
  w->holds = true;
  w->opens = false;
  w->kill_at = PCO_NEVER;
  a->workers.n--;
  a->workers.n_holding++;
}

static bool on_frame(pco_agent *a, pco_worker *w, const pco_frame *f) {
  if (f->header.n_fds != 0)
    return false;
  if (w->holds)
    return on_asked_frame(a, w, f);
  if (w->op == 0 || f->header.op != w->op)
    return true; /* what was on its way when it was cancelled */
  pco_answer_relay(a, f);
  if (f->header.flags & PCO_WIRE_MORE)
    return true;
  if (w->opens && f->header.type == PCO_WIRE_REPLY)
    hold(a, w);
  else
    become_idle(a, w);
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

static bool is_opening(const pco_request *r) {
  return r->type == PCO_WIRE_OPEN || r->type == PCO_WIRE_WATCH;
}

void pco_workers_request(pco_agent *a, pco_frame *f, const pco_request *r) {
  pco_workers *s = &a->workers;
  if (is_opening(r) && s->n_holding >= PCO_MAX_OPEN) {
    pco_answer_error(a, r->op, EMFILE, NULL, too_many_open);
    return;
  }
  pco_waiting *q = s->n_waiting < PCO_MAX_WAITING ? calloc(1, sizeof *q) : NULL;
  if (!q || add_frame(q, f) != 0) {
    pco_answer_error(a, r->op, EAGAIN, NULL,
                     "too many file operations at once");
    pco_frame_close_fds(f);
    free_waiting(q);
    return;
  }
  q->op = r->op;
  q->since = pco_now();
  q->n_fds = f->header.n_fds;
  memcpy(q->fds, f->fds, sizeof q->fds);
  q->opens = is_opening(r);
  q->tidies = r->type == PCO_WIRE_UNPACK;
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

static pco_worker *find_holder(const pco_agent *a, uint64_t target) {
  pco_worker *w = find(a, target);
  return w && w->holds ? w : NULL;
}

/* Remembers what is asked of an open file: false if that is too much. */
static bool note_asked(pco_worker *w, const pco_request *r) {
  if (!w->asked)
    w->asked = calloc(PCO_MAX_ASKED, sizeof *w->asked);
  bool closes = r->type == PCO_WIRE_FILE_CLOSE;
  /* One place is kept for the close. */
  if (!w->asked || w->n_asked >= PCO_MAX_ASKED - (closes ? 0u : 1u))
    return false;
  w->asked[w->n_asked++] =
      (pco_asked){.op = r->op, .answer_at = PCO_NEVER, .closes = closes};
  if (closes)
    w->kill_at = pco_now() + CLOSE_TIME;
  return true;
}

void pco_workers_opened(pco_agent *a, pco_frame *f, const pco_request *r) {
  pco_worker *w = find_holder(a, pco_request_number(r, PCO_TAG_TARGET));
  if (w && note_asked(w, r)) {
    pass_frame(a, w, f); /* takes the descriptor */
    return;
  }
  pco_frame_close_fds(f);
  if (w)
    pco_answer_error(a, r->op, EAGAIN, NULL,
                     "too many calls on one open file at once");
  else if (r->type == PCO_WIRE_FILE_CLOSE)
    pco_answer_empty(a, r->op);
  else
    pco_answer_error(a, r->op, EBADF, NULL, PCO_NOT_OPEN);
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

/* Passes on the CANCEL of what was asked of an open file. */
static bool cancel_asked(pco_agent *a, const pco_frame *f) {
  for (pco_worker *w = a->workers.first; w; w = w->next) {
    pco_asked *q = w->holds ? find_asked(w, f->header.op) : NULL;
    if (!q)
      continue;
    if (!q->closes)
      q->answer_at = pco_now() + PCO_WORKER_GRACE;
    pass_frame(a, w, f);
    return true;
  }
  return false;
}

bool pco_workers_cancel(pco_agent *a, const pco_frame *f) {
  pco_waiting *before;
  if (cancel_asked(a, f))
    return true;
  pco_worker *w = find(a, f->header.op);
  if (w && w->holds)
    return true; /* it is open by now */
  if (w) {
    w->cancelled = true;
    w->kill_at =
        pco_now() + (w->tidies ? PCO_WORKER_TIDYING : PCO_WORKER_GRACE);
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

void pco_workers_let_go(pco_agent *a) {
  while (a->workers.line)
    free_waiting(leave_line(&a->workers, NULL));
  for (pco_worker *w = a->workers.first, *next; w; w = next) {
    next = w->next;
    if (w->op)
      lose(a, w);
  }
}

/* ---- the loop's side ----------------------------------------------------- */

bool pco_workers_has(const pco_agent *a, pid_t pid) {
  if (pco_litter_has(a, pid))
    return true;
  for (const pco_worker *w = a->workers.first; w; w = w->next)
    if (w->pid == pid)
      return true;
  return false;
}

void pco_workers_reaped(pco_agent *a, pid_t pid) {
  pco_worker *w = a->workers.first;
  while (w && w->pid != pid)
    w = w->next;
  if (w)
    lose(a, w);
  pco_litter_reaped(a, pid);
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
  for (const pco_worker *w = s->first; w; w = w->next) {
    next = earlier(next, w->kill_at);
    for (size_t i = 0; i < w->n_asked; i++)
      next = earlier(next, w->asked[i].answer_at);
  }
  return next;
}

/* It is slow: what was cancelled is answered for it. */
static void answer_asked(pco_agent *a, pco_worker *w, int64_t now) {
  for (size_t i = 0; i < w->n_asked; i++) {
    pco_asked *q = &w->asked[i];
    if (q->answer_at > now)
      continue;
    q->answer_at = PCO_NEVER;
    q->answered = true;
    pco_answer_error(a, q->op, ECANCELED, NULL, NULL);
  }
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
    answer_asked(a, w, now);
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
  int64_t begin = pco_now();
  for (pco_worker *w = a->workers.first; w; w = w->next)
    pco_channel_deinit(&w->chan);
  for (const pco_worker *w = a->workers.first; w; w = w->next) {
    struct pollfd p = {.fd = w->pidfd, .events = POLLIN};
    int64_t grace = w->tidies ? PCO_S : PCO_WORKER_GRACE;
    int64_t left = (begin + grace - pco_now()) / PCO_MS;
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
  pco_litter_forget(a);
}
