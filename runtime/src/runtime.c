/* SPDX-License-Identifier: MIT */
/* What the loops of one Lua state share; see runtime.h. */
#include "runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend.h"
#include "portal.h"

/* A page that the kernel empties in a forked child: no pthread_atfork handler,
 * no getpid() a call. */
int pco__map_fork_page(unsigned char **out) {
  *out = NULL;
  size_t size = (size_t)sysconf(_SC_PAGESIZE);
  unsigned char *page = mmap(NULL, size, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED)
    return UV_ENOMEM;
  *page = 1;
  madvise(page, size, MADV_WIPEONFORK);
  *out = page;
  return 0;
}

int pco__runtime_init(pco__runtime *rt) {
  memset(rt, 0, sizeof *rt);
  int rc = pco__map_fork_page(&rt->not_forked);
  if (rc < 0)
    return rc;
  rt->image_fd = -1;
  pthread_mutex_init(&rt->lock, NULL);
  pco__log_init(&rt->log);
  pco__list_init(&rt->portals);
  return 0;
}

void pco__runtime_occupy_stdio(pco__runtime *rt) {
  for (int fd = 0; fd <= 2; fd++)
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
      rt->stdio[fd] = open("/dev/null", O_RDWR | O_CLOEXEC) == fd;
}

static void release_stdio(pco__runtime *rt) {
  for (int fd = 0; fd <= 2; fd++)
    if (rt->stdio[fd])
      close(fd);
}

bool pco__runtime_forked(const pco__runtime *rt) {
  return *(volatile unsigned char *)rt->not_forked == 0;
}

int pco__runtime_renew(pco__runtime *rt) {
  unsigned char *old = rt->not_forked;
  int rc = pco__map_fork_page(&rt->not_forked);
  if (rc < 0)
    return rc;
  munmap(old, (size_t)sysconf(_SC_PAGESIZE));
  /* A thread that did not come along may hold the locks. */
  pthread_mutex_init(&rt->lock, NULL);
  bool logs = atomic_load(&rt->log.enabled);
  pco__log_init(&rt->log);
  atomic_store(&rt->log.enabled, logs);
  pco__list_init(&rt->portals);
  atomic_store(&rt->host, NULL);
  rt->loop_open = false;
  rt->generation++;
  return 0;
}

int pco__runtime_loop(pco__runtime *rt, pco__loop **out) {
  *out = &rt->loop;
  if (rt->loop_open)
    return 0;
  int rc = pco__loop_init(&rt->loop, rt, false);
  rt->loop_open = rc == 0;
  return rc;
}

static void stop_portals(pco__runtime *rt) {
  for (pco__node *n = rt->portals.next; n != &rt->portals; n = n->next)
    pco__portal_stop(PCO_CONTAINER(n, pco__portal, node));
}

static void join_portals(pco__runtime *rt) {
  while (!pco__list_empty(&rt->portals))
    pco__portal_join(PCO_CONTAINER(rt->portals.next, pco__portal, node));
}

/* Not in a forked child: a lock may be held there by a thread that did not come
 * along, and the loops are the parent's. */
static void end_loops(pco__runtime *rt) {
  stop_portals(rt); /* they end while the async loop does */
  if (rt->loop_open) {
    pco__backend_close_all(&rt->loop);
    pco__loop_deinit(&rt->loop);
    pthread_mutex_destroy(&rt->loop.lock);
  }
  join_portals(rt);
  pco__log_deinit(&rt->log);
  pthread_mutex_destroy(&rt->lock);
}

void pco__runtime_deinit(pco__runtime *rt) {
  if (!pco__runtime_forked(rt))
    end_loops(rt);
  if (rt->image_fd >= 0)
    close(rt->image_fd);
  release_stdio(rt);
  munmap(rt->not_forked, (size_t)sysconf(_SC_PAGESIZE));
}
