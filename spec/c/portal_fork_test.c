/* SPDX-License-Identifier: MIT */
/*
 * A host that forks: what was open belongs to the parent, whom the child does
 * not disturb; the child may close it, and begins anew.
 */
#include <lauxlib.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lua_host.h"

/* The thread sanitizer bears no new thread in a child of a process that had
 * some: there only the async facade is tried. */
#if defined(__SANITIZE_THREAD__)
enum { CHILD_MAY_HAVE_THREADS = 0 };
#else
enum { CHILD_MAY_HAVE_THREADS = 1 };
#endif

/* The allocator of the address sanitizer may be locked by a portal's thread in
 * the moment of a fork, and stays so in the child: there the child only ends,
 * after a fork in a call.  (glibc's takes care of that.) */
#if defined(__SANITIZE_ADDRESS__)
enum { CHILD_MAY_ALLOCATE = 0 };
#else
enum { CHILD_MAY_ALLOCATE = 1 };
#endif

/* The backend that all is tried on. */
static const char *backend;

/* in_child(fn): runs fn in a forked child, with a time limit; true if it
 * raised nothing. */
static int in_child(lua_State *L) {
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    alarm(30);
    bool good = lua_pcall(L, 0, 0, 0) == LUA_OK;
    if (!good)
      printf("# in the child: %s\n", luaL_tolstring(L, -1, NULL));
    fflush(stdout);
    _exit(good ? 0 : 1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  lua_pushboolean(L, WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return 1;
}

/* fork(): true in the parent, when the child has ended well; false in the
 * child, which ends by done(). */
static int fork_here(lua_State *L) {
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    alarm(30);
    lua_pushboolean(L, 0);
    return 1;
  }
  int status = 0;
  waitpid(pid, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return luaL_error(L, "the child ended with %d", status);
  lua_pushboolean(L, 1);
  return 1;
}

static int done(lua_State *L) {
  _exit((int)luaL_optinteger(L, 1, 0));
}

static const char helpers[] =
    "P, S = require'portico', require'portico.sync'\n"
    "portal = require'portico.portal'\n"
    "function raises(code, f, ...)\n"
    "  local ok, e = pcall(f, ...)\n"
    "  assert(not ok and e.code == code, tostring(e))\n"
    "end\n"
    /* All that a forked child should be able to do. */
    "function anew()\n"
    "  if THREADS then\n"
    "    local p = portal.open()\n"
    "    local b = S.open(BACKEND, nil, {portal = p})\n"
    "    assert(#b:list() == 0, 'lists sandboxes of the parent')\n"
    "    local s = S.sandbox{backend = b, portal = p}\n"
    "    assert(s:output'echo x' == 'x' and #b:list() == 1)\n"
    "    assert(b:close() and p:close())\n"
    "  end\n"
    "  for _, M in ipairs{P, THREADS and S or nil} do\n"
    "    M.run(function()\n"
    "      local s <close> = M.sandbox{backend = BACKEND}\n"
    "      s.fs:write('a', 'b')\n"
    "      assert(s.fs:read'a' == 'b' and s:exec'exit 3'.code == 3)\n"
    "      M.sleep(0.01)\n"
    "    end)\n"
    "  end\n"
    "end\n";

static lua_State *new_state(void) {
  lua_State *L = lua_host_new(backend);
  lua_register(L, "in_child", in_child);
  lua_register(L, "fork", fork_here);
  lua_register(L, "done", done);
  lua_pushboolean(L, CHILD_MAY_HAVE_THREADS);
  lua_setglobal(L, "THREADS");
  lua_pushboolean(L, CHILD_MAY_ALLOCATE);
  lua_setglobal(L, "ALLOCATES");
  lua_host_run(L, helpers);
  return L;
}

/* Runs code in a state of its own. */
static void check(const char *text, const char *code) {
  lua_State *L = new_state();
  lua_host_ok(lua_host_run(L, code), backend, text);
  lua_close(L);
}

static void test_open_objects(void) {
  lua_State *L = new_state();
  bool made = lua_host_run(
      L, "q = portal.open()\n"
         "s = S.sandbox{backend = BACKEND, portal = q}\n"
         "b = S.open(BACKEND)\n"
         "p = s:spawn('echo a; exec sleep 100')\n"
         "it = p:lines() assert(it() == 'a')\n"
         "P.run(function() t = P.sandbox{backend = BACKEND} end)\n");
  lua_host_ok(made, backend, "sandboxes are open");
  lua_host_ok(lua_host_run(L, "assert(in_child(function()\n"
                              "  raises('PCO_EFORKED', s.exec, s, {'true'})\n"
                              "  raises('PCO_EFORKED', s.fs.read, s.fs, 'x')\n"
                              "  raises('PCO_EFORKED', p.wait, p)\n"
                              "  raises('PCO_EFORKED', it)\n"
                              "  raises('PCO_EFORKED', b.list, b)\n"
                              "  raises('PCO_EFORKED', S.sandbox,\n"
                              "    {backend = BACKEND, portal = q})\n"
                              "  raises('PCO_EFORKED', S.sandbox,\n"
                              "    {backend = b})\n"
                              "  P.run(raises, 'PCO_EFORKED', t.exec, t, 'x')\n"
                              "end))\n"),
              backend, "the child is refused what is the parent's");
  lua_host_ok(
      lua_host_run(L, "assert(in_child(function()\n"
                      "  local id = s.id\n"
                      "  do local _ <close> = t end\n"
                      "  for _, o in ipairs{it, p, s, b, q, t} do\n"
                      "    assert(o:close() == false and o.closed == true)\n"
                      "  end\n"
                      "  anew()\n"
                      "  P.run(function()\n"
                      "    local b <close> = P.open(BACKEND)\n"
                      "    assert(b:destroy(id) == false)\n"
                      "  end)\n"
                      "  s, t, p, it = nil\n"
                      "  collectgarbage() collectgarbage()\n"
                      "end))\n"),
      backend, "the child may close it, and begins anew");
  lua_host_ok(lua_host_run(L, "assert(in_child(function()\n"
                              "  assert(in_child(anew))\n"
                              "  anew()\n"
                              "  assert(in_child(anew))\n"
                              "end))\n"),
              backend, "a child of the child does, too");
  lua_host_ok(lua_host_run(L, "assert(p:poll() == nil)\n"
                              "assert(s:exec('echo x').stdout == 'x\\n')\n"
                              "P.run(function()\n"
                              "  assert(t:exec('exit 5').code == 5) t:close()\n"
                              "end)\n"
                              "assert(it:close() and s:close() and b:close())\n"
                              "assert(q:close())\n"),
              backend, "the parent's sandboxes are unharmed");
  lua_close(L);
}

static void test_close_state(void) {
  lua_State *L = new_state();
  lua_host_run(L, "s = S.sandbox{backend = BACKEND} p = s:spawn'sleep 100'\n"
                  "P.run(function() t = P.sandbox{backend = BACKEND} end)\n");
  for (int used = 0; used < 2; used++) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
      alarm(30);
      bool good = !used || lua_host_run(L, "anew() P.run(function()\n"
                                           "  u = P.sandbox{\n"
                                           "    backend = BACKEND} end)\n");
      lua_close(L);
      _exit(good ? 0 : 1);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    lua_host_ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, backend,
                used ? "and one that was used" : "a child closes its state");
  }
  lua_host_ok(lua_host_run(L, "assert(p:poll() == nil)\n"
                              "assert(s:output'echo x' == 'x' and s:close())\n"
                              "P.run(t.close, t)\n"),
              backend, "which leaves the parent's");
  lua_close(L);
}

