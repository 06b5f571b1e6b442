/* SPDX-License-Identifier: MIT */
/*
 * Ticks, and the descriptor that says when one is due.
 *
 * poll_fd is an epoll of three: the loop's own epoll, a timerfd that is set to
 * the loop's next timer, and an eventfd that is readable while something is
 * left to do that neither of these shows (posts, tasks that are ready, handles
 * that are new to the loop).  pco__embed_settle() brings the last two up to
 * date, at the end of each tick; other calls make the eventfd readable.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "embed.h"
#include "lua_task.h"
#include "lua_wait.h"
#include "sys/uv_watchers.h"

static const char guard_key = 0;

/* ---- Lua under protection ------------------------------------------------ */

/* (guarded, ...): the one C function that the host's calls enter Lua by. */
static int enter(lua_State *L) {
  pco__guarded *g = (pco__guarded *)lua_touserdata(L, 1);
  lua_remove(L, 1);
  g->fn(L, g->rt, g);
  return 0;
}

void pco__embed_open_guard(lua_State *L, pco_runtime *rt) {
  lua_pushlightuserdata(L, rt->lua);
  lua_pushboolean(L, 0);
  lua_pushcclosure(L, enter, 2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &guard_key);
}

int pco__embed_guard(pco_runtime *rt, pco__guarded *g, int n_args) {
  lua_State *L = rt->L;
  g->rt = rt;
  if (!lua_checkstack(L, 4)) {
    lua_pop(L, n_args);
    return pco__embed_fail(rt, UV_ENOMEM, "no room on the stack of Lua");
  }
  int base = lua_gettop(L) - n_args + 1;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &guard_key);
  lua_insert(L, base);
  lua_pushlightuserdata(L, g);
  lua_insert(L, base + 1);
  int status = lua_pcall(L, n_args + 1, 0, 0);
  if (status == LUA_OK)
    return 0;
  const char *text =
      lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "an error of Lua";
  int code = status == LUA_ERRMEM ? UV_ENOMEM : PCO_ELUA;
  pco__embed_fail(rt, code, "%s", text);
  lua_pop(L, 1);
  return code;
}

/* ---- work ---------------------------------------------------------------- */

typedef struct slices {
  pco__guarded g;
  uint64_t until;
  pco__slices sum;
} slices;

static void run_slices(lua_State *L, pco_runtime *rt, pco__guarded *g) {
  slices *s = PCO_CONTAINER(g, slices, g);
  pco__deliver_log(L, rt->lua);
  pco__run_slices(L, rt->lua, s->until, &s->sum);
  pco__deliver_log(L, rt->lua);
}

static bool has_log(pco_runtime *rt) {
  return atomic_load_explicit(&rt->lua->runtime.log.count,
                              memory_order_relaxed) > 0;
}

/* Runs scripts; true if some ran. */
static bool run_scripts(pco_runtime *rt, slices *s, int *rc) {
  if (!pco__any_ready(rt->lua) && !has_log(rt))
    return false;
  unsigned before = s->sum.n;
  uv_update_time(&rt->lua->runtime.loop.uv); /* the loop may have had no turn */
  atomic_store(&rt->interrupt, false); /* one that came late: of those before */
  atomic_store(&rt->in_slice, true);
  pco_runtime *outer = pco__slices_enter(rt);
  int failed = pco__embed_guard(rt, &s->g, 0);
  pco__slices_leave(outer);
  atomic_store(&rt->in_slice, false);
  atomic_store(&rt->interrupt, false);
  if (failed < 0) { /* it broke off in the middle */
    rt->lua->current = NULL;
    rt->lua->level = NULL;
    rt->lua->suspending = false;
    *rc = failed;
  }
  return s->sum.n != before || failed < 0;
}

/* In a child that the host forked in the midst of a tick: its loop would take
 * what the parent waits for. */
static void serve_loop(pco_runtime *rt) {
  if (!pco__embed_forked(rt) && !pco__loop_is_quiet(&rt->lua->runtime.loop))
    uv_run(&rt->lua->runtime.loop.uv, UV_RUN_NOWAIT);
}

/* A round: all kinds of work once.  True if there was any. */
static bool work(pco_runtime *rt, slices *s, int *rc) {
  bool did = pco__embed_run_posts(rt);
  serve_loop(rt);
  did |= pco__embed_tell_calls(rt);
  did |= run_scripts(rt, s, rc);
  did |= pco__embed_tell_tasks(rt);
  if (rt->phase != PCO__LIVES)
    did |= pco__embed_shutdown_step(rt);
  return did;
}

static bool has_more(pco_runtime *rt) {
  const pco__loop *loop = &rt->lua->runtime.loop;
  return pco__any_ready(rt->lua) || !pco__list_empty(&loop->heard) ||
         !pco__list_empty(&rt->finished) || has_log(rt);
}

/* All that fits into the budget; gives 0 or what went wrong.  In a child that
 * was forked meanwhile nothing of the parent's is touched any more. */
static int work_on(pco_runtime *rt, slices *s) {
  int rc = 0;
  uv_loop_t *uv = &rt->lua->runtime.loop.uv;
  while (work(rt, s, &rc))
    if (rc < 0 || pco__embed_forked(rt) || !has_more(rt) ||
        uv_hrtime() >= s->until)
      break;
  if (pco__embed_forked(rt))
    return PCO_EFORKED;
  if (pco__uv_has_new_watchers(uv))
    uv_run(uv, UV_RUN_NOWAIT);
  return rc;
}

