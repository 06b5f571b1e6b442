/* SPDX-License-Identifier: MIT */
/*
 * When a supervisor is dead or taken for dead; see lost.h.
 */
#include "lost.h"

#include "agent.h"
#include "clock.h"
#include "kill_all.h"
#include "sup.h"
#include "supervisor.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define KILL_SLICE (50 * PCO_MS) /* of killing orphans, a turn */

/* ---- answers that the agent gives itself -------------------------------- */

static void answer_pending(pco_agent *a, pco_pending p, const pid_t *pids,
                           size_t n) {
  if (p.type == PCO_WIRE_SIGNAL) {
    pco_answer_error(a, p.op, ESRCH, NULL, NULL);
    return;
  }
  if (p.type == PCO_WIRE_KILL_ALL) {
    pco_kill_all_step(a, p.op); /* pco_lost_bury() adds the survivors */
    return;
  }
  pco_wire_begin(&a->buf, PCO_WIRE_REPLY, 0, p.op);
  for (size_t i = 0; i < n; i++)
    pco_wire_number(&a->buf, PCO_TAG_SURVIVOR, (uint64_t)pids[i]);
  pco_answer(a);
}

void pco_lost_answer_pending(pco_agent *a, pco_sup *s, const pid_t *pids,
                             size_t n) {
  for (size_t i = 0; i < s->n_pending; i++)
    answer_pending(a, s->pending[i], pids, n);
  s->n_pending = 0;
}

static const char *why_not_started(const pco_sup *s) {
  if (s->crowded)
    return "too many descriptors are on their way between processes of its "
           "user";
  if (s->held)
    return "the sandbox's keeper has made no cgroup for it yet";
  if (s->silent)
    return "its supervisor was silent: stopped by a command of the same "
           "user, or the program's file system hangs";
  return "the supervisor of the command was killed";
}

static void answer_start(pco_agent *a, const pco_sup *s, bool no_memory) {
  if (no_memory)
    pco_commands_refuse(a, s->op, ENOMEM, PCO_LIMIT_MEMORY,
                        "limits.memory leaves no room to start the program");
  else
    pco_commands_refuse(a, s->op, s->crowded ? ETOOMANYREFS : EAGAIN,
                        PCO_LIMIT_NONE, why_not_started(s));
}

/* A time limit is told by an EXIT, and that comes after a STARTED.  Whether the
 * program ran is not known; its supervisor did. */
static void answer_started(pco_agent *a, pco_sup *s) {
  pco_wire_begin(&a->buf, PCO_WIRE_STARTED, PCO_WIRE_MORE, s->op);
  pco_wire_number(&a->buf, PCO_TAG_PID, (uint64_t)s->pid);
  pco_answer(a);
  pco_records_started(a, s->op, (uint64_t)s->pid);
  s->started = true;
}

static void answer_command(pco_agent *a, pco_sup *s, const pid_t *pids,
                           size_t n) {
  bool no_memory = pco_counter_rose(&s->command_kills, true) ||
                   pco_counter_rose(&s->own_kills, true);
  if (!s->started && s->overdue && !no_memory)
    answer_started(a, s);
  if (!s->started) {
    answer_start(a, s, no_memory);
    return;
  }
  pco_relay_exited(a, s->op);
  pco_wire_begin(&a->buf, PCO_WIRE_EXIT, 0, s->op);
  pco_wire_number(&a->buf, PCO_TAG_CODE, 128 + SIGKILL);
  pco_wire_number(&a->buf, PCO_TAG_SIGNAL, SIGKILL);
  pco_wire_number(&a->buf, PCO_TAG_REASON,
                  s->overdue  ? PCO_REASON_TIMEOUT
                  : no_memory ? PCO_REASON_OOM
                              : PCO_REASON_KILLED);
  if (no_memory)
    pco_wire_number(&a->buf, PCO_TAG_LIMIT, PCO_LIMIT_MEMORY);
  pco_wire_number(&a->buf, PCO_TAG_DURATION, (uint64_t)(pco_now() - s->asked));
  for (size_t i = 0; i < n; i++)
    pco_wire_number(&a->buf, PCO_TAG_SURVIVOR, (uint64_t)pids[i]);
  if (!a->buf.error)
    pco_records_exited(a, s->op, a->buf.data + PCO_WIRE_HEADER,
                       a->buf.len - PCO_WIRE_HEADER);
  pco_answer(a);
}

