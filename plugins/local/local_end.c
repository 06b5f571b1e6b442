/* SPDX-License-Identifier: MIT */
/*
 * The end of a local sandbox; see local.h.
 *
 * An ending goes through these stages, each a wait for a process with a
 * deadline, so that neither an agent that hangs nor one that was killed leaves
 * anything behind:
 *
 *   GRACE     5 s   the agent was asked through its stream (1 s: by SIGTERM,
 *                   which it may not know) and ends what it runs
 *   KILLED    5 s   it got SIGKILL
 *   REMOVING  10 s  the directory is still there, since the agent was killed:
 *                   a fresh agent, started for nothing else, removes it
 *
 * The files are removed by another process because that takes as long as it
 * takes, and this is the host's loop.
 */
#include "local.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define GRACE_MS  5000
#define ASK_MS    1000 /* an agent that is only asked by a signal */
#define KILL_MS   5000
#define REMOVE_MS 10000
#define CAUSE_MS  1000
#define TICK_MS   20

/* ---- processes ---------------------------------------------------------- */

/* ECHILD: it ended, and somebody else reaped it or nobody has to. */
bool local_has_ended(int pidfd) {
  siginfo_t info;
  memset(&info, 0, sizeof info);
  int rc = waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG | WNOWAIT);
  return rc < 0 ? errno == ECHILD : info.si_pid != 0;
}

/* Reaps what has ended.  Returns false if its status is not known. */
static bool reap(int pidfd, int *code, int *signo) {
  siginfo_t info;
  memset(&info, 0, sizeof info);
  if (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG) < 0 ||
      info.si_pid == 0)
    return false;
  bool exited = info.si_code == CLD_EXITED;
  *code = exited ? info.si_status : -1;
  *signo = exited ? 0 : info.si_status;
  return true;
}

static void send_signal(int pidfd, int signo) {
  (void)syscall(SYS_pidfd_send_signal, pidfd, signo, NULL, 0);
}

/* ---- waiting for one, with a deadline ----------------------------------- */

/* Lives in its owner; after fn was called, or wait_stop(), the owner must keep
 * it until the closed callback. */
typedef struct local_wait {
  pco_backend *backend;
  uv_poll_t poll;
  uv_timer_t timer;
  int pidfd;         /* borrowed */
  int poll_fd;       /* our duplicate: a loop polls a descriptor once; or -1 */
  uint64_t deadline; /* of uv_now */
  unsigned handles;  /* to close */
  bool blind;        /* the poll did not start */
  bool ended;
  void (*fn)(struct local_wait *w, bool ended);
} local_wait;

static void on_handle_closed(uv_handle_t *h) {
  local_wait *w = h->data;
  if (--w->handles > 0)
    return;
  if (w->poll_fd >= 0)
    close(w->poll_fd);
  w->fn(w, w->ended);
}

/* Stops it; fn is called when libuv has given the handles back. */
static void wait_stop(local_wait *w) {
  if (uv_is_closing((uv_handle_t *)&w->timer))
    return;
  w->ended = local_has_ended(w->pidfd);
  uv_close((uv_handle_t *)&w->timer, on_handle_closed);
  if (w->poll_fd >= 0)
    uv_close((uv_handle_t *)&w->poll, on_handle_closed);
}

static void on_poll(uv_poll_t *h, int status, int events) {
  (void)status;
  (void)events;
  wait_stop(h->data);
}

static void on_tick(uv_timer_t *t) {
  local_wait *w = t->data;
  if (local_has_ended(w->pidfd) || uv_now(t->loop) >= w->deadline)
    wait_stop(w);
}

static void start_poll(local_wait *w, uv_loop_t *loop) {
  w->poll_fd = fcntl(w->pidfd, F_DUPFD_CLOEXEC, 3);
  if (w->poll_fd < 0)
    return;
  w->poll.data = w;
  if (uv_poll_init(loop, &w->poll, w->poll_fd) < 0) {
    close(w->poll_fd);
    w->poll_fd = -1;
    return;
  }
  w->handles++;
  w->blind = uv_poll_start(&w->poll, UV_READABLE, on_poll) < 0;
}