static void add_slices(pco_runtime *rt, const pco__slices *s) {
  rt->stats.slices += s->n;
  rt->stats.lua_ns += s->lua_ns;
  if (s->longest_ns > rt->stats.longest_slice_ns)
    rt->stats.longest_slice_ns = s->longest_ns;
}

/* ---- the descriptor ------------------------------------------------------ */

/* Sets the timerfd to `at` ms of the loop's clock; 0: never. */
static void arm(pco_runtime *rt, uint64_t at) {
  struct itimerspec its = {
      .it_value = {.tv_sec = (time_t)(at / 1000),
                   .tv_nsec = (long)(at % 1000) * 1000000}};
  if (at == rt->armed_at)
    return;
  rt->armed_at = at;
  timerfd_settime(rt->timer_fd, TFD_TIMER_ABSTIME, &its, NULL);
}

static bool is_busy(const pco_runtime *rt) {
  return rt->lua->n_tasks > 0 || rt->n_calls > 0 ||
         (rt->phase != PCO__LIVES && rt->phase != PCO__ENDED);
}

int pco__embed_settle(pco_runtime *rt) {
  const uv_loop_t *uv = &rt->lua->runtime.loop.uv;
  int timeout = uv_backend_timeout(uv);
  bool more = has_more(rt);
  if (more || timeout == 0 || pco__uv_has_new_watchers(uv)) {
    bool was_inside = rt->inside;
    rt->inside = false;
    pco__embed_touch(rt);
    rt->inside = was_inside;
  }
  arm(rt, timeout > 0 ? uv_now(uv) + (uint64_t)timeout : 0);
  return more ? PCO_READY : is_busy(rt) ? PCO_WAITING : PCO_IDLE;
}

/* ---- the calls ----------------------------------------------------------- */

static int give_info(pco_tick_info *info, const pco_tick_info *ours) {
  return pco__embed_give(info, info->size, ours, sizeof *ours,
                         PCO__END_OF(pco_tick_info, next_timer_ns));
}

static void fill_info(pco_runtime *rt, const slices *s, pco_tick_info *info) {
  int timeout = uv_backend_timeout(&rt->lua->runtime.loop.uv);
  pco_tick_info ours = {
      .size = info->size,
      .slices = s->sum.n,
      .stuck = pco__is_deadlock(rt->lua),
      .lua_ns = s->sum.lua_ns,
      .longest_ns = s->sum.longest_ns,
      .next_timer_ns = timeout < 0 ? -1 : (int64_t)timeout * 1000000,
  };
  give_info(info, &ours);
}

int pco_tick(pco_runtime *rt, uint64_t budget_ns, pco_tick_info *info) {
  int rc = pco__embed_check_outside(rt);
  if (rc < 0)
    return rc;
  if (info && give_info(info, &(pco_tick_info){.size = info->size}) < 0)
    return PCO_ESIZE;
  slices s = {.g.fn = run_slices};
  bool quiet = !has_more(rt) && budget_ns == 0;
  uint64_t now = quiet ? 0 : uv_hrtime();
  s.until = budget_ns > UINT64_MAX - now ? UINT64_MAX : now + budget_ns;
  rt->inside = true;
  rt->stats.ticks++;
  rc = work_on(rt, &s);
  add_slices(rt, &s.sum);
  if (rc == PCO_EFORKED) {
    rt->inside = false;
    return rc;
  }
  int state = pco__embed_settle(rt);
  if (info)
    fill_info(rt, &s, info);
  int attached = pco__embed_attached(rt, state != PCO_IDLE);
  rt->inside = false;
  return rc < 0 ? rc : attached < 0 ? attached : state;
}

int pco_poll_fd(pco_runtime *rt) {
  int rc = pco__embed_check(rt);
  return rc < 0 ? rc : rt->poll_fd;
}

/* Milliseconds until `end`, rounded up; -1: no end. */
static int left(uint64_t end) {
  uint64_t now = uv_hrtime();
  if (end == UINT64_MAX)
    return -1;
  uint64_t ms = end <= now ? 0 : (end - now + 999999) / 1000000;
  return ms > 1000000000 ? 1000000000 : (int)ms;
}

static bool is_over(pco_task *task, int state) {
  return task ? pco_task_status(task) != PCO_TASK_RUNNING : state == PCO_IDLE;
}

int pco_run(pco_runtime *rt, pco_task *task, int64_t timeout_ns) {
  int rc = pco__embed_check_outside(rt);
  if (rc < 0)
    return rc;
  uint64_t now = uv_hrtime();
  uint64_t end = timeout_ns < 0 ? UINT64_MAX : now + (uint64_t)timeout_ns;
  for (;;) {
    rc = pco_tick(rt, 10000000, NULL);
    if (rc < 0 && rc != UV_ENOMEM)
      return rc;
    if (is_over(task, rc))
      return 0;
    if (uv_hrtime() >= end)
      return PCO_ECALLTIMEOUT;
    struct pollfd p = {.fd = rt->poll_fd, .events = POLLIN};
    if (poll(&p, 1, left(end)) < 0 && errno != EAGAIN)
      return -errno;
  }
}
