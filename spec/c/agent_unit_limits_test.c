/* SPDX-License-Identifier: MIT */
/*
 * Limits of commands: the agent as it is built, and a keeper that is a thread
 * of this program.  Without rights to make cgroups what needs them is skipped.
 * usage: agent_unit_limits_test, with PORTICO_BUILD in the environment
 */
#include "agent_client.h"

#include "../../runtime/agent/cgroup.h"
#include "../../runtime/agent/options.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1024u * 1024)

static char agent[PATH_MAX], greedy[PATH_MAX];

/* ---- a keeper ----------------------------------------------------------- */

typedef struct keeper {
  pthread_mutex_t lock; /* of g: the thread finds trees when it needs them */
  pco_cgroup g;
  uint32_t applied;
  char why[512];
  int ours, theirs;
  pthread_t thread;
  atomic_bool silent; /* it serves nobody */
} keeper;

static void *serve(void *arg) {
  keeper *k = arg;
  for (;;) {
    struct pollfd p = {.fd = k->ours, .events = POLLIN};
    poll(&p, 1, -1);
    if (k->silent) {
      usleep(1000);
      if (!(p.revents & POLLHUP))
        continue;
    }
    pthread_mutex_lock(&k->lock);
    int rc = pco_cgroup_serve(&k->g, k->ours);
    pthread_mutex_unlock(&k->lock);
    if (rc < 0)
      break;
  }
  return NULL;
}

/* False if this machine has no cgroups for us. */
static bool keeper_start(keeper *k, pco_cgroup_limits want) {
  char name[64];
  int ends[2];
  static int count;
  memset(k, 0, sizeof *k);
  pthread_mutex_init(&k->lock, NULL);
  snprintf(name, sizeof name, "limits-%d-%d", (int)getpid(), ++count);
  uint32_t all =
      (want.memory ? 1 : 0) | (want.pids ? 2 : 0) | (want.cpus ? 4 : 0);
  if (pco_cgroup_init(&k->g, "auto", name, &want, &k->applied, k->why,
                      sizeof k->why) != 0 ||
      k->applied != all) {
    pco_cgroup_remove(&k->g);
    return false;
  }
  /* without O_CLOEXEC: the agent inherits its end */
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0)
    return false;
  fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  k->ours = ends[0];
  k->theirs = ends[1];
  return pco_cgroup_greet(&k->g, k->ours) == 0 &&
         pthread_create(&k->thread, NULL, serve, k) == 0;
}

/* When its agent has ended: it serves until then. */
static void keeper_stop(keeper *k) {
  int rc = 0;
  pthread_join(k->thread, NULL);
  for (int i = 0; i < 500 && (rc = pco_cgroup_remove(&k->g)) == -EBUSY; i++)
    usleep(10000);
  close(k->ours);
  IS(rc, 0, "the keeper removed its cgroups");
}

static int leaves_in(const keeper *k, uint32_t tree) {
  char path[PATH_MAX + NAME_MAX + 2];
  int n = 0;
  snprintf(path, sizeof path, "%s/%s", k->g.trees[tree].dir, k->g.name);
  DIR *d = opendir(path);
  for (struct dirent *e; d && (e = readdir(d));)
    n += e->d_name[0] >= '0' && e->d_name[0] <= '9';
  if (d)
    closedir(d);
  return n;
}

/* The leaves that there are now, in the tree that has most. */
static int leaves(keeper *k) {
  int most = 0;
  pthread_mutex_lock(&k->lock);
  for (uint32_t i = 0; i < k->g.n_trees; i++) {
    int n = leaves_in(k, i);
    most = n > most ? n : most;
  }
  pthread_mutex_unlock(&k->lock);
  return most;
}

/* True once there are no more than that, within two seconds. */
static bool leaves_go(keeper *k, int most) {
  int i = 0;
  while (leaves(k) > most && i++ < 200)
    usleep(10000);
  return leaves(k) <= most;
}

