/* SPDX-License-Identifier: MIT */
/*
 * Making a supervisor and letting it go; see sup.h.
 */
#include "sup.h"

#include "agent.h"
#include "launch.h"
#include "places.h"
#include "supervisor.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

void pco_sup_link(pco_sup **list, pco_sup *s) {
  s->prev = NULL;
  s->next = *list;
  if (s->next)
    s->next->prev = s;
  *list = s;
}

void pco_sup_unlink(pco_sup **list, pco_sup *s) {
  if (s->next)
    s->next->prev = s->prev;
  if (s->prev)
    s->prev->next = s->next;
  else
    *list = s->next;
}

void pco_sup_disconnect(pco_agent *a, pco_sup *s) {
  if (s->source.fn)
    pco_source_remove(a->epoll, &s->source);
  pco_channel_deinit(&s->chan);
  if (s->pidfd >= 0)
    close(s->pidfd);
  s->pidfd = -1;
}

void pco_sup_close_counter(pco_counter *c) {
  if (c->fd >= 0)
    close(c->fd);
  *c = (pco_counter){.fd = -1};
}

void pco_sup_free(pco_sup *s) {
  pco_places_drop(s);
  pco_sup_close_counter(&s->own_kills);
  pco_sup_close_counter(&s->command_kills);
  free(s);
}

/* Forks.  The parent gets the child's pid and pidfd in s. */
static int fork_supervisor(pco_agent *a, pco_sup *s, int theirs) {
  s->pid = fork();
  if (s->pid == 0) {
    pco_launch_others(2 + a->commands.n_busy + a->commands.n_idle +
                      a->workers.n);
    pco_supervisor_main(theirs, a->null, a->own_system);
  }
  if (s->pid < 0)
    return -errno;
  s->pidfd = (int)syscall(SYS_pidfd_open, s->pid, 0);
  return s->pidfd < 0 ? -errno : 0;
}

int pco_sup_create(pco_agent *a, void (*on_events)(void *arg, uint32_t events),
                   pco_sup **out) {
  int fds[2];
  pco_sup *s = calloc(1, sizeof *s);
  if (!s)
    return -ENOMEM;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    free(s);
    return -errno;
  }
  s->agent = a;
  s->pidfd = -1;
  s->limit_at = PCO_NEVER;
  s->answer_at = PCO_NEVER;
  s->own_leaf = s->command_leaf = PCO_NO_LEAF;
  s->own_kills.fd = s->command_kills.fd = -1;
  pco_channel_init(&s->chan, fds[0]);
  int rc = fork_supervisor(a, s, fds[1]);
  close(fds[1]);
  s->source = (pco_source){.fd = fds[0], .fn = on_events, .arg = s};
  if (rc == 0)
    rc = pco_source_add(a->epoll, &s->source, EPOLLIN);
  if (rc != 0) {
    s->source.fn = NULL;
    pco_sup_disconnect(
        a, s); /* a child that was forked sees the end of its stream */
    free(s);
    return rc;
  }
  pco_sup_link(&a->commands.live, s);
  *out = s;
  return 0;
}
