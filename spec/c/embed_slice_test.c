/* SPDX-License-Identifier: MIT */
/*
 * Scripts that run too long, or are interrupted: with hooks, and with a signal
 * that the program lends.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "embed_host.h"

#define MS UINT64_C(1000000)

/* ThreadSanitizer holds a signal back until the program calls into libc, which
 * a script in a loop never does; it does not replace this name. */
#ifdef __SANITIZE_THREAD__
int __sigaction(int signo, const struct sigaction *action,
                struct sigaction *old);
#  define sigaction_now __sigaction
#else
#  define sigaction_now sigaction
#endif

static char warning[2000];

static void keep_log(void *ud, int level, const char *text) {
  (void)ud;
  if (level == PCO_LOG_WARNING)
    snprintf(warning, sizeof warning, "%s", text);
}

static void on_slice_signal(int signo) {
  (void)signo;
  pco_slice_signal();
}

static void test_slices(int signo) {
  pco_config c;
  pco_config_init(&c);
  c.slice_signal = (uint32_t)signo;
  warning[0] = '\0';
  c.slice_limit_ns = 50 * MS;
  c.slice_warn_ns = 10 * MS;
  c.log = keep_log;
  pco_runtime *rt = embed_new(&c);
  embed_ok(strstr(embed_run(rt, "while true do end"), "PCO_ESLICE") != NULL,
           "a script that never waits ends");
  embed_ok(strstr(warning, "without waiting") && strstr(warning, "test:1"),
           "after a warning that says where");
  embed_ok(strstr(embed_run(rt, "while true do pcall(function()\n"
                                "  while true do end end) end"),
                  "PCO_ESLICE") != NULL,
           "also one that catches the error again and again");
  embed_ok(strstr(embed_run(rt, "coroutine.wrap(function() while true do\n"
                                "end end)()"),
                  "PCO_ESLICE") != NULL,
           "and one in a coroutine");
  embed_ok(strstr(embed_run(rt, "local P = require'portico'\n"
                                "pcall(require'portico.task'.scope,\n"
                                "  function(scope) scope:cancel()\n"
                                "  for _ = 1, 1002 do pcall(P.sleep, 1) end\n"
                                "end) while true do end"),
                  "PCO_ESLICE") != NULL,
           "and one that did not listen to a cancellation before");
  embed_text(embed_run(rt, "local ok, e = pcall(function()\n"
                           "  local t <close> = setmetatable({}, {__close =\n"
                           "    function() CLEANED = true end})\n"
                           "  while true do end end)\n"
                           "return tostring(CLEANED) .. e.code .. e.limit"),
             "truePCO_ESLICEslice", "there is time to clean up");
  embed_text(embed_run(rt, "local n = 0 for i = 1, 1e6 do n = n + 1 end\n"
                           "require'portico'.sleep(0) return 'fine'"),
             "fine", "the next script has its full time");
  pco_runtime_destroy(rt);
}

static atomic_bool enough;

static void *interrupt_soon(void *arg) {
  while (!atomic_load(&enough)) {
    usleep(20000);
    pco_interrupt((pco_runtime *)arg);
  }
  return NULL;
}

static void *interrupt_always(void *arg) {
  while (!atomic_load(&enough))
    pco_interrupt((pco_runtime *)arg);
  return NULL;
}

/* An interrupt that comes just as a script ends is not for the next one. */
static void test_late_interrupt(pco_runtime *rt) {
  int n_late = 0;
  for (int i = 0; i < 50; i++) {
    pthread_t thread;
    atomic_store(&enough, false);
    pthread_create(&thread, NULL, interrupt_always, rt);
    for (int j = 0; j < 20; j++)
      embed_run(rt, "for i = 1, 300 do end");
    atomic_store(&enough, true);
    pthread_join(thread, NULL);
    n_late +=
        strcmp(embed_run(rt, "for i = 1, 5e4 do end return 'on'"), "on") != 0;
  }
  embed_is(n_late, 0, "an interrupt that comes late is for nobody");
}

static void test_interrupt(int signo) {
  pco_config c;
  pco_config_init(&c);
  pco_runtime *rt = embed_new(&c);
  embed_is(pco_interrupt(rt), PCO_EINVAL, "interrupts must be asked for");
  pco_runtime_destroy(rt);
  atomic_store(&enough, false);
  c.slice_signal = (uint32_t)signo;
  c.interruptible = 1;
  rt = embed_new(&c);
  embed_is(pco_interrupt(rt), 0, "an interrupt while nothing runs");
  embed_text(embed_run(rt, "for i = 1, 1e5 do end return 'on'"), "on",
             "does nothing");
  test_late_interrupt(rt);
  atomic_store(&enough, false);
  pthread_t thread;
  pthread_create(&thread, NULL, interrupt_soon, rt);
  embed_ok(strstr(embed_run(rt, "while true do pcall(function() while true do\n"
                                "end end) end"),
                  "PCO_EINTERRUPTED") != NULL,
           "another thread ends what runs");
  atomic_store(&enough, true);
  pthread_join(thread, NULL);
  pco_runtime_destroy(rt);
}