static bool start_kept(client *c, keeper *k, pco_cgroup_limits want) {
  char fd[16];
  if (!keeper_start(k, want)) {
    tap_skip("limits by cgroups", k->why[0] ? k->why : "none can be made here");
    return false;
  }
  snprintf(fd, sizeof fd, "%d", k->theirs);
  const char *const args[] = {"--keeper", fd, "--emulate", "none", NULL};
  client_start(c, agent, "/tmp", args);
  close(k->theirs);
  return true;
}

static void stop_kept(client *c, keeper *k) {
  int status = client_stop(c);
  OK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the agent exits 0");
  keeper_stop(k);
}

/* ---- commands ----------------------------------------------------------- */

static ending sh(client *c, const char *text, spawn s) {
  const char *const argv[] = {"/bin/sh", "-c", text, "sh", greedy, NULL};
  s.argv = argv;
  return client_end(c, client_spawn(c, &s), 20000);
}

static char output[256];

static ending say(client *c, const char *text, spawn s) {
  const char *const argv[] = {"/bin/sh", "-c", text, "sh", greedy, NULL};
  s.argv = argv;
  ending e = client_output(c, &s, true, output, sizeof output);
  output[strcspn(output, "\n")] = 0;
  return e;
}

static const spawn NONE;

static spawn with(int i, uint64_t value) {
  spawn s = {0};
  s.limit[i] = value;
  return s;
}

enum { MEMORY, PIDS, CPUS, FILES };

/* ---- without cgroups ---------------------------------------------------- */

static void refused(client *c, int i, int limit, int error) {
  ending e = sh(c, "exit 0", with(i, 1000));
  OK(!e.started && e.error == error && e.stage == PCO_STAGE_LIMIT &&
         e.limit == limit && e.message[0],
     "limit %d is refused: %d %s", limit, e.error, e.message);
}

static void test_plain(void) {
  client c;
  client_start(&c, agent, "/tmp", NULL);
  refused(&c, MEMORY, PCO_LIMIT_MEMORY, EOPNOTSUPP);
  refused(&c, PIDS, PCO_LIMIT_PIDS, EOPNOTSUPP);
  refused(&c, CPUS, PCO_LIMIT_CPUS, EOPNOTSUPP);
  say(&c, "ulimit -Sn; ulimit -Hn", with(FILES, 17));
  OK(strcmp(output, "17") == 0, "open files: %s", output);
  say(&c, "ulimit -Hn", with(FILES, UINT32_MAX));
  OK(atoi(output) > 17 || strcmp(output, "unlimited") == 0,
     "no more than there are: %s", output);
  client_stop(&c);
}

static void test_emulated(void) {
  client c;
  const char *const args[] = {"--emulate", "memory", "--rlimit",
                              "open_files=20,memory=300000000", NULL};
  client_start(&c, agent, "/tmp", args);
  ending e = say(&c, "ulimit -v; ulimit -n", with(MEMORY, 100 * MIB));
  OK(e.exited && strcmp(output, "102400") == 0, "memory: %s KiB", output);
  say(&c, "ulimit -v", NONE);
  OK(strcmp(output, "292968") == 0, "as a rule: %s KiB", output);
  say(&c, "ulimit -v", with(MEMORY, 1000 * (uint64_t)MIB));
  OK(strcmp(output, "292968") == 0, "which nobody raises: %s KiB", output);
  say(&c, "ulimit -n", NONE);
  OK(strcmp(output, "20") == 0, "open files: %s", output);
  say(&c, "ulimit -n", with(FILES, 10));
  OK(strcmp(output, "10") == 0, "fewer for one command: %s", output);
  say(&c, "ulimit -n", with(FILES, 30));
  OK(strcmp(output, "20") == 0, "never more: %s", output);
  refused(&c, PIDS, PCO_LIMIT_PIDS, ENODEV);
  refused(&c, CPUS, PCO_LIMIT_CPUS, ENODEV);
  e = sh(&c, "exit 0", with(MEMORY, 4096));
  OK(e.signal || (e.error == ENOMEM && e.limit == PCO_LIMIT_MEMORY),
     "no room to start: %d %s", e.error, e.message);
  e = sh(&c, "exit 3", NONE);
  IS(e.code, 3, "the next one is fine");
  client_stop(&c);
  const char *const none[] = {"--emulate", "none", NULL};
  client_start(&c, agent, "/tmp", none);
  refused(&c, MEMORY, PCO_LIMIT_MEMORY, ENODEV);
  client_stop(&c);
}