/* Calls fn once: true if the process has ended, false at the deadline.  Where
 * no descriptor is left to poll, a timer looks every 20 ms: an end must not
 * fail. */
static void wait_start(local_wait *w, pco_backend *b, int pidfd, unsigned ms,
                       void (*fn)(local_wait *w, bool ended)) {
  uv_loop_t *loop = b->host->loop;
  *w = (local_wait){.backend = b, .pidfd = pidfd, .fn = fn};
  uv_update_time(loop);
  w->deadline = uv_now(loop) + ms;
  uv_timer_init(loop, &w->timer);
  w->timer.data = w;
  w->handles = 1;
  start_poll(w, loop);
  uint64_t first = w->poll_fd < 0 || w->blind ? TICK_MS : ms;
  uv_timer_start(&w->timer, on_tick, first, TICK_MS);
}

/* ---- endings ------------------------------------------------------------ */

struct local_ending {
  local_wait wait;
  pco_backend *backend;
  int pidfd; /* of the agent, later of the one that removes */
  char *dir;
  pco_op *op; /* or NULL */
  pco_error err;
  char room[PCO_MESSAGE_MAX];
};

local_ending *local_ending_create(void) {
  return calloc(1, sizeof(local_ending));
}

void local_ending_free(local_ending *e) {
  if (!e)
    return;
  free(e->dir);
  free(e);
}

static bool dir_is_gone(const char *dir) {
  struct stat st;
  return lstat(dir, &st) < 0 && errno == ENOENT;
}

/* Answers, and lets a close() that waits go on. */
static void ending_done(local_ending *e) {
  pco_backend *b = e->backend;
  const pco_host *host = b->host;
  if (e->pidfd >= 0)
    close(e->pidfd);
  if (e->op && e->err.code < 0)
    host->fail(host, e->op, &e->err);
  else if (e->op)
    host->complete(host, e->op, NULL);
  else if (e->err.code < 0)
    host->log(host, 1, e->err.message);
  local_ending_free(e);
  b->work--;
  local_settle(b);
}

static void on_removed(local_wait *w, bool ended) {
  local_ending *e = (local_ending *)w; /* its first member */
  int code, signo;
  if (!ended)
    send_signal(e->pidfd, SIGKILL);
  reap(e->pidfd, &code, &signo);
  if (!dir_is_gone(e->dir)) {
    pco_error_set(&e->err, PCO_EBACKEND, PCO_SOURCE_PLUGIN,
                  "the sandbox has ended, but its directory %.300s could not "
                  "be removed; remove it by hand",
                  e->dir);
    e->err.path = e->dir;
  }
  ending_done(e);
}

/* Starts the agent's program to remove the directory. */
static int start_remover(local_ending *e) {
  const char *argv[] = {"portico-agent", "--remove-only", e->dir, NULL};
  const char *env[] = {"PATH=/usr/bin:/bin", NULL};
  int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null_fd < 0)
    return -errno;
  int32_t fds[] = {null_fd, null_fd, null_fd}, pidfd = -1;
  int rc =
      local_start_agent(e->backend, argv, env, "/", fds, 3, &pidfd, &e->err);
  close(null_fd);
  e->pidfd = pidfd;
  return rc;
}

static void remove_dir(local_ending *e) {
  close(e->pidfd);
  e->pidfd = -1;
  if (dir_is_gone(e->dir)) {
    ending_done(e);
    return;
  }
  int rc = start_remover(e);
  if (rc == 0) {
    wait_start(&e->wait, e->backend, e->pidfd, REMOVE_MS, on_removed);
    return;
  }
  pco_error_set(&e->err, rc, PCO_SOURCE_PLUGIN,
                "the sandbox has ended, but its directory %.300s is left: the "
                "program that removes it did not start; remove it by hand",
                e->dir);
  ending_done(e);
}

