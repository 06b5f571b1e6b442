/* SPDX-License-Identifier: MIT */
/* Where tests of a real agent happen; see agent_place.h. */
#include "agent_place.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

const char *agent;
char dir[64];
char mark[64];

bool place_init(const char *path) {
  agent = path ? realpath(path, NULL) : NULL;
  snprintf(dir, sizeof dir, "/tmp/portico-agent-test-XXXXXX");
  snprintf(mark, sizeof mark, "portico-mark-%d", (int)getpid());
  if (!agent || !mkdtemp(dir)) {
    perror(path ? path : "no agent is named");
    return false;
  }
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  return true;
}

static void remove_dir(void) {
  char command[256];
  snprintf(command, sizeof command, "chmod -R u+rwx %s; rm -rf %s", dir, dir);
  if (system(command) != 0)
    perror("rm");
}

int place_done(void) {
  IS(count_processes(mark, true), 0, "nothing is left behind");
  for (int i = 0; i < 100 && waitpid(-1, NULL, WNOHANG) >= 0; i++)
    usleep(10000);
  OK(waitpid(-1, NULL, WNOHANG) < 0, "and every orphan has ended");
  remove_dir();
  return tap_done();
}

const char *in_dir(const char *name) {
  static char path[4][256];
  static int i;
  i = (i + 1) % 4;
  snprintf(path[i], sizeof path[i], "%s/%s", dir, name);
  return path[i];
}

void make_file(const char *name, const char *text, mode_t mode) {
  int fd = open(in_dir(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (write(fd, text, strlen(text)) < 0)
    perror("write");
  fchmod(fd, mode);
  close(fd);
}

int read_file(const char *path, char *buf, size_t size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, buf, size - 1);
  buf[n < 0 ? 0 : n] = 0;
  if (fd >= 0)
    close(fd);
  return (int)n;
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
