/* SPDX-License-Identifier: MIT */
/*
 * See door.h.
 */
#include "door.h"

#include "clock.h"
#include "rights.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* What is watched; numbers below are places of visitors. */
enum {
  LISTENER = PCO_DOOR_VISITORS,
  TIMER,
  TTL_TIMER,
};

#define EVENTS_AT_ONCE 64    /* then whoever serves the door has its turn */
#define LAST_ORDERS    64    /* that nobody heard */
#define RETRY_TIME     PCO_S /* where there was no descriptor for a visitor */

/* ---- messages ----------------------------------------------------------- */

int pco_door_report(int fd, const pco_keeper_report *r, int with) {
  pco_keeper_report copy = *r;
  struct iovec v = {&copy, sizeof copy};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
  pco_rights room;
  pco_rights_put(&m, &room, &with, with >= 0);
  ssize_t n = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
  return n < 0 ? -errno : 0;
}

/* The kernel tells the other side of a reset, before any report, if something
 * that it sent was not read. */
void pco_door_last_report(int fd, const pco_keeper_report *r) {
  char byte;
  shutdown(fd, SHUT_RD);
  pco_door_report(fd, r, -1);
  for (int i = 0; i < LAST_ORDERS; i++)
    if (recv(fd, &byte, 1, MSG_DONTWAIT) <= 0)
      break;
  close(fd);
}

void pco_door_refuse(int fd, int error) {
  pco_keeper_report r = {.type = PCO_KEEPER_REFUSED, .error = error};
  pco_door_last_report(fd, &r);
}

/* ---- what is watched ---------------------------------------------------- */

static int watch(pco_door *d, int fd, uint32_t number, uint32_t events) {
  struct epoll_event e = {.events = events, .data = {.u32 = number}};
  return epoll_ctl(d->epoll, EPOLL_CTL_ADD, fd, &e) == 0 ? 0 : -errno;
}

static void forget(pco_door *d, int fd) {
  epoll_ctl(d->epoll, EPOLL_CTL_DEL, fd, NULL);
}

static pco_visitor *free_place(pco_door *d) {
  for (int i = 0; i < PCO_DOOR_VISITORS; i++)
    if (d->visitors[i].fd < 0)
      return &d->visitors[i];
  return NULL;
}

/* The listener is watched while there is a place, and a descriptor. */
static void watch_listener(pco_door *d) {
  bool full = !free_place(d) || d->retry_at != PCO_NEVER;
  if (full && !d->full)
    forget(d, d->listener);
  else if (!full && d->full)
    full = watch(d, d->listener, LISTENER, EPOLLIN) != 0;
  d->full = full;
}

/* To the first of those who have to say something. */
static void set_timer(pco_door *d) {
  int64_t at = d->retry_at;
  for (int i = 0; i < PCO_DOOR_VISITORS; i++) {
    const pco_visitor *v = &d->visitors[i];
    if (v->fd >= 0 && !v->waits && v->until < at)
      at = v->until;
  }
  struct itimerspec t = {0};
  if (at != PCO_NEVER) {
    t.it_value.tv_sec = (time_t)(at / PCO_S);
    t.it_value.tv_nsec = (long)(at % PCO_S);
  }
  timerfd_settime(d->timer, TFD_TIMER_ABSTIME, &t, NULL);
}

/* ---- visitors ----------------------------------------------------------- */

/* Takes the visitor out; the connection is the caller's. */
static int leave(pco_door *d, pco_visitor *v) {
  int fd = v->fd;
  forget(d, fd);
  *v = (pco_visitor){.fd = -1};
  watch_listener(d);
  set_timer(d);
  return fd;
}

/* Of this user, or root. */
static bool is_welcome(const pco_door *d, int fd) {
  struct ucred peer;
  socklen_t size = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return false;
  return peer.uid == d->uid || peer.uid == 0;
}

static void let_in(pco_door *d) {
  pco_visitor *v = free_place(d);
  int fd = accept4(d->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
    d->retry_at = pco_now() + RETRY_TIME; /* no descriptor, no memory */
    watch_listener(d);
    set_timer(d);
  }
  if (fd < 0)
    return;
  if (!v || !is_welcome(d, fd) ||
      watch(d, fd, (uint32_t)(v - d->visitors), EPOLLIN) != 0) {
    close(fd);
    return;
  }
  *v = (pco_visitor){.fd = fd, .until = pco_now() + PCO_DOOR_PATIENCE * PCO_MS};
  watch_listener(d);
  set_timer(d);
}

/* Only its leaving is of interest from now on. */
static pco_door_wish on_end(pco_door *d, pco_visitor *v) {
  struct epoll_event e = {.data = {.u32 = (uint32_t)(v - d->visitors)}};
  v->waits = true;
  epoll_ctl(d->epoll, EPOLL_CTL_MOD, v->fd, &e);
  set_timer(d);
  return PCO_DOOR_END;
}

/* What is no order, the end of the connection too, ends the visit. */
static pco_door_wish on_visitor(pco_door *d, pco_visitor *v, int *fd,
                                uint32_t *grace_ms) {
  pco_keeper_order order = {0};
  ssize_t n = v->waits
                  ? 0
                  : recv(v->fd, &order, sizeof order, MSG_DONTWAIT | MSG_TRUNC);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return PCO_DOOR_NOTHING;
  if (n == sizeof order && order.type == PCO_KEEPER_END) {
    *grace_ms = order.grace_ms;
    return on_end(d, v);
  }
  int left = leave(d, v);
  if (n == sizeof order && order.type == PCO_KEEPER_ATTACH) {
    *fd = left;
    return PCO_DOOR_ATTACH;
  }
  close(left);
  return PCO_DOOR_NOTHING;
}