/* The kernel counts processes of an ordinary user only. */
static void test_emulated_pids(void) {
  client c;
  const char *const args[] = {"--rlimit", "pids=10", "--user", "54399:54399",
                              NULL};
  if (geteuid() != 0) {
    tap_skip("processes, counted by uid", "needs root");
    return;
  }
  client_start(&c, agent, "/tmp", args);
  say(&c,
      "while read -r a b c d; do [ \"$a $b\" = 'Max processes' ] && echo $c; "
      "done </proc/self/limits",
      NONE);
  OK(strcmp(output, "10") == 0, "processes: %s", output);
  client_stop(&c);
}

static void test_options(void) {
  static const char *const bad[] = {"memory",
                                    "memory=",
                                    "memory=0",
                                    "memory=-1",
                                    "pids=x",
                                    "memory=1,",
                                    "files=1",
                                    "pids=1x",
                                    ",pids=1",
                                    "memory=1 pids=2",
                                    "memory=99999999999999999999",
                                    NULL};
  pco_rlimits l;
  uint32_t emulated;
  for (int i = 0; bad[i]; i++)
    OK(!pco_parse_limits(bad[i], &l), "--rlimit %s", bad[i]);
  memset(&l, 0, sizeof l);
  OK(pco_parse_limits("memory=1,pids=2,open_files=3", &l) && l.memory == 1 &&
         l.pids == 2 && l.open_files == 3,
     "all three");
  static const char *const no[] = {
      "", "cpus", "memory,", "memory pids", "none,memory", NULL};
  for (int i = 0; no[i]; i++)
    OK(!pco_parse_emulated(no[i], &emulated), "--emulate '%s'", no[i]);
  OK(pco_parse_emulated("none", &emulated) && emulated == 0 &&
         pco_parse_emulated("memory,pids", &emulated) && emulated == 3,
     "lists of what may be emulated");
}

/* ---- limits of the sandbox ---------------------------------------------- */

static void test_sandbox_memory(client *c) {
  ending e = sh(c, "exec \"$1\" hog 200", NONE);
  OK(e.exited && e.signal == SIGKILL && e.reason == PCO_REASON_OOM &&
         e.limit == PCO_LIMIT_MEMORY,
     "a command that takes too much (reason %d, limit %d)", e.reason, e.limit);
  e = sh(c, "\"$1\" hog 20", NONE);
  OK(e.code == 0 && e.reason == PCO_REASON_EXITED && e.limit == 0,
     "one that does not");
  e = sh(c, "kill -9 $$", NONE);
  OK(e.signal == SIGKILL && e.reason == PCO_REASON_SIGNALED && e.limit == 0,
     "a plain SIGKILL");
  e = sh(c, "\"$1\" hog 200; exit 5", NONE);
  OK(e.code == 5 && e.reason == PCO_REASON_EXITED &&
         e.limit == PCO_LIMIT_MEMORY,
     "a child that takes too much");
  e = sh(c, "kill -9 $$", NONE);
  OK(e.reason == PCO_REASON_SIGNALED && e.limit == 0,
     "is nobody else's excuse");
  IS(client_simple(c, PCO_WIRE_PING, 2000), 0, "the agent is well");
}

/* One is killed for want of memory while others are killed by hand. */
static void test_side_by_side(client *c) {
  const char *const victim[] = {"/bin/sh", "-c", "kill -9 $$", NULL};
  const char *const eater[] = {greedy, "hog", "200", NULL};
  bool good = true;
  for (int round = 0; round < 5; round++) {
    uint64_t ops[8];
    for (int i = 0; i < 8; i++) {
      spawn s = {.argv = i % 4 == 0 ? eater : victim};
      ops[i] = client_spawn(c, &s);
    }
    for (int i = 0; i < 8; i++) {
      ending e = client_end(c, ops[i], 20000);
      int want = i % 4 == 0 ? PCO_REASON_OOM : PCO_REASON_SIGNALED;
      good = good && e.exited && e.reason == want;
    }
  }
  OK(good, "who was killed by whom is told side by side");
}

