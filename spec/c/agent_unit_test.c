/* SPDX-License-Identifier: MIT */
/*
 * Parts of the agent, linked in (so that sanitizers see them): environment,
 * users, interpreters, request rules, channels, and the slow way of scanning
 * processes.  usage: agent_unit_test
 */
#include "agent_client.h"

#include "../../runtime/agent/channel.h"
#include "../../runtime/agent/clock.h"
#include "../../runtime/agent/env.h"
#include "../../runtime/agent/interp.h"
#include "../../runtime/agent/path.h"
#include "../../runtime/agent/procfs.h"
#include "../../runtime/agent/request.h"
#include "../../runtime/agent/rmtree.h"
#include "../../runtime/agent/tree.h"
#include "../../runtime/agent/users.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- environment -------------------------------------------------------- */

static bool same(char **got, const char *const *want) {
  size_t i = 0;
  bool good = got != NULL;
  for (; good && want[i]; i++)
    good = got[i] && strcmp(got[i], want[i]) == 0;
  good = good && !got[i];
  free(got);
  return good;
}

static void test_env(void) {
  char a[] = "A=1", b[] = "B=2", a2[] = "A=3", drop_b[] = "B", ab[] = "AB=x",
       empty[] = "=x", nothing[] = "", twice[] = "A=4";
  char *base[] = {a, b, NULL};
  char *changes[] = {a2, drop_b, ab, empty, nothing, twice, NULL};
  char *none[] = {NULL};
  OK(same(pco_env_merge(base, none), (const char *const[]){"A=1", "B=2", NULL}),
     "no change");
  OK(same(pco_env_merge(base, changes),
          (const char *const[]){"A=4", "AB=x", NULL}),
     "set, remove, last wins, no empty names");
  OK(same(pco_env_merge(NULL, changes),
          (const char *const[]){"A=4", "AB=x", NULL}),
     "from nothing");
  OK(strcmp(pco_env_get(base, "B"), "2") == 0 && !pco_env_get(base, "AB"),
     "get");
}

/* ---- users, interpreters ------------------------------------------------ */

static void test_users(void) {
  static pco_user u;
  IS(pco_user_find("root", &u), 0, "root is known");
  OK(u.uid == 0 && u.gid == 0 && strcmp(u.name, "root") == 0 &&
         u.home[0] == '/',
     "with its ids and home");
  IS(pco_user_find("0", &u), 0, "by number");
  OK(strcmp(u.name, "root") == 0, "with its name");
  IS(pco_user_find("root:54321", &u), 0, "a name and a group");
  OK(u.uid == 0 && u.gid == 54321 && u.n_groups == 1 && u.groups[0] == 54321,
     "which is the only one");
  IS(pco_user_find("0:root", &u), 0, "a group by name");
  OK(u.gid == 0 && u.n_groups == 1, "is found");
  IS(pco_user_find("root:no-such", &u), -ENOENT, "one that there is not");
  IS(pco_user_find("root:", &u), -EINVAL, "or an empty one, is none");
  IS(pco_user_find("root:1:2", &u), -ENOENT, "nor are two");
  IS(pco_user_find("54321", &u), 0, "a number without a line");
  OK(u.uid == 54321 && u.gid == 54321 && strcmp(u.home, "/") == 0 &&
         u.n_groups == 1 && u.groups[0] == 54321 &&
         strcmp(u.shell, "/bin/sh") == 0,
     "is made up");
  IS(pco_user_find("54321:7", &u), 0, "with a group");
  OK(u.gid == 7 && u.n_groups == 1 && u.groups[0] == 7, "has that group");
  IS(pco_user_find("", &u), -ENOENT, "no name");
  IS(pco_user_find("1:", &u), -EINVAL, "an empty group");
  IS(pco_user_find("4294967295", &u), -EINVAL, "the id that means none");
  IS(pco_user_find("99999999999999999999", &u), -EINVAL, "a huge number");
  IS(pco_user_find("no:such", &u), -ENOENT, "a name with a colon");
}

static int interp_of(const char *bytes, size_t len, char *out, size_t size) {
  char path[] = "/tmp/portico-unit-XXXXXX";
  int fd = mkstemp(path);
  if (fd < 0 || write(fd, bytes, len) != (ssize_t)len)
    perror(path);
  close(fd);
  int rc = pco_interp_of(path, out, size);
  unlink(path);
  return rc;
}

