/* SPDX-License-Identifier: MIT */
/*
 * A runtime in a C program: ticks and the descriptor that calls for them,
 * scripts and their results, promises, posts, modules, libraries, limits of
 * memory and time, interrupts, the end.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "embed_host.h"

#define MS UINT64_C(1000000)

/* ---- scripts ------------------------------------------------------------- */

static void test_scripts(void) {
  pco_runtime *rt = embed_new(NULL);
  lua_State *L = pco_state(rt);
  embed_is(pco_tick(rt, 0, NULL), PCO_IDLE, "a tick with nothing to do");
  embed_text(embed_run(rt, "return 1 + 1"), "2", "a chunk has a result");
  embed_text(embed_run(rt, "local P = require 'portico'\n"
                           "P.sleep(0.01) return 'slept'"),
             "slept", "a script waits in the facade");
  embed_text(embed_run(rt, "return require'portico'.run(function(x)\n"
                           "  return x end, 7)"),
             "7", "run() inside of a task calls");

  pco_task *task = embed_load(rt, "return ...");
  embed_is(pco_task_status(task), PCO_TASK_RUNNING, "it begins in a tick");
  embed_is(pco_task_results(task, L, -1), PCO_EBUSY, "no results before");
  pco_tick(rt, MS, NULL);
  embed_is(pco_task_results(task, L, -1), 0, "a chunk without results");
  embed_ok(pco_task_message(task) == NULL, "nor a message");
  pco_task_release(task);

  pco_task *bad = NULL;
  embed_is(pco_load(rt, "x = = 1", 7, "=bad", &bad), PCO_ELUA,
           "a syntax error is told at once");
  embed_ok(!bad && strstr(pco_last_message(rt), "bad:1:"), "with its line");
  embed_is(pco_load(rt, LUA_SIGNATURE, 4, "=binary", NULL), PCO_ELUA,
           "binary chunks are refused");

  luaL_loadstring(L, "local a, b = ... return b, a, 3");
  lua_pushinteger(L, 1);
  lua_pushinteger(L, 2);
  int top = lua_gettop(L) - 3;
  embed_is(pco_call(rt, 2, &task), 0, "a function is called with arguments");
  embed_is(lua_gettop(L), top, "which are popped");
  pco_run(rt, task, -1);
  embed_is(pco_task_results(task, L, 2), 2, "as many results as are wanted");
  embed_ok(lua_tointeger(L, -2) == 2 && lua_tointeger(L, -1) == 1,
           "are the first ones");
  lua_settop(L, top);
  pco_task_release(task);
  embed_is(pco_call(rt, 3, NULL), PCO_EINVAL, "no function on the stack");
  lua_pushinteger(L, 1);
  embed_is(pco_call(rt, 0, NULL), PCO_EINVAL, "a number is no function");
  embed_is(lua_gettop(L), top, "it is popped all the same");
  embed_is(pco_runtime_destroy(rt), 0, "the runtime is destroyed");
}

/* load(chunk): another script, by the host, from inside of one. */
static int load_another(lua_State *L) {
  pco_runtime *rt = (pco_runtime *)lua_touserdata(L, lua_upvalueindex(1));
  const char *chunk = luaL_checkstring(L, 1);
  lua_pushinteger(L, pco_load(rt, chunk, strlen(chunk), "=inner", NULL));
  return 1;
}

static void test_nested(void) {
  pco_runtime *rt = embed_new(NULL);
  lua_State *L = pco_state(rt);
  lua_pushlightuserdata(L, rt);
  lua_pushcclosure(L, load_another, 1);
  lua_setglobal(L, "load_another");
  embed_text(embed_run(rt,
                       "local good, bad = 0, 0\n"
                       "for i = 1, 200 do\n"
                       "  if load_another('SUM = (SUM or 0) + 1') == 0 then\n"
                       "    good = good + 1 end\n"
                       "  if load_another('= 1') < 0 then bad = bad + 1 end\n"
                       "end\n"
                       "require'portico'.sleep(0)\n"
                       "return good .. ' ' .. bad"),
             "200 200", "a script has the host start others");
  pco_run(rt, NULL, -1);
  lua_getglobal(L, "SUM");
  embed_is((long)lua_tointeger(L, -1), 200, "and all of them run");
  lua_pop(L, 1);
  pco_runtime_destroy(rt);
}

typedef struct heard {
  int errors, done;
  char message[200];
  int status;
} heard;

