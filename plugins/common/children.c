/* SPDX-License-Identifier: MIT */
/*
 * See children.h.
 */
#include "portico/plugin_lock.h"

#include "children.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct child {
  struct child *next;
  int pidfd;
} child;

static pco_lock lock = PCO_LOCK_INIT;
static child *children;
static pid_t owner; /* whose they are: not a forked child's */

/* True when there is nothing to wait for any more. */
static bool is_reaped(int pidfd) {
  siginfo_t info;
  memset(&info, 0, sizeof info);
  int rc = waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG);
  return rc < 0 ? errno == ECHILD : info.si_pid != 0;
}

static void take_lock(void) {
  pco_lock_take(&lock);
  if (owner != getpid())
    children = NULL;
  owner = getpid();
}

void plugin_children_add(int pidfd) {
  child *c = is_reaped(pidfd) ? NULL : malloc(sizeof *c);
  if (!c) {
    close(pidfd);
    return;
  }
  c->pidfd = pidfd;
  take_lock();
  c->next = children;
  children = c;
  pco_lock_give(&lock);
}

void plugin_children_reap(void) {
  take_lock();
  for (child **at = &children; *at;) {
    child *c = *at;
    if (!is_reaped(c->pidfd)) {
      at = &c->next;
      continue;
    }
    *at = c->next;
    close(c->pidfd);
    free(c);
  }
  pco_lock_give(&lock);
}