static void on_killed(local_wait *w, bool ended) {
  local_ending *e = (local_ending *)w;
  int code, signo;
  if (ended) {
    reap(e->pidfd, &code, &signo);
    remove_dir(e);
    return;
  }
  pco_error_set(&e->err, PCO_EBACKEND, PCO_SOURCE_PLUGIN,
                "the agent does not die from SIGKILL (it hangs in the kernel); "
                "%.300s is left",
                e->dir);
  ending_done(e);
}

static void on_grace(local_wait *w, bool ended) {
  local_ending *e = (local_ending *)w;
  if (ended) {
    on_killed(w, true);
    return;
  }
  send_signal(e->pidfd, SIGKILL);
  wait_start(&e->wait, e->backend, e->pidfd, KILL_MS, on_killed);
}

void local_end(pco_backend *b, local_ending *e, int pidfd, char *dir, bool ask,
               pco_op *op) {
  e->backend = b;
  e->pidfd = pidfd;
  e->dir = dir;
  e->op = op;
  e->err = pco_error_in(e->room, sizeof e->room);
  b->work++;
  if (ask)
    send_signal(pidfd, SIGTERM);
  wait_start(&e->wait, b, pidfd, ask ? ASK_MS : GRACE_MS, on_grace);
}

/* ---- why an agent died -------------------------------------------------- */

struct local_inquest {
  local_wait wait;      /* first */
  pco_sandbox *sandbox; /* NULL: it was destroyed meanwhile */
  pco_op *op;
  bool cancelled;
};

/* Fills err with what is known of the end; code 0: nothing. */
static void describe_end(pco_sandbox *s, pco_error *err) {
  if (!s->status_known)
    s->status_known = reap(s->pidfd, &s->exit_code, &s->exit_signal);
  if (!s->status_known)
    return;
  const char *name = s->exit_signal ? sigabbrev_np(s->exit_signal) : NULL;
  if (name)
    pco_error_set(err, PCO_EGONE, PCO_SOURCE_PLUGIN,
                  "the agent was killed by SIG%s", name);
  else if (s->exit_signal)
    pco_error_set(err, PCO_EGONE, PCO_SOURCE_PLUGIN,
                  "the agent was killed by signal %d", s->exit_signal);
  else
    pco_error_set(err, PCO_EGONE, PCO_SOURCE_PLUGIN,
                  "the agent ended with status %d", s->exit_code);
}

static void answer_cause(pco_sandbox *s, pco_op *op) {
  char room[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(room, sizeof room);
  describe_end(s, &err);
  s->backend->host->complete(s->backend->host, op, &err);
}

static void on_inquest(local_wait *w, bool ended) {
  (void)ended;
  local_inquest *q = (local_inquest *)w;
  pco_backend *b = w->backend;
  pco_error nothing = pco_error_init();
  if (q->sandbox)
    q->sandbox->inquest = NULL;
  if (q->cancelled)
    pco_fail(b->host, q->op, UV_ECANCELED, PCO_SOURCE_PLUGIN, NULL);
  else if (q->sandbox)
    answer_cause(q->sandbox, q->op);
  else
    b->host->complete(b->host, q->op, &nothing);
  free(q);
  b->work--;
  local_settle(b);
}

static void cancel_inquest(void *arg) {
  local_inquest *q = arg;
  q->cancelled = true;
  wait_stop(&q->wait);
}

void local_end_inquest(pco_sandbox *s) {
  if (!s->inquest)
    return;
  s->inquest->sandbox = NULL;
  wait_stop(&s->inquest->wait);
}

/* The stream of an agent may end a moment before the agent; a second question
 * while one is being asked gets what is known. */
int local_cause_of_death(pco_sandbox *s, pco_op *op) {
  pco_backend *b = s->backend;
  bool wait = !s->status_known && !s->inquest && !local_has_ended(s->pidfd);
  local_inquest *q = wait ? calloc(1, sizeof *q) : NULL;
  if (!q) {
    answer_cause(s, op);
    return 0;
  }
  b->work++;
  wait_start(&q->wait, b, s->pidfd, CAUSE_MS, on_inquest);
  q->sandbox = s;
  q->op = op;
  s->inquest = q;
  b->host->set_cancel(b->host, op, cancel_inquest, q);
  return 0;
}
