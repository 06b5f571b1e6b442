/* SPDX-License-Identifier: MIT */
/*
 * A process that does file work; see workers.h.
 *
 * It is the agent without commands: the same requests, jobs and paths, with the
 * agent where the host is.  It ends with the agent's end of the socketpair, or
 * with the agent.
 */
#include "agent.h"
#include "fs.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int compare_fds(const void *a, const void *b) {
  const int *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

void pco_worker_close_others(const pco_agent *a, int fd) {
  int keep[PCO_PATH_DEPTH + 1];
  int n = 0;
  unsigned from = 3;
  if (fd >= 0)
    keep[n++] = fd;
  for (int i = 0; i < a->paths.n_base; i++)
    keep[n++] = a->paths.base[i];
  qsort(keep, (size_t)n, sizeof *keep, compare_fds);
  for (int i = 0; i < n; i++) {
    unsigned kept = (unsigned)keep[i];
    if (kept > from)
      syscall(SYS_close_range, from, kept - 1, 0u);
    from = kept + 1;
  }
  syscall(SYS_close_range, from, ~0u, 0u);
}

/* Handles the frames that are there, unless the agent is slow to read. */
static void handle_frames(pco_agent *a) {
  pco_frame f;
  int rc = 0;
  while (!a->ending && pco_channel_queued(&a->host) < PCO_OUT_HIGH &&
         (rc = pco_channel_next(&a->host, &f)) == 1)
    pco_dispatch(a, &f);
  a->ending |= rc < 0;
}

static void receive(pco_agent *a) {
  int rc = pco_channel_receive(&a->host);
  a->ending |= rc != 1 && rc != -EAGAIN;
}

/* One: its source may be gone after the next. */
static void handle_event(pco_agent *a) {
  struct epoll_event event;
  if (epoll_wait(a->epoll, &event, 1, 0) != 1)
    return;
  pco_source *s = event.data.ptr;
  if (s->fn)
    s->fn(s->arg, event.events);
}

static int timeout_ms(const pco_agent *a) {
  return pco_jobs_ready(a) ? 0 : pco_watch_timeout(a);
}

static void turn(pco_agent *a) {
  struct pollfd p[2] = {{.fd = a->host.fd}, {.fd = a->epoll, .events = POLLIN}};
  size_t queued = pco_channel_queued(&a->host);
  p[0].events = (short)((queued < PCO_OUT_HIGH ? POLLIN : 0) |
                        (queued > 0 ? POLLOUT : 0));
  poll(p, 2, timeout_ms(a));
  if (p[0].revents & (POLLIN | POLLHUP | POLLERR))
    receive(a);
  if (p[1].revents)
    handle_event(a);
  handle_frames(a);
  if (pco_jobs_ready(a) && !a->ending)
    pco_jobs_step(a);
  pco_watch_tick(a);
  int rc = pco_channel_flush(&a->host);
  a->ending |= rc < 0 && rc != -EAGAIN;
}

_Noreturn void pco_worker_main(pco_agent *a, int fd) {
  pco_worker_close_others(a, fd);
  prctl(PR_SET_NAME, "portico-files");
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  a->is_worker = true;
  a->last_op = 0;
  memset(&a->jobs, 0, sizeof a->jobs);
  memset(&a->workers, 0, sizeof a->workers);
  memset(&a->hosts, 0, sizeof a->hosts); /* the agent is its only one */
  pco_channel_init(&a->host, fd);
  a->epoll = epoll_create1(EPOLL_CLOEXEC);
  a->ending = a->epoll < 0;
  while (!a->ending)
    turn(a);
  pco_jobs_end(a); /* what was begun is removed */
  _exit(0);
}