static int tick_other(lua_State *L) {
  lua_pushinteger(
      L, pco_tick(lua_touserdata(L, lua_upvalueindex(1)), 50 * MS, NULL));
  return 1;
}

/* Another's scripts run for longer than this one's signals are apart. */
static void test_slices_inside(pco_runtime *rt, pco_config *c) {
  pco_runtime *other = embed_new(c);
  lua_State *L = pco_state(rt);
  lua_pushlightuserdata(L, other);
  lua_pushcclosure(L, tick_other, 1);
  lua_setglobal(L, "tick_other");
  pco_task *task = embed_load(other, "local t = os.clock()\n"
                                     "while os.clock() < t + 0.1 do end");
  embed_ok(strstr(embed_run(rt, "tick_other() while true do end"),
                  "PCO_ESLICE") != NULL,
           "nor does one whose scripts ran inside");
  pco_task_release(task);
  pco_runtime_destroy(other);
}

/* What a coroutine has to close runs in that coroutine. */
static void test_slices_closing(pco_runtime *rt) {
  embed_text(embed_run(rt, "for_ever = setmetatable({}, {__close =\n"
                           "  function() while true do end end})\n"
                           "local co = coroutine.create(function()\n"
                           "  local t <close> = for_ever\n"
                           "  coroutine.yield() end)\n"
                           "coroutine.resume(co)\n"
                           "local _, e = coroutine.close(co)\n"
                           "return e.code"),
             "PCO_ESLICE", "a coroutine that is closed is ended");
  embed_text(embed_run(rt, "local _, e = pcall(coroutine.wrap(function()\n"
                           "  local t <close> = for_ever\n"
                           "  error('x') end))\n"
                           "return e.code"),
             "PCO_ESLICE", "one that failed, too");
}

/* A task that is there when its runtime is destroyed. */
static void leave_waiting(pco_runtime *rt, const char *closes) {
  char script[512];
  snprintf(script, sizeof script,
           "local t <close> = setmetatable({}, {__close = function() %s end})\n"
           "require'portico'.sleep(1000)",
           closes);
  pco_task_release(embed_load(rt, script));
  pco_tick(rt, MS, NULL);
}

static bool has_hook; /* of the script that runs */

static int look_for_hook(lua_State *L) {
  has_hook |= lua_gethook(L) != NULL;
  return 0;
}

/* What the host has to do for it, and what scripts notice. */
static void test_slice_signal(void) {
  const int signo = SIGRTMIN + 3;
  pco_config c;
  pco_runtime *rt;
  pco_config_init(&c);
  c.slice_signal = (uint32_t)signo;
  embed_is(pco_runtime_create(&c, &rt), PCO_EINVAL,
           "a signal without anything to do");
  c.slice_limit_ns = 50 * MS;
  embed_is(pco_runtime_create(&c, &rt), PCO_EINVAL,
           "a signal that would end the program");
  struct sigaction act = {.sa_handler = on_slice_signal,
                          .sa_flags = SA_RESTART};
  sigaction_now(signo, &act, NULL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signo);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  embed_is(pco_runtime_create(&c, &rt), PCO_EINVAL, "one that is blocked");
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  c.slice_signal = 1000;
  embed_is(pco_runtime_create(&c, &rt), PCO_EINVAL, "a number that is none");
  lua_State *own = luaL_newstate();
  c.slice_signal = (uint32_t)signo;
  c.state = own;
  embed_is(pco_runtime_create(&c, &rt), PCO_EINVAL,
           "in a state whose coroutines are not known");
  c.state = NULL;
  lua_close(own);
  raise(signo); /* without any script */

  c.slice_signal = (uint32_t)signo;
  rt = embed_new(&c);
  lua_register(pco_state(rt), "look", look_for_hook);
  embed_text(embed_run(rt, "for i = 1, 1e5 do look() end return 'good'"),
             "good", "while a script is within its time");
  embed_ok(!has_hook, "it has no hook, which would slow it down");
  pco_runtime *other = embed_new(NULL);
  lua_State *L = pco_state(rt);
  lua_pushlightuserdata(L, other);
  lua_pushcclosure(L, tick_other, 1);
  lua_setglobal(L, "tick_other");
  pco_task *task = embed_load(other, "require'portico'.sleep(1000)");
  embed_ok(strstr(embed_run(rt, "tick_other() while true do end"),
                  "PCO_ESLICE") != NULL,
           "a runtime that was ticked inside does not take it away");
  pco_task_release(task);
  pco_runtime_destroy(other);
  test_slices_inside(rt, NULL);
  test_slices_inside(rt, &c);
  test_slices_closing(rt);
  leave_waiting(rt, "while true do end");
  leave_waiting(rt, "coroutine.wrap(print)() while true do end");
  embed_is(pco_runtime_destroy(rt), 0, "one that cleans up for ever is ended");
  test_slices(signo);
  test_interrupt(signo);
}

int main(int argc, char **argv) {
  (void)argc;
  embed_begin(argv[0]);
  test_slices(0);
  test_interrupt(0);
  test_slice_signal();
  return embed_end();
}
