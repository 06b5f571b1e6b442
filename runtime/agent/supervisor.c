/* SPDX-License-Identifier: MIT */
/*
 * One command and its tree; see supervisor.h.
 *
 * Life of a command: SPAWN, STARTED; then the first process ends and EXIT goes
 * out at once, while descendants may live on; once waitpid() says that there is
 * nothing left, IDLE.  A *ladder* (TERM, grace, KILL) may run at any time
 * before that, started by the timeout or by a KILL request; while it runs, EXIT
 * waits for its end.
 *
 * Invariants: the first reason for a ladder stays; a timeout fires only while
 * the first process lives; every KILL request is answered exactly once.
 */
#include "supervisor.h"

#include "channel.h"
#include "clock.h"
#include "exec.h"
#include "harden.h"
#include "launch.h"
#include "placement.h"
#include "procfs.h"
#include "request.h"
#include "tree.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct supervisor {
  pco_channel chan;
  pco_wire_buf buf;
  int null;
  int sigchld; /* signalfd: tells of children that ended */
  pco_tree_options tree;
  uint64_t op; /* of the command; 0: idle */
  pid_t first; /* the first process, 0 once it was reaped */
  int status;  /* of it, then */
  int64_t started, ended;
  int64_t timeout_at, grace;
  bool exit_sent;
  bool empty;     /* waitpid() said ECHILD */
  bool reap_more; /* the bound of one turn was reached */
  int reason;     /* of the ladder that runs; 0: none runs */
  int64_t kill_at;
  size_t n_survivors;
  pid_t survivors[PCO_MAX_SURVIVORS];
  uint64_t kills[PCO_SUP_MAX_KILLS]; /* KILL requests to answer */
  size_t n_kills;
  pco_placement own;     /* where this process is */
  pco_placement command; /* where the command is, if elsewhere */
  int unplaced;          /* why it could not enter its own leaf, an errno */
  bool late;             /* of the command something lived on after the EXIT */
} supervisor;

/* ---- frames to the agent ------------------------------------------------ */

/* A supervisor that cannot tell its agent anything is of no use: it ends its
 * tree, and the agent says what happened. */
static _Noreturn void give_up(supervisor *s) {
  pco_tree_kill(&s->tree, pco_now() + PCO_KILL_TIME, s->survivors);
  _exit(0);
}

static void send_frame(supervisor *s) {
  pco_wire_end(&s->buf, 0);
  if (pco_channel_send(&s->chan, &s->buf) != 0)
    give_up(s);
}

static void send_empty(supervisor *s, uint16_t type, uint64_t op) {
  pco_wire_begin(&s->buf, type, 0, op);
  send_frame(s);
}

static void send_error(supervisor *s, uint64_t op, int error) {
  pco_wire_begin(&s->buf, PCO_WIRE_ERROR, 0, op);
  pco_wire_number(&s->buf, PCO_TAG_ERRNO, (uint64_t)error);
  send_frame(s);
}

static void put_survivors(supervisor *s) {
  for (size_t i = 0; i < s->n_survivors; i++)
    pco_wire_number(&s->buf, PCO_TAG_SURVIVOR, (uint64_t)s->survivors[i]);
}

/* ---- counters ----------------------------------------------------------- */

static pco_counter *memory_counter(supervisor *s) {
  return s->command.memory.fd >= 0 ? &s->command.memory : &s->own.memory;
}

static pco_counter *pids_counter(supervisor *s) {
  return s->command.pids.fd >= 0 ? &s->command.pids : &s->own.pids;
}

/* The limit that was hit since the command began, as PCO_LIMIT_*.  Both
 * counters are read, so that the next command begins anew. */
static int hit_limit(supervisor *s) {
  pco_counter *memory = memory_counter(s), *pids = pids_counter(s);
  bool killed = memory->fd >= 0 && pco_counter_rose(memory, true);
  bool refused = pids->fd >= 0 && pco_counter_rose(pids, false);
  return killed ? PCO_LIMIT_MEMORY : refused ? PCO_LIMIT_PIDS : PCO_LIMIT_NONE;
}

/* A counter that others move, too, is of use only from now on. */
static void begin_counting(supervisor *s) {
  pco_counter *pids = pids_counter(s);
  if (pids->fd >= 0 && pids->shared)
    pids->seen = pco_counter_read(pids, false);
}

