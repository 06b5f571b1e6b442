/* SPDX-License-Identifier: MIT */
/*
 * A host whose Lua state runs out of memory inside tasks: each single
 * allocation of a script fails once, in a state of its own.  Whatever was going
 * on, the script hears of it, run() can be called again, and lua_close gives
 * everything back.
 */
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lua_core.h"
#include "lua_host.h"

typedef enum mode {
  COLLECT, /* it succeeds when garbage was collected for it */
  FAIL,    /* it fails, the next one succeeds */
  FAIL_ALL /* all fail from then on, until the script is over */
} mode;
static const char *const mode_names[] = {"collects garbage", "fails",
                                         "and all after it fail"};

typedef struct memory {
  size_t used;
  long countdown; /* to the first that fails; 0: none */
  int failures;   /* left */
  bool failed;
} memory;

static void *allocate(void *ud, void *block, size_t old, size_t size) {
  memory *m = (memory *)ud;
  if (!block)
    old = 0;
  if (size == 0) {
    free(block);
    m->used -= old;
    return NULL;
  }
  if (size > old && m->countdown > 0 && --m->countdown == 0)
    m->failed = true;
  if (size > old && m->failed && m->failures > 0) {
    m->failures--;
    return NULL;
  }
  void *new = realloc(block, size);
  if (new)
    m->used = m->used - old + size;
  return new;
}

/* What is tried: all that makes tasks wait for each other, and for time. */
static const char script[] =
    "local task, portico = require'portico.task', require'portico'\n"
    "local co = require'portico.coroutine'\n"
    "return function()\n"
    "  return portico.run(function()\n"
    "    local channel, event = task.channel(1), task.event()\n"
    "    local semaphore = task.semaphore(1)\n"
    "    return task.scope(function(scope)\n"
    "      scope:spawn(function()\n"
    "        for i = 1, 3 do channel:send(i) end\n"
    "        channel:close()\n"
    "      end)\n"
    "      local sum = scope:spawn(function()\n"
    "        local sum = 0\n"
    "        for value in channel:values() do sum = sum + value end\n"
    "        event:set()\n"
    "        return sum\n"
    "      end)\n"
    "      sum.name = 'sum'\n"
    "      scope:spawn(function()\n"
    "        local permit <close> = semaphore:acquire()\n"
    "        event:wait({timeout = 60})\n"
    "      end)\n"
    "      local failed, err = scope:spawn(error, {}):pawait()\n"
    "      if failed or type(err) ~= 'table' then error(err, 0) end\n"
    "      local values = co.wrap(function()\n"
    "        portico.sleep(0)\n"
    "        co.yield(1)\n"
    "      end)\n"
    "      local forever = scope:spawn(function()\n"
    "        local closing <close> = setmetatable({}, {__close = function()\n"
    "          task.checkpoint()\n"
    "        end})\n"
    "        task.event():wait()\n"
    "      end)\n"
    "      local all = task.all({values, function() task.checkpoint() end})\n"
    "      forever:cancel('reason')\n"
    "      forever:pawait()\n"
    "      local ok, late = pcall(task.timeout, 0, task.sleep, 60)\n"
    "      if ok or late.code ~= 'PCO_ECALLTIMEOUT' then error(late, 0) end\n"
    "      return sum:await() + all[1]\n"
    "    end)\n"
    "  end)\n"
    "end\n";

/* The same with commands and files, of a backend that runs nothing. */
static const char sandbox_script[] =
    "local task, portico = require'portico.task', require'portico'\n"
    "return function()\n"
    "  return portico.run(function()\n"
    "    local sandbox <close> = portico.sandbox({backend = 'null'})\n"
    "    local all = task.all({\n"
    "      function() return sandbox:exec({'echo', '3'}).stdout end,\n"
    "      function()\n"
    "        sandbox.fs:write('file', '4')\n"
    "        return sandbox.fs:read('file')\n"
    "      end,\n"
    "      function()\n"
    "        local process <close> = sandbox:spawn({'echo', 'x'})\n"
    "        for line in process:lines() do assert(line == 'x') end\n"
    "        assert(process:wait().code == 0)\n"
    "      end,\n"
    "      function()\n"
    "        local ok, late = pcall(sandbox.exec, sandbox, {'sleep', '60'},\n"
    "          {timeout = 0.001})\n"
    "        if ok or late.code ~= 'PCO_ETIMEDOUT' then error(late, 0) end\n"
    "      end,\n"
    "    })\n"
    "    return tonumber(all[1]) + tonumber(all[2])\n"
    "  end)\n"
    "end\n";

