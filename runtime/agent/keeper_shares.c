/* SPDX-License-Identifier: MIT */
/*
 * See keeper_shares.h.
 *
 * The kernel compares the count inside of a namespace with the limit of whoever
 * adds to it, and the count of the user who made the namespace with the limit
 * that he had then; so the same resource is limited twice.
 */
#include "keeper_shares.h"

#include <fcntl.h>
#include <stddef.h>
#include <sys/resource.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

typedef struct share {
  int resource;
  rlim_t most; /* of one sandbox */
} share;

static const share shares[] = {
    {RLIMIT_SIGPENDING, 1024},     /* and timers */
    {RLIMIT_MSGQUEUE, 200 << 10}}; /* bytes; two queues of the usual size */

/* Limits that are low already stay. */
static void lower(const share *s, rlim_t most) {
  struct rlimit r;
  if (getrlimit(s->resource, &r) != 0 || r.rlim_max <= most)
    return;
  r.rlim_cur = r.rlim_max = most;
  setrlimit(s->resource, &r);
}

void pco_shares_leave(void) {
  struct rlimit r;
  for (size_t i = 0; i < COUNT(shares); i++)
    if (getrlimit(shares[i].resource, &r) == 0 && r.rlim_max != RLIM_INFINITY &&
        r.rlim_max > shares[i].most)
      lower(&shares[i], r.rlim_max - r.rlim_max / 4);
}

void pco_shares_take(uint64_t processes) {
  const share own = {RLIMIT_NPROC, processes};
  if (processes)
    lower(&own, own.most);
  for (size_t i = 0; i < COUNT(shares); i++)
    lower(&shares[i], shares[i].most);
  /* The usual limit of a user is 128.  Where this cannot be set, it stays. */
  int fd = open("/proc/sys/user/max_inotify_instances", O_WRONLY | O_CLOEXEC);
  if (fd < 0)
    return;
  (void)!write(fd, "32", 2);
  close(fd);
}
