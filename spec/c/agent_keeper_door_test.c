/* SPDX-License-Identifier: MIT */
/*
 * A real keeper with a door, and bubblewrap with an agent below it.
 * usage: agent_keeper_door_test AGENT
 */
#include "door_client.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS 20000 /* for what comes at once */

static const char *agent;
static char launcher[256]; /* bubblewrap's path */
static door d;
static client c;
static int control;
static pco_keeper_report started;

/* ---- the keeper ---------------------------------------------------------- */

static char words[8192];
static size_t words_len;

static void put(const char *word, ...) {
  va_list ap;
  va_start(ap, word);
  for (; word; word = va_arg(ap, const char *)) {
    memcpy(words + words_len, word, strlen(word) + 1);
    words_len += strlen(word) + 1;
  }
  va_end(ap);
}

static int words_fd(void) {
  int fd = memfd_create("words", MFD_CLOEXEC);
  if (fd < 0 || write(fd, words, words_len) != (ssize_t)words_len)
    exit(1);
  return fd;
}

static void put_words(const char *ttl, const char *const *inside) {
  words_len = 0;
  put("uids", "one", "tmpfs", "1048576", "100", NULL);
  put("door", "8", "9", "10", "11", DOOR_NAME, NULL);
  if (ttl)
    put("ttl", ttl, NULL);
  put("--", launcher, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev",
      "--unshare-pid", "--as-pid-1", NULL);
  for (; *inside; inside++)
    put(*inside, NULL);
}

static _Noreturn void exec_keeper(const int *fds, int n) {
  for (int i = 0; i < n; i++) /* out of the way of each other */
    if (fcntl(fds[i], F_DUPFD_CLOEXEC, 100 + i) < 0)
      _exit(126);
  for (int i = 0; i < n; i++)
    dup2(100 + i, i);
  execl(agent, agent, "--keep", (char *)NULL);
  _exit(127);
}

/* Starts a keeper; c has the agent's stream, `control` is the host's. */
static bool start(const char *ttl, const char *const *inside) {
  int host[2], stream[2], visits[2];
  memset(&c, 0, sizeof c);
  door_make(&d);
  put_words(ttl, inside);
  int null = open("/dev/null", O_RDWR | O_CLOEXEC), w = words_fd();
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, host) != 0 ||
      socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream) != 0 ||
      socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, visits) != 0)
    exit(1);
  const int fds[] = {null,       null,  null,      host[1],
                     w,          null,  stream[1], visits[1],
                     d.listener, d.dir, d.info,    visits[0]};
  d.agent = fork();
  if (d.agent == 0)
    exec_keeper(fds, 12);
  close(null);
  close(w);
  close(host[1]);
  close(stream[1]);
  close(visits[0]);
  close(visits[1]);
  door_handed_over(&d);
  control = host[0];
  c.fd = stream[0];
  return door_hear(control, &started, NULL, MS) &&
         started.type == PCO_KEEPER_STARTED;
}

static bool start_agent(const char *ttl) {
  const char *const inside[] = {agent, "--fd",   "6", "--door",
                                "7",   "--root", "/", NULL};
  bool good = start(ttl, inside) && door_hello(&c) == 0;
  OK(good, "a sandbox with a door: %s", good ? "" : started.text);
  return good;
}

static void join(void) {
  IS(door_join(&d, MS), 0, "the keeper ends");
  OK(!door_has(&d, "info") && !door_has(&d, "sock"), "both files are gone");
  door_remove(&d);
}

static void detach(void) {
  door_detach(control, &c);
  control = -1;
}

static void attach(void) {
  control = door_attach(&d, &c);
  OK(control >= 0, "a host attaches (%d)", control);
  if (control < 0)
    exit(tap_done()); /* nothing that follows makes sense */
}