static void on_error(void *ud, pco_runtime *rt, pco_task *task) {
  heard *h = (heard *)ud;
  (void)rt;
  h->errors++;
  snprintf(h->message, sizeof h->message, "%s", pco_task_message(task));
}

static void on_done(void *ud, pco_task *task) {
  heard *h = (heard *)ud;
  h->done++;
  h->status = pco_task_status(task);
}

static void test_failures(void) {
  heard h = {0};
  pco_config c;
  pco_config_init(&c);
  c.ud = &h;
  c.on_task_error = on_error;
  pco_runtime *rt = embed_new(&c);
  pco_task *task = embed_load(rt, "error('boom')");
  embed_is(pco_task_on_done(task, on_done, &h), 0, "a callback for the end");
  pco_run(rt, task, -1);
  embed_ok(h.errors == 1 && h.done == 1 && h.status == PCO_TASK_FAILED,
           "a failed task is told to both callbacks, once");
  embed_ok(strstr(h.message, "test:1: boom") != NULL, "with its message");
  embed_is(pco_task_results(task, pco_state(rt), -1), PCO_ELUA,
           "it has no results");
  embed_is(pco_task_on_done(task, on_done, &h), PCO_ECLOSED,
           "nor a second end");
  pco_task_release(task);

  task = embed_load(rt, "require'portico'.sandbox{backend = 'nope'}");
  pco_run(rt, task, -1);
  embed_text(pco_task_error_code(task), "ENOENT", "an error has its code");
  embed_ok(pco_task_traceback(task) != NULL, "and a traceback");
  pco_task_release(task);

  embed_is(pco_load(rt, "error{}", 7, "=table", NULL), 0,
           "a task without a handle");
  pco_run(rt, NULL, -1);
  embed_is(h.errors, 3, "that fails with a table is told of");

  task = embed_load(rt, "require'portico'.sleep(1000)");
  pco_task_on_done(task, on_done, &h);
  pco_tick(rt, MS, NULL);
  embed_is(pco_task_cancel(task), 1, "a task is cancelled");
  embed_is(pco_task_cancel(task), 0, "once");
  pco_run(rt, task, -1);
  embed_is(pco_task_status(task), PCO_TASK_CANCELLED, "and ends so");
  embed_ok(h.done == 2 && h.errors == 3, "which is no failure");
  pco_task_release(task);
  pco_runtime_destroy(rt);
}

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

static void keep_line(void *ud, const char *line) {
  snprintf((char *)ud, 200, "%s", line);
}

static void test_dump(void) {
  char line[200] = "";
  pco_runtime *rt = embed_new(NULL);
  embed_is(pco_dump_tasks(rt, keep_line, line), 0, "no tasks, no lines");
  pco_task *task = embed_load(rt, "\nrequire'portico'.sleep(100)");
  pco_tick(rt, MS, NULL);
  embed_is(pco_dump_tasks(rt, keep_line, line), 1, "a line for a task");
  embed_ok(strstr(line, "task 1") && strstr(line, "waits for sleep at test:2"),
           "which says what it waits for, and where");
  pco_task_release(task);
  pco_runtime_destroy(rt);
}

/* ---- promises ------------------------------------------------------------ */

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

/* ---- modules and libraries ----------------------------------------------- */

static int load_module(void *ud, const char *name, const char **chunk,
                       size_t *len, const char **where) {
  (void)ud;
  static const char text[] = "return {name = ...}";
  if (strcmp(name, "broken") == 0)
    return UV_EIO;
  if (strncmp(name, "mod.", 4) != 0)
    return UV_ENOENT;
  *chunk = text;
  *len = sizeof text - 1;
  *where = "@mods";
  return 0;
}