/* ---- the end of the first process --------------------------------------- */

/* Tells how the first process ended; if it could not even be killed, SIGKILL
 * is what it was given.  Of a process that the kernel killed for want of memory
 * it is SIGKILL that is seen, and the counter has risen before. */
static void send_exit(supervisor *s) {
  int status = s->first ? SIGKILL : s->status;
  int signo = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  int code = signo ? 128 + signo : WEXITSTATUS(status);
  int limit = hit_limit(s);
  int reason = signo == SIGKILL && limit == PCO_LIMIT_MEMORY ? PCO_REASON_OOM
               : signo ? PCO_REASON_SIGNALED
                       : PCO_REASON_EXITED;
  int64_t ended = s->first ? pco_now() : s->ended;
  pco_wire_begin(&s->buf, PCO_WIRE_EXIT, 0, s->op);
  pco_wire_number(&s->buf, PCO_TAG_CODE, (uint64_t)code);
  pco_wire_number(&s->buf, PCO_TAG_SIGNAL, (uint64_t)signo);
  pco_wire_number(&s->buf, PCO_TAG_REASON,
                  (uint64_t)(s->reason ? s->reason : reason));
  pco_wire_number(&s->buf, PCO_TAG_DURATION, (uint64_t)(ended - s->started));
  if (limit)
    pco_wire_number(&s->buf, PCO_TAG_LIMIT, (uint64_t)limit);
  put_survivors(s);
  send_frame(s);
  s->exit_sent = true;
  s->late = !s->empty;
  s->timeout_at = PCO_NEVER;
}

/* ---- children ----------------------------------------------------------- */

static void on_reaped(void *arg, pid_t pid, int status) {
  supervisor *s = arg;
  if (pid != s->first)
    return;
  s->first = 0;
  s->status = status;
  s->ended = pco_now();
}

static void reap(supervisor *s) {
  int rc = pco_tree_reap(&s->tree, 256);
  s->empty = rc == -ECHILD;
  s->reap_more = rc == 1;
}

static void on_sigchld(supervisor *s) {
  struct signalfd_siginfo info;
  if (read(s->sigchld, &info, sizeof info) < 0 && errno != EAGAIN)
    give_up(s);
  reap(s);
}

/* ---- the ladder --------------------------------------------------------- */

static void end_ladder(supervisor *s) {
  if (!s->exit_sent)
    send_exit(s);
  for (size_t i = 0; i < s->n_kills; i++) {
    pco_wire_begin(&s->buf, PCO_WIRE_REPLY, 0, s->kills[i]);
    put_survivors(s);
    send_frame(s);
  }
  s->n_kills = 0;
  s->n_survivors = 0;
  s->reason = 0;
  s->kill_at = PCO_NEVER;
}

static void kill_now(supervisor *s) {
  s->n_survivors =
      pco_tree_kill(&s->tree, pco_now() + PCO_KILL_TIME, s->survivors);
  reap(s);
  end_ladder(s);
}

/* Starts a ladder, or makes the one that runs go faster. */
static void climb(supervisor *s, int reason, int64_t grace) {
  int64_t kill_at = pco_now() + grace;
  bool first = s->reason == 0;
  if (first)
    s->reason = reason;
  if (first || kill_at < s->kill_at)
    s->kill_at = kill_at;
  if (first && grace > 0)
    pco_tree_signal(&s->tree, SIGTERM);
}

/* ---- requests ----------------------------------------------------------- */

/* PCO_SUP_LEAF, PCO_SUP_COUNTERS */
static void on_leaf(supervisor *s, pco_frame *f) {
  pco_cgroup_answer a;
  pco_wire_iter it;
  pco_wire_field field;
  bool own = false;
  if (pco_placement_answer(f, &a) != 0)
    give_up(s);
  pco_wire_iter_init(&it, f->payload, f->header.size);
  while (pco_wire_next(&it, &field) == 1)
    own = own || (field.tag == PCO_TAG_FLAGS && field.number == 1);
  pco_placement_take(own ? &s->own : &s->command, &a, f);
  if (own && f->header.type == PCO_SUP_LEAF)
    s->unplaced = -pco_placement_enter(&s->own);
}