static void on_timer(pco_door *d) {
  int64_t now = pco_now();
  if (d->retry_at <= now)
    d->retry_at = PCO_NEVER;
  for (int i = 0; i < PCO_DOOR_VISITORS; i++) {
    pco_visitor *v = &d->visitors[i];
    if (v->fd >= 0 && !v->waits && v->until <= now)
      close(leave(d, v));
  }
  watch_listener(d);
  set_timer(d);
}

/* It is told once. */
static pco_door_wish on_ttl(pco_door *d) {
  forget(d, d->ttl_timer);
  close(d->ttl_timer);
  d->ttl_timer = -1;
  return PCO_DOOR_EXPIRED;
}

pco_door_wish pco_door_next(pco_door *d, int *fd, uint32_t *grace_ms) {
  struct epoll_event e;
  pco_door_wish wish = PCO_DOOR_NOTHING;
  for (int i = 0; i < EVENTS_AT_ONCE && d->epoll >= 0; i++) {
    if (epoll_wait(d->epoll, &e, 1, 0) != 1)
      break;
    if (e.data.u32 == LISTENER)
      let_in(d);
    else if (e.data.u32 == TIMER)
      on_timer(d);
    else if (e.data.u32 == TTL_TIMER)
      return on_ttl(d);
    else
      wish = on_visitor(d, &d->visitors[e.data.u32], fd, grace_ms);
    if (wish != PCO_DOOR_NOTHING)
      break;
  }
  return wish;
}

/* ---- begin and end ------------------------------------------------------ */

/* Time goes on while the machine sleeps, where that can be had. */
static int start_ttl(pco_door *d, uint64_t ms) {
  if (ms == 0)
    return 0;
  struct itimerspec t = {.it_value = {.tv_sec = (time_t)(ms / 1000),
                                      .tv_nsec = (long)(ms % 1000 * 1000000)}};
  d->ttl_timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
  if (d->ttl_timer < 0)
    d->ttl_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (d->ttl_timer < 0 || timerfd_settime(d->ttl_timer, 0, &t, NULL) != 0)
    return -errno;
  return watch(d, d->ttl_timer, TTL_TIMER, EPOLLIN);
}

static int start(pco_door *d, uint64_t ttl_ms) {
  d->epoll = epoll_create1(EPOLL_CLOEXEC);
  d->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (d->epoll < 0 || d->timer < 0 ||
      fcntl(d->listener, F_SETFL, O_NONBLOCK) != 0)
    return -errno;
  int rc = watch(d, d->timer, TIMER, EPOLLIN);
  if (rc == 0)
    rc = watch(d, d->listener, LISTENER, EPOLLIN);
  return rc == 0 ? start_ttl(d, ttl_ms) : rc;
}

void pco_door_init_none(pco_door *d) {
  memset(d, 0, sizeof *d);
  d->retry_at = PCO_NEVER;
  d->epoll = d->listener = d->timer = d->ttl_timer = d->dir = d->info = -1;
  for (int i = 0; i < PCO_DOOR_VISITORS; i++)
    d->visitors[i].fd = -1;
}

int pco_door_init(pco_door *d, int listener, int dir, int info,
                  const char *name, uint64_t ttl_ms) {
  pco_door_init_none(d);
  d->listener = listener;
  d->dir = dir;
  d->info = info;
  d->uid = geteuid();
  if (strlen(name) >= sizeof d->name - sizeof ".sock" || strchr(name, '/'))
    return -EINVAL;
  strcpy(d->name, name);
  return start(d, ttl_ms);
}

/* Not if others were put in their place. */
static void remove_files(const pco_door *d) {
  char file[sizeof d->name + sizeof ".sock"];
  struct stat ours, there;
  snprintf(file, sizeof file, "%s.info", d->name);
  if (fstat(d->info, &ours) != 0 ||
      fstatat(d->dir, file, &there, AT_SYMLINK_NOFOLLOW) != 0 ||
      ours.st_ino != there.st_ino || ours.st_dev != there.st_dev)
    return;
  char sock[sizeof file];
  snprintf(sock, sizeof sock, "%s.sock", d->name);
  unlinkat(d->dir, sock, 0);
  unlinkat(d->dir, file, 0);
}

void pco_door_close(pco_door *d, const pco_keeper_report *ended) {
  if (d->dir >= 0)
    remove_files(d);
  for (int i = 0; i < PCO_DOOR_VISITORS; i++) {
    if (d->visitors[i].fd < 0)
      continue;
    if (d->visitors[i].waits)
      pco_door_last_report(d->visitors[i].fd, ended);
    else
      close(d->visitors[i].fd);
  }
  const int held[] = {d->listener, d->timer, d->ttl_timer,
                      d->dir,      d->info,  d->epoll};
  for (size_t i = 0; i < sizeof held / sizeof *held; i++)
    if (held[i] >= 0)
      close(held[i]);
  pco_door_init_none(d);
}