static void test_interp(void) {
  char out[64];
  OK(interp_of("#! /bin/x -a\n", 13, out, sizeof out) == 0 &&
         strcmp(out, "/bin/x") == 0,
     "a script");
  OK(interp_of("#!/bin/y", 8, out, sizeof out) == 0 &&
         strcmp(out, "/bin/y") == 0,
     "without a newline");
  OK(interp_of("#!\x1b[31mevil\n", 12, out, sizeof out) != 0,
     "no control bytes");
  IS(interp_of("#!", 2, out, sizeof out), -ENOENT, "nothing behind #!");
  IS(interp_of("\x7f"
               "ELF garbage that is not long enough",
               36, out, sizeof out),
     -ENOENT, "a cut ELF file");
  OK(pco_interp_of("/bin/sh", out, sizeof out) == 0 && strstr(out, "ld"),
     "an ELF file: %s", out);
  IS(pco_interp_of("/nonexistent", out, sizeof out), -ENOENT, "no file");
}

/* ---- channels ----------------------------------------------------------- */

static void test_channel(void) {
  int s[2], p[2];
  pco_channel a, b;
  pco_frame f;
  pco_wire_buf buf = {0};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s) != 0 ||
      pipe2(p, O_CLOEXEC) != 0)
    return;
  pco_channel_init(&a, s[0]);
  pco_channel_init(&b, s[1]);
  IS(pco_channel_receive(&b), -EAGAIN, "nothing yet");
  static char big[100000];
  pco_wire_begin(&buf, PCO_WIRE_DATA, 0, 1);
  pco_wire_bytes(&buf, PCO_TAG_DATA, big, sizeof big);
  pco_wire_end(&buf, 0);
  for (int i = 0; i < 30; i++)
    pco_channel_send(&a, &buf);
  int frames = 0, rc = 1;
  for (int i = 0; i < 10000 && frames < 30; i++) {
    rc = pco_channel_flush(&a);
    if (pco_channel_receive(&b) == 1)
      while (pco_channel_next(&b, &f) == 1)
        frames += f.header.size == sizeof big + 8;
  }
  OK(frames == 30 && rc == 0, "3 MB through a small socket");
  OK(pco_channel_queued(&a) == 0 && a.out_cap <= 65536,
     "a large queue is given back");
  /* a frame with descriptors behind one without, in one packet */
  pco_wire_begin(&buf, PCO_WIRE_PING, 0, 2);
  pco_wire_end(&buf, 0);
  pco_channel_send(&a, &buf);
  pco_wire_begin(&buf, PCO_WIRE_SPAWN, 0, 3);
  pco_wire_end(&buf, 1);
  pco_frame out = {.header = {.type = PCO_WIRE_SPAWN, .n_fds = 1, .op = 3},
                   .payload = buf.data + PCO_WIRE_HEADER,
                   .fds = {p[0]}};
  IS(pco_channel_relay(&a, &out), 0, "a frame with a descriptor is queued");
  IS(pco_channel_flush(&a), 0, "and sent");
  frames = 0;
  for (int i = 0; i < 4 && pco_channel_receive(&b) == 1; i++)
    while (pco_channel_next(&b, &f) == 1) {
      frames++;
      OK(f.header.n_fds == (f.header.op == 3), "frame %d has its descriptors",
         (int)f.header.op);
      pco_frame_close_fds(&f);
    }
  IS(frames, 2, "both frames came");
  pco_channel_deinit(&a);
  IS(pco_channel_receive(&b), 0, "the end");
  pco_channel_deinit(&b);
  close(p[1]);
  pco_wire_buf_free(&buf);
}

static int count_open(void) {
  int n = 0;
  for (int fd = 0; fd < 1024; fd++)
    n += fcntl(fd, F_GETFD) >= 0;
  return n;
}

/* The limit that leaves so many free. */
static rlim_t limit_for(int room) {
  int fd = 0;
  for (; room > 0 || fcntl(fd, F_GETFD) >= 0; fd++)
    room -= fcntl(fd, F_GETFD) < 0;
  return (rlim_t)fd;
}

/* Queues a frame that has three descriptors. */
static void send_three(pco_channel *c, uint64_t op) {
  pco_wire_buf buf = {0};
  int fds[3];
  for (int i = 0; i < 3; i++)
    fds[i] = dup(0);
  pco_wire_begin(&buf, PCO_WIRE_SPAWN, 0, op);
  pco_wire_end(&buf, 3);
  pco_channel_send_fds(c, &buf, fds, 3);
  pco_wire_buf_free(&buf);
  pco_channel_flush(c);
}

/* Three come where there is room for fewer: that frame is short of them, the
 * one after it is not. */