/* ---- the death of a supervisor ------------------------------------------ */

static bool is_live(void *arg, pid_t pid) {
  const pco_agent *a = arg;
  for (const pco_sup *s = a->commands.live; s; s = s->next)
    if (s->pid == pid)
      return true;
  return pco_workers_has(a, pid);
}

void pco_lost_add(pco_agent *a, pco_sup *s) {
  pco_commands *c = &a->commands;
  if (s->pidfd >= 0)
    syscall(SYS_pidfd_send_signal, s->pidfd, SIGKILL, NULL, 0);
  pco_sup_disconnect(a, s);
  pco_leaves_forget(a, s->own_leaf);
  pco_leaves_forget(a, s->command_leaf);
  pco_sup_unlink(&c->live, s);
  if (s->op == 0) {
    for (size_t i = 0; i < c->n_idle; i++)
      if (c->idle[i] == s)
        c->idle[i] = c->idle[--c->n_idle];
  } else {
    c->n_busy--;
  }
  pco_sup_link(&c->lost, s);
  c->lost_until = pco_now() + PCO_KILL_TIME;
}

/* Workers that died meanwhile are seen here, too. */
static void on_lost_reaped(void *arg, pid_t pid, int status) {
  (void)status;
  pco_workers_reaped(arg, pid);
  pco_leaves_reaped(arg, pid);
}

/* Kills what the dead left to the agent, a slice a turn; then tells the host.
 * Which orphan belonged to which command is not known any more, so all wait
 * for all. */
void pco_lost_bury(pco_agent *a) {
  pco_commands *c = &a->commands;
  pid_t pids[PCO_MAX_SURVIVORS];
  pco_tree_options o = {.skip = is_live,
                        .reaped = on_lost_reaped,
                        .arg = a,
                        .own_system = a->own_system};
  int64_t now = pco_now();
  size_t n = pco_tree_kill(&o, now + KILL_SLICE, pids);
  if (n > 0 && now < c->lost_until)
    return;
  /* Who killed it may have done so while it had everything stopped. */
  if (o.own_system)
    kill(-1, SIGCONT);
  pco_kill_all_orphans(a, pids, n);
  for (pco_sup *s; (s = c->lost);) {
    pco_sup_unlink(&c->lost, s);
    if (s->op != 0 && !s->final)
      answer_command(a, s, pids, n);
    pco_records_gone(a, s->op);
    pco_lost_answer_pending(a, s, pids, n);
    pco_leaves_remove(a, s->command_leaf);
    pco_leaves_remove(a, s->own_leaf);
    pco_sup_link(&c->gone, s);
  }
  pco_kill_all_buried(a);
}

/* Some child ended: a supervisor that was let go, an orphan, or a supervisor
 * that was killed, whose stream may be held open a moment by a child that it
 * was just starting. */
static void on_reaped(void *arg, pid_t pid, int status) {
  pco_agent *a = arg;
  pco_sup *s = a->commands.live;
  while (s && s->pid != pid)
    s = s->next;
  if (s && WIFSTOPPED(status)) /* by a command that would be rid of it */
    syscall(SYS_pidfd_send_signal, s->pidfd, SIGCONT, NULL, 0);
  else if (s)
    pco_lost_add(a, s);
  else if (!WIFSTOPPED(status)) {
    pco_workers_reaped(a, pid);
    pco_leaves_reaped(a, pid);
  }
}

void pco_lost_on_sigchld(void *arg, uint32_t events) {
  pco_agent *a = arg;
  struct signalfd_siginfo info;
  (void)events;
  if (read(a->commands.sigchld.fd, &info, sizeof info) < 0)
    return;
  pco_tree_options o = {.reaped = on_reaped, .stopped = true, .arg = a};
  pco_tree_reap(&o, 256);
}
