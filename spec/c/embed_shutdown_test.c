/* SPDX-License-Identifier: MIT */
/*
 * The end of a runtime: in ticks, at once, with nothing or everything open.
 */
#include "embed_host.h"

#define MS UINT64_C(1000000)

typedef struct heard {
  int done;
  int status;
} heard;

static void on_done(void *ud, pco_task *task) {
  heard *h = (heard *)ud;
  h->done++;
  h->status = pco_task_status(task);
}

/* With a budget of 0 a tick does each kind of work once. */
static void test_shutdown(uint64_t budget) {
  heard h = {0};
  pco_runtime *rt = embed_new(NULL);
  pco_task *good = embed_load(
      rt, "local sb <close> = require'portico'.sandbox{backend='null'}\n"
          "sb:exec{'sleep', '1000'}");
  pco_task *stubborn = embed_load(
      rt, "local P = require'portico' while true do pcall(P.sleep, 1000)\n"
          "require'portico.task'.shield(P.sleep, 0.01) end");
  pco_task_on_done(good, on_done, &h);
  pco_task_on_done(stubborn, on_done, &h);
  for (int i = 0; i < 5; i++)
    pco_tick(rt, MS, NULL);
  embed_is(pco_shutdown_done(rt), 0, "a runtime that lives");
  embed_is(pco_shutdown(rt, 200 * MS), 0, "a shutdown begins");
  embed_is(pco_load(rt, "", 0, "=x", NULL), PCO_ECLOSED,
           "no new scripts from then on");
  int ticks = 0;
  while (pco_shutdown_done(rt) == 0 && ticks++ < 100000) {
    embed_readable(pco_poll_fd(rt), 10000);
    pco_tick(rt, budget, NULL);
  }
  embed_is(pco_shutdown_done(rt), 1, "it comes to its end");
  embed_ok(h.done == 2 && pco_task_status(good) == PCO_TASK_CANCELLED &&
               pco_task_status(stubborn) != PCO_TASK_RUNNING,
           "so do those who will not");
  embed_is(pco_shutdown(rt, 0), 0, "again: nothing");
  embed_is(pco_tick(rt, 0, NULL), PCO_IDLE, "ticks are quiet");
  pco_task_release(good);
  embed_is(pco_runtime_destroy(rt), 0, "and destroying is quick");
  embed_ok(pco_task_status(stubborn) != PCO_TASK_RUNNING,
           "a task outlives its runtime");
  pco_task_release(stubborn);
}

/* What a killed task waited for ends later, and must not wake it. */
static void test_killed_waits(void) {
  pco_runtime *rt = embed_new(NULL);
  pco_task *task =
      embed_load(rt, "local sb <close> = require'portico'.sandbox{\n"
                     "  backend = 'local'}\n"
                     "require'portico.task'.shield(function()\n"
                     "  sb:exec{'sleep', '1000'} end)");
  pco_stats stats = {.size = sizeof stats};
  for (int i = 0; i < 1000 && stats.sandboxes == 0; i++) {
    embed_readable(pco_poll_fd(rt), 10000);
    pco_tick(rt, MS, NULL);
    pco_get_stats(rt, &stats);
  }
  embed_readable(pco_poll_fd(rt), 10000);
  pco_tick(rt, MS, NULL);
  embed_is(pco_shutdown(rt, 0), 0, "a task is killed that waits in a shield");
  for (int i = 0; i < 1000 && pco_shutdown_done(rt) == 0; i++) {
    embed_readable(pco_poll_fd(rt), 10000);
    pco_tick(rt, MS, NULL);
    if (pco_shutdown_done(rt) == 0)
      lua_gc(pco_state(rt), LUA_GCCOLLECT);
  }
  embed_is(pco_shutdown_done(rt), 1, "its command's end wakes nobody");
  embed_is(pco_task_status(task), PCO_TASK_CANCELLED, "it has ended once");
  pco_get_stats(rt, &stats);
  embed_is((long)stats.tasks, 0, "and was the last");
  pco_task_release(task);
  pco_runtime_destroy(rt);
}

/* No event would come by which the host heard of the end. */
static void test_empty_shutdown(void) {
  pco_runtime *rt = embed_new(NULL);
  embed_is(pco_shutdown(rt, 60000 * MS), 0, "a shutdown with nothing open");
  embed_is(pco_run(rt, NULL, 10000 * MS), 0, "needs no event to end");
  embed_is(pco_shutdown_done(rt), 1, "it has");
  embed_is(pco_runtime_destroy(rt), 0, "it is destroyed");
}

static void test_open_end(void) {
  int fds = embed_entries("/proc/self/fd");
  heard h = {0};
  pco_runtime *rt = embed_new(NULL);
  pco_task *task =
      embed_load(rt, "sb = require'portico'.sandbox{backend='null'}\n"
                     "p = sb:spawn{'sleep', '1000'} p:wait()");
  pco_task_on_done(task, on_done, &h);
  for (int i = 0; i < 5; i++)
    pco_tick(rt, MS, NULL);
  embed_is(pco_runtime_destroy(rt), 0, "destroyed with everything open");
  embed_ok(h.done == 1 && h.status == PCO_TASK_CANCELLED,
           "its task is told of");
  pco_task_release(task);
  embed_is(embed_entries("/proc/self/fd"), fds, "no descriptor is left");
}

int main(int argc, char **argv) {
  (void)argc;
  embed_begin(argv[0]);
  test_shutdown(MS);
  test_shutdown(0);
  test_killed_waits();
  test_empty_shutdown();
  test_open_end();
  return embed_end();
}