static void test_channel_cut(int room) {
  int s[2];
  pco_channel a, b;
  pco_frame f;
  struct rlimit usual;
  int fds = count_open();
  socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s);
  pco_channel_init(&a, s[0]);
  pco_channel_init(&b, s[1]);
  send_three(&a, 1);
  getrlimit(RLIMIT_NOFILE, &usual);
  setrlimit(RLIMIT_NOFILE, &(struct rlimit){limit_for(room), usual.rlim_max});
  IS(pco_channel_receive(&b), 1, "it comes");
  setrlimit(RLIMIT_NOFILE, &usual);
  IS(pco_channel_next(&b, &f), 1, "and is whole");
  OK(pco_frame_cut(&f) && (f.fds[0] >= 0) == (room > 0) && f.fds[2] < 0,
     "with room for %d of 3", room);
  pco_frame_close_fds(&f);
  send_three(&a, 2);
  pco_channel_receive(&b);
  OK(pco_channel_next(&b, &f) == 1 && !pco_frame_cut(&f) &&
         f.header.n_fds == 3 && f.header.op == 2,
     "the next one has all");
  pco_frame_close_fds(&f);
  IS(pco_channel_next(&b, &f), 0, "that was all");
  pco_channel_deinit(&a);
  pco_channel_deinit(&b);
  IS(count_open(), fds, "nothing is left");
}

/* ---- requests ----------------------------------------------------------- */

static uint64_t state;

static uint64_t pick(uint64_t n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (state >> 33) % n;
}

/* Random fields in random requests: whatever is let through is in range. */
static void test_requests(uint64_t seed) {
  static const uint16_t types[] = {1,  2,  3,  4,  5,  8,  16, 17, 18, 32,
                                   33, 34, 35, 36, 37, 38, 60, 64, 99};
  state = seed;
  int passed = 0;
  bool good = true;
  pco_wire_buf b = {0};
  for (int i = 0; i < 200000; i++) {
    uint16_t type = types[pick(19)];
    pco_wire_begin(&b, type, 0, 1 + pick(9));
    for (uint64_t k = pick(9); k > 0; k--) {
      uint64_t kind = pick(4);
      if (kind == 0)
        pco_wire_string(&b, (uint16_t)(PCO_TAG_STRING + 1 + pick(12)), "text");
      else if (kind == 1)
        pco_wire_bytes(&b, PCO_TAG_DATA, "bytes", 5);
      else
        pco_wire_number(&b, (uint16_t)(PCO_TAG_NUMBER + 1 + pick(33)),
                        pick(3) ? pick(4) : UINT64_MAX >> pick(64));
    }
    pco_wire_end(&b, 0);
    pco_frame f = {.payload = b.data + PCO_WIRE_HEADER};
    pco_request r;
    pco_wire_header_read(b.data, &f.header);
    if (pco_request_parse(&f, &r) != 0)
      continue;
    passed++;
    good = good && type < 64 &&
           pco_request_number(&r, PCO_TAG_TIMEOUT) <= PCO_MAX_TIME &&
           pco_request_number(&r, PCO_TAG_GRACE) <= PCO_MAX_TIME &&
           pco_request_number(&r, PCO_TAG_MODE) <= 07777 &&
           pco_request_number(&r, PCO_TAG_SIGNO) <= 64 &&
           pco_request_number(&r, PCO_TAG_LIMIT_MEMORY) <= INT64_MAX &&
           pco_request_number(&r, PCO_TAG_LIMIT_PIDS) <= INT64_MAX &&
           pco_request_number(&r, PCO_TAG_LIMIT_CPUS) <= UINT32_MAX &&
           pco_request_number(&r, PCO_TAG_LIMIT_OPEN_FILES) <= UINT32_MAX &&
           (type < 32 || type > 38 || r.text[PCO_TAG_PATH - PCO_TAG_STRING].s);
  }
  OK(good && passed > 1000, "200,000 random requests, %d pass", passed);
  pco_wire_buf_free(&b);
}

/* ---- trees -------------------------------------------------------------- */

/* A binary tree of sessions; some of the inner ones end, so that their children
 * move up. */
static _Noreturn void grow_tree(int depth) {
  int children = 0;
  while (depth > 0 && children < 2) {
    if (fork() == 0) {
      setsid();
      depth--;
      children = 0;
    } else {
      children++;
    }
  }
  if (depth == 2)
    _exit(0);
  for (;;)
    pause();
}

