/* SPDX-License-Identifier: MIT */
/*
 * A door in this process: what cannot be brought about from outside.
 */
#include "door_client.h"

#include "../../runtime/agent/door.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define MS 20000 /* for what comes at once */

static door at;
static pco_door d;

static void begin(uint64_t ttl_ms) {
  door_make(&at);
  IS(pco_door_init(&d, at.listener, fcntl(at.dir, F_DUPFD_CLOEXEC, 3), at.info,
                   DOOR_NAME, ttl_ms),
     0, "a door");
  at.listener = at.info = -1; /* it has them */
}

static void end(void) {
  pco_keeper_report ended = {.type = PCO_KEEPER_ENDED};
  pco_door_close(&d, &ended);
  OK(!door_has(&at, "info") && !door_has(&at, "sock"), "both files are gone");
  door_remove(&at);
}

/* Serves the door until there is a wish, or nothing for ms. */
static pco_door_wish serve(int *fd, uint32_t *grace_ms, int ms) {
  struct pollfd p = {.fd = d.epoll, .events = POLLIN};
  pco_door_wish wish = PCO_DOOR_NOTHING;
  while (wish == PCO_DOOR_NOTHING && poll(&p, 1, ms) == 1)
    wish = pco_door_next(&d, fd, grace_ms);
  return wish;
}

static void test_wishes(void) {
  int fd = -1;
  uint32_t grace_ms = 0;
  pco_keeper_report r;
  begin(0);
  IS(serve(&fd, &grace_ms, 0), PCO_DOOR_NOTHING, "nobody is there");
  int visit = door_connect(&at);
  door_order(visit, PCO_KEEPER_ATTACH, 0);
  IS(serve(&fd, &grace_ms, MS), PCO_DOOR_ATTACH, "somebody attaches");
  pco_door_refuse(fd, EBUSY);
  OK(door_hear(visit, &r, NULL, MS) && r.error == EBUSY, "and is refused");
  close(visit);
  visit = door_connect(&at);
  door_order(visit, PCO_KEEPER_END, 1234);
  IS(serve(&fd, &grace_ms, MS), PCO_DOOR_END, "somebody ends it");
  IS(grace_ms, 1234, "with a grace");
  /* What one that waits says is not heard; it may leave. */
  door_order(visit, PCO_KEEPER_ATTACH, 0);
  IS(serve(&fd, &grace_ms, 0), PCO_DOOR_NOTHING, "then it only waits");
  int gone = door_connect(&at);
  door_order(gone, PCO_KEEPER_END, 0);
  IS(serve(&fd, &grace_ms, MS), PCO_DOOR_END, "so does a second one");
  close(gone);
  IS(serve(&fd, &grace_ms, 50), PCO_DOOR_NOTHING, "which leaves");
  end();
  OK(door_hear(visit, &r, NULL, MS) && r.type == PCO_KEEPER_ENDED,
     "who waits is told");
  close(visit);
}

static void test_ttl(void) {
  int fd;
  uint32_t grace_ms;
  begin(1);
  IS(serve(&fd, &grace_ms, MS), PCO_DOOR_EXPIRED, "the ttl is over");
  IS(serve(&fd, &grace_ms, 10), PCO_DOOR_NOTHING, "once");
  end();
}

/* Without a descriptor for a visitor the door does not turn in circles; when
 * there is one again, the visitor is served. */
static void test_no_descriptors(void) {
  int fd = -1;
  uint32_t grace_ms;
  struct rlimit was;
  begin(0);
  int visit = door_connect(&at);
  door_order(visit, PCO_KEEPER_ATTACH, 0);
  int next = fcntl(visit, F_DUPFD_CLOEXEC, 3);
  close(next);
  getrlimit(RLIMIT_NOFILE, &was);
  struct rlimit few = {.rlim_cur = (rlim_t)next, .rlim_max = was.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  IS(pco_door_next(&d, &fd, &grace_ms), PCO_DOOR_NOTHING, "no descriptor");
  struct pollfd p = {.fd = d.epoll, .events = POLLIN};
  IS(poll(&p, 1, 0), 0, "nothing is to be done for now");
  setrlimit(RLIMIT_NOFILE, &was);
  IS(serve(&fd, &grace_ms, MS), PCO_DOOR_ATTACH, "later there is one");
  close(fd);
  close(visit);
  end();
}

static void test_names(void) {
  char long_name[300];
  memset(long_name, 'n', sizeof long_name - 1);
  long_name[sizeof long_name - 1] = 0;
  IS(pco_door_init(&d, -1, -1, -1, long_name, 0), -EINVAL, "a long name");
  IS(pco_door_init(&d, -1, -1, -1, "a/b", 0), -EINVAL, "one with a slash");
  IS(pco_door_init(&d, -1, -1, -1, "x", 0), -EBADF, "no socket");
  pco_door_close(&d, &(pco_keeper_report){0});
  int fd;
  uint32_t grace_ms;
  pco_door_init_none(&d);
  IS(pco_door_next(&d, &fd, &grace_ms), PCO_DOOR_NOTHING, "no door");
  pco_door_close(&d, &(pco_keeper_report){0});
}

int main(void) {
  test_wishes();
  test_ttl();
  test_no_descriptors();
  test_names();
  return tap_done();
}