static uint64_t start_command(const char *script) {
  const char *const argv[] = {"/bin/sh", "-c", script, NULL};
  spawn s = {.argv = argv,
             .kind = {PCO_STDIO_RELAY, PCO_STDIO_RELAY, PCO_STDIO_RELAY}};
  uint64_t op = client_spawn(&c, &s);
  frame *f = client_take(&c, op, MS);
  OK(f && f->header.type == PCO_WIRE_STARTED, "a command starts");
  free(f);
  return op;
}

static told told_of(uint64_t op) {
  told t[8];
  int n = door_commands(&c, t, 8);
  for (int i = 0; i < n; i++)
    if (t[i].op == op)
      return t[i];
  return (told){.code = -2};
}

/* ---- tests --------------------------------------------------------------- */

/* What is the keeper's did not go to the launcher. */
static void check_launcher(void) {
  char dir[64], path[512], to[256];
  int n = 0, ours = 0;
  snprintf(dir, sizeof dir, "/proc/%d/fd", started.pid);
  DIR *list = opendir(dir);
  for (struct dirent *e; list && (e = readdir(list));) {
    snprintf(path, sizeof path, "%s/%.200s", dir, e->d_name);
    ssize_t len = readlink(path, to, sizeof to - 1);
    to[len > 0 ? len : 0] = 0;
    n += len > 0;
    ours += strncmp(to, d.path, strlen(d.path)) == 0;
  }
  if (list)
    closedir(list);
  if (n == 0)
    tap_skip("what the launcher has", "this user may not look into it");
  else
    IS(ours, 0, "the launcher has nothing of the state directory");
}

static void test_lives_on(void) {
  pco_keeper_report r;
  client other;
  if (!start_agent(NULL))
    return;
  check_launcher();
  OK(door_is_held(&d), "the keeper holds the lock");
  uint64_t op = start_command("read x; exit 9");
  IS(door_attach(&d, &other), -EBUSY, "a second host is refused");
  detach();
  OK(door_has(&d, "info") && door_has(&d, "sock"), "it is detached");
  int visit = door_connect(&d);
  door_order(visit, PCO_KEEPER_ATTACH, 0);
  OK(door_hear(visit, &r, &c.fd, MS) && r.type == PCO_KEEPER_ATTACHED,
     "a host attaches");
  OK(r.pid == started.pid && r.uid == started.uid && r.gid == started.gid,
     "and hears what the first one heard");
  IS(door_hello(&c), op, "the agent knows the last number");
  IS(told_of(op).code, -1, "the command lives");
  close(visit); /* as a crash does */
  door_drop(&c);
  attach();
  IS(told_of(op).code, -1, "a crash does nothing, after a DETACH");
  IS(client_kill(&c, op, 0, MS), 0, "it can be killed");
  IS(told_of(op).code, 137, "and is told to be");
  visit = door_connect(&d);
  door_order(visit, PCO_KEEPER_END, 0);
  OK(door_hear(visit, &r, NULL, MS) && r.type == PCO_KEEPER_ENDED,
     "who asked for the end is told of it");
  IS(r.asked, PCO_KEEPER_BY_DOOR, "by whom");
  OK(!door_has(&d, "info"), "the files are gone by then");
  OK(door_ended(visit, MS), "then the connection ends");
  OK(door_hear(control, &r, NULL, MS) && r.asked == PCO_KEEPER_BY_DOOR,
     "the host is told, too");
  close(visit);
  close(control);
  door_drop(&c);
  join();
}

static void test_crash(void) {
  if (!start_agent(NULL))
    return;
  close(control);
  OK(client_ended(&c, MS), "without a DETACH it ends with its host");
  door_drop(&c);
  join();
}

static void test_ttl(void) {
  if (!start_agent("1500"))
    return;
  detach();
  join();
}

/* The agent ends while nobody is there. */
static void test_ends_alone(void) {
  if (!start_agent(NULL))
    return;
  uint64_t op = client_begin(&c, PCO_WIRE_SHUTDOWN);
  client_send(&c, NULL, 0);
  free(client_take(&c, op, MS));
  door_order(control, PCO_KEEPER_DETACH, 0);
  close(control);
  door_drop(&c);
  join();
}