static void test_modules(void) {
  pco_config c;
  pco_config_init(&c);
  c.load_module = load_module;
  c.libs = PCO_LIBS_SAFE;
  static const char *const names[] = {"null", NULL};
  c.backends = names;
  pco_runtime *rt = embed_new(&c);
  embed_text(embed_run(rt, "return require'mod.a'.name"), "mod.a",
             "a module of the host");
  embed_ok(strstr(embed_run(rt, "require'mods.b'"), "no such module") != NULL,
           "one that it does not have");
  embed_ok(strstr(embed_run(rt, "require'broken'"), "i/o error") != NULL,
           "one that it cannot read");
  embed_text(embed_run(rt, "return tostring(io or os or debug or package or\n"
                           "dofile or loadfile)"),
             "nil", "scripts that are not trusted have no files");
  embed_ok(strstr(embed_run(rt, "return (select(2, load(string.dump(\n"
                                "function() end), 'x', 'b')))"),
                  "binary") != NULL,
           "nor binary chunks");
  embed_ok(strstr(embed_run(rt, "require 'portico.core.x'"), "not found"),
           "nor other modules of C");
  embed_text(embed_run(rt, "return require'portico.errors'.class_of(1) == nil\n"
                           "and require'portico.sync' and\n"
                           "require'portico.task' and 'yes'"),
             "yes", "but all of Portico");
  embed_ok(strstr(embed_run(rt, "require'portico'.sandbox()"), "EACCES") !=
               NULL,
           "no backend but those of the host");
  embed_ok(strstr(embed_run(rt, "require'portico'.open('./x.so')"), "EACCES") !=
               NULL,
           "nor a path");
  embed_text(embed_run(rt, "local n = 0 for _, b in ipairs(\n"
                           "require'portico'.backends()) do n = n + 1 end\n"
                           "return n .. require'portico'.backends()[1].name"),
             "1null", "and none else is listed");
  embed_text(embed_run(rt, "local s <close> = require'portico'.sandbox{\n"
                           "backend='null'} return s:output{'echo', 'x'}"),
             "x", "that one works");
  pco_runtime_destroy(rt);
}

/* ---- limits -------------------------------------------------------------- */

static void test_memory(void) {
  pco_config c;
  pco_config_init(&c);
  c.memory_limit = 2 << 20;
  pco_runtime *rt = embed_new(&c);
  embed_ok(strstr(embed_run(rt, "return ('x'):rep(4 << 20)"),
                  "not enough memory") != NULL,
           "a string beyond the limit of memory");
  embed_ok(strstr(embed_run(rt, "local t = {} while true do\n"
                                "t[#t + 1] = {} end"),
                  "not enough memory") != NULL,
           "tables without end");
  embed_text(embed_run(rt, "return 'alive'"), "alive", "others go on");
  pco_stats stats = {.size = sizeof stats};
  pco_get_stats(rt, &stats);
  embed_ok(stats.lua_peak_bytes <= 2 << 20 && stats.lua_peak_bytes > 1 << 20,
           "the peak is below the limit");
  pco_runtime_destroy(rt);
}

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
  sigaction(signo, &act, NULL);
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

/* ---- the end ------------------------------------------------------------- */

static void test_shutdown(void) {
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
    pco_tick(rt, MS, NULL);
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

/* ---- states of the host -------------------------------------------------- */

static void test_host_state(void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  pco_config c;
  pco_config_init(&c);
  c.state = L;
  pco_runtime *rt = embed_new(&c);
  pco_runtime *second = rt;
  embed_ok(pco_state(rt) == L, "the host's state");
  embed_is(pco_runtime_create(&c, &second), PCO_EINVAL, "has one runtime");
  embed_ok(second == NULL, "and no other");
  embed_text(embed_run(rt, "return require'portico'.version"),
             pco_version_string(), "scripts run there");
  pco_task *task = embed_load(rt, "require'portico'.sleep(1000)");
  pco_tick(rt, MS, NULL);
  embed_is(pco_runtime_destroy(rt), 0, "it ends without the state");
  embed_is(pco_task_status(task), PCO_TASK_CANCELLED, "its tasks end");
  pco_task_release(task);
  embed_ok(luaL_dostring(L, "return 1") == LUA_OK, "which lives on");
  rt = embed_new(&c);
  embed_text(embed_run(rt, "return #package.searchers"), "6",
             "and may have another runtime, which adds nothing again");
  task = embed_load(rt, "require'portico'.sleep(1000)");
  pco_tick(rt, MS, NULL);
  lua_close(L);
  embed_is(pco_tick(rt, 0, NULL), PCO_ECLOSED, "the state was closed first");
  embed_is(pco_task_status(task), PCO_TASK_CANCELLED, "its tasks are over");
  pco_task_release(task);
  embed_is(pco_runtime_destroy(rt), 0, "the runtime is freed after it");
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
  test_scripts();
  test_nested();
  test_failures();
  test_descriptor();
  test_budget();
  test_dump();
  test_promises();
  test_posts();
  test_modules();
  test_memory();
  test_slices(0);
  test_interrupt(0);
  test_slice_signal();
  test_shutdown();
  test_killed_waits();
  test_empty_shutdown();
  test_open_end();
  test_host_state();
  test_host_loop();
  return embed_end();
}
