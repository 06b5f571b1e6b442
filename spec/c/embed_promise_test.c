/* SPDX-License-Identifier: MIT */
/*
 * Functions of a C program that suspend the script which calls them.
 */
#include <pthread.h>

#include "embed_host.h"

#define MS UINT64_C(1000000)

static pco_promise *asked;
static int abandoned, let_go;

static int ask(lua_State *L) {
  asked = pco_promise_new(L);
  return pco_promise_wait(L, asked);
}

static int push_answer(lua_State *L, void *ud) {
  if (!L) {
    let_go++;
    return 0;
  }
  lua_pushstring(L, (const char *)ud);
  lua_pushinteger(L, 2);
  return 2;
}

static int push_failure(lua_State *L, void *ud) {
  return L ? luaL_error(L, "%s", (const char *)ud) : 0;
}

static void on_abandoned(void *ud, pco_promise *promise) {
  (void)ud;
  (void)promise;
  abandoned++;
}

static pco_task *ask_in(pco_runtime *rt, const char *chunk) {
  asked = NULL;
  pco_task *task = embed_load(rt, chunk);
  pco_tick(rt, MS, NULL);
  return task;
}

static char *give(char *p) {
  return p;
}

static void *answer_from_thread(void *arg) {
  static char text[] = "thread";
  pco_promise_post((pco_promise *)arg, push_answer, give(text));
  return NULL;
}

static const char *result_of(pco_runtime *rt, pco_task *task) {
  static char text[200];
  lua_State *L = pco_state(rt);
  pco_run(rt, task, 60000 * (int64_t)MS);
  const char *s = pco_task_message(task);
  bool pushed = !s && pco_task_results(task, L, 1) == 1;
  snprintf(text, sizeof text, "%s", s ? s : pushed ? lua_tostring(L, -1) : "");
  lua_settop(L, 0);
  pco_task_release(task);
  return text;
}

static void test_promises(void) {
  static char hello[] = "hello";
  pco_runtime *rt = embed_new(NULL);
  lua_State *L = pco_state(rt);
  lua_register(L, "ask", ask);
  pco_task *task = ask_in(rt, "local a, b = ask() return a .. b");
  pco_tick_info info = {.size = sizeof info};
  embed_is(pco_tick(rt, MS, &info), PCO_WAITING, "a script waits for the host");
  embed_is((long)info.stuck, 0, "which is not stuck");
  embed_is(pco_promise_resolve(asked, push_answer, hello), 0, "resolved");
  embed_ok(embed_readable(pco_poll_fd(rt), 0), "a tick is due");
  embed_text(result_of(rt, task), "hello2", "the script has the results");

  task = ask_in(rt, "return ask()");
  pco_promise_resolve(asked, NULL, NULL);
  embed_text(result_of(rt, task), "", "a promise without results");

  task = ask_in(rt, "local ok, e = pcall(ask) return e.code .. e.message");
  pco_promise_reject(asked, PCO_EGONE, "the unit is dead");
  embed_text(result_of(rt, task), "PCO_EGONEthe unit is dead",
             "a rejected one raises");

  task = ask_in(rt, "return select(2, pcall(ask))");
  pco_promise_resolve(asked, push_failure, hello);
  embed_ok(strstr(result_of(rt, task), "hello") != NULL,
           "an error while pushing is the script's");

  task = ask_in(rt, "return coroutine.wrap(function() return pcall(ask) end)()"
                    " and 1 or 'no'");
  embed_ok(asked != NULL, "in a coroutine of the stock library");
  embed_text(result_of(rt, task), "no", "it cannot wait, and is told so");
  pco_promise_resolve(asked, push_answer, hello);
  embed_is(let_go, 1, "what nobody takes is let go");

  task = ask_in(rt, "return ask()");
  pco_promise_on_abandoned(asked, on_abandoned, NULL);
  pco_task_cancel(task);
  pco_run(rt, task, -1);
  embed_is(abandoned, 1, "a cancelled wait is told to the host");
  embed_is(pco_task_status(task), PCO_TASK_CANCELLED, "the task has ended");
  embed_is(pco_promise_resolve(asked, push_answer, hello), 0, "too late");
  embed_is(let_go, 2, "is let go");
  pco_task_release(task);

  task = ask_in(rt, "return ask()");
  pthread_t thread;
  pthread_create(&thread, NULL, answer_from_thread, asked);
  embed_text(result_of(rt, task), "thread", "answered by another thread");
  pthread_join(thread, NULL);

  embed_ok(luaL_dostring(L, "ask()") != LUA_OK, "outside of a task it raises");
  lua_settop(L, 0);

  task = ask_in(rt, "return ask()");
  pco_promise *late = asked;
  pco_promise_on_abandoned(late, on_abandoned, NULL);
  pco_runtime_destroy(rt);
  embed_is(abandoned, 2, "the end of the runtime abandons it");
  embed_is(pco_promise_resolve(late, push_answer, hello), 0,
           "it is resolved after the end");
  embed_is(let_go, 3, "and what it brings is let go");
  pco_task_release(task);
}

int main(int argc, char **argv) {
  (void)argc;
  embed_begin(argv[0]);
  test_promises();
  return embed_end();
}
