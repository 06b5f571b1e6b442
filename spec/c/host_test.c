/* SPDX-License-Identifier: MIT */
/*
 * Portico inside a C program that lives on: what it leaves alone (signal
 * dispositions, the host's own children (case 44), descriptors, threads), and
 * lua_close in every state of its objects.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lua_host.h"

static int entries(const char *path) {
  DIR *d = opendir(path);
  int n = 0;
  while (d && readdir(d))
    n++;
  if (d)
    closedir(d);
  return n;
}

/* For a moment after its join the kernel still lists a thread. */
static bool has_threads(int n) {
  for (int i = 0; i < 100 && entries("/proc/self/task") != n; i++)
    usleep(10000);
  return entries("/proc/self/task") == n;
}

/* The backend that all is tried on. */
static const char *backend;

static void ok(bool good, const char *text) {
  lua_host_ok(good, backend, text);
}

static lua_State *new_state(void) {
  return lua_host_new(backend);
}

/* ---- dispositions and children ------------------------------------------- */

static volatile sig_atomic_t children;

static void on_child(int signo) {
  (void)signo;
  children++;
}

static void read_dispositions(struct sigaction table[65]) {
  for (int i = 1; i <= 64; i++)
    sigaction(i, NULL, &table[i]);
}

static bool same_dispositions(struct sigaction a[65], struct sigaction b[65]) {
  for (int i = 1; i <= 64; i++)
    if (a[i].sa_handler != b[i].sa_handler || a[i].sa_flags != b[i].sa_flags)
      return false;
  return true;
}

static const char both_facades[] =
    "local s = require 'portico.sync'\n"
    "local sb = s.sandbox{backend = BACKEND}\n"
    "assert(sb:exec('exit 3').code == 3)\n"
    "assert(sb:exec({'cat'}, {input = ('x'):rep(1e6)}).stdout_bytes == 1e6)\n"
    "assert(sb:exec('exit 7', {input = ('x'):rep(1e6)}).code == 7)\n"
    "sb:close()\n"
    "local a = require 'portico'\n"
    "a.run(function()\n"
    "  local sb <close> = a.sandbox{backend = BACKEND}\n"
    "  assert(sb:exec('exit 4').code == 4)\n"
    "  assert(sb:exec('exit 7', {input = ('x'):rep(1e6)}).code == 7)\n"
    "end)\n";

static void test_manners(void) {
  static struct sigaction before[65];
  static struct sigaction after[65];
  struct sigaction sa = {.sa_handler = on_child};
  sigaction(SIGCHLD, &sa, NULL);
  mode_t mask = umask(027);
  char cwd[4096];
  char cwd_after[4096];
  read_dispositions(before);
  ok(getcwd(cwd, sizeof cwd) != NULL, "the host has a directory");
  lua_State *L = new_state();
  ok(lua_host_run(L, both_facades),
     "both facades work under a host's SIGCHLD handler");
  children = 0;
  pid_t pid = fork();
  if (pid == 0)
    _exit(3);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
    ;
  ok(WIFEXITED(status) && WEXITSTATUS(status) == 3,
     "the host waits for its own child");
  ok(children > 0, "the host's handler was called");
  lua_close(L);
  read_dispositions(after);
  ok(same_dispositions(before, after), "no disposition was changed");
  ok(umask(mask) == 027, "the umask was not changed");
  ok(getcwd(cwd_after, sizeof cwd_after) && strcmp(cwd, cwd_after) == 0,
     "the directory was not changed");
}

static void test_ignored_children(void) {
  signal(SIGCHLD, SIG_IGN);
  lua_State *L = new_state();
  ok(lua_host_run(L, both_facades),
     "both facades work where SIGCHLD is ignored");
  lua_close(L);
  signal(SIGCHLD, SIG_DFL);
}

/* ---- lua_close in a host that lives on ------------------------------------
 */

static const char *const unclosed[] = {
    "sb = require'portico.sync'.sandbox{backend=BACKEND}\n",
    "sb = require'portico.sync'.sandbox{backend=BACKEND}\n"
    "p = sb:spawn('sleep 100')\n",
    "a = require'portico'\n"
    "a.run(function() sb = a.sandbox{backend=BACKEND}\n"
    "p = sb:spawn('yes') end)\n",
    "a = require'portico'\n"
    "a.run(function() sb = a.sandbox{backend=BACKEND}\n"
    "p = sb:spawn('yes') it = p:chunks() it() end)\n",
    "b = require'portico.sync'.open(BACKEND) sb = b:create()\n"
    "p = sb:spawn('yes') it = p:lines() it()\n",
    "q = require'portico.portal'.open()\n"
    "sb = require'portico.sync'.sandbox{backend=BACKEND, portal=q}\n",
    "pcall(require'portico'.run, function()\n"
    "  sb = require'portico'.sandbox{backend='null'}\n"
    "  sb:spawn{'sleep', '100'} error('x') end)\n",
};

static void test_close(void) {
  int fds = entries("/proc/self/fd");
  int threads = entries("/proc/self/task");
  bool good = true;
  for (int round = 0; round < 3; round++)
    for (size_t i = 0; i < sizeof unclosed / sizeof *unclosed; i++) {
      lua_State *L = new_state();
      good = lua_host_run(L, unclosed[i]) && good;
      lua_close(L);
    }
  ok(good, "scripts that close nothing run");
  ok(entries("/proc/self/fd") == fds, "lua_close leaves no descriptor");
  ok(has_threads(threads), "lua_close leaves no thread");
  ok(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD,
     "lua_close leaves no child");
}

static void tests(const char *name) {
  backend = name;
  test_manners();
  test_ignored_children();
  test_close();
}

int main(int argc, char **argv) {
  (void)argc;
  return lua_host_each(argv[0], "a host that lives on", tests);
}