static void test_inside(void) {
  check("a task forks: its run ends in the child, which begins anew",
        "local results = 0\n"
        "local task = require'portico.task'\n"
        "local up = task.event()\n"
        "local ok, e = pcall(P.run, function()\n"
        "  local s = P.sandbox{backend = BACKEND}\n"
        "  task.all{\n"
        "    function()\n"
        "      s:exec('echo up; sleep 0.1', {\n"
        "        on_output = function() up:set() end})\n"
        "      results = results + 1\n"
        "    end,\n"
        "    function()\n"
        /* Only a command that is up would be killed by the child. */
        "      up:wait()\n"
        "      child = not fork()\n"
        "      assert(s:exec'exit 4'.code == 4) results = results + 1\n"
        "    end}\n"
        "  s:close()\n"
        "end)\n"
        "if child then\n"
        "  if ok or e.code ~= 'PCO_EFORKED' then done(1) end\n"
        "  done(pcall(anew) and 0 or 2)\n"
        "end\n"
        "assert(ok, e) assert(results == 2)\n");
  check("a task of the parent stays its own, cancelled in the child or not",
        "local task = require'portico.task'\n"
        "local waits, sleeps\n"
        "local ok, e = pcall(P.run, function()\n"
        "  task.scope(function(scope)\n"
        "    waits = scope:spawn(function() task.event():wait() end)\n"
        "    sleeps = scope:spawn(task.sleep, 60)\n"
        "    task.sleep(0)\n"
        "    child = not fork()\n"
        "    if child then error'in the child' end\n"
        "    scope:cancel()\n"
        "  end)\n"
        "end)\n"
        "if child then\n"
        "  if ok or e.code ~= 'PCO_EFORKED' then done(1) end\n"
        "  local good = pcall(anew)\n"
        "  pcall(waits.cancel, waits) pcall(sleeps.cancel, sleeps)\n"
        "  done(good and pcall(anew) and 0 or 2)\n"
        "end\n"
        "assert(ok, e)\n");
  check("a callback forks: its call ends in the child, which begins anew",
        "local s = S.sandbox{backend = BACKEND}\n"
        "local ok, e = pcall(s.exec, s, 'echo x; exit 6', {\n"
        "  on_output = function() child = not fork() end})\n"
        "if child then\n"
        "  if ok or e.code ~= 'PCO_EFORKED' then done(1) end\n"
        "  if s:close() ~= false then done(2) end\n"
        "  done((not ALLOCATES or pcall(anew)) and 0 or 3)\n"
        "end\n"
        "assert(ok and e.code == 6, e)\n"
        "assert(s:output'echo y' == 'y' and s:close())\n");
}

static void tests(const char *name) {
  backend = name;
  test_open_objects();
  test_close_state();
  test_inside();
}

int main(int argc, char **argv) {
  (void)argc;
  if (!CHILD_MAY_HAVE_THREADS)
    printf("# forked children try no portals under this sanitizer\n");
  if (!CHILD_MAY_ALLOCATE)
    printf("# children forked in a call only end under this sanitizer\n");
  return lua_host_each(argv[0], "a host that forks", tests);
}