/* Without its limits no command may run here. */
static void refuse_unplaced(supervisor *s, uint64_t op) {
  pco_wire_begin(&s->buf, PCO_WIRE_ERROR, 0, op);
  pco_wire_number(&s->buf, PCO_TAG_ERRNO, (uint64_t)s->unplaced);
  pco_wire_number(&s->buf, PCO_TAG_STAGE, PCO_STAGE_LIMIT);
  pco_wire_string(&s->buf, PCO_TAG_MESSAGE,
                  "the sandbox's cgroup cannot be entered");
  send_frame(s);
  pco_channel_flush(&s->chan);
  give_up(s);
}

static void on_spawn(supervisor *s, pco_frame *f, const pco_request *r) {
  if (s->op != 0) {
    send_error(s, r->op, EBUSY);
    return;
  }
  if (s->unplaced)
    refuse_unplaced(s, r->op);
  s->started = pco_now();
  s->exit_sent = false;
  begin_counting(s);
  pid_t pid = pco_launch(f, r, s->null, &s->own, &s->command, &s->buf);
  s->op = r->op;
  if (pid < 0) {
    send_frame(s); /* pco_launch() wrote it */
    s->exit_sent = true;
    return;
  }
  s->first = pid;
  s->empty = false;
  s->grace = (int64_t)pco_request_number(r, PCO_TAG_GRACE);
  uint64_t timeout = pco_request_number(r, PCO_TAG_TIMEOUT);
  s->timeout_at = timeout ? s->started + (int64_t)timeout : PCO_NEVER;
  pco_wire_begin(&s->buf, PCO_WIRE_STARTED, PCO_WIRE_MORE, r->op);
  pco_wire_number(&s->buf, PCO_TAG_PID, (uint64_t)pid);
  send_frame(s);
}

static void on_kill(supervisor *s, const pco_request *r) {
  if (pco_request_number(r, PCO_TAG_TARGET) != s->op) {
    send_empty(s, PCO_WIRE_REPLY, r->op); /* all of it has ended */
    return;
  }
  if (s->n_kills == PCO_SUP_MAX_KILLS) {
    send_error(s, r->op, EAGAIN);
    return;
  }
  s->kills[s->n_kills++] = r->op;
  int reason = pco_request_has(r, PCO_TAG_REASON)
                   ? (int)pco_request_number(r, PCO_TAG_REASON)
                   : PCO_REASON_KILLED;
  climb(s, reason, (int64_t)pco_request_number(r, PCO_TAG_GRACE));
}

/* The first process is our child and was not reaped, so its pid is its own. */
static void on_signal(supervisor *s, const pco_request *r) {
  int error = ESRCH;
  if (s->first && pco_request_number(r, PCO_TAG_TARGET) == s->op) {
    int fd = (int)syscall(SYS_pidfd_open, s->first, 0);
    int signo = (int)pco_request_number(r, PCO_TAG_SIGNO);
    error = fd >= 0 && syscall(SYS_pidfd_send_signal, fd, signo, NULL, 0) == 0
                ? 0
                : errno;
    if (fd >= 0)
      close(fd);
  }
  if (error)
    send_error(s, r->op, error);
  else
    send_empty(s, PCO_WIRE_REPLY, r->op);
}

static void on_frame(supervisor *s, pco_frame *f) {
  pco_request r;
  if (pco_frame_cut(f))
    give_up(s);
  if (f->header.type == PCO_SUP_LEAF || f->header.type == PCO_SUP_COUNTERS) {
    on_leaf(s, f);
    return;
  }
  if (pco_request_parse_passed(f, &r) != 0)
    give_up(s);
  if (r.type == PCO_WIRE_SPAWN)
    on_spawn(s, f, &r);
  else if (r.type == PCO_WIRE_KILL)
    on_kill(s, &r);
  else if (r.type == PCO_WIRE_SIGNAL)
    on_signal(s, &r);
  else
    give_up(s);
  pco_frame_close_fds(f);
}

static void on_agent(supervisor *s) {
  int rc = pco_channel_receive(&s->chan);
  if (rc == -EAGAIN)
    return;
  if (rc != 1)
    give_up(s); /* the agent has ended */
  pco_frame f;
  while ((rc = pco_channel_next(&s->chan, &f)) == 1)
    on_frame(s, &f);
  if (rc < 0)
    give_up(s);
}

/* ---- the loop ----------------------------------------------------------- */

