/* SPDX-License-Identifier: MIT */
/*
 * embed ROW: what an embedded runtime costs its host; prints numbers.
 *
 *   tick     ns of a tick with nothing to do
 *   open     the same with a sandbox open, in which nothing runs
 *   turn     the same of a bare loop of libuv
 *   signal   ns of such a turn that uv_async_send() called for
 *   wake     ns from a resolved promise until the script has run and waits
 *            again, the tick included
 *   create   us to create a runtime; KiB that it takes, with its Lua state
 *   hooked   how many times as long a loop of Lua takes with a slice limit
 *   frame    us of the 99th percentile of ticks with a budget of 2 ms at 60
 *            frames a second, a hundred commands alive: on the clock, and of
 *            processor time, since the commands want the same processors; what
 *            2 ms of computing take on the clock beside them; the longest slice
 */
#include <lauxlib.h>
#include <lua.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "portico/portico.h"
#include "stats.h"

#define BUDGET_NS 2000000

static pco_runtime *new_runtime(uint64_t slice_limit) {
  pco_config c;
  pco_runtime *rt = NULL;
  pco_config_init(&c);
  c.slice_limit_ns = slice_limit;
  if (pco_runtime_create(&c, &rt) < 0)
    exit(1);
  return rt;
}

static void load(pco_runtime *rt, const char *chunk) {
  if (pco_load(rt, chunk, strlen(chunk), "=bench", NULL) < 0)
    exit(1);
}

/* With a sandbox that a script holds open, or without one. */
static void idle_tick(const char *script) {
  enum { ROUNDS = 51, COUNT = 20000 };
  double samples[ROUNDS];
  pco_runtime *rt = new_runtime(0);
  if (script)
    load(rt, script);
  if (pco_run(rt, NULL, -1) < 0)
    exit(1);
  for (int i = 0; i < ROUNDS; i++) {
    double start = now_us();
    for (int j = 0; j < COUNT; j++)
      pco_tick(rt, 0, NULL);
    samples[i] = (now_us() - start) * 1e3 / COUNT;
  }
  printf("%.0f\n", median(samples, ROUNDS));
  pco_runtime_destroy(rt);
}

static void on_async(uv_async_t *async) {
  (void)async;
}

/* The least that a tick can cost: a turn of a loop. */
static void idle_turn(void) {
  enum { ROUNDS = 51, COUNT = 20000 };
  double samples[ROUNDS];
  uv_loop_t loop;
  uv_async_t async;
  if (uv_loop_init(&loop) < 0 || uv_async_init(&loop, &async, on_async) < 0)
    exit(1);
  for (int i = 0; i < ROUNDS; i++) {
    double start = now_us();
    for (int j = 0; j < COUNT; j++)
      uv_run(&loop, UV_RUN_NOWAIT);
    samples[i] = (now_us() - start) * 1e3 / COUNT;
  }
  printf("%.0f\n", median(samples, ROUNDS));
}

/* The least that a wake-up can cost: an eventfd, and a turn. */
static void signalled_turn(void) {
  enum { ROUNDS = 51, COUNT = 5000 };
  double samples[ROUNDS];
  uv_loop_t loop;
  uv_async_t async;
  if (uv_loop_init(&loop) < 0 || uv_async_init(&loop, &async, on_async) < 0)
    exit(1);
  for (int i = 0; i < ROUNDS; i++) {
    double start = now_us();
    for (int j = 0; j < COUNT; j++) {
      uv_async_send(&async);
      uv_run(&loop, UV_RUN_NOWAIT);
    }
    samples[i] = (now_us() - start) * 1e3 / COUNT;
  }
  printf("%.0f\n", median(samples, ROUNDS));
}

static pco_promise *asked;

static int ask(lua_State *L) {
  asked = pco_promise_new(L);
  return pco_promise_wait(L, asked);
}

static void wake(void) {
  enum { ROUNDS = 51, COUNT = 5000 };
  double samples[ROUNDS];
  pco_runtime *rt = new_runtime(0);
  lua_register(pco_state(rt), "ask", ask);
  load(rt, "while true do ask() end");
  pco_tick(rt, 0, NULL);
  for (int i = 0; i < ROUNDS; i++) {
    double start = now_us();
    for (int j = 0; j < COUNT; j++) {
      pco_promise_resolve(asked, NULL, NULL);
      pco_tick(rt, 0, NULL);
    }
    samples[i] = (now_us() - start) * 1e3 / COUNT;
  }
  printf("%.0f\n", median(samples, ROUNDS));
  pco_promise_resolve(asked, NULL, NULL);
  pco_runtime_destroy(rt);
}

