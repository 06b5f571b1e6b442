/* SPDX-License-Identifier: MIT */
/* Where tests of a real agent happen; see agent_place.h. */
#include "agent_place.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

const char *agent;
char mark[64];

bool place_init(const char *path) {
  agent = path ? realpath(path, NULL) : NULL;
  snprintf(mark, sizeof mark, "portico-mark-%d", (int)getpid());
  if (!agent)
    perror(path ? path : "no agent is named");
  if (!agent || !dir_make())
    return false;
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  return true;
}

int place_done(void) {
  IS(count_processes(mark, true), 0, "nothing is left behind");
  for (int i = 0; i < 100 && waitpid(-1, NULL, WNOHANG) >= 0; i++)
    usleep(10000);
  OK(waitpid(-1, NULL, WNOHANG) < 0, "and every orphan has ended");
  if (!dir_remove())
    perror(dir);
  return tap_done();
}

int count_processes(const char *text, bool end_them) {
  DIR *d = opendir("/proc");
  int n = 0;
  for (struct dirent *e; d && (e = readdir(d));) {
    char path[300], line[4096];
    int pid = atoi(e->d_name);
    if (pid <= 0 || pid == getpid())
      continue;
    snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
    int len = read_file(path, line, sizeof line);
    for (int i = 0; i + 1 < len; i++)
      if (!line[i])
        line[i] = ' ';
    if (len <= 0 || !strstr(line, text))
      continue;
    n++;
    if (end_them)
      kill(pid, SIGKILL);
  }
  if (d)
    closedir(d);
  return n;
}

int processes_left(int ms) {
  int n = 0;
  for (int i = 0; i < ms / 10 && (n = count_processes(mark, false)) > 0; i++)
    usleep(10000);
  return n;
}

bool processes_come(int want, int ms) {
  for (int i = 0; i < ms / 10; i++) {
    if (count_processes(mark, false) >= want)
      return true;
    usleep(10000);
  }
  return false;
}

int children_of(int pid) {
  char path[64], line[8192];
  int n = 0;
  snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
  read_file(path, line, sizeof line);
  for (char *p = line; *p; p++)
    n += *p == ' ';
  return n;
}

long resident_kib(int pid) {
  char path[64], line[4096];
  long total = 0, resident = 0;
  snprintf(path, sizeof path, "/proc/%d/statm", pid);
  read_file(path, line, sizeof line);
  sscanf(line, "%ld %ld", &total, &resident);
  return resident * 4;
}

double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

const char ESCAPER[] =
    "setsid sh -c '(setsid sleep 1000 $0 & setsid sh -c \"trap : TERM; while "
    ":; do sleep 0.1; done\" '$0' &) & ' $0 & sleep 1000";

uint64_t start_sh(client *c, const char *script, uint64_t timeout,
                  uint64_t grace) {
  const char *const argv[] = {"/bin/sh", "-c", script, mark, NULL};
  spawn s = {.argv = argv, .timeout = timeout, .grace = grace};
  return client_spawn(c, &s);
}

ending sh(client *c, const char *script) {
  return client_end(c, start_sh(c, script, 0, 0), 20000);
}

ending sh_output(client *c, const char *script, const char *const *env,
                 unsigned flags, char *out, size_t size) {
  const char *const argv[] = {"/bin/sh", "-c", script, NULL};
  spawn s = {.argv = argv, .env = env, .flags = flags};
  return client_output(c, &s, false, out, size);
}
