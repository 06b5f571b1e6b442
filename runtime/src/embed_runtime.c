/* SPDX-License-Identifier: MIT */
/*
 * A runtime of a host in C: its creation and its end, and what every call of
 * the host checks first.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "embed.h"

#define MAX_STRUCT   4096 /* what claims to be larger is no struct of ours */
#define MAX_BACKENDS 1024

/* ---- checks -------------------------------------------------------------- */

int pco__embed_check(pco_runtime *rt) {
  if (!rt)
    return PCO_EINVAL;
  if (atomic_load_explicit(&rt->slot, memory_order_acquire) != PCO__SLOT_OPEN)
    return PCO_ECLOSED;
  if (*(volatile unsigned char *)rt->not_forked == 0)
    return PCO_EFORKED;
  if (!pthread_equal(rt->thread, pthread_self()))
    return PCO_ETHREAD;
  return rt->lua ? 0 : PCO_ECLOSED;
}

int pco__embed_check_outside(pco_runtime *rt) {
  int rc = pco__embed_check(rt);
  return rc == 0 && rt->inside ? PCO_EREENTRANT : rc;
}

int pco__embed_take(void *ours, size_t known, size_t least, const void *given,
                    size_t size) {
  if (size < least || size > MAX_STRUCT)
    return PCO_ESIZE;
  for (size_t i = known; i < size; i++)
    if (((const char *)given)[i] != 0)
      return PCO_ESIZE;
  memset(ours, 0, known);
  memcpy(ours, given, size < known ? size : known);
  return 0;
}

int pco__embed_take_limits(pco_limits *ours, const pco_limits *given) {
  int rc = pco__embed_take(ours, sizeof *ours, PCO__END_OF(pco_limits, cpus),
                           given, given->struct_size);
  if (rc == 0)
    ours->struct_size = sizeof *ours;
  return rc;
}

int pco__embed_give(void *theirs, size_t size, const void *ours, size_t known,
                    size_t least) {
  if (size < least || size > MAX_STRUCT)
    return PCO_ESIZE;
  memcpy(theirs, ours, size < known ? size : known);
  if (size > known)
    memset((char *)theirs + known, 0, size - known);
  return 0;
}

int pco__embed_fail(pco_runtime *rt, int code, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  vsnprintf(rt->message, sizeof rt->message, fmt, args);
  va_end(args);
  return code;
}

/* ---- creation ------------------------------------------------------------ */

static int copy_strings(pco_runtime *rt, const pco_config *c) {
  size_t n = 0;
  if (c->lua_dir && !(rt->lua_dir = strdup(c->lua_dir)))
    return UV_ENOMEM;
  rt->config.lua_dir = rt->lua_dir;
  if (!c->backends)
    return 0;
  while (c->backends[n])
    if (++n > MAX_BACKENDS)
      return PCO_EINVAL;
  rt->backends = calloc(n + 1, sizeof *rt->backends);
  if (!rt->backends)
    return UV_ENOMEM;
  for (size_t i = 0; i < n; i++)
    if (!(rt->backends[i] = strdup(c->backends[i])))
      return UV_ENOMEM;
  return 0;
}

static void free_strings(pco_runtime *rt) {
  for (size_t i = 0; rt->backends && rt->backends[i]; i++)
    free(rt->backends[i]);
  free(rt->backends);
  free(rt->lua_dir);
}

