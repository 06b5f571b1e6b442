/* SPDX-License-Identifier: MIT */
/*
 * See commands.h.  Frames from supervisors are checked for who may send what,
 * then passed to the host as they are.
 *
 * A supervisor can be stopped or killed by a command of the same user.  It is
 * then silent: each request gives it a last moment for the answer (its own time
 * limits and PCO_SLACK), after which the agent kills it and answers itself.
 */
#include "commands.h"

#include "agent.h"
#include "clock.h"
#include "kill_all.h"
#include "lost.h"
#include "places.h"
#include "sup.h"
#include "supervisor.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PCO_SLACK (PCO_KILL_TIME + PCO_S)
/* For an exec from a slow file system.  With the killing after it, it must be
 * over before the host takes a silent agent for lost (30 s). */
#define START_TIME   (20 * PCO_S)
#define START_MOMENT (2 * PCO_S)
#define IDLE_TIME    (5 * PCO_S) /* a sandbox that does nothing has no pool */

void pco_commands_flush(pco_agent *a, pco_sup *s) {
  int rc = pco_channel_flush(&s->chan);
  s->crowded = rc == -EAGAIN;
  if (s->crowded)
    a->commands.retry_flush = true;
  /* A broken stream is also told by epoll, and handled there. */
  pco_source_want(a->epoll, &s->source, rc == 1 ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

/* Sets the moment by which the supervisor must have answered; `which` is one
 * of its two limits. */
static void expect(pco_agent *a, int64_t *which, int64_t wait) {
  int64_t at = pco_now() + wait + PCO_SLACK;
  if (at < *which)
    *which = at;
  if (at < a->commands.next_silent)
    a->commands.next_silent = at;
}

/* Only this process knows its own limit. */
static const char *without_descriptors(char *buf, size_t size) {
  struct rlimit most = {0};
  getrlimit(RLIMIT_NOFILE, &most);
  snprintf(buf, size,
           "the sandbox's agent has too many open files (it may have %llu: end "
           "commands, or raise ulimit -n for the program before it makes the "
           "sandbox)",
           (unsigned long long)most.rlim_cur);
  return buf;
}

void pco_commands_refuse(pco_agent *a, uint64_t op, int error, int limit,
                         const char *message) {
  bool limited = limit || (message && error != EAGAIN && error != ETOOMANYREFS);
  char text[192];
  if (error == EMFILE)
    message = without_descriptors(text, sizeof text);
  pco_relay_drop(a, op);
  pco_records_drop(a, op);
  pco_wire_begin(&a->buf, PCO_WIRE_ERROR, 0, op);
  pco_wire_number(&a->buf, PCO_TAG_ERRNO, (uint64_t)error);
  pco_wire_number(&a->buf, PCO_TAG_STAGE,
                  limited ? PCO_STAGE_LIMIT : PCO_STAGE_FORK);
  if (limit)
    pco_wire_number(&a->buf, PCO_TAG_LIMIT, (uint64_t)limit);
  if (message)
    pco_wire_string(&a->buf, PCO_TAG_MESSAGE, message);
  pco_answer(a);
}

/* ---- frames from supervisors -------------------------------------------- */

/* True if the answer is to a request that was passed on; forgets it. */
static bool take_pending(pco_sup *s, uint64_t op, pco_pending *out) {
  for (size_t i = 0; i < s->n_pending; i++) {
    if (s->pending[i].op == op) {
      *out = s->pending[i];
      s->pending[i] = s->pending[--s->n_pending];
      return true;
    }
  }
  return false;
}

/* Lets an idle one go; it is in no pool.  What was passed on to it meanwhile (a
 * KILL that crossed its message) gets the answer that it would have given. */
static void retire(pco_agent *a, pco_sup *s) {
  pco_commands *c = &a->commands;
  pco_lost_answer_pending(a, s, NULL, 0);
  pco_sup_disconnect(a, s);
  pco_leaves_leave(a, s->own_leaf);
  pco_sup_unlink(&c->live, s);
  pco_sup_link(&c->gone, s);
}

void pco_commands_idle(pco_agent *a, pco_sup *s) {
  pco_commands *c = &a->commands;
  pco_records_gone(a, s->op);
  s->op = 0;
  s->limit_at = PCO_NEVER;
  c->n_busy--;
  pco_leaves_remove(a, s->command_leaf);
  s->command_leaf = PCO_NO_LEAF;
  pco_sup_close_counter(&s->command_kills);
  if (c->n_idle == PCO_MAX_IDLE) {
    retire(a, s);
    return;
  }
  c->idle[c->n_idle++] = s;
  c->retire_at = pco_now() + IDLE_TIME;
}

static bool on_answer(pco_agent *a, pco_sup *s, const pco_frame *f) {
  pco_pending p;
  if (!take_pending(s, f->header.op, &p))
    return false;
  if (s->n_pending == 0)
    s->answer_at = PCO_NEVER;
  if (p.type == PCO_WIRE_KILL_ALL)
    pco_kill_all_reply(a, f);
  else
    pco_answer_relay(a, f);
  return true;
}

/* What its own counter stood at is no death of the next command. */
static void note_kills(pco_sup *s, const pco_frame *f) {
  pco_wire_iter it;
  pco_wire_field field;
  pco_wire_iter_init(&it, f->payload, f->header.size);
  while (pco_wire_next(&it, &field) == 1)
    if (field.tag == PCO_TAG_COUNT)
      s->own_kills.seen = field.number;
}

/* False if this frame may not come now. */
static bool on_frame(pco_agent *a, pco_sup *s, const pco_frame *f) {
  bool own = s->op != 0 && f->header.op == s->op;
  switch (f->header.type) {
  case PCO_WIRE_STARTED:
    if (!own || s->started)
      return false;
    s->started = true;
    s->limit_at = s->run_until;
    pco_records_started_by(a, f);
    pco_answer_relay(a, f);
    pco_relay_started(a, s->op);
    return true;
  case PCO_WIRE_EXIT:
    if (!own || !s->started || s->final)
      return false;
    s->final = true;
    s->limit_at = PCO_NEVER;
    pco_records_exited(a, s->op, f->payload, f->header.size);
    pco_answer_relay(a, f);
    pco_relay_exited(a, s->op);
    return true;
  case PCO_WIRE_ERROR:
    if (!own)
      return on_answer(a, s, f);
    if (s->started || s->final)
      return false;
    s->final = true;
    pco_relay_drop(a, s->op);
    pco_records_drop(a, s->op);
    pco_answer_relay(a, f);
    return true;
  case PCO_WIRE_REPLY:
    return on_answer(a, s, f);
  case PCO_SUP_IDLE:
    if (!own || !s->final)
      return false;
    note_kills(s, f);
    pco_commands_idle(a, s);
    return true;
  default:
    return false;
  }
}

static void on_supervisor(void *arg, uint32_t events) {
  pco_sup *s = arg;
  pco_agent *a = s->agent;
  if (events & EPOLLOUT)
    pco_commands_flush(a, s);
  if (!(events & ~(uint32_t)EPOLLOUT))
    return;
  int rc = pco_channel_receive(&s->chan);
  if (rc == -EAGAIN)
    return;
  pco_frame f;
  bool good = rc == 1;
  while (good && s->source.fn && (rc = pco_channel_next(&s->chan, &f)) == 1)
    good = f.header.n_fds == 0 && on_frame(a, s, &f);
  if (s->source.fn && (!good || rc < 0))
    pco_lost_add(a, s);
}

/* ---- requests ----------------------------------------------------------- */

/* By when it must have started: what it waited for a place is part of that, and
 * where nothing has started no ladder needs its time. */
static int64_t start_limit(const pco_sup *s, uint64_t timeout) {
  int64_t now = pco_now();
  int64_t at = s->asked + START_TIME;
  if (timeout && now + (int64_t)timeout + START_MOMENT < at)
    at = now + (int64_t)timeout + START_MOMENT;
  return at < now + START_MOMENT ? now + START_MOMENT : at;
}

/* Sets by when it must have started, and ended if it has a time limit. */
static void expect_command(pco_agent *a, pco_sup *s, const pco_request *r) {
  uint64_t timeout = pco_request_number(r, PCO_TAG_TIMEOUT);
  uint64_t grace = pco_request_number(r, PCO_TAG_GRACE);
  if (timeout) {
    s->ends_at = pco_now() + (int64_t)timeout;
    expect(a, &s->run_until, (int64_t)(timeout + grace));
  }
  s->limit_at = start_limit(s, timeout);
  if (s->limit_at < a->commands.next_silent)
    a->commands.next_silent = s->limit_at;
}

void pco_commands_start(pco_agent *a, pco_sup *s, pco_frame *f,
                        const pco_request *r) {
  expect_command(a, s, r);
  int rc = pco_channel_relay(&s->chan, f);
  f->header.n_fds = 0;
  if (rc != 0)
    pco_lost_add(a, s);
  else
    pco_commands_flush(a, s);
}

/* The streams that it wants relayed; false after refusing. */
static bool open_relay(pco_agent *a, pco_frame *f, const pco_request *r) {
  int rc = pco_relay_open(a, f, r);
  if (rc == 0)
    return true;
  if (rc == -EMFILE) {
    pco_commands_refuse(a, r->op, EMFILE, PCO_LIMIT_NONE, NULL);
    return false;
  }
  pco_wire_begin(&a->buf, PCO_WIRE_ERROR, 0, r->op);
  pco_wire_number(&a->buf, PCO_TAG_ERRNO, (uint64_t)-rc);
  pco_wire_number(&a->buf, PCO_TAG_STAGE, PCO_STAGE_FORK);
  pco_wire_string(&a->buf, PCO_TAG_MESSAGE,
                  r->stdio[0] == PCO_STDIO_TERMINAL
                      ? "the sandbox's /dev/ptmx gives no terminal"
                      : "making the command's pipes");
  pco_answer(a);
  return false;
}

void pco_commands_spawn(pco_agent *a, pco_frame *f, const pco_request *r) {
  pco_commands *c = &a->commands;
  pco_sup *s = NULL;
  uint32_t wanted = pco_leaves_wanted(r);
  bool has_keeper = a->leaves.keeper.fd >= 0;
  if (wanted && !has_keeper && pco_leaves_required(&a->leaves, r)) {
    pco_frame_close_fds(f);
    pco_places_refuse(a, r->op, pco_leaves_required(&a->leaves, r));
    return;
  }
  if (!open_relay(a, f, r))
    return;
  int rc = 0;
  if (c->n_idle > 0)
    s = c->idle[--c->n_idle];
  else
    rc = pco_sup_create(a, on_supervisor, &s);
  if (rc != 0) {
    pco_frame_close_fds(f);
    pco_commands_refuse(a, f->header.op, -rc, PCO_LIMIT_NONE, NULL);
    return;
  }
  s->op = f->header.op;
  s->asked = pco_now();
  s->started = false;
  s->final = false;
  s->silent = s->overdue = false;
  s->ends_at = s->run_until = PCO_NEVER;
  c->n_busy++;
  pco_records_add(a, f, r);
  if ((a->leaves.limits && s->own_leaf == PCO_NO_LEAF) ||
      (wanted && has_keeper))
    pco_places_begin(a, s, f, r);
  else
    pco_commands_start(a, s, f, r);
  pco_frame_close_fds(f);
}

static pco_sup *find(pco_agent *a, uint64_t target) {
  for (pco_sup *s = a->commands.live; s; s = s->next)
    if (s->op == target)
      return s;
  return NULL;
}

bool pco_commands_has(pco_agent *a, uint64_t op) {
  const pco_sup *s = find(a, op);
  return s && s->started;
}

/* Passes a request on; false if there are too many at that supervisor. */
static bool pass_on(pco_agent *a, pco_sup *s, const pco_frame *f,
                    uint16_t type) {
  if (s->n_pending == PCO_MAX_PENDING || pco_channel_relay(&s->chan, f) != 0)
    return false;
  s->pending[s->n_pending++] = (pco_pending){f->header.op, type};
  pco_commands_flush(a, s);
  return true;
}

void pco_commands_signal(pco_agent *a, const pco_frame *f,
                         const pco_request *r) {
  pco_sup *s = find(a, pco_request_number(r, PCO_TAG_TARGET));
  if (!s || s->held)
    pco_answer_error(a, r->op, ESRCH, NULL, NULL);
  else if (!pass_on(a, s, f, PCO_WIRE_SIGNAL))
    pco_answer_error(a, r->op, EAGAIN, NULL, NULL);
  else
    expect(a, &s->answer_at, 0);
}

/* A supervisor that was stopped goes on for this. */
static void wake(const pco_sup *s) {
  syscall(SYS_pidfd_send_signal, s->pidfd, SIGCONT, NULL, 0);
}

void pco_commands_kill(pco_agent *a, const pco_frame *f, const pco_request *r) {
  pco_sup *s = find(a, pco_request_number(r, PCO_TAG_TARGET));
  if (!s) {
    pco_answer_empty(a, r->op);
    return;
  }
  if (s->held && s->n_pending < PCO_MAX_PENDING) {
    /* it has not started, and will not */
    s->pending[s->n_pending++] = (pco_pending){r->op, PCO_WIRE_KILL};
    pco_lost_add(a, s);
    return;
  }
  if (!pass_on(a, s, f, PCO_WIRE_KILL)) {
    pco_answer_error(a, r->op, EAGAIN, NULL, NULL);
    return;
  }
  wake(s);
  int64_t grace = (int64_t)pco_request_number(r, PCO_TAG_GRACE);
  expect(a, &s->answer_at, grace);
}

/* Sends one supervisor a KILL with the op of the KILL_ALL. */
static bool kill_one(pco_agent *a, pco_sup *s, uint64_t op) {
  if (s->n_pending == PCO_MAX_PENDING || s->held)
    return false;
  pco_wire_begin(&a->buf, PCO_WIRE_KILL, 0, op);
  pco_wire_number(&a->buf, PCO_TAG_TARGET, s->op);
  if (pco_wire_end(&a->buf, 0) != 0 || pco_channel_send(&s->chan, &a->buf) != 0)
    return false;
  s->pending[s->n_pending++] = (pco_pending){op, PCO_WIRE_KILL_ALL};
  pco_commands_flush(a, s);
  wake(s);
  expect(a, &s->answer_at, 0);
  return true;
}

void pco_commands_kill_all(pco_agent *a, uint64_t op) {
  pco_kill_all *k = pco_kill_all_begin(a, op);
  if (!k) {
    pco_answer_error(a, op, EAGAIN, NULL, NULL);
    return;
  }
  for (pco_sup *s = a->commands.live, *next; s; s = next) {
    next = s->next;
    if (s->op == 0)
      continue;
    if (kill_one(a, s, op))
      k->waiting++;
    else
      pco_lost_add(a, s); /* it does not take requests any more */
  }
  pco_kill_all_step(a, op);
}

void pco_commands_let_go(pco_agent *a) {
  for (pco_sup *s = a->commands.live, *next; s; s = next) {
    next = s->next;
    if (s->op != 0 && !s->started && !s->final)
      pco_lost_add(a, s);
  }
}

/* ---- the loop's side ---------------------------------------------------- */

size_t pco_commands_count(const pco_commands *c) {
  return c->n_busy;
}

int64_t pco_commands_next(const pco_commands *c) {
  int64_t next = c->next_silent;
  if (c->n_idle > 0 && c->retire_at < next)
    next = c->retire_at;
  if (c->lost || c->retry_flush) {
    int64_t soon = pco_now() + 5 * PCO_MS;
    next = soon < next ? soon : next;
  }
  return next;
}

/* Gives up on supervisors that did not answer in time. */
static void lose_silent(pco_agent *a, int64_t now) {
  pco_commands *c = &a->commands;
  c->next_silent = PCO_NEVER;
  for (pco_sup *s = c->live, *next; s; s = next) {
    next = s->next;
    if (s->held && s->limit_at < a->leaves.heard + PCO_PLACE_TIME)
      s->limit_at = a->leaves.heard + PCO_PLACE_TIME; /* it is only its turn */
    int64_t at = s->limit_at < s->answer_at ? s->limit_at : s->answer_at;
    if (at <= now) {
      s->silent = true;
      s->overdue = s->limit_at <= now && s->ends_at <= now;
      pco_lost_add(a, s);
    } else if (at < c->next_silent)
      c->next_silent = at;
  }
}

static void retry_flush(pco_agent *a) {
  a->commands.retry_flush = false;
  for (pco_sup *s = a->commands.live; s; s = s->next)
    if (pco_channel_queued(&s->chan) > 0)
      pco_commands_flush(a, s);
}

void pco_commands_tick(pco_agent *a) {
  pco_commands *c = &a->commands;
  if (c->next_silent != PCO_NEVER) {
    int64_t now = pco_now();
    if (now >= c->next_silent)
      lose_silent(a, now);
  }
  if (c->n_idle > 0 && pco_now() >= c->retire_at)
    while (c->n_idle > 0)
      retire(a, c->idle[--c->n_idle]);
  if (c->retry_flush)
    retry_flush(a);
  if (c->lost)
    pco_lost_bury(a);
  for (pco_sup *s; (s = c->gone);) {
    pco_sup_unlink(&c->gone, s);
    pco_sup_free(s);
  }
}

int pco_commands_init(pco_agent *a) {
  pco_commands *c = &a->commands;
  sigset_t chld;
  sigemptyset(&chld);
  sigaddset(&chld, SIGCHLD);
  pco_now(); /* libc finds the kernel's clock once, not after each fork */
  c->next_silent = PCO_NEVER;
  c->sigchld.fn = pco_lost_on_sigchld;
  c->sigchld.arg = a;
  c->sigchld.fd = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
  if (c->sigchld.fd < 0)
    return -errno;
  return pco_source_add(a->epoll, &c->sigchld, EPOLLIN);
}

void pco_commands_end(pco_agent *a) {
  pid_t survivors[PCO_MAX_SURVIVORS];
  pco_tree_options o = {.own_system = a->own_system};
  for (const pco_sup *s = a->commands.live; s; s = s->next)
    syscall(SYS_pidfd_send_signal, s->pidfd, SIGKILL, NULL, 0);
  pco_tree_kill(&o, pco_now() + PCO_KILL_TIME, survivors);
}

static void free_all(pco_agent *a, pco_sup **list) {
  for (pco_sup *s; (s = *list);) {
    pco_sup_unlink(list, s);
    pco_sup_disconnect(a, s);
    pco_sup_free(s);
  }
}

void pco_commands_deinit(pco_agent *a) {
  free_all(a, &a->commands.live);
  free_all(a, &a->commands.lost);
  free_all(a, &a->commands.gone);
  close(a->commands.sigchld.fd);
}
