/* SPDX-License-Identifier: MIT */
/*
 * The agent's loop and the host's channel; see agent.h.
 */
#include "agent.h"

#include "clock.h"
#include "identity.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FLUSH_TIME (500 * PCO_MS) /* for the last answers, at the end */

void pco_agent_protocol_error(pco_agent *a) {
  pco_hosts_broken(a);
}

/* ---- the host's channel ------------------------------------------------- */

static bool clogged(const pco_agent *a) {
  return pco_channel_queued(&a->host) > PCO_OUT_HIGH;
}

/* Handles the frames that are complete.  What is left when the host is slow to
 * read waits in the channel. */
static void handle_frames(pco_agent *a) {
  pco_frame f;
  int rc = 0;
  while (!a->ending && !a->hosts.over && !clogged(a) &&
         (rc = pco_channel_next(&a->host, &f)) == 1)
    pco_dispatch(a, &f);
  if (rc < 0)
    pco_agent_protocol_error(a);
}

static void on_host(void *arg, uint32_t events) {
  pco_agent *a = arg;
  if (!(events & ~(uint32_t)EPOLLOUT))
    return; /* the turn flushes anyway */
  int rc = pco_channel_receive(&a->host);
  if (rc == 1)
    handle_frames(a);
  else if (rc == -EPROTO)
    pco_agent_protocol_error(a);
  else if (rc != -EAGAIN)
    pco_hosts_gone(a);
}

int pco_agent_take_host(pco_agent *a, int fd) {
  pco_channel_init(&a->host, fd);
  a->host_source = (pco_source){.fd = fd, .fn = on_host, .arg = a};
  int rc = pco_source_add(a->epoll, &a->host_source, EPOLLIN);
  if (rc != 0) {
    a->host_source.fn = NULL;
    pco_channel_deinit(&a->host);
  }
  return rc;
}

static void flush_host(pco_agent *a) {
  bool was_clogged = clogged(a);
  int rc = pco_channel_flush(&a->host);
  if (rc < 0 && rc != -EAGAIN)
    pco_hosts_gone(a);
  if (was_clogged && !clogged(a))
    handle_frames(a);
  pco_workers_pause(a, clogged(a));
  uint32_t want = clogged(a) ? 0 : EPOLLIN;
  if (pco_channel_queued(&a->host) > 0)
    want |= EPOLLOUT;
  pco_source_want(a->epoll, &a->host_source, want);
}

/* ---- the loop ----------------------------------------------------------- */

static int timeout_ms(const pco_agent *a) {
  if (pco_jobs_ready(a) || pco_hosts_pending(a))
    return 0;
  const int64_t at[] = {pco_commands_next(&a->commands), pco_workers_next(a),
                        pco_entrance_next(a)};
  int64_t next = PCO_NEVER;
  for (size_t i = 0; i < sizeof at / sizeof *at; i++)
    next = at[i] < next ? at[i] : next;
  if (next == PCO_NEVER)
    return -1;
  int64_t left = (next - pco_now() + PCO_MS - 1) / PCO_MS;
  return left < 0 ? 0 : left > 60000 ? 60000 : (int)left;
}

static void turn(pco_agent *a) {
  struct epoll_event events[16];
  int n = epoll_wait(a->epoll, events, 16, timeout_ms(a));
  for (int i = 0; i < n && !a->ending; i++) {
    pco_source *s = events[i].data.ptr;
    if (s->fn)
      s->fn(s->arg, events[i].events);
  }
  if (pco_jobs_ready(a) && !a->ending)
    pco_jobs_step(a);
  pco_commands_tick(a);
  pco_workers_tick(a);
  pco_entrance_tick(a);
  pco_hosts_tick(a);
  do
    flush_host(a);
  while (pco_relays_tick(a));
}

/* Gives the host a moment to take the last answers. */
static void flush_last(pco_agent *a) {
  int64_t until = pco_now() + FLUSH_TIME;
  while (pco_channel_flush(&a->host) == 1 && pco_now() < until) {
    struct pollfd p = {.fd = a->host.fd, .events = POLLOUT};
    poll(&p, 1, 20);
  }
}

int pco_agent_run(pco_agent *a) {
  while (!a->ending)
    turn(a);
  flush_last(a);
  pco_jobs_end(a);
  pco_workers_end(a);
  pco_commands_end(a);
  return a->status;
}

/* ---- start and end ------------------------------------------------------ */

static int init_fds(pco_agent *a, const pco_agent_options *o) {
  a->epoll = epoll_create1(EPOLL_CLOEXEC);
  if (a->epoll < 0)
    return -errno;
  a->null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (a->null < 0)
    return -errno;
  pco_hosts_init(a, pco_entrance_wanted(&o->entrance));
  pco_channel_init(&a->host, -1);
  int rc = pco_entrance_init(a, &o->entrance);
  return rc == 0 && o->fd >= 0 ? pco_agent_take_host(a, o->fd) : rc;
}

/* What a cgroup enforces needs no resource limit. */
static void init_limits(const pco_agent *a, pco_rlimits limits) {
  if (a->leaves.limits & PCO_KEEPER_LIMIT_MEMORY)
    limits.memory = 0;
  if (a->leaves.limits & PCO_KEEPER_LIMIT_PIDS)
    limits.pids = 0;
  pco_launch_init(&limits);
}

int pco_agent_init(pco_agent *a, const pco_agent_options *o,
                   const char **what) {
  a->own_system = getpid() == 1;
  *what = "--user";
  int rc = pco_identity_init(o->user, o->groups);
  if (rc != 0)
    return rc;
  *what = "--root";
  rc = pco_paths_init(&a->paths, o->root, o->alias);
  if (rc != 0)
    return rc;
  *what = "channel";
  rc = init_fds(a, o);
  if (rc != 0)
    return rc;
  *what = "--groups";
  rc = pco_identity_enter();
  if (rc != 0)
    return rc;
  *what = "signals";
  rc = pco_commands_init(a);
  if (rc != 0)
    return rc;
  pco_workers_init(a);
  a->confines = o->confine;
  *what = "--keeper";
  a->leaves.may_emulate = o->may_emulate;
  a->leaves.emulated = o->emulated;
  rc = pco_leaves_init(a, o->keeper);
  init_limits(a, o->limits);
  return rc;
}

void pco_agent_deinit(pco_agent *a) {
  pco_commands_deinit(a);
  pco_relays_deinit(a);
  pco_workers_deinit(a);
  pco_leaves_deinit(a);
  pco_records_deinit(a);
  pco_hosts_deinit(a);
  pco_channel_deinit(&a->host);
  pco_wire_buf_free(&a->buf);
  pco_entrance_close(a);
  pco_paths_deinit(&a->paths);
  close(a->null);
  close(a->epoll);
}
