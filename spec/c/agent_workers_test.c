/* SPDX-License-Identifier: MIT */
/*
 * A real agent: the workers that do its file work, stopped and killed.
 * usage: agent_workers_test AGENT
 */
#include "agent_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The pids of the agent's workers, up to n of them; gives how many. */
static int find_workers(const client *c, pid_t *pids, int n) {
  char path[80], comm[32] = "";
  int pid, found = 0;
  snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)c->agent,
           (int)c->agent);
  FILE *children = fopen(path, "re");
  while (children && found < n && fscanf(children, "%d", &pid) == 1) {
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    FILE *f = fopen(path, "re");
    if (f && fgets(comm, sizeof comm, f) &&
        strcmp(comm, "portico-files\n") == 0)
      pids[found++] = pid;
    if (f)
      fclose(f);
  }
  if (children)
    fclose(children);
  return found;
}

static int count_workers(const client *c) {
  pid_t pids[32];
  return find_workers(c, pids, 32);
}

/* Waits until there are so many workers; gives how many there are. */
static int await_workers(const client *c, int n) {
  for (int i = 0; i < 1500 && count_workers(c) != n; i++)
    poll(NULL, 0, 10);
  return count_workers(c);
}

static uint64_t begin_read(client *c) {
  uint64_t op = file_begin(c, PCO_WIRE_READ, "file", 0);
  client_send(c, NULL, 0);
  return op;
}

static void cancel(client *c, uint64_t op) {
  pco_wire_begin(&c->buf, PCO_WIRE_CANCEL, 0, op);
  client_send(c, NULL, 0);
}

/* Stops the worker, as a file system that is dead does. */
static pid_t stop_worker(const client *c) {
  pid_t pid = 0;
  if (find_workers(c, &pid, 1) == 1)
    kill(pid, SIGSTOP);
  return pid;
}

static void test_dead_file_system(client *c) {
  OK(file_reads(c, "file", "content"), "there is a worker");
  IS(count_workers(c), 1, "one");
  pid_t stopped = stop_worker(c);
  uint64_t op = begin_read(c);
  OK(file_reads(c, "file", "content"), "a dead file system lets others");
  IS(client_simple(c, PCO_WIRE_PING, 5000), 0, "and the agent");
  IS(await_workers(c, 2), 2, "by another worker");
  OK(client_take(c, op, 100) == NULL, "what is on it waits");
  cancel(c, op);
  IS(answer_finish(answer_take(c, op)), ECANCELED, "and can be cancelled");
  IS(await_workers(c, 1), 1, "which ends its worker");
  OK(kill(stopped, 0) != 0, "the one that was stopped");
}

/* A request at each of the workers there may be, and one more. */
static void test_all_workers_dead(client *c) {
  uint64_t op[9];
  for (int i = 0; i < 8; i++) {
    pid_t pids[16];
    OK(file_reads(c, "file", "content"), "%d workers are dead", i);
    int n = find_workers(c, pids, 16);
    for (int j = 0; j < n; j++)
      kill(pids[j], SIGSTOP);
    op[i] = begin_read(c);
  }
  op[8] = begin_read(c);
  OK(client_take(c, op[8], 300) == NULL, "the ninth waits in line");
  IS(count_workers(c), 8, "there are no more than eight");
  cancel(c, op[8]);
  IS(answer_finish(answer_take(c, op[8])), ECANCELED,
     "it can be cancelled there");
  op[8] = begin_read(c);
  cancel(c, op[0]);
  IS(answer_finish(answer_take(c, op[0])), ECANCELED, "one is given up");
  IS(answer_finish(answer_take(c, op[8])), 0, "so that the next can be done");
  for (int i = 1; i < 8; i++)
    cancel(c, op[i]);
  for (int i = 1; i < 8; i++)
    IS(answer_finish(answer_take(c, op[i])), ECANCELED, "all can be given up");
}

/* Waits until there are so many entries, or more, or fewer: as the sign of n
 * says; gives how many there are. */
static int await_entries(const char *name, int n, bool at_most) {
  int found = count_entries(name);
  for (int i = 0; i < 3000 && (at_most ? found > n : found < n); i++) {
    poll(NULL, 0, at_most ? 10 : 1);
    found = count_entries(name);
  }
  return found;
}

