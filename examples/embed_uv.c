/* SPDX-License-Identifier: MIT */
/*
 * A program with a libuv loop of its own: a runtime is attached to it, and runs
 * whenever that loop does.  The script calls a function of the program that
 * takes a while, by a timer of the program's, and waits for it; beside it a
 * command is run from C, without Lua.
 *
 *   cc embed_uv.c $(pkg-config --cflags --libs portico libuv lua5.4) -o game
 *   ./game [BACKEND]
 */
#include <lua.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include <portico/sandbox.h>

#define BUDGET_NS 2000000

/* ---- a function that suspends the script which calls it ------------------ */

typedef struct question {
  uv_timer_t timer;
  pco_promise *promise;
} question;

static int push_answer(lua_State *L, void *ud) {
  (void)ud;
  if (L)
    lua_pushinteger(L, 42);
  return 1;
}

static void free_question(uv_handle_t *handle) {
  free(handle->data);
}

static void answer(uv_timer_t *timer) {
  question *q = timer->data;
  pco_promise_resolve(q->promise, push_answer, NULL);
  uv_close((uv_handle_t *)timer, free_question);
}

/* ask(): 42, after a tenth of a second. */
static int ask(lua_State *L) {
  uv_loop_t *loop = lua_touserdata(L, lua_upvalueindex(1));
  pco_promise *promise = pco_promise_new(L);
  question *q = calloc(1, sizeof *q);
  if (!q)
    abort();
  q->promise = promise;
  uv_timer_init(loop, &q->timer);
  q->timer.data = q;
  uv_timer_start(&q->timer, answer, 100, 0);
  return pco_promise_wait(L, promise);
}

/* ---- a command without Lua ----------------------------------------------- */

static pco_box *box;

static void on_closed(void *ud, pco_pending *pending) {
  (void)ud;
  (void)pending;
  pco_box_release(box);
}

static void on_output(void *ud, pco_pending *pending) {
  pco_exec_result r = {.size = sizeof r};
  (void)ud;
  if (pco_pending_code(pending) < 0)
    printf("C failed: %s\n", pco_pending_error(pending)->message);
  else if (pco_pending_result(pending, &r) == 0)
    printf("C: %.*s", (int)r.out_len, r.out);
  pco_box_close(box, on_closed, NULL, NULL);
}

static void on_box(void *ud, pco_pending *pending) {
  pco_exec_opts opts = {.size = sizeof opts, .shell = "echo hello"};
  (void)ud;
  box = pco_pending_box(pending);
  if (box)
    pco_exec(box, &opts, on_output, NULL, NULL);
  else
    printf("C failed: %s\n", pco_pending_error(pending)->message);
}

/* ---- the program --------------------------------------------------------- */

static void on_task(void *ud, pco_task *task) {
  const char *message = pco_task_message(task);
  (void)ud;
  printf("script: %s\n", message ? message : "done");
}

static const char script[] =
    "local P = require 'portico'\n"
    "local sb <close> = P.sandbox{backend = BACKEND}\n"
    "local n = ask()\n"
    "print('script: ' .. sb:output{'echo', 'the answer is', tostring(n)})\n";

static void begin(pco_runtime *rt, uv_loop_t *loop, const char *backend) {
  lua_State *L = pco_state(rt);
  pco_box_opts opts = {.size = sizeof opts, .backend = backend};
  pco_task *task;
  lua_pushlightuserdata(L, loop);
  lua_pushcclosure(L, ask, 1);
  lua_setglobal(L, "ask");
  lua_pushstring(L, backend);
  lua_setglobal(L, "BACKEND");
  if (pco_load(rt, script, strlen(script), "=script", &task) == 0) {
    pco_task_on_done(task, on_task, NULL);
    pco_task_release(task);
  }
  pco_box_create(rt, &opts, on_box, NULL, NULL);
}

int main(int argc, char **argv) {
  uv_loop_t loop;
  pco_config config;
  pco_runtime *rt;
  pco_config_init(&config);
  int rc = pco_runtime_create(&config, &rt);
  if (rc < 0) {
    fprintf(stderr, "no runtime: %s\n", pco_strerror(rc));
    return 1;
  }
  uv_loop_init(&loop);
  pco_attach_uv(rt, &loop, BUDGET_NS);
  begin(rt, &loop, argc > 1 ? argv[1] : "bwrap");
  uv_run(&loop, UV_RUN_DEFAULT); /* until nothing goes on, there and here */
  pco_runtime_destroy(rt);
  uv_run(&loop, UV_RUN_DEFAULT); /* lets go of the runtime's handle */
  return uv_loop_close(&loop) < 0;
}