/* What a command left behind is killed later: that is not the next one's. */
static void test_late(client *c) {
  bool good = true;
  for (int i = 0; i < 6; i++) {
    ending e = sh(c, "(sleep 0.1; exec \"$1\" hog 200) & exit 0", NONE);
    good = good && e.code == 0 && e.limit == 0;
  }
  usleep(1500000);
  for (int i = 0; i < 6; i++) {
    ending e = sh(c, "kill -9 $$", NONE);
    good = good && e.reason == PCO_REASON_SIGNALED && e.limit == 0;
  }
  OK(good, "late deaths are told to nobody");
}

static void test_sandbox_pids(client *c) {
  ending e = say(c, "exec \"$1\" forks", NONE);
  OK(strcmp(output, "19 EAGAIN") == 0, "20 processes: %s", output);
  OK(e.code == 0 && e.reason == PCO_REASON_EXITED && e.limit == PCO_LIMIT_PIDS,
     "and the limit is named (%d)", e.limit);
  say(c, "exec \"$1\" forks", NONE);
  OK(strcmp(output, "19 EAGAIN") == 0, "again: %s", output);
  const char *const sleeper[] = {"sleep", "100", NULL};
  spawn s = {.argv = sleeper};
  uint64_t ops[20];
  for (int i = 0; i < 20; i++)
    ops[i] = client_spawn(c, &s);
  usleep(500000);
  e = sh(c, "exit 0", NONE);
  OK(!e.started && e.error == EAGAIN && e.limit == PCO_LIMIT_PIDS,
     "with 20 commands the next is refused: %d %s", e.error, e.message);
  int alive = 0;
  for (int i = 0; i < 20; i++)
    alive += client_kill(c, ops[i], 0, 5000) == 0 &&
             client_end(c, ops[i], 5000).exited;
  IS(alive, 20, "and all 20 ran");
  say(c, "exec \"$1\" forks", NONE);
  OK(strcmp(output, "19 EAGAIN") == 0, "20 again: %s", output);
}

static void test_sandbox_cpus(client *c) {
  say(c, "exec \"$1\" burn", NONE);
  int ms = atoi(output);
  OK(ms < 600, "0.3 processors: %d ms of a second", ms);
}

static bool has_cgroups; /* all of them */

static void test_sandbox(void) {
  client c;
  keeper k;
  if (start_kept(&c, &k, (pco_cgroup_limits){.memory = 64 * MIB, .pids = 20})) {
    test_sandbox_memory(&c);
    test_sandbox_pids(&c);
    test_side_by_side(&c);
    test_late(&c);
    OK(leaves_go(&k, 4), "%d leaves are left, of idle supervisors", leaves(&k));
    stop_kept(&c, &k);
  }
  if (start_kept(&c, &k, (pco_cgroup_limits){.cpus = 300})) {
    test_sandbox_cpus(&c);
    stop_kept(&c, &k);
    has_cgroups = true;
  }
}

/* ---- limits of one command ---------------------------------------------- */

