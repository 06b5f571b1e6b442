/* SPDX-License-Identifier: MIT */
/*
 * Signals of `portico exec`.
 *
 * As for scripts (call.c) the handler sets a hook, which Portico's waits look
 * at; but only while something is attempted that may be interrupted, so that
 * the clean-up is not.  SIGURG and SIGWINCH only wake.  Each other signal
 * interrupts one attempt: the first the wait for the command, the second that
 * for its end after a TERM.  The third ends the program, and with it, by the
 * sandbox's keepers, all that ran.
 *
 * Everything here belongs to the main thread, on which all handlers run.
 */
#include "stop.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

#include <lauxlib.h>

#include "cli.h"
#include "terminal.h"

static const int stop_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

static lua_State *main_state;
static volatile sig_atomic_t first;      /* of the stop_signals */
static volatile sig_atomic_t stops;      /* how many came */
static volatile sig_atomic_t interrupts; /* with those that only wake */
static volatile sig_atomic_t seen;       /* interrupts that were told */
static volatile sig_atomic_t attempting;

/* Before the call of what waits, not behind it: a result that is on its way, a
 * chunk of output perhaps, must not be lost. */
static void raise_one(lua_State *L, lua_Debug *ar) {
  if (ar->event != LUA_HOOKCALL && ar->event != LUA_HOOKTAILCALL)
    return;
  lua_sethook(L, NULL, 0, 0);
  luaL_error(L, "interrupted!");
}

/* The same as another function: a wait that began under one hook notices the
 * other. */
static void raise_other(lua_State *L, lua_Debug *ar) {
  raise_one(L, ar);
}

static void on_signal(int signo) {
  interrupts = interrupts + 1;
  if (signo != SIGURG && signo != SIGWINCH) {
    if (!first)
      first = signo;
    stops = stops + 1;
    if (stops > 2) {
      terminal_restore();
      if (first == SIGINT)
        cli_end_by_interrupt();
      _exit(128 + first);
    }
  }
  if (attempting)
    lua_sethook(main_state, interrupts & 1 ? raise_one : raise_other,
                LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, 1);
}

void stop_wake_on(int signo) {
  cli_set_handler(signo, on_signal);
}

void stop_watch(lua_State *L) {
  main_state = L;
  stop_wake_on(SIGURG);
  for (size_t i = 0; i < sizeof stop_signals / sizeof stop_signals[0]; i++) {
    struct sigaction before;
    sigaction(stop_signals[i], NULL, &before);
    if (before.sa_handler != SIG_IGN)
      cli_set_handler(stop_signals[i], on_signal);
  }
}

int stop_signal(void) {
  return first;
}

/* True if there is an interruption to tell of, which is told by this. */
static bool interrupted(void) {
  if (seen == interrupts)
    return false;
  seen = interrupts;
  return true;
}

int stop_attempt(lua_State *L) {
  int status = LUA_ERRRUN;
  attempting = 1;
  if (seen == interrupts)
    status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  attempting = 0;
  lua_sethook(L, NULL, 0, 0);
  /* A result that came first is the result. */
  if (status != LUA_OK && interrupted())
    return 0;
  luaL_checkstack(L, 1, NULL);
  lua_pushboolean(L, status == LUA_OK);
  lua_insert(L, 1);
  return lua_gettop(L);
}

int stop_poll(struct pollfd *fd, int ms) {
  sigset_t all, before;
  struct timespec time = {.tv_sec = ms / 1000,
                          .tv_nsec = (long)(ms % 1000) * 1000000};
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int n = -1;
  if (seen == interrupts)
    n = ppoll(fd, 1, ms < 0 ? NULL : &time, &before);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (n < 0)
    interrupted();
  return n;
}
