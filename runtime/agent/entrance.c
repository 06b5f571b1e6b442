/* SPDX-License-Identifier: MIT */
/* See entrance.h. */
#include "entrance.h"

#include "agent.h"
#include "rights.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- a keeper that has the door ----------------------------------------- */

/* If the keeper is dead, all is over. */
static void on_visit(void *arg, uint32_t events) {
  pco_agent *a = arg;
  char byte;
  struct iovec v = {&byte, 1};
  pco_rights room;
  int fds[PCO_RIGHTS_MAX];
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
  (void)events;
  pco_rights_expect(&m, &room);
  ssize_t n =
      recvmsg(a->entrance.source.fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  unsigned n_fds = n > 0 ? pco_rights_take(&m, fds) : 0;
  for (unsigned i = 1; i < n_fds; i++)
    close(fds[i]); /* the keeper sends one */
  if (n_fds > 0)
    pco_hosts_come(a, fds[0]);
  else if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
    a->ending = true;
}

/* ---- the control socket of an agent that is its own keeper --------------- */

static void report(pco_agent *a, uint32_t type) {
  const pco_entrance *e = &a->entrance;
  pco_keeper_report r = {.type = type,
                         .asked = e->asked,
                         .uid = geteuid(),
                         .gid = getegid(),
                         .pid = getpid()};
  if (e->control.fd >= 0)
    pco_door_report(e->control.fd, &r, -1);
}

static void end(pco_agent *a, uint32_t who) {
  if (!a->ending)
    a->entrance.asked = who;
  a->ending = true;
}

static void end_control(pco_agent *a) {
  pco_entrance *e = &a->entrance;
  if (e->control.fn)
    pco_source_remove(a->epoll, &e->control);
  close(e->control.fd);
  e->control.fd = -1;
  if (!e->detached)
    end(a, PCO_KEEPER_BY_HOST);
}

static void on_order(pco_agent *a, const pco_keeper_order *order) {
  if (order->type == PCO_KEEPER_END) {
    end(a, PCO_KEEPER_BY_HOST);
  } else if (order->type == PCO_KEEPER_DETACH) {
    a->entrance.detached = true;
    report(a, PCO_KEEPER_DETACHED);
  } else {
    end_control(a);
  }
}

/* All that there is: who comes by the door is to find the place free that
 * another one has left. */
static void on_control(void *arg, uint32_t events) {
  pco_agent *a = arg;
  (void)events;
  for (int i = 0; i < 16 && a->entrance.control.fd >= 0; i++) {
    pco_keeper_order order;
    ssize_t n = recv(a->entrance.control.fd, &order, sizeof order,
                     MSG_DONTWAIT | MSG_TRUNC);
    if (n == sizeof order)
      on_order(a, &order);
    else if (n >= 0 || (errno != EAGAIN && errno != EINTR))
      end_control(a);
    else
      break;
  }
}

/* ---- its door ------------------------------------------------------------ */

/* Makes a stream to who is on the connection `fd`, which is the control socket
 * then. */
static int attach(pco_agent *a, int fd) {
  pco_entrance *e = &a->entrance;
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return -errno;
  e->control = (pco_source){.fd = fd, .fn = on_control, .arg = a};
  int rc = pco_source_add(a->epoll, &e->control, EPOLLIN);
  if (rc != 0) {
    e->control = (pco_source){.fd = -1};
    close(pair[0]);
    close(pair[1]);
    return rc;
  }
  pco_hosts_come(a, pair[0]);
  pco_keeper_report r = {.type = PCO_KEEPER_ATTACHED,
                         .uid = geteuid(),
                         .gid = getegid(),
                         .pid = getpid()};
  pco_door_report(fd, &r, pair[1]); /* who is gone again is seen to be */
  close(pair[1]);
  return 0;
}

static void on_attach(pco_agent *a, int fd) {
  pco_entrance *e = &a->entrance;
  if (e->control.fd >= 0)
    on_control(a, 0);
  int rc = e->control.fd >= 0 ? -EBUSY : a->ending ? -ESHUTDOWN : attach(a, fd);
  if (rc != 0)
    pco_door_refuse(fd, -rc);
  else
    e->first_by = PCO_NEVER;
}

static void on_door(void *arg, uint32_t events) {
  pco_agent *a = arg;
  int fd;
  uint32_t grace_ms;
  pco_door_wish wish;
  (void)events;
  while ((wish = pco_door_next(&a->entrance.door, &fd, &grace_ms)) !=
         PCO_DOOR_NOTHING) {
    if (wish == PCO_DOOR_ATTACH)
      on_attach(a, fd);
    else
      end(a, wish == PCO_DOOR_END ? PCO_KEEPER_BY_DOOR : PCO_KEEPER_BY_TTL);
  }
}

/* ---- the agent's side ---------------------------------------------------- */

int64_t pco_entrance_next(const pco_agent *a) {
  return a->entrance.first_by;
}

void pco_entrance_tick(pco_agent *a) {
  if (a->entrance.first_by != PCO_NEVER && pco_now() >= a->entrance.first_by)
    a->ending = true;
}

int pco_entrance_init(pco_agent *a, const pco_entrance_options *o) {
  pco_entrance *e = &a->entrance;
  int rc = 0;
  pco_door_init_none(&e->door);
  e->control.fd = -1;
  e->first_by = PCO_NEVER;
  if (o->listener >= 0) {
    rc = pco_door_init(&e->door, o->listener, o->dir, o->info, o->name,
                       o->ttl_ms);
    e->first_by = pco_now() + PCO_FIRST_VISIT;
    e->source = (pco_source){.fd = e->door.epoll, .fn = on_door, .arg = a};
  } else {
    e->source = (pco_source){.fd = o->visits, .fn = on_visit, .arg = a};
  }
  if (rc == 0 && pco_entrance_wanted(o))
    rc = pco_source_add(a->epoll, &e->source, EPOLLIN);
  return rc;
}

void pco_entrance_close(pco_agent *a) {
  pco_entrance *e = &a->entrance;
  pco_keeper_report ended = {.type = PCO_KEEPER_ENDED, .asked = e->asked};
  bool own = e->door.epoll >= 0;
  pco_door_close(&e->door, &ended);
  if (e->control.fd >= 0)
    pco_door_last_report(e->control.fd, &ended);
  if (!own && e->source.fd >= 0)
    close(e->source.fd);
}
