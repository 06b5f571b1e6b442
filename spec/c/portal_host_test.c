/* SPDX-License-Identifier: MIT */
/*
 * Signals and children of a host with portals: its signals stay its own, and
 * nothing depends on whether it takes, blocks or steals SIGCHLD.
 */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lua_host.h"

/* The backend that all is tried on. */
static const char *backend;

static const char both_facades[] =
    "for _, name in ipairs{'portico', 'portico.sync'} do\n"
    "  local P = require(name)\n"
    "  P.run(function()\n"
    "    for i = 1, 10 do\n"
    "      local s <close> = P.sandbox{backend = BACKEND}\n"
    "      assert(s:exec('exit ' .. i).code == i)\n"
    "      local p = s:spawn'exec sleep 100'\n"
    "      assert(p:kill().signal == 'SIGKILL')\n"
    /* Neither mask nor dispositions of the host (but the two signals that
     * threads libraries keep for themselves, which nobody can set). */
    "      local r = s:output('grep -E \"SigBlk|SigIgn\" /proc/self/status')\n"
    "      local blocked, ignored = r:match'(%x+)\\n.*\\t(%x+)$'\n"
    "      assert(tonumber(blocked, 16) == 0, r)\n"
    "      assert(tonumber(ignored, 16) & ~0x180000000 == 0, r)\n"
    "      local ok, e = pcall(s.exec, s, 'sleep 100', {timeout = 0.05})\n"
    "      assert(not ok and e.code == 'PCO_ETIMEDOUT', e)\n"
    "    end\n"
    "  end)\n"
    "end\n";

static bool works(void) {
  lua_State *L = lua_host_new(backend);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  bool good = lua_host_run(L, both_facades);
  signal(SIGPIPE, SIG_DFL);
  signal(SIGHUP, SIG_DFL);
  lua_close(L);
  return good;
}

/* ---- the thread's mask --------------------------------------------------- */

/* Reads the mask of the thread with that name; false if there is none. */
static bool read_mask(const char *name, unsigned long long *mask) {
  DIR *d = opendir("/proc/self/task");
  bool found = false;
  for (struct dirent *e; d && !found && (e = readdir(d)) != NULL;) {
    char path[300];
    char line[256];
    snprintf(path, sizeof path, "/proc/self/task/%s/status", e->d_name);
    FILE *f = fopen(path, "r");
    for (bool named = false; f && fgets(line, sizeof line, f);) {
      if (strncmp(line, "Name:\t", 6) == 0)
        named = strncmp(line + 6, name, strlen(name)) == 0;
      if (named && sscanf(line, "SigBlk: %llx", mask) == 1)
        found = true;
    }
    if (f)
      fclose(f);
  }
  if (d)
    closedir(d);
  return found;
}

static bool has(unsigned long long mask, int signo) {
  return mask >> (signo - 1) & 1;
}

static void test_mask(void) {
  unsigned long long mask = 0;
  lua_State *L = lua_host_new(backend);
  bool found = lua_host_run(L, "s = require'portico.sync'.sandbox{\n"
                               "  backend = BACKEND}\n"
                               "s:exec{'true'}\n") &&
               read_mask("pco-portal", &mask);
  lua_host_ok(found, backend, "the portal's thread has its name");
  lua_host_ok(has(mask, SIGINT) && has(mask, SIGTERM) && has(mask, SIGCHLD) &&
                  has(mask, SIGALRM) && has(mask, SIGUSR1) &&
                  has(mask, SIGPROF) && has(mask, SIGRTMIN + 1),
              backend, "it takes no signal that is for the host");
  lua_host_ok(!has(mask, SIGSEGV) && !has(mask, SIGBUS) && !has(mask, SIGFPE) &&
                  !has(mask, SIGILL) && !has(mask, SIGSYS),
              backend, "those of its own faults reach the host's handler");
  lua_close(L);
}

/* ---- a host that blocks everything --------------------------------------- */

static void test_blocked(void) {
  sigset_t all;
  sigset_t old;
  sigset_t now;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  lua_host_ok(works(), backend,
              "both facades work where every signal is blocked");
  pthread_sigmask(SIG_SETMASK, &old, &now);
  lua_host_ok(sigismember(&now, SIGCHLD) == 1 && sigismember(&now, SIGINT) == 1,
              backend, "and leave them blocked");
}

/* ---- a host that waits for every child ----------------------------------- */

static atomic_bool enough;

/* Takes the ends of all children, ours too, as soon as they are there. */
static void *steal_children(void *arg) {
  (void)arg;
  while (!atomic_load(&enough))
    if (waitpid(-1, NULL, WNOHANG) <= 0)
      nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  return NULL;
}

static void test_stolen(void) {
  pthread_t thread;
  atomic_store(&enough, false);
  if (pthread_create(&thread, NULL, steal_children, NULL) != 0)
    abort();
  lua_host_ok(works(), backend,
              "both facades work where the host waits for every child");
  atomic_store(&enough, true);
  pthread_join(thread, NULL);
  lua_host_ok(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, backend,
              "and no child is left");
}

static void tests(const char *name) {
  backend = name;
  test_mask();
  test_blocked();
  test_stolen();
}

int main(int argc, char **argv) {
  (void)argc;
  return lua_host_each(argv[0], "a host with signals", tests);
}