/* The same again, or another error than that it is out of memory. */
static const char check[] =
    "local function told(err, seen)\n"
    "  if err == 'not enough memory' then return true end\n"
    "  if type(err) ~= 'table' then return false end\n"
    "  if told(err.cause) then return true end\n"
    "  for _, other in ipairs(rawget(err, 'others') or {}) do\n"
    "    if told(other) then return true end\n"
    "  end\n"
    "  return tostring(err):find('memory', 1, true) ~= nil\n"
    "end\n"
    "return function(ok, value)\n"
    "  if ok then return value == 7 end\n"
    "  if told(value) then return true end\n"
    "  print('# ' .. tostring(value))\n"
    "  return false\n"
    "end\n";

static void load(lua_State *L, const char *code) {
  if (luaL_loadstring(L, code) != LUA_OK || lua_pcall(L, 0, 1, 0) != LUA_OK) {
    printf("Bail out! %s\n", lua_tostring(L, -1));
    exit(1);
  }
}

/* Calls the function at 1; true if it went well, or told what was wrong. */
static bool run_checked(lua_State *L, memory *m, long nth, int failures) {
  lua_settop(L, 2);
  lua_pushvalue(L, 2);
  lua_pushvalue(L, 1);
  *m = (memory){.used = m->used, .countdown = nth, .failures = failures};
  bool ok = lua_pcall(L, 0, 1, 0) == LUA_OK;
  m->failures = 0;
  lua_pushboolean(L, ok);
  lua_insert(L, -2);
  if (lua_pcall(L, 2, 1, 0) != LUA_OK) {
    printf("# %s\n", lua_tostring(L, -1));
    return false;
  }
  return lua_toboolean(L, -1);
}

/* Lets the nth allocation fail; *past: there were not so many. */
static bool try_nth(const char *code, long nth, int failures, bool *past) {
  memory m = {0};
  lua_State *L = lua_newstate(allocate, &m);
  luaL_openlibs(L);
  luaL_requiref(L, "portico.core", pco_lua_open, 0);
  lua_settop(L, 0);
  load(L, code);
  load(L, check);
  bool good = run_checked(L, &m, nth, failures);
  *past = !m.failed;
  if (!good)
    printf("# allocation %ld: wrong result\n", nth);
  if (good && !run_checked(L, &m, 0, 0)) {
    printf("# allocation %ld: it cannot be run again\n", nth);
    good = false;
  }
  lua_close(L);
  if (m.used != 0)
    printf("# allocation %ld: %zu bytes are not given back\n", nth, m.used);
  return good && m.used == 0;
}

static void test(const char *what, const char *code, mode m) {
  static const int failures[] = {1, 2, 1 << 30};
  char text[64];
  bool good = true, past = false;
  long nth = 0;
  int bad = 0;
  while (!past && bad < 10) {
    good = try_nth(code, ++nth, failures[m], &past) && good;
    bad += !good;
  }
  snprintf(text, sizeof text, "each of %s allocations %s",
           nth > 100 ? "many" : "too few", mode_names[m]);
  lua_host_ok(good && nth > 100, what, text);
}

int main(int argc, char **argv) {
  (void)argc;
  lua_host_begin(argv[0]);
  for (int m = COLLECT; m <= FAIL_ALL; m++) {
    test("tasks", script, (mode)m);
    test("sandbox", sandbox_script, (mode)m);
  }
  return lua_host_end();
}