/* Nothing of the command is left.  What died after the EXIT is told to nobody,
 * and is not to be taken for the next command's. */
static void end_command(supervisor *s) {
  if (s->late)
    hit_limit(s);
  s->late = false;
  pco_placement_deinit(&s->command);
  pco_wire_begin(&s->buf, PCO_SUP_IDLE, 0, s->op);
  if (s->own.memory.fd >= 0)
    pco_wire_number(&s->buf, PCO_TAG_COUNT, s->own.memory.seen);
  send_frame(s);
  s->op = 0;
}

/* Takes the steps that time and the children's deaths ask for. */
static void advance(supervisor *s) {
  if (s->op == 0)
    return;
  int64_t next = s->timeout_at < s->kill_at ? s->timeout_at : s->kill_at;
  int64_t now = next == PCO_NEVER ? 0 : pco_now();
  if (now >= s->timeout_at) {
    reap(s); /* an exit that came first wins */
    s->timeout_at = PCO_NEVER;
    if (s->first)
      climb(s, PCO_REASON_TIMEOUT, s->grace);
  }
  if (s->reason && s->empty)
    end_ladder(s);
  else if (s->reason && now >= s->kill_at)
    kill_now(s);
  if (!s->first && !s->reason && !s->exit_sent)
    send_exit(s);
  if (s->empty && s->exit_sent)
    end_command(s);
}

static void wait_for_events(supervisor *s, bool blocked) {
  struct pollfd p[2] = {{.fd = s->chan.fd, .events = POLLIN},
                        {.fd = s->sigchld, .events = POLLIN}};
  if (blocked)
    p[0].events |= POLLOUT;
  int64_t at = s->timeout_at < s->kill_at ? s->timeout_at : s->kill_at;
  struct timespec t = {0, 0};
  if (at != PCO_NEVER && !s->reap_more)
    t = pco_until(at);
  if (ppoll(p, 2, at == PCO_NEVER && !s->reap_more ? NULL : &t, NULL) < 0 &&
      errno != EINTR)
    give_up(s);
  if (p[1].revents)
    on_sigchld(s);
  else if (s->reap_more)
    reap(s);
  if (p[0].revents & ~POLLOUT)
    on_agent(s);
}

static int compare_fds(const void *a, const void *b) {
  return *(const int *)a - *(const int *)b;
}

/* Closes what the fork took over from the agent, except what is kept. */
static void close_others(int fd, int null) {
  int keep[] = {fd, null, pco_procfs_fd()};
  unsigned from = 3;
  for (int i = 0; i < 3; i++)
    dup2(null, i);
  qsort(keep, 3, sizeof *keep, compare_fds);
  for (int i = 0; i < 3; i++) {
    unsigned kept = (unsigned)keep[i];
    if (kept > from)
      syscall(SYS_close_range, from, kept - 1, 0u);
    from = kept + 1;
  }
  syscall(SYS_close_range, from, ~0u, 0u);
}

static void init(supervisor *s, int fd, int null, bool own_system) {
  sigset_t chld;
  sigemptyset(&chld);
  sigaddset(&chld, SIGCHLD);
  s->null = null;
  s->tree.reaped = on_reaped;
  s->tree.own_system = own_system;
  s->tree.arg = s;
  s->empty = true;
  s->timeout_at = PCO_NEVER;
  s->kill_at = PCO_NEVER;
  pco_placement_init(&s->own);
  pco_placement_init(&s->command);
  s->sigchld = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
  pco_channel_init(&s->chan, fd);
}

_Noreturn void pco_supervisor_main(int fd, int null, bool own_system) {
  static supervisor s;
  close_others(fd, null);
  prctl(PR_SET_NAME, "portico-sup");
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  pco_harden_turns();
  /* If someone stopped this process, the death of the agent wakes it, so that
   * it sees the end of the stream. */
  prctl(PR_SET_PDEATHSIG, SIGCONT);
  init(&s, fd, null, own_system);
  if (s.sigchld < 0 || pco_exec_init() != 0)
    _exit(1);
  bool blocked = false;
  for (;;) {
    wait_for_events(&s, blocked);
    advance(&s);
    int rc = pco_channel_flush(&s.chan);
    if (rc < 0 && rc != -EAGAIN)
      give_up(&s);
    blocked = rc != 0;
  }
}
