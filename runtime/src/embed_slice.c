/* SPDX-License-Identifier: MIT */
/*
 * Scripts that run too long without waiting, and those that the host
 * interrupts: a hook on each coroutine of a task looks at the clock.
 *
 * As a count hook it is always there, and Lua, which then stops at each
 * instruction to count, is two and a half times slower.  With a signal of the
 * host's it is not: a timer of this thread's processor time sends the signal,
 * whose handler sets the hook on what runs, as that of lua.c does; it is called
 * at the next instruction and takes itself away.  The timer is set for one
 * signal, and again by the handler while scripts run, so that the host has no
 * more than one when they do not.
 *
 * The first error may be caught, so that `<close>` variables and handlers have
 * time to clean up: half of the limit.  After that the hook comes at every
 * instruction and raises each time, so it meets the script also outside of
 * whatever pcall caught the one before.
 */
#include <errno.h>
#include <lualib.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "embed.h"
#include "lua_error.h"
#include "lua_task.h"
#include "lua_traceback.h"

#define MIN_GRACE_NS  UINT64_C(10000000)
#define MIN_PERIOD_NS UINT64_C(1000000)
#define MAX_PERIOD_NS UINT64_C(50000000)
#define INTERRUPT_NS  UINT64_C(10000000) /* period, if there is no limit */

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
  pco__push_stack(L, L, "stack traceback:", 0);
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

static void on_count(lua_State *L, lua_Debug *ar);

static void set_count(lua_State *L, int count) {
  if (count == 0)
    lua_sethook(L, NULL, 0, 0);
  else if (lua_gethookcount(L) != count)
    lua_sethook(L, on_count, LUA_MASKCOUNT, count);
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
  set_count(L, over && !first ? 1 : lua->slice_count);
  if (!over || !lua_checkstack(L, LUA_MINSTACK))
    return;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &raise_key);
  lua_call(L, 0, 0);
}

/* ---- the signal ---------------------------------------------------------- */

/* In the static block, since a handler may not make the library's dynamic one.
 */
#define OF_HANDLER _Thread_local __attribute__((tls_model("initial-exec")))

static OF_HANDLER pco_runtime *volatile running; /* its scripts run here */
static OF_HANDLER volatile unsigned n_signals;   /* that came, of any timer */

static uint64_t period(const pco_config *c) {
  uint64_t limit = c->slice_limit_ns ? c->slice_limit_ns : UINT64_MAX;
  if (c->slice_warn_ns && c->slice_warn_ns < limit)
    limit = c->slice_warn_ns;
  uint64_t ns = limit == UINT64_MAX ? INTERRUPT_NS : limit / 8;
  return ns < MIN_PERIOD_NS   ? MIN_PERIOD_NS
         : ns > MAX_PERIOD_NS ? MAX_PERIOD_NS
                              : ns;
}

/* [signal handlers] */
static void arm(pco_runtime *rt) {
  struct itimerspec its = {.it_value.tv_nsec = (long)period(&rt->config)};
  rt->slice_armed_at = n_signals;
  timer_settime(rt->slice_timer, 0, &its, NULL);
}

pco_runtime *pco__slices_enter(pco_runtime *rt) {
  pco_runtime *outer = running;
  running = rt->has_slice_timer ? rt : NULL;
  if (rt->has_slice_timer && rt->slice_armed_at != n_signals)
    arm(rt); /* one came while no script ran */
  return outer;
}

void pco__slices_leave(pco_runtime *outer) {
  running = outer;
  if (outer && outer->slice_armed_at != n_signals)
    arm(outer); /* its own came while another's scripts ran inside */
}

static void look(pco_runtime *rt) {
  pco__lua *lua = rt->lua;
  lua_State *co = lua ? lua->running.co : NULL;
  if (!lua)
    return; /* a script has closed its state */
  if (lua->slice_start == 0)
    lua->slice_start = pco__thread_ns();
  if (co && !lua_gethook(co)) /* else it is ours, or a debugger's */
    lua_sethook(co, on_count, LUA_MASKCOUNT, 1);
  arm(rt);
}

void pco_slice_signal(void) {
  int saved = errno;
  n_signals++;
  if (running)
    look(running);
  errno = saved;
}

/* The host has a handler for it, and this thread hears of it. */
static bool can_use(int signo) {
  struct sigaction now;
  sigset_t mask;
  if (signo < 1 || signo > SIGRTMAX || sigaction(signo, NULL, &now) < 0)
    return false;
  if (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN)
    return false;
  return pthread_sigmask(SIG_SETMASK, NULL, &mask) == 0 &&
         !sigismember(&mask, signo);
}

static int make_timer(pco_runtime *rt) {
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID,
                           .sigev_signo = (int)rt->config.slice_signal};
  if (!rt->owns_state || !can_use(event.sigev_signo))
    return PCO_EINVAL;
  event._sigev_un._tid = gettid();
  if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &rt->slice_timer) < 0)
    return -errno;
  rt->has_slice_timer = true;
  arm(rt);
  return 0;
}

void pco__embed_stop_slices(pco_runtime *rt) {
  if (rt->has_slice_timer)
    timer_delete(rt->slice_timer);
  rt->has_slice_timer = false;
}

/* ---- the life of it ------------------------------------------------------ */

static bool wants_hook(const pco_config *c) {
  return c->slice_limit_ns || c->slice_warn_ns || c->interruptible;
}

/* The handler must know which coroutine runs.  Ours tell, those of the stock
 * library do not; all else of theirs is the same. */
static void track_coroutines(lua_State *L) {
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, LUA_COLIBNAME) == LUA_TTABLE) {
    lua_getfield(L, -2, "portico.core");
    lua_getfield(L, -1, "coroutines");
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
      lua_pushvalue(L, -2);
      lua_pushvalue(L, -2);
      lua_rawset(L, -7);
    }
    lua_pop(L, 2);
  }
  lua_pop(L, 2);
}

static void keep_raiser(lua_State *L, pco_runtime *rt, pco__guarded *g) {
  (void)g;
  lua_pushlightuserdata(L, rt->lua);
  lua_pushboolean(L, 0);
  lua_pushcclosure(L, raise_now, 2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &raise_key);
  if (rt->has_slice_timer)
    track_coroutines(L);
}

int pco__embed_start_slices(pco_runtime *rt) {
  pco__guarded g = {.fn = keep_raiser};
  bool by_signal = rt->config.slice_signal != 0;
  if (!wants_hook(&rt->config))
    return by_signal ? PCO_EINVAL : 0;
  int rc = by_signal ? make_timer(rt) : 0;
  if (rc == 0)
    rc = pco__embed_guard(rt, &g, 0);
  if (rc < 0)
    return rc;
  rt->lua->slice_hook = on_count;
  rt->lua->slice_count = by_signal ? 0 : PCO__SLICE_COUNT;
  return 0;
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
