/* SPDX-License-Identifier: MIT */
/*
 * Who drives a runtime: ticks within a budget, the descriptor that calls for
 * them, posts from other threads, a loop of the program.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "embed_host.h"

#define MS UINT64_C(1000000)

/* ---- ticks --------------------------------------------------------------- */

static void test_descriptor(void) {
  pco_runtime *rt = embed_new(NULL);
  int fd = pco_poll_fd(rt);
  pco_tick(rt, 0, NULL);
  embed_ok(!embed_readable(fd, 0), "nothing to do: not readable");
  pco_task *task = embed_load(rt, "require'portico'.sleep(0.05) return 1");
  embed_ok(embed_readable(fd, 0), "a new task: readable");
  embed_is(pco_tick(rt, MS, NULL), PCO_WAITING, "it waits");
  embed_ok(!embed_readable(fd, 0), "not readable while it sleeps");
  embed_ok(embed_readable(fd, 10000), "readable when its time is over");
  int ticks = 0;
  while (pco_task_status(task) == PCO_TASK_RUNNING && ticks < 100) {
    embed_readable(fd, 10000);
    pco_tick(rt, MS, NULL);
    ticks++;
  }
  embed_ok(ticks <= 3, "a tick or two then end it");
  embed_ok(!embed_readable(fd, 0), "and it is quiet again");
  pco_task_release(task);

  embed_is(pco_wake(rt), 0, "the host wakes itself");
  embed_ok(embed_readable(fd, 0), "readable");
  pco_tick(rt, 0, NULL);
  embed_ok(!embed_readable(fd, 0), "until the next tick");
  pco_runtime_destroy(rt);
}

static void test_budget(void) {
  pco_runtime *rt = embed_new(NULL);
  pco_tick_info info = {.size = sizeof info};
  for (int i = 0; i < 10; i++)
    pco_load(rt, "return 1", 8, "=one", NULL);
  embed_is(pco_tick(rt, 0, &info), PCO_READY, "budget 0: more is left");
  embed_is((long)info.slices, 1, "one script ran");
  embed_ok(embed_readable(pco_poll_fd(rt), 0), "the descriptor says so");
  embed_is(pco_tick(rt, 1000 * MS, &info), PCO_IDLE, "a second does the rest");
  embed_is((long)info.slices, 9, "nine scripts");

  pco_task *task = embed_load(rt, "local e = require'portico.task'.event()\n"
                                  "e:wait()");
  embed_is(pco_tick(rt, MS, &info), PCO_WAITING, "a task waits for nobody");
  embed_is((long)info.stuck, 1, "the host is told that it is stuck");
  pco_task_release(task);

  pco_stats stats = {.size = sizeof stats};
  embed_is(pco_get_stats(rt, &stats), 0, "statistics");
  embed_ok(stats.tasks == 1 && stats.slices == 11 && stats.ticks == 3 &&
               stats.lua_bytes > 10000 && stats.longest_slice_ns > 0,
           "count what there was");
  pco_runtime_destroy(rt);
}

/* ---- posts --------------------------------------------------------------- */

static atomic_int posted_sum, woken;

static void add(pco_runtime *rt, void *ud) {
  atomic_fetch_add(&posted_sum, rt ? *(int *)ud : 1000000);
}

static void on_wakeup(void *ud) {
  (void)ud;
  atomic_fetch_add(&woken, 1);
}

static void *post_many(void *arg) {
  static int one = 1;
  for (int i = 0; i < 1000; i++)
    pco_post((pco_runtime *)arg, add, &one);
  return NULL;
}

static void test_posts(void) {
  static int one = 1;
  pco_config c;
  pco_config_init(&c);
  c.wakeup = on_wakeup;
  pco_runtime *rt = embed_new(&c);
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    pthread_create(&threads[i], NULL, post_many, rt);
  for (int i = 0; i < 100000 && atomic_load(&posted_sum) < 4000; i++) {
    embed_readable(pco_poll_fd(rt), 1000);
    pco_tick(rt, MS, NULL);
  }
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
  embed_is(atomic_load(&posted_sum), 4000, "four threads post, all is run");
  embed_ok(atomic_load(&woken) >= 1, "the host was woken");
  pco_tick(rt, 0, NULL);
  int before = atomic_load(&woken);
  pco_post(rt, add, &one);
  pco_post(rt, add, &one);
  embed_is(atomic_load(&woken), before + 1, "once for what comes together");
  pco_runtime_destroy(rt);
  embed_is(atomic_load(&posted_sum), 2004000,
           "posts that come too late are "
           "told so");
  embed_is(pco_post(rt, add, &one), PCO_ECLOSED, "then there are no more");
}

static int end_runs;

static void on_loop_done(void *ud, pco_task *task) {
  (void)task;
  (void)ud;
  end_runs++;
}

static void close_any(uv_handle_t *handle, void *arg) {
  (void)arg;
  uv_close(handle, NULL);
}

static void test_host_loop(void) {
  uv_loop_t loop;
  uv_loop_init(&loop);
  pco_runtime *rt = embed_new(NULL);
  embed_is(pco_attach_uv(rt, &loop, MS), 0, "on a loop of the host's");
  embed_is(pco_attach_uv(rt, &loop, MS), PCO_EBUSY, "once");
  embed_is(uv_run(&loop, UV_RUN_DEFAULT), 0,
           "nothing to do does not keep the loop alive");
  pco_task *task = embed_load(rt, "require'portico'.sleep(0.02)\n"
                                  "return 1");
  pco_task_on_done(task, on_loop_done, NULL);
  uv_run(&loop, UV_RUN_ONCE);
  uv_run(&loop, UV_RUN_DEFAULT);
  embed_is(end_runs, 1, "a script does, until it has ended");
  pco_task_release(task);
  embed_is(pco_detach_uv(rt), 0, "taken back");
  uv_run(&loop, UV_RUN_DEFAULT);
  embed_is(uv_loop_close(&loop), 0, "the loop closes");

  uv_loop_init(&loop);
  pco_attach_uv(rt, &loop, MS);
  uv_walk(&loop, close_any, NULL);
  uv_run(&loop, UV_RUN_DEFAULT);
  embed_is(uv_loop_close(&loop), 0, "a loop that closes all it has");
  embed_is(pco_tick(rt, 0, NULL), PCO_ELOOP, "is told by the next tick");
  embed_is(pco_tick(rt, 0, NULL), PCO_IDLE, "once");
  embed_text(embed_run(rt, "return 3"), "3", "the runtime works without it");
  pco_runtime_destroy(rt);
}

int main(int argc, char **argv) {
  (void)argc;
  embed_begin(argv[0]);
  test_descriptor();
  test_budget();
  test_posts();
  test_host_loop();
  return embed_end();
}