static void create(void) {
  enum { COUNT = 200 };
  double samples[COUNT];
  pco_runtime_destroy(new_runtime(0));
  for (int i = 0; i < COUNT; i++) {
    double start = now_us();
    pco_runtime *rt = new_runtime(0);
    samples[i] = now_us() - start;
    pco_runtime_destroy(rt);
  }
  size_t before = mallinfo2().uordblks;
  pco_runtime *rt = new_runtime(0);
  size_t bytes = mallinfo2().uordblks - before;
  printf("%.1f %.1f\n", median(samples, COUNT), (double)bytes / 1024);
  pco_runtime_destroy(rt);
}

/* Microseconds of a script that computes. */
static double compute(uint64_t slice_limit) {
  enum { ROUNDS = 15 };
  double samples[ROUNDS];
  pco_runtime *rt = new_runtime(slice_limit);
  for (int i = 0; i < ROUNDS; i++) {
    double start = now_us();
    load(rt, "local n = 0 for i = 1, 3e5 do n = n + i % 7 end");
    pco_tick(rt, 0, NULL);
    samples[i] = now_us() - start;
  }
  pco_runtime_destroy(rt);
  return median(samples, ROUNDS);
}

static const char game[] =
    "local P, task = require 'portico', require 'portico.task'\n"
    "local sb <close> = P.sandbox{backend = 'local'}\n"
    "task.scope(function(s)\n"
    "  for i = 1, 100 do\n"
    "    s:spawn(function() while true do sb:exec{'sleep', '0.2'} end end)\n"
    "  end\n"
    "end)";

static double processor_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* What one frame took, in us. */
struct frame {
  double tick, processor, computing;
};

static struct frame one_frame(pco_runtime *rt, pco_tick_info *info) {
  struct frame f;
  double start = now_us(), used = processor_us();
  pco_tick(rt, BUDGET_NS, info);
  f.tick = now_us() - start;
  f.processor = processor_us() - used;
  start = now_us();
  used = processor_us();
  while (processor_us() - used < BUDGET_NS / 1e3)
    ;
  f.computing = now_us() - start;
  return f;
}

static double percentile_99(double *samples, int n) {
  median(samples, n); /* sorts */
  return samples[n * 99 / 100];
}

static void frame(void) {
  enum { FRAMES = 300, WARM = 60 };
  double tick[FRAMES], processor[FRAMES], computing[FRAMES];
  pco_tick_info info = {.size = sizeof info};
  pco_runtime *rt = new_runtime(0);
  double longest = 0;
  load(rt, game);
  for (int i = 0; i < WARM + FRAMES; i++) {
    struct frame f = one_frame(rt, &info);
    if (i >= WARM) {
      tick[i - WARM] = f.tick;
      processor[i - WARM] = f.processor;
      computing[i - WARM] = f.computing;
      if ((double)info.longest_ns / 1e3 > longest)
        longest = (double)info.longest_ns / 1e3;
    }
    double left = 1e6 / 60 - f.tick - f.computing;
    struct timespec rest = {.tv_nsec = (long)(left * 1e3)};
    if (left > 0)
      nanosleep(&rest, NULL);
  }
  printf("%.0f %.0f %.0f %.0f\n", percentile_99(tick, FRAMES),
         percentile_99(processor, FRAMES), percentile_99(computing, FRAMES),
         longest);
  pco_runtime_destroy(rt);
}

int main(int argc, char **argv) {
  const char *row = argc > 1 ? argv[1] : "";
  if (strcmp(row, "tick") == 0)
    idle_tick(NULL);
  else if (strcmp(row, "open") == 0)
    idle_tick("kept = require 'portico'.sandbox{backend = 'local'} "
              "kept:exec{'true'}");
  else if (strcmp(row, "wake") == 0)
    wake();
  else if (strcmp(row, "turn") == 0)
    idle_turn();
  else if (strcmp(row, "signal") == 0)
    signalled_turn();
  else if (strcmp(row, "create") == 0)
    create();
  else if (strcmp(row, "hooked") == 0)
    printf("%.2f\n", compute(UINT64_C(1000000000)) / compute(0));
  else if (strcmp(row, "frame") == 0)
    frame();
  else
    return 2;
  return 0;
}