static int watch(const pco_runtime *rt, int fd) {
  struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};
  return epoll_ctl(rt->poll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

/* The descriptor of the host: readable if one of these three is. */
static int open_descriptors(pco_runtime *rt) {
  rt->poll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (rt->poll_fd < 0)
    return -errno;
  rt->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (rt->wake_fd < 0)
    return -errno;
  rt->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (rt->timer_fd < 0)
    return -errno;
  int rc = watch(rt, rt->wake_fd);
  return rc < 0 ? rc : watch(rt, rt->timer_fd);
}

static void close_descriptors(pco_runtime *rt) {
  int fds[] = {rt->poll_fd, rt->wake_fd, rt->timer_fd};
  for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
    if (fds[i] >= 0)
      close(fds[i]);
}

static int open_loop(pco_runtime *rt) {
  pco__loop *loop;
  int rc = pco__runtime_loop(&rt->lua->runtime, &loop);
  if (rc == 0)
    rc = watch(rt, uv_backend_fd(&loop->uv));
  if (rc == 0)
    rt->lua->runtime.host_generation = atomic_load(&rt->generation);
  if (rc == 0)
    atomic_store(&rt->lua->runtime.host, rt);
  return rc;
}

static void forget_host(pco__lua *lua) {
  lua->embedder = NULL;
  atomic_store(&lua->runtime.host, NULL);
}

static int take_config(const pco_config *given, pco_config *c) {
  if (!given)
    return PCO_EINVAL;
  int rc = pco__embed_take(c, sizeof *c, PCO__END_OF(pco_config, lua_dir),
                           given, given->size);
  if (rc < 0)
    return rc;
  if (c->lua_version && c->lua_version != LUA_VERSION_NUM)
    return PCO_ELUA;
  bool own_only = c->alloc || c->memory_limit || c->libs;
  if (c->libs & ~(uint32_t)PCO_LIBS_ALL || (c->state && own_only))
    return PCO_EINVAL;
  return 0;
}

/* Closes the state, and frees what is not the state's.  [not in a fork] */
static void free_all(pco_runtime *rt) {
  if (rt->owns_state && rt->L)
    lua_close(rt->L);
  rt->L = NULL;
  pco__embed_stop_slices(rt);
  pco__embed_close_posts(rt);
  close_descriptors(rt);
  free_strings(rt);
  pco__slot_give(rt);
}

static void init(pco_runtime *rt, const pco_config *c) {
  rt->thread = pthread_self();
  rt->config = *c;
  rt->poll_fd = rt->wake_fd = rt->timer_fd = -1;
  rt->memory =
      (pco__budget){.alloc = c->alloc, .ud = c->ud, .limit = c->memory_limit};
  pco__list_init(&rt->handles);
  pco__list_init(&rt->tasks);
  pco__list_init(&rt->finished);
  pco__list_init(&rt->calls);
  pco__list_init(&rt->boxes);
  pco__list_init(&rt->commands);
  pco__list_init(&rt->opened);
}

int pco_runtime_create(const pco_config *config, pco_runtime **out) {
  if (!out)
    return PCO_EINVAL;
  *out = NULL;
  pco_config own;
  int rc = take_config(config, &own);
  if (rc < 0)
    return rc;
  pco_runtime *rt = pco__slot_take();
  if (!rt)
    return UV_ENOMEM;
  init(rt, &own);
  rc = copy_strings(rt, &own);
  if (rc == 0)
    rc = open_descriptors(rt);
  if (rc == 0)
    rc = pco__embed_open_state(rt);
  if (rc == 0)
    rc = open_loop(rt);
  if (rc == 0)
    rc = pco__embed_start_slices(rt);
  if (rc < 0) {
    if (rt->lua)
      forget_host(rt->lua);
    free_all(rt);
    return rc;
  }
  atomic_store(&rt->slot, PCO__SLOT_OPEN);
  *out = rt;
  return 0;
}

lua_State *pco_state(pco_runtime *rt) {
  return pco__embed_check(rt) < 0 ? NULL : rt->L;
}

/* ---- the end ------------------------------------------------------------- */

void pco__embed_end(pco_runtime *rt) {
  pco__loop *loop = &rt->lua->runtime.loop;
  pco__embed_cancel_calls(rt);
  pco__embed_orphan_commands(rt);
  pco__embed_orphan_opened(rt);
  pco__embed_orphan_boxes(rt);
  pco__embed_kill_tasks(rt);
  pco__backend_close_all(loop);
  pco__timer_stop(loop, &rt->phase_timer);
  for (int i = 0; i < 1000 && rt->n_calls > 0; i++) { /* their completions */
    uv_run(&loop->uv, UV_RUN_NOWAIT);
    pco__embed_tell_calls(rt);
  }
  pco__embed_orphan_calls(rt);
  pco__embed_tell_tasks(rt);
  pco__embed_orphan_tasks(rt);
}

void pco__embed_state_closes(pco_runtime *rt) {
  bool was_inside = rt->inside;
  forget_host(rt->lua);
  if (!pco__runtime_forked(&rt->lua->runtime)) {
    rt->inside = true;
    pco__embed_end(rt);
    rt->inside = was_inside;
  }
  rt->lua = NULL;
  rt->L = NULL;
}

/* The state goes on without us, or is closed. */
static void leave_state(pco_runtime *rt) {
  pco__lua *lua = rt->lua;
  pco__embed_end(rt);
  forget_host(lua);
  lua->backends = NULL;
  lua->slice_hook = NULL;
  lua->slice_count = 0;
  atomic_store(&lua->runtime.log.enabled, false);
  rt->lua = NULL;
  if (rt->owns_state)
    lua_close(rt->L);
  rt->L = NULL;
}

int pco_runtime_destroy(pco_runtime *rt) {
  int rc = pco__embed_check(rt);
  bool state_gone = rc == PCO_ECLOSED && rt &&
                    atomic_load(&rt->slot) == PCO__SLOT_OPEN && !rt->lua;
  if (rc < 0 && !state_gone)
    return rc;
  if (rt->inside)
    return PCO_EREENTRANT;
  pco_detach_uv(rt);
  rt->inside = true;
  if (rt->lua)
    leave_state(rt);
  free_all(rt);
  return 0;
}

int pco_forked_child(pco_runtime *rt) {
  if (!rt || atomic_load(&rt->slot) != PCO__SLOT_OPEN)
    return rt ? PCO_ECLOSED : PCO_EINVAL;
  if (*(volatile unsigned char *)rt->not_forked)
    return PCO_EINVAL;
  atomic_store(&rt->slot, PCO__SLOT_DEAD); /* its lock may be held for ever */
  if (rt->lua && !rt->owns_state)
    forget_host(rt->lua);
  close_descriptors(rt);
  free_strings(rt);
  return 0;
}
