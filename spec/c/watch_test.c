/* SPDX-License-Identifier: MIT */
/*
 * A system that gives no watchers, as when fs.epoll.max_user_watches is used
 * up, and pipes that cannot be read: no output or input is lost without a word.
 * epoll_ctl and read of this program and of libuv are the ones below, which
 * fail for pipes as long as the test wants it.
 */
#include <errno.h>
#include <lauxlib.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lua_host.h"

static atomic_long refuse_polls, refuse_reads; /* how many more */
static atomic_long refused;
static atomic_bool every_second; /* the others are let through */
static atomic_bool spared;

static bool is_pipe(int fd) {
  struct stat st;
  return fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
}

static bool refuses(atomic_long *left, int fd) {
  if (atomic_load(left) <= 0 || !is_pipe(fd))
    return false;
  if (atomic_load(&every_second) && !atomic_exchange(&spared, true))
    return false;
  atomic_store(&spared, false);
  atomic_fetch_sub(left, 1);
  atomic_fetch_add(&refused, 1);
  return true;
}

/* As the kernel does it: what is there already is no new watcher. */
int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event) {
  int rc = (int)syscall(SYS_epoll_ctl, epoll, op, fd, event);
  if (rc != 0 || op != EPOLL_CTL_ADD || !refuses(&refuse_polls, fd))
    return rc;
  syscall(SYS_epoll_ctl, epoll, EPOLL_CTL_DEL, fd, event);
  errno = ENOSPC;
  return -1;
}

ssize_t read(int fd, void *buf, size_t len) {
  if (refuses(&refuse_reads, fd)) {
    errno = EIO;
    return -1;
  }
  return syscall(SYS_read, fd, buf, len);
}

/* refuse(polls, reads, second): how many calls fail, or every second one; gives
 * how many have. */
static int refuse(lua_State *L) {
  atomic_store(&every_second, lua_toboolean(L, 3));
  atomic_store(&spared, false);
  atomic_store(&refuse_polls, luaL_checkinteger(L, 1));
  atomic_store(&refuse_reads, luaL_checkinteger(L, 2));
  lua_pushinteger(L, atomic_exchange(&refused, 0));
  return 1;
}

static const char *const PRELUDE =
    "ALL = 1 << 40\n"
    "function run(facade, fn)\n"
    "  local P = require(facade)\n"
    "  P.run(function()\n"
    "    local sb <close> = P.sandbox{backend = BACKEND}\n"
    "    fn(sb, P)\n"
    "    refuse(0, 0)\n"
    "  end)\n"
    "end\n"
    "function equal(a, b)\n"
    "  if a ~= b then error(('%s, not %s'):format(a, b), 2) end\n"
    "end\n";

static const struct {
  const char *text;
  const char *code;
} tests[] = {
    {"all output comes without watchers",
     "local r = sb:exec('for i in 1 2 3; do echo $i; sleep 0.05; done; '\n"
     "  .. 'seq 4 60000; exec >&-; sleep 0.05; echo end >&2',\n"
     "  {timeout = 60})\n"
     "equal(#r.stdout, 348894)\n"
     "equal(r.stderr, 'end\\n')\n"
     "equal(r.eof, true)\n"},
    {"all input goes without watchers",
     "local r = sb:exec('sleep 0.1; wc -c',\n"
     "  {input = ('x'):rep(400000), timeout = 60})\n"
     "equal(tonumber(r.stdout), 400000)\n"},
    {"a reader is served without watchers",
     "local p <close> = sb:spawn('for i in 1 2 3; do echo $i; sleep 0.05; "
     "done')\n"
     "local n = 0\n"
     "for line in p:lines() do n = n + 1; equal(line, tostring(n)) end\n"
     "equal(n, 3)\n"},
};

static void without_watchers(lua_State *L, const char *backend, size_t i,
                             const char *facade, const char *polls) {
  lua_pushfstring(L,
                  "run('%s', function(sb, P)\n"
                  "  refuse(%s)\n"
                  "  %s"
                  "  assert(refuse(0, 0) > 0, 'nothing was refused')\n"
                  "end)",
                  facade, polls, tests[i].code);
  char text[128];
  snprintf(text, sizeof text, "%s: %s: %s", tests[i].text, facade,
           strcmp(polls, "ALL, 0, true") == 0 ? "taken away again"
           : strcmp(polls, "ALL, 0") == 0     ? "never any"
                                              : "some come later");
  lua_host_ok(lua_host_run(L, lua_tostring(L, -1)), backend, text);
}

static const char *const LOST =
    "run(FACADE, function(sb)\n"
    "  refuse(0, ALL)\n"
    "  local ok, e = pcall(sb.exec, sb, 'echo out; sleep 0.1; echo out')\n"
    "  assert(refuse(0, 0) > 0, 'nothing was refused')\n"
    "  equal(ok, false)\n"
    "  equal(e.code, 'EIO')\n"
    "  assert(e.message:find('output', 1, true), e.message)\n"
    "  equal(e.result.eof, false)\n"
    "  local p <close> = sb:spawn('echo out; sleep 0.1; echo out')\n"
    "  refuse(0, ALL)\n"
    "  ok, e = pcall(function() for _ in p:chunks() do end end)\n"
    "  refuse(0, 0)\n"
    "  equal(ok, false)\n"
    "  equal(e.code, 'EIO')\n"
    "end)";

static void run_tests(const char *backend) {
  static const char *const facades[] = {"portico", "portico.sync"};
  lua_State *L = lua_host_new(backend);
  lua_register(L, "refuse", refuse);
  lua_host_run(L, PRELUDE);
  for (size_t f = 0; f < 2; f++) {
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
      without_watchers(L, backend, i, facades[f], "ALL, 0");
      without_watchers(L, backend, i, facades[f], "ALL, 0, true");
      without_watchers(L, backend, i, facades[f], "1, 0");
    }
    lua_pushstring(L, facades[f]);
    lua_setglobal(L, "FACADE");
    lua_host_ok(lua_host_run(L, LOST), backend,
                "output that cannot be read is an error");
  }
  lua_close(L);
}

int main(int argc, char **argv) {
  (void)argc;
  return lua_host_each(argv[0], "watchers", run_tests);
}