static void test_command(void) {
  client c;
  keeper k;
  if (!has_cgroups || !start_kept(&c, &k, (pco_cgroup_limits){0}))
    return;
  ending e = sh(&c, "exec \"$1\" hog 200", with(MEMORY, 64 * MIB));
  OK(e.signal == SIGKILL && e.reason == PCO_REASON_OOM &&
         e.limit == PCO_LIMIT_MEMORY,
     "memory of a command (reason %d, limit %d)", e.reason, e.limit);
  e = sh(&c, "exec \"$1\" hog 200", NONE);
  OK(e.code == 0 && e.limit == 0, "the next one has no limit");
  e = sh(&c, "kill -9 $$", with(MEMORY, 64 * MIB));
  OK(e.reason == PCO_REASON_SIGNALED && e.limit == 0, "a plain SIGKILL");
  e = sh(&c, "\"$1\" hog 200; exit 5", with(MEMORY, 64 * MIB));
  OK(e.code == 5 && e.reason == PCO_REASON_EXITED &&
         e.limit == PCO_LIMIT_MEMORY,
     "a child of it");
  e = sh(&c, "exit 0", with(MEMORY, 4096));
  OK((!e.started && e.error == ENOMEM && e.limit == PCO_LIMIT_MEMORY) ||
         e.reason == PCO_REASON_OOM,
     "a page: %d %s", e.error, e.message);
  say(&c, "exec \"$1\" forks", with(PIDS, 10));
  OK(strcmp(output, "9 EAGAIN") == 0, "processes of a command: %s", output);
  say(&c, "exec \"$1\" burn", with(CPUS, 300));
  int ms = atoi(output);
  OK(ms < 600, "0.3 processors: %d ms of a second", ms);
  spawn all = {.limit = {64 * MIB, 10, 500, 30}};
  e = say(&c, "ulimit -n; exec \"$1\" forks", all);
  OK(e.code == 0 && strcmp(output, "30") == 0 && e.limit == PCO_LIMIT_PIDS,
     "all at once (%d)", e.limit);
  say(&c, "ls -l /proc/self/fd | wc -l", all);
  OK(atoi(output) == 5, "no descriptor comes along: %s lines", output);
  OK(leaves_go(&k, 0), "no leaf is left");
  bool good = true;
  for (int i = 0; i < 300; i++)
    good = good && sh(&c, "exit 0", with(PIDS, 10)).exited;
  OK(good && leaves_go(&k, 0), "nor after 300 commands");
  /* it lives as long as anything of the command does */
  e = sh(&c, "sleep 1 & exit 0", with(PIDS, 10));
  IS(leaves(&k), 1, "a leaf stays for what was left behind");
  OK(leaves_go(&k, 0), "until that has ended");
  stop_kept(&c, &k);
}

static void test_both(void) {
  client c;
  keeper k;
  if (!start_kept(
          &c, &k,
          (pco_cgroup_limits){.memory = 128 * MIB, .pids = 20, .cpus = 300}))
    return;
  ending e = sh(&c, "exec \"$1\" hog 100", with(MEMORY, 64 * MIB));
  IS(e.reason, PCO_REASON_OOM, "a command's limit below the sandbox's");
  e = sh(&c, "exec \"$1\" hog 200", with(MEMORY, 500 * MIB));
  IS(e.reason, PCO_REASON_OOM, "the sandbox's below a command's");
  say(&c, "exec \"$1\" forks", with(PIDS, 100));
  OK(strcmp(output, "19 EAGAIN") == 0, "processes alike: %s", output);
  say(&c, "exec \"$1\" forks", with(MEMORY, 64 * MIB));
  OK(strcmp(output, "19 EAGAIN") == 0, "with another limit too: %s", output);
  say(&c, "exec \"$1\" burn", with(CPUS, 2000));
  OK(atoi(output) < 600, "processors alike: %s ms", output);
  stop_kept(&c, &k);
}

/* ---- trouble ------------------------------------------------------------ */

static void test_dead_supervisor(void) {
  client c;
  keeper k;
  if (!start_kept(&c, &k, (pco_cgroup_limits){.memory = 64 * MIB, .pids = 20}))
    return;
  for (int i = 0; i < 5; i++) {
    ending e = sh(&c, "sleep 100 & sleep 0.2; kill -9 $PPID; sleep 100", NONE);
    OK(e.exited && e.reason == PCO_REASON_KILLED && e.limit == 0,
       "a command that kills its supervisor");
  }
  say(&c, "exec \"$1\" forks", NONE);
  OK(strcmp(output, "19 EAGAIN") == 0, "the count is right after it: %s",
     output);
  OK(leaves_go(&k, 2), "their leaves are gone");
  stop_kept(&c, &k);
}

