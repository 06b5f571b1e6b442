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
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define GRACE_MS  5000
#define ASK_MS    1000 /* an agent that is only asked by a signal */
#define KILL_MS   5000
#define REMOVE_MS 10000
#define CAUSE_MS  1000

/* ---- endings ------------------------------------------------------------ */

struct local_ending {
  plugin_wait wait;
  pco_backend *backend;
  int pidfd; /* of the agent, later of the one that removes */
  char *dir;
  pco_op *op;             /* or NULL */
  plugin_door *door;      /* owned; or NULL */
  local_reaping *reaping; /* or NULL */
  pco_error err;          /* what could not be done */
  char room[PCO_MESSAGE_MAX];
  pco_error why; /* what op fails with in any case; or code 0 */
  char why_room[PCO_MESSAGE_MAX];
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

void local_ending_set_door(local_ending *e, plugin_door *door) {
  e->door = door;
}

void local_ending_fail(local_ending *e, const pco_error *err) {
  e->why = pco_error_in(e->why_room, sizeof e->why_room);
  pco_error_set(&e->why, err->code, PCO_SOURCE_PLUGIN,
                err->message ? "%s" : NULL, err->message);
}

void local_ending_tell(local_ending *e, local_reaping *r) {
  e->reaping = r;
}

bool local_is_gone(const char *dir) {
  struct stat st;
  return lstat(dir, &st) < 0 && errno == ENOENT;
}

/* What could not be removed stays written down. */
static void close_door(local_ending *e) {
  if (e->door && e->err.code < 0)
    plugin_door_leave(e->door);
  else
    plugin_door_remove(e->door);
}

static void answer(const local_ending *e) {
  const pco_host *host = e->backend->host;
  const pco_error *err = e->why.code < 0 ? &e->why : &e->err;
  if (e->op && err->code < 0)
    host->fail(host, e->op, err);
  else if (e->op)
    host->complete(host, e->op, NULL);
  if (err != &e->err || !e->op)
    if (e->err.code < 0)
      host->log(host, 1, e->err.message);
}

/* Answers, and lets a close() that waits go on. */
static void ending_done(local_ending *e) {
  pco_backend *b = e->backend;
  if (e->pidfd >= 0)
    close(e->pidfd);
  close_door(e);
  answer(e);
  if (e->reaping)
    local_reaped(e->reaping, e->err.code == 0);
  local_ending_free(e);
  b->work--;
  local_settle(b);
}

static void on_removed(plugin_wait *w, bool ended) {
  local_ending *e = (local_ending *)w; /* its first member */
  int code, signo;
  if (!ended)
    plugin_kill(e->pidfd, SIGKILL);
  plugin_reap(e->pidfd, &code, &signo);
  if (!local_is_gone(e->dir)) {
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
  int rc = plugin_start_agent(&e->backend->services, argv, env, "/", fds, 3,
                              &pidfd, &e->err);
  close(null_fd);
  e->pidfd = pidfd;
  return rc;
}

static void remove_dir(local_ending *e) {
  if (e->pidfd >= 0)
    close(e->pidfd);
  e->pidfd = -1;
  if (local_is_gone(e->dir)) {
    ending_done(e);
    return;
  }
  int rc = start_remover(e);
  if (rc == 0) {
    plugin_wait_start(&e->wait, e->backend->host->loop, e->pidfd, REMOVE_MS,
                      on_removed);
    return;
  }
  pco_error_set(&e->err, rc, PCO_SOURCE_PLUGIN,
                "the sandbox has ended, but its directory %.300s is left: the "
                "program that removes it did not start; remove it by hand",
                e->dir);
  ending_done(e);
}

static void on_killed(plugin_wait *w, bool ended) {
  local_ending *e = (local_ending *)w;
  int code, signo;
  if (ended) {
    plugin_reap(e->pidfd, &code, &signo);
    remove_dir(e);
    return;
  }
  pco_error_set(&e->err, PCO_EBACKEND, PCO_SOURCE_PLUGIN,
                "the agent does not die from SIGKILL (it hangs in the kernel); "
                "%.300s is left",
                e->dir);
  ending_done(e);
}

static void on_grace(plugin_wait *w, bool ended) {
  local_ending *e = (local_ending *)w;
  if (ended) {
    on_killed(w, true);
    return;
  }
  plugin_kill(e->pidfd, SIGKILL);
  plugin_wait_start(&e->wait, e->backend->host->loop, e->pidfd, KILL_MS,
                    on_killed);
}

/* It goes on, but nobody waits for it. */
static void forget_op(void *arg) {
  local_ending *e = arg;
  pco_op *op = e->op;
  e->op = NULL;
  pco_fail(e->backend->host, op, UV_ECANCELED, PCO_SOURCE_PLUGIN, NULL);
}

static void begin(pco_backend *b, local_ending *e, int pidfd, char *dir,
                  pco_op *op) {
  e->backend = b;
  e->pidfd = pidfd;
  e->dir = dir;
  e->op = op;
  e->err = pco_error_in(e->room, sizeof e->room);
  b->work++;
}

void local_remove(pco_backend *b, local_ending *e, char *dir, pco_op *op) {
  begin(b, e, -1, dir, op);
  remove_dir(e);
}

void local_end(pco_backend *b, local_ending *e, int pidfd, char *dir, bool ask,
               pco_op *op) {
  begin(b, e, pidfd, dir, op);
  if (ask)
    plugin_kill(pidfd, SIGTERM);
  plugin_wait_start(&e->wait, b->host->loop, pidfd, ask ? ASK_MS : GRACE_MS,
                    on_grace);
  if (ask && op)
    b->host->set_cancel(b->host, op, forget_op, e);
}

/* ---- why an agent died -------------------------------------------------- */

struct local_inquest {
  plugin_wait wait; /* first */
  pco_backend *backend;
  pco_sandbox *sandbox; /* NULL: it was destroyed meanwhile */
  pco_op *op;
  bool cancelled;
};

/* The last word of an agent with a door: true if that tells it all. */
static bool describe_last_word(const pco_sandbox *s, pco_error *err) {
  pco_keeper_report r = {0};
  bool listens = s->control >= 0 && !s->leaving;
  while (listens && r.type != PCO_KEEPER_ENDED &&
         recv(s->control, &r, sizeof r, MSG_DONTWAIT) == sizeof r)
    ;
  if (r.type != PCO_KEEPER_ENDED || r.asked < PCO_KEEPER_BY_DOOR)
    return false;
  pco_error_set(err, PCO_EGONE, PCO_SOURCE_PLUGIN, "%s",
                r.asked == PCO_KEEPER_BY_TTL
                    ? "its time was over (ttl)"
                    : "it was ended by its id, by another program");
  return true;
}

/* Fills err with what is known of the end; code 0: nothing. */
static void describe_end(pco_sandbox *s, pco_error *err) {
  if (describe_last_word(s, err))
    return;
  if (!s->status_known)
    s->status_known =
        plugin_reap(s->entry.pidfd, &s->exit_code, &s->exit_signal);
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

static void on_inquest(plugin_wait *w, bool ended) {
  (void)ended;
  local_inquest *q = (local_inquest *)w;
  pco_backend *b = q->backend;
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
  plugin_wait_stop(&q->wait);
}

void local_end_inquest(pco_sandbox *s) {
  if (!s->inquest)
    return;
  s->inquest->sandbox = NULL;
  plugin_wait_stop(&s->inquest->wait);
}

/* The stream of an agent may end a moment before the agent; a second question
 * while one is being asked gets what is known. */
int local_cause_of_death(pco_sandbox *s, pco_op *op) {
  pco_backend *b = s->backend;
  bool wait =
      !s->status_known && !s->inquest && !plugin_has_ended(s->entry.pidfd);
  local_inquest *q = wait ? calloc(1, sizeof *q) : NULL;
  if (!q) {
    answer_cause(s, op);
    return 0;
  }
  b->work++;
  plugin_wait_start(&q->wait, b->host->loop, s->entry.pidfd, CAUSE_MS,
                    on_inquest);
  q->backend = b;
  q->sandbox = s;
  q->op = op;
  s->inquest = q;
  b->host->set_cancel(b->host, op, cancel_inquest, q);
  return 0;
}
