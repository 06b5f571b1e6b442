/* SPDX-License-Identifier: MIT */
/*
 * Scripts of a C program: their results and failures, what waits for what,
 * modules, libraries, a limit of memory, a state of the program.
 */
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

int main(int argc, char **argv) {
  (void)argc;
  embed_begin(argv[0]);
  test_scripts();
  test_nested();
  test_failures();
  test_dump();
  test_modules();
  test_memory();
  test_host_state();
  return embed_end();
}