static void test_silent_keeper(void) {
  client c;
  keeper k;
  if (!start_kept(&c, &k, (pco_cgroup_limits){.pids = 20}))
    return;
  k.silent = true;
  const char *const argv[] = {"true", NULL};
  spawn s = {.argv = argv};
  uint64_t op = client_spawn(&c, &s);
  IS(client_simple(&c, PCO_WIRE_PING, 500), 0,
     "the agent does not wait for a keeper");
  ending e = client_end(&c, op, 20000);
  OK(!e.started && e.error == EAGAIN, "the command does, for a while: %s",
     e.message);
  op = client_spawn(&c, &s);
  IS(client_kill(&c, op, 0, 10000), 0, "one that waits can be killed");
  OK(client_end(&c, op, 1000).error == EAGAIN, "and is answered");
  op = client_spawn(&c, &s);
  IS(client_signal(&c, op, SIGTERM), -ESRCH, "but not signalled");
  IS(client_simple(&c, PCO_WIRE_KILL_ALL, 10000), 0, "all are killed");
  client_end(&c, op, 1000);
  k.silent = false;
  usleep(50000);
  e = client_run(&c, argv);
  IS(e.code, 0, "a keeper that speaks again is heard");
  OK(leaves_go(&k, 1), "late answers leave nothing (%d)", leaves(&k));
  stop_kept(&c, &k);
}

static void test_dead_keeper(void) {
  client c;
  keeper k;
  if (!start_kept(&c, &k, (pco_cgroup_limits){.pids = 20}))
    return;
  const char *const argv[] = {"true", NULL};
  IS(client_run(&c, argv).code, 0, "with a keeper");
  shutdown(k.ours, SHUT_RDWR);
  usleep(100000);
  ending e = sh(&c, "exit 0", with(MEMORY, MIB));
  OK(!e.started && e.error == ENODEV, "without: %s", e.message);
  client_stop(&c);
  keeper_stop(&k);
}

enum { MANY = 300 };

/* Starts those that did not run yet, all at once; how many ran.  On a machine
 * that is very busy the keeper is silent for too long: who is told so may try
 * again. */
static int run_many(client *c, bool ran[MANY], bool *clear) {
  const char *const argv[] = {"true", NULL};
  uint64_t ops[MANY];
  int fine = 0;
  for (int i = 0; i < MANY; i++) {
    spawn s = {.argv = argv};
    s.limit[MEMORY] = i % 2 ? 64 * MIB : 0;
    ops[i] = ran[i] ? 0 : client_spawn(c, &s);
  }
  for (int i = 0; i < MANY; i++) {
    if (ran[i])
      continue;
    ending e = client_end(c, ops[i], 60000);
    ran[i] = e.exited && e.code == 0;
    fine += ran[i];
    if (!ran[i] && e.error != EAGAIN) {
      *clear = false;
      printf("# %d: started %d, exited %d, code %d, error %d, %s\n", i,
             e.started, e.exited, e.code, e.error, e.message);
    }
  }
  return fine;
}

static void test_many_at_once(void) {
  static bool ran[MANY];
  client c;
  keeper k;
  if (!start_kept(&c, &k, (pco_cgroup_limits){.pids = 500}))
    return;
  int fine = 0;
  bool clear = true;
  for (int i = 0; i < 10 && fine < MANY && clear; i++)
    fine += run_many(&c, ran, &clear);
  OK(clear, "%d at once run, or are told to try again", MANY);
  IS(fine, MANY, "and run then");
  IS(client_run(&c, (const char *const[]){"true", NULL}).code, 0,
     "then it goes on");
  OK(leaves_go(&k, 4), "%d leaves are left", leaves(&k));
  stop_kept(&c, &k);
}

int main(void) {
  const char *build = getenv("PORTICO_BUILD");
  if (!build)
    return 1;
  snprintf(agent, sizeof agent, "%s/libexec/portico/portico-agent", build);
  snprintf(greedy, sizeof greedy, "%s/test/greedy", build);
  test_options();
  test_plain();
  test_emulated();
  test_emulated_pids();
  test_sandbox();
  test_command();
  test_both();
  test_dead_supervisor();
  test_silent_keeper();
  test_dead_keeper();
  test_many_at_once();
  return tap_done();
}
