/* SPDX-License-Identifier: MIT */
/*
 * A host with many threads, each with a Lua state of its own (cases 26 and 45),
 * and one whose thread ends before its sandbox does (case 14).
 */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "lua_host.h"

enum { THREADS = 8 };

/* The backend that all is tried on. */
static const char *backend;

typedef struct worker {
  pthread_t thread;
  const char *code;
  int index; /* the script's argument, N */
  bool good;
  lua_State *L;
} worker;

static void *work(void *arg) {
  worker *w = arg;
  w->L = lua_host_new(backend);
  lua_pushinteger(w->L, w->index);
  lua_setglobal(w->L, "N");
  w->good = lua_host_run(w->L, w->code);
  return NULL;
}

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Runs code in so many threads at once, one beside them that runs another. */
static bool run_threads(int n, const char *code, const char *beside) {
  worker workers[THREADS + 1] = {0};
  bool good = true;
  for (int i = 0; i <= n; i++) {
    workers[i].code = i < n ? code : beside;
    workers[i].index = i;
    if (!workers[i].code ||
        pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
      workers[i].code = NULL;
  }
  for (int i = 0; i <= n; i++)
    if (workers[i].code) {
      pthread_join(workers[i].thread, NULL);
      lua_close(workers[i].L);
      good = workers[i].good && good;
    } else {
      good = good && i == n && !beside;
    }
  return good;
}

/* Case 45: each loop hears of its own children's ends, and of all of them. */
static void test_exit_codes(void) {
  double start = seconds_now();
  bool good = run_threads(
      THREADS,
      "local P = require(N % 2 == 0 and 'portico' or 'portico.sync')\n"
      "P.run(function()\n"
      "  local sb <close> = P.sandbox{backend = BACKEND}\n"
      "  for i = 1, 100 do\n"
      "    local code = (N * 31 + i) % 256\n"
      "    assert(sb:exec('exit ' .. code).code == code)\n"
      "  end\n"
      "end)\n",
      NULL);
  lua_host_ok(good, backend, "case 45: every thread gets its own exit codes");
  lua_host_ok(seconds_now() - start < 60, backend, "case 45: none hangs");
}

/* Case 26: whoever holds a pipe of another command open holds it up. */
static void test_pipes(void) {
  bool good =
      run_threads(THREADS,
                  "local s = require'portico.sync'\n"
                  "local sb <close> = s.sandbox{backend = BACKEND}\n"
                  "local function now()\n"
                  "  return tonumber(io.open('/proc/uptime'):read('n'))\n"
                  "end\n"
                  "for i = 1, 100 do\n"
                  "  local start = now()\n"
                  "  local r = sb:exec({'cat'}, {input = 'x', timeout = 20})\n"
                  "  assert(r.stdout == 'x' and r.eof)\n"
                  "  assert(now() - start < 20, 'a stranger held it up')\n"
                  "end\n",
                  "local s = require'portico.sync'\n"
                  "for i = 1, 3 do\n"
                  "  local sb <close> = s.sandbox{backend = BACKEND}\n"
                  "  sb:spawn{'sleep', '60'}\n"
                  "  s.sleep(0.3)\n"
                  "end\n");
  lua_host_ok(good, backend, "case 26: no thread's pipes are held by another");
}

/* Case 14: the thread that made a sandbox ends.  The state and its loop are
 * used by the next thread, as a host may that uses one at a time. */
static void test_short_thread(void) {
  worker w = {.code = "P = require'portico'\n"
                      "P.run(function()\n"
                      "  sb = P.sandbox{backend = BACKEND}\n"
                      "  p = sb:spawn('sleep 1; exit 3')\n"
                      "end)\n"
                      "S = require'portico.sync'.sandbox{backend = BACKEND}\n"
                      "q = S:spawn('sleep 1; exit 4')\n"};
  bool made = pthread_create(&w.thread, NULL, work, &w) == 0;
  if (made)
    pthread_join(w.thread, NULL);
  lua_host_ok(made && w.good, backend, "case 14: a thread makes sandboxes");
  bool lives = made && lua_host_run(w.L, "P.run(function()\n"
                                         "  assert(p:wait().code == 3)\n"
                                         "  assert(sb:output'echo x' == 'x')\n"
                                         "  sb:close()\n"
                                         "end)\n"
                                         "assert(q:wait().code == 4)\n"
                                         "assert(S:output'echo x' == 'x')\n"
                                         "S:close()\n");
  lua_host_ok(lives, backend, "case 14: they outlive the thread");
  if (made)
    lua_close(w.L);
}

static void tests(const char *name) {
  backend = name;
  test_exit_codes();
  test_pipes();
  test_short_thread();
}

int main(int argc, char **argv) {
  (void)argc;
  return lua_host_each(argv[0], "a host with many threads", tests);
}