static void kill_workers(client *c) {
  pid_t pid = 0;
  while (find_workers(c, &pid, 1) == 1 && kill(pid, SIGKILL) == 0)
    poll(NULL, 0, 10);
}

/* A worker is killed when it has begun something in `name`: what it made there
 * for the time being goes. */
static void test_litter(client *c, uint64_t op, const char *name, int before,
                        const char *what) {
  IS(await_entries(name, before + 1, false), before + 1, what);
  kill_workers(c);
  IS(answer_finish(answer_take(c, op)), EIO,
     "what a killed worker did is an error");
  IS(await_entries(name, before, true), before, "and nothing is left of it");
}

static uint64_t begin_unpack(client *c, const char *path, int fd) {
  uint64_t op = file_begin(c, PCO_WIRE_UNPACK, path, 0);
  pco_wire_bytes(&c->buf, PCO_TAG_DATA, "", 0);
  client_send(c, &fd, 1);
  return op;
}

/* One whose request was cancelled is killed, when it does not answer. */
static void test_litter_of_stopped(client *c, const char *name) {
  int before = count_entries(name);
  uint64_t op = file_begin(c, PCO_WIRE_WRITE, "lit/stopped", 0);
  client_send(c, NULL, 0);
  await_entries(name, before + 1, false);
  stop_worker(c);
  cancel(c, op);
  IS(answer_finish(answer_take(c, op)), ECANCELED,
     "a worker that is slow is given up");
  IS(await_entries(name, before, true), before, "nothing is left of it, too");
}

static void test_killed_worker(client *c) {
  int fds[2];
  mkdir(in_dir("ws/lit"), 0755);
  mkdir(in_dir("ws/lit/deep"), 0755);
  make_link("lit/deep", "ws/way");
  OK(file_reads(c, "file", "content"), "there is a worker again");
  uint64_t op = file_begin(c, PCO_WIRE_WRITE, "way/killed", 0);
  client_send(c, NULL, 0);
  test_litter(c, op, "ws/lit/deep", 0, "a WRITE has a temporary file");
  if (pipe2(fds, O_CLOEXEC) != 0)
    return;
  op = begin_unpack(c, "way", fds[0]);
  test_litter(c, op, "ws/lit/deep", 0, "UNPACK has a directory in the target");
  op = begin_unpack(c, "lit/new", fds[0]);
  test_litter(c, op, "ws/lit", 1, "or beside it");
  close(fds[0]);
  close(fds[1]);
  test_litter_of_stopped(c, "ws/lit");
  OK(file_reads(c, "file", "content"), "and the next one lives");
  IS(await_workers(c, 0), 0, "a sandbox that does nothing has no worker");
}

/* More than may be ahead is acknowledged, and a dead file system is not sent
 * more. */
static void test_write_window(client *c) {
  static char block[PCO_WIRE_MAX_DATA];
  uint64_t op = file_begin(c, PCO_WIRE_WRITE, "window", 0), taken = 0;
  client_send(c, NULL, 0);
  for (int i = 0; i < 8; i++)
    file_send_data(c, op, block, sizeof block, true);
  while (taken < 8 * sizeof block) {
    frame *f = client_take(c, op, 20000);
    if (!f || f->header.type != PCO_WIRE_REPLY ||
        !(f->header.flags & PCO_WIRE_MORE)) {
      free(f);
      break;
    }
    taken += frame_number(f, PCO_TAG_LENGTH, 0);
    free(f);
  }
  IS(taken, 8 * sizeof block, "a WRITE tells how much it took");
  file_send_data(c, op, "", 0, false);
  IS(answer_finish(answer_take(c, op)), 0, "and ends");
}

static void test_workers(const char *agent) {
  client c;
  const char *const args[] = {"--root", in_dir("ws"), NULL};
  client_start(&c, agent, in_dir("ws"), args);
  make_file("ws/file", "content", 0644);
  test_write_window(&c);
  test_dead_file_system(&c);
  test_all_workers_dead(&c);
  test_killed_worker(&c);
  OK(file_reads(&c, "file", "content"), "a worker that is dead at the end");
  stop_worker(&c);
  begin_read(&c);
  int status = client_stop(&c);
  OK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "does not hold it up");
}

int main(int argc, char **argv) {
  char *agent = argc < 2 ? NULL : realpath(argv[1], NULL);
  if (!agent || !ws_open())
    return 2;
  test_workers(agent);
  ws_close(agent);
  free(agent);
  return tap_done();
}