static void test_killed(void) {
  if (!start_agent(NULL))
    return;
  detach();
  kill(d.agent, SIGKILL);
  IS(door_join(&d, MS), SIGKILL, "the keeper is killed");
  for (int i = 0; i < MS / 10 && door_is_held(&d); i++)
    usleep(10000);
  OK(!door_is_held(&d), "the lock is free");
  OK(door_has(&d, "info"), "the files are left for whoever reaps");
  IS(door_connect(&d), -ECONNREFUSED, "nobody answers");
  for (int i = 0; i < MS / 10 && kill(started.pid, 0) == 0; i++)
    usleep(10000);
  IS(kill(started.pid, 0), -1, "the launcher died with it");
  door_remove(&d);
}

/* What is inside takes no streams: visitors are refused in the end, and the
 * keeper works on. */
static void test_hostile(void) {
  const char *const inside[] = {"/bin/sleep", "1000", NULL};
  pco_keeper_report r;
  OK(start(NULL, inside), "a sandbox without an agent: %s", started.text);
  door_order(control, PCO_KEEPER_DETACH, 0);
  OK(door_hear(control, &r, NULL, MS), "its host detaches");
  close(control);
  int attached = 0, refused = 0;
  for (int i = 0; i < 2000 && !refused; i++) {
    int stream = -1, visit = door_connect(&d);
    door_order(visit, PCO_KEEPER_ATTACH, 0);
    if (!door_hear(visit, &r, &stream, MS))
      break;
    attached += r.type == PCO_KEEPER_ATTACHED;
    refused += r.type == PCO_KEEPER_REFUSED;
    if (stream >= 0)
      close(stream);
    close(visit);
  }
  OK(refused == 1, "after %d hosts the next is refused", attached);
  IS(r.error, EAGAIN, "since the agent takes no more");
  int visit = door_connect(&d);
  door_order(visit, PCO_KEEPER_END, 0);
  OK(door_hear(visit, &r, NULL, MS) && r.type == PCO_KEEPER_ENDED,
     "it can be ended");
  close(visit);
  door_drop(&c);
  join();
}

static void test_words(void) {
  const char *const inside[] = {"/bin/true", NULL};
  pco_keeper_report r;
  OK(!start("0", inside) && started.type == PCO_KEEPER_FAILED &&
         started.stage == PCO_KEEPER_STAGE_WORDS,
     "a ttl of 0 is refused");
  OK(!door_hear(control, &r, NULL, MS), "the keeper is gone");
  close(control);
  door_drop(&c);
  IS(door_join(&d, MS), 256, "and says so");
  door_remove(&d);
}

/* ---- whether it can be had ----------------------------------------------- */

static bool find_launcher(void) {
  const char *path = getenv("PATH");
  while (path && *path) {
    size_t n = strcspn(path, ":");
    snprintf(launcher, sizeof launcher, "%.*s/bwrap", (int)n, path);
    if (access(launcher, X_OK) == 0)
      return true;
    path += n + (path[n] == ':');
  }
  return false;
}

static bool works(void) {
  const char *const inside[] = {"/bin/true", NULL};
  pco_keeper_report r = {.exit_code = -1};
  bool good = start(NULL, inside) && door_hear(control, &r, NULL, MS) &&
              r.exit_code == 0;
  if (!good)
    printf("# stage %u, error %d, exit %d: %s %s\n", started.stage,
           started.error, r.exit_code, started.text, r.text);
  close(control);
  door_drop(&c);
  door_join(&d, MS);
  door_remove(&d);
  return good;
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fputs("usage: agent_keeper_door_test AGENT\n", stderr);
    return 2;
  }
  agent = argv[1];
  if (!find_launcher() || !works()) {
    tap_skip("a keeper with a door", "bubblewrap does not work here");
    return tap_done();
  }
  test_lives_on();
  test_crash();
  test_ttl();
  test_ends_alone();
  test_killed();
  test_hostile();
  test_words();
  return tap_done();
}