static void test_tree(bool whole_system) {
  pid_t survivors[PCO_MAX_SURVIVORS];
  pco_tree_options o = {.whole_system = whole_system};
  for (int i = 0; i < 3; i++)
    if (fork() == 0)
      grow_tree(3);
  usleep(100000);
  IS(pco_tree_kill(&o, pco_now() + 20 * PCO_S, survivors), 0,
     whole_system ? "a tree dies (by all of /proc)" : "a tree dies");
  IS(waitpid(-1, NULL, WNOHANG), -1, "and is reaped");
}

static void *fork_for_ever(void *arg) {
  (void)arg;
  for (int i = 0;; i++) {
    if (fork() == 0)
      _exit(0);
    usleep(1000);
    while (waitpid(-1, NULL, WNOHANG) > 0)
      ;
  }
  return NULL;
}

/* The first thread ends and shows as a zombie; another one goes on. */
static void test_tree_headless(void) {
  pid_t survivors[PCO_MAX_SURVIVORS];
  pco_tree_options o = {0};
  if (fork() == 0) {
    pthread_t t;
    pthread_create(&t, NULL, fork_for_ever, NULL);
    pthread_exit(NULL);
  }
  usleep(100000);
  IS(pco_tree_kill(&o, pco_now() + 20 * PCO_S, survivors), 0,
     "a process without its first thread dies");
  IS(waitpid(-1, NULL, WNOHANG), -1, "and is reaped");
}

static bool skip_pid(void *arg, pid_t pid) {
  return *(pid_t *)arg == pid;
}

static void test_tree_skip(void) {
  pid_t survivors[PCO_MAX_SURVIVORS];
  pid_t kept = fork();
  if (kept == 0)
    grow_tree(0);
  if (fork() == 0)
    grow_tree(1);
  pco_tree_options o = {.skip = skip_pid, .arg = &kept};
  IS(pco_tree_kill(&o, pco_now() + 5 * PCO_S, survivors), 0,
     "all but one are killed");
  IS(kill(kept, 0), 0, "which lives");
  pco_proc p;
  IS(pco_procfs_stat(kept, &p), 0, "stat");
  p.start++;
  IS(pco_procfs_signal(&p, SIGKILL), -ESRCH,
     "another start time: not signalled");
  p.start--;
  IS(pco_procfs_signal(&p, SIGKILL), 0, "its own: signalled");
  waitpid(kept, NULL, 0);
  p.pid = 1;
  IS(pco_procfs_signal(&p, 0), -EINVAL, "pid 1 is never signalled");
  p.pid = 0;
  IS(pco_procfs_signal(&p, 0), -EINVAL, "nor is pid 0");
}

/* ---- removing ----------------------------------------------------------- */

static void test_rmtree(void) {
  char top[] = "/tmp/portico-unit-XXXXXX", name[NAME_MAX + 1];
  static pco_rmtree t;
  if (!mkdtemp(top) || chdir(top) != 0)
    return;
  for (int i = 0; i < 300; i++) /* far deeper than it holds descriptors */
    if (mkdir("d", 0700) != 0 || chdir("d") != 0)
      break;
  if (chdir("/") != 0)
    return;
  int parent = pco_rmtree_open_parent(top, name);
  int rc = pco_rmtree_init(&t, parent, name, true), steps = 0;
  while (rc == 0 && (rc = pco_rmtree_step(&t, 10)) == 1 && ++steps < 100000)
    rc = 0;
  pco_rmtree_deinit(&t);
  OK(rc == 0 && access(top, F_OK) != 0 && steps > 10, "300 levels, in %d steps",
     steps);
  IS(pco_rmtree_open_parent("/", name), -EINVAL, "not /");
  IS(pco_rmtree_open_parent("relative", name), -EINVAL, "nor relative");
  IS(pco_rmtree_open_parent("/tmp/..", name), -EINVAL, "nor ..");
}

int main(int argc, char **argv) {
  uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 20;
  printf("# seed %llu\n", (unsigned long long)seed);
  sigset_t chld;
  sigemptyset(&chld);
  sigaddset(&chld, SIGCHLD);
  sigprocmask(SIG_BLOCK, &chld, NULL);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  IS(pco_procfs_open(), 0, "/proc");
  test_env();
  test_users();
  test_interp();
  test_channel();
  for (int room = 0; room < 3; room++)
    test_channel_cut(room);
  test_requests(seed);
  test_tree(false);
  test_tree(true);
  test_tree_headless();
  test_tree_skip();
  test_rmtree();
  return tap_done();
}
