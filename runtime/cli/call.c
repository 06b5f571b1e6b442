/* SPDX-License-Identifier: MIT */
/*
 * Calling a script, and Ctrl-C in it.
 *
 * As in lua5.4, the handler of SIGINT sets a hook, the only thing that it may
 * do to a running state, and the hook raises.  It is installed without
 * SA_RESTART, so that a wait inside Portico returns early, sees the hook and
 * stops what it waits for.
 *
 * Unlike lua5.4, a second Ctrl-C before the first was noticed does not end the
 * program at once: a wait inside Portico takes it as "do not wait for the
 * clean-up".  It tells the two apart by the hook, so there are two.  The third
 * ends the program, for scripts that are stuck where no hook runs.
 */
#include <signal.h>
#include <stddef.h>

#include <lauxlib.h>

#include "cli.h"

static lua_State *script_state; /* the main thread, for the handler */

/* The coroutine of a task that runs now, or NULL; Portico keeps it there. */
static lua_State *volatile *running;

/* ThreadSanitizer holds a signal back until the program calls into libc, which
 * a script in a loop never does.  This is the same, unknown to it. */
#ifdef __SANITIZE_THREAD__
int __sigaction(int, const struct sigaction *, struct sigaction *);
#  define sigaction(signo, action, old) __sigaction(signo, action, old)
#endif

void cli_set_handler(int signo, void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler};
  sigemptyset(&action.sa_mask);
  sigaction(signo, &action, NULL);
}

void cli_end_by_interrupt(void) {
  sigset_t set;
  cli_set_handler(SIGINT, SIG_DFL);
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  raise(SIGINT);
  sigprocmask(SIG_UNBLOCK, &set, NULL); /* of a handler that called this */
}

static void raise_interrupt(lua_State *L, lua_Debug *ar) {
  (void)ar;
  lua_sethook(L, NULL, 0, 0);
  luaL_error(L, "interrupted!");
}

static void raise_again(lua_State *L, lua_Debug *ar) {
  raise_interrupt(L, ar);
}

/* A task that computes hears nothing of a hook on the main thread. */
static void hook_running(lua_Hook hook, int mask) {
  lua_State *co = running != NULL ? *running : NULL;
  if (co != NULL && co != script_state)
    lua_sethook(co, hook, mask, 1);
}

static void on_interrupt(int signo) {
  (void)signo;
  lua_Hook pending = lua_gethook(script_state);
  if (pending == raise_again) {
    cli_set_handler(SIGINT, SIG_DFL);
    raise(SIGINT); /* delivered when this handler returns */
  }
  lua_Hook next = pending == raise_interrupt ? raise_again : raise_interrupt;
  const int mask = LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT;
  lua_sethook(script_state, next, mask, 1);
  hook_running(next, mask);
}

/* What lua_coroutine.c of libportico has left in the registry, if the script's
 * state has loaded it. */
static void find_running(lua_State *L) {
  lua_getfield(L, LUA_REGISTRYINDEX, "portico.running");
  running = (lua_State *volatile *)lua_touserdata(L, -1);
  lua_pop(L, 1);
}

int cli_call(lua_State *L, int nargs) {
  int base = lua_gettop(L) - nargs; /* the function */
  lua_pushcfunction(L, cli_traceback);
  lua_insert(L, base);
  script_state = L;
  find_running(L);
  struct sigaction before;
  sigaction(SIGINT, NULL, &before);
  /* A shell starts background jobs with SIGINT ignored; leave it so. */
  if (before.sa_handler != SIG_IGN)
    cli_set_handler(SIGINT, on_interrupt);
  int status = lua_pcall(L, nargs, 0, base);
  if (before.sa_handler != SIG_IGN)
    cli_set_handler(SIGINT, SIG_DFL);
  lua_sethook(L, NULL, 0, 0);
  running = NULL;
  lua_remove(L, base);
  return status;
}
