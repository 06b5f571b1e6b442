/* SPDX-License-Identifier: MIT */
/*
 * Scripts that run too long without waiting, and those that the host
 * interrupts: a count hook on each coroutine of a task looks at the clock.
 *
 * The first error may be caught, so that `<close>` variables and handlers have
 * time to clean up: half of the limit.  After that the hook comes at every
 * instruction and raises each time, so it meets the script also outside of
 * whatever pcall caught the one before.
 */
#include <time.h>

#include "embed.h"
#include "lua_error.h"
#include "lua_task.h"

#define MIN_GRACE_NS UINT64_C(10000000)

static const char raise_key = 0;

uint64_t pco__thread_ns(void) {
  struct timespec ts;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
  return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* (): in a frame of our own, since a hook has none. */
static int raise_now(lua_State *L) {
  pco_runtime *rt = pco__lua_of(L)->embedder;
  if (atomic_load(&rt->interrupt))
    return pco__raise_new(L, PCO_EINTERRUPTED, "run",
                          "interrupted by the program that runs this script");
  pco__error *err =
      pco__error_new(PCO_ESLICE, PCO_SOURCE_HOST, NULL,
                     "this script ran for more than %g s without waiting",
                     (double)rt->config.slice_limit_ns / 1e9);
  err->limit = "slice";
  return pco__raise(L, err, "run", 0);
}

/* (runtime, traceback of the caller) */
static void warn(lua_State *L, pco_runtime *rt, uint64_t ns) {
  luaL_traceback(L, L, NULL, 0);
  pco__log_write(&rt->lua->runtime.log, PCO_LOG_WARNING,
                 "a script has been running for %.3f s without waiting; %s",
                 (double)ns / 1e9, lua_tostring(L, -1));
  lua_pop(L, 1);
}

static bool is_slow(const pco_runtime *rt, uint64_t ns) {
  return rt->config.slice_warn_ns && ns > rt->config.slice_warn_ns &&
         rt->warned != rt->lua->current;
}

static uint64_t grace(const pco_runtime *rt) {
  uint64_t half = rt->config.slice_limit_ns / 2;
  return half > MIN_GRACE_NS ? half : MIN_GRACE_NS;
}

/* Whether an error is to be raised now. */
static bool is_over(pco_runtime *rt, uint64_t now, uint64_t ns) {
  bool stop = atomic_load(&rt->interrupt) ||
              (rt->config.slice_limit_ns && ns > rt->config.slice_limit_ns);
  if (rt->killed_at && rt->killed_at < rt->lua->slice_start)
    rt->killed_at = 0; /* of another slice */
  if (!stop)
    return false;
  if (!rt->killed_at) {
    rt->killed_at = now;
    return true;
  }
  return now - rt->killed_at > grace(rt);
}

static void on_count(lua_State *L, lua_Debug *ar) {
  (void)ar;
  const pco__lua *lua = pco__lua_find(L);
  pco_runtime *rt = lua->embedder;
  if (!rt)
    return;
  uint64_t now = pco__thread_ns();
  uint64_t ns = now - lua->slice_start;
  if (is_slow(rt, ns)) {
    rt->warned = lua->current;
    warn(L, rt, ns);
  }
  bool first = !rt->killed_at || rt->killed_at < lua->slice_start;
  bool over = is_over(rt, now, ns);
  int count = over && !first ? 1 : PCO__SLICE_COUNT;
  if (lua_gethookcount(L) != count)
    lua_sethook(L, on_count, LUA_MASKCOUNT, count);
  if (!over || !lua_checkstack(L, LUA_MINSTACK))
    return;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &raise_key);
  lua_call(L, 0, 0);
}

static bool wants_hook(const pco_config *c) {
  return c->slice_limit_ns || c->slice_warn_ns || c->interruptible;
}

static void keep_raiser(lua_State *L, pco_runtime *rt, pco__guarded *g) {
  (void)g;
  lua_pushlightuserdata(L, rt->lua);
  lua_pushboolean(L, 0);
  lua_pushcclosure(L, raise_now, 2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &raise_key);
}

int pco__embed_start_slices(pco_runtime *rt) {
  pco__guarded g = {.fn = keep_raiser};
  if (!wants_hook(&rt->config))
    return 0;
  int rc = pco__embed_guard(rt, &g, 0);
  if (rc == 0)
    rt->lua->slice_hook = on_count;
  return rc;
}

int pco_interrupt(pco_runtime *rt) {
  if (!rt)
    return PCO_EINVAL;
  if (atomic_load(&rt->slot) != PCO__SLOT_OPEN)
    return PCO_ECLOSED;
  if (*(volatile unsigned char *)rt->not_forked == 0)
    return PCO_EFORKED;
  if (!rt->config.interruptible && !rt->config.slice_limit_ns &&
      !rt->config.slice_warn_ns)
    return PCO_EINVAL;
  if (atomic_load(&rt->in_slice))
    atomic_store(&rt->interrupt, true);
  return 0;
}
