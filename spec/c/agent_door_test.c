/* SPDX-License-Identifier: MIT */
/*
 * A real agent with a door, or none: one host at a time, visitors that are no
 * hosts, and a keeper that has the door.
 * usage: agent_door_test AGENT
 */
#include "door_host.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *agent;

/* ---- who comes by the door ----------------------------------------------- */

static void test_one_host(void) {
  host_begin();
  int control = host_attach();
  client other;
  IS(door_attach(&d, &other), -EBUSY, "a second host is refused");
  IS(client_simple(&c, PCO_WIRE_PING, MS), 0,
     "the first is there all the same");
  host_detach(control);
  /* It says DETACH and goes without waiting: the place is free. */
  for (int i = 0; i < 50; i++) {
    control = door_attach(&d, &c);
    if (control < 0)
      break;
    door_order(control, PCO_KEEPER_DETACH, 0);
    close(control);
    door_drop(&c);
  }
  OK(control >= 0, "who comes after one that left is not refused (%d)",
     control);
  control = host_attach();
  host_finish(control);
}

static void test_crash(void) {
  host_begin();
  int control = host_attach();
  host_start_relayed("sleep 1000");
  close(control);
  IS(door_join(&d, MS), 0, "before the first DETACH it ends with its host");
  OK(!door_has(&d, "info") && !door_has(&d, "sock"), "both files are gone");
  OK(client_ended(&c, MS), "the stream ends");
  door_drop(&c);
  door_remove(&d);
  host_begin();
  control = host_attach();
  uint64_t op = host_start_relayed("sleep 1000");
  host_detach(control);
  control = host_attach();
  close(control); /* as a crash does */
  door_drop(&c);
  control = host_attach();
  IS(host_told_of(op, false).code, -1, "after it a crash does nothing");
  /* Its stream alone is not its end either. */
  door_drop(&c);
  pco_keeper_report r;
  door_order(control, PCO_KEEPER_DETACH, 0);
  OK(door_hear(control, &r, NULL, MS) && r.type == PCO_KEEPER_DETACHED,
     "a host without a stream detaches");
  close(control);
  control = host_attach();
  host_finish(control);
}

static void test_end_by_visitor(void) {
  host_begin();
  int control = host_attach();
  host_start_relayed("trap '' TERM; sleep 1000");
  int visit = door_connect(&d);
  door_order(visit, PCO_KEEPER_END, 100);
  pco_keeper_report r;
  OK(door_hear(visit, &r, NULL, MS) && r.type == PCO_KEEPER_ENDED,
     "who asked for the end is told of it");
  IS(r.asked, PCO_KEEPER_BY_DOOR, "by whom");
  OK(!door_has(&d, "info") && !door_has(&d, "sock"), "both files are gone");
  OK(door_ended(visit, MS), "then the connection ends");
  OK(door_hear(control, &r, NULL, MS) && r.asked == PCO_KEEPER_BY_DOOR,
     "the host is told, too");
  IS(door_join(&d, MS), 0, "the agent ends");
  close(visit);
  close(control);
  door_drop(&c);
  door_remove(&d);
}

static void test_ttl(void) {
  const char *const args[] = {"--ttl", "700", NULL};
  door_start(&d, agent, args);
  int control = host_attach();
  host_start_relayed("sleep 1000");
  host_detach(control);
  IS(door_join(&d, MS), 0, "the ttl ends it with nobody there");
  OK(!door_has(&d, "info") && !door_has(&d, "sock"), "both files are gone");
  door_remove(&d);
  door_start(&d, agent, args);
  control = host_attach();
  pco_keeper_report r;
  OK(door_hear(control, &r, NULL, MS) && r.type == PCO_KEEPER_ENDED,
     "and with a host");
  IS(r.asked, PCO_KEEPER_BY_TTL, "which is told why");
  IS(door_join(&d, MS), 0, "the agent ends");
  close(control);
  door_drop(&c);
  door_remove(&d);
}

/* Of another user, who got as far as to the socket. */
static void test_foreign(void) {
  if (geteuid() != 0) {
    tap_skip("a visitor of another user", "only root can be one");
    return;
  }
  host_begin();
  int control = host_attach();
  fchmod(d.dir, 0755);
  fchmodat(d.dir, DOOR_NAME ".sock", 0777, 0);
  pid_t pid = fork();
  if (pid == 0) {
    if (setgid(65534) != 0 || setuid(65534) != 0)
      _exit(2);
    int visit = door_connect(&d);
    if (visit < 0)
      _exit(3);
    door_order(visit, PCO_KEEPER_END, 0);
    _exit(door_ended(visit, MS) ? 0 : 4);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  IS(status, 0, "another user is sent away");
  IS(client_simple(&c, PCO_WIRE_PING, MS), 0, "and has ended nothing");
  host_finish(control);
}

/* Those who say nothing: the next ones wait, and they are sent away. */
static void test_silent(void) {
  int silent[8], late;
  host_begin();
  int control = host_attach();
  for (int i = 0; i < N(silent); i++)
    silent[i] = door_connect(&d);
  late = door_connect(&d);
  door_order(late, PCO_KEEPER_ATTACH, 0);
  pco_keeper_report r;
  struct pollfd p = {.fd = late, .events = POLLIN};
  client_simple(&c, PCO_WIRE_PING, MS);
  IS(poll(&p, 1, 100), 0, "the ninth is not let in");
  close(silent[0]);
  OK(door_hear(late, &r, NULL, MS) && r.type == PCO_KEEPER_REFUSED &&
         r.error == EBUSY,
     "it is when one has left");
  int ended = 0;
  for (int i = 1; i < N(silent); i++) {
    ended += door_ended(silent[i], MS);
    close(silent[i]);
  }
  IS(ended, N(silent) - 1, "who says nothing is sent away");
  close(late);
  host_finish(control);
}

/* A message with a descriptor, which nobody takes. */
static void send_descriptor(int visit) {
  char control[CMSG_SPACE(sizeof(int))] = {0};
  pco_keeper_order o = {.type = 99};
  struct iovec v = {&o, sizeof o};
  struct msghdr m = {.msg_iov = &v,
                     .msg_iovlen = 1,
                     .msg_control = control,
                     .msg_controllen = sizeof control};
  struct cmsghdr *h = CMSG_FIRSTHDR(&m);
  h->cmsg_level = SOL_SOCKET;
  h->cmsg_type = SCM_RIGHTS;
  h->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(h), &visit, sizeof visit);
  sendmsg(visit, &m, MSG_NOSIGNAL);
}

static void test_hostile(void) {
  static char large[70000];
  host_begin();
  int control = host_attach();
  for (int i = 0; i < 6; i++) {
    int visit = door_connect(&d);
    switch (i) {
    case 0:
      send(visit, "x", 1, MSG_NOSIGNAL);
      break;
    case 1:
      send(visit, large, sizeof large, MSG_NOSIGNAL);
      break;
    case 2:
      door_order(visit, 99, 0);
      break;
    case 3:
      door_order(visit, PCO_KEEPER_DETACH, 0); /* it is not the host */
      break;
    case 4:
      send_descriptor(visit);
      break;
    default:
      send(visit, "", 0, MSG_NOSIGNAL);
    }
    OK(door_ended(visit, MS), "what is no order ends the visit (%d)", i);
    close(visit);
  }
  for (int i = 0; i < 500; i++)
    close(door_connect(&d));
  IS(client_simple(&c, PCO_WIRE_PING, MS), 0, "the agent works on");
  int visit = door_connect(&d);
  door_order(visit, PCO_KEEPER_ATTACH, 0);
  pco_keeper_report r;
  OK(door_hear(visit, &r, NULL, MS) && r.error == EBUSY,
     "and the door is served");
  close(visit);
  host_finish(control);
}

/* Its files are somebody else's by now. */
static void test_replaced_files(void) {
  host_begin();
  int control = host_attach();
  unlinkat(d.dir, DOOR_NAME ".info", 0);
  int fd =
      openat(d.dir, DOOR_NAME ".info", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  close(fd);
  close(control);
  IS(door_join(&d, MS), 0, "the agent ends");
  OK(door_has(&d, "info"), "and leaves what is not its own");
  door_drop(&c);
  door_remove(&d);
}

/* ---- an agent whose keeper has the door ---------------------------------- */

static void give(int visits, int stream) {
  char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
  struct iovec v = {&byte, 1};
  struct msghdr m = {.msg_iov = &v,
                     .msg_iovlen = 1,
                     .msg_control = control,
                     .msg_controllen = sizeof control};
  struct cmsghdr *h = CMSG_FIRSTHDR(&m);
  h->cmsg_level = SOL_SOCKET;
  h->cmsg_type = SCM_RIGHTS;
  h->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(h), &stream, sizeof stream);
  OK(sendmsg(visits, &m, MSG_NOSIGNAL) == 1, "a stream is passed on");
  close(stream);
}

static void next_host(int visits) {
  int pair[2];
  door_drop(&c);
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    exit(1);
  give(visits, pair[0]);
  c.fd = pair[1];
  OK(door_hello(&c) != UINT64_MAX, "the next host is greeted");
}

static void test_keeper(void) {
  int visits[2], pair[2];
  char number[16];
  client first;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, visits) != 0)
    exit(1);
  fcntl(visits[0], F_SETFD, FD_CLOEXEC);
  snprintf(number, sizeof number, "%d", visits[1]);
  const char *const args[] = {"--door", number, NULL};
  client_start(&c, agent, "/", args);
  close(visits[1]);
  pid_t pid = c.agent;
  IS(door_hello(&c), 0, "the first host comes as ever");
  uint64_t op = host_start_relayed("read x; exit 9");
  next_host(visits[0]);
  IS(host_told_of(op, false).code, -1, "its command lives");
  /* Another one comes while this one is there. */
  first = c;
  memset(&c, 0, sizeof c);
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    exit(1);
  give(visits[0], pair[0]);
  c.fd = pair[1];
  OK(door_hello(&c) != UINT64_MAX, "a host comes while another is there");
  OK(client_ended(&first, MS), "the other one is let go");
  door_drop(&first);
  IS(host_told_of(op, false).code, -1, "the command lives");
  close(visits[0]);
  OK(client_ended(&c, MS), "without its keeper it ends");
  c.agent = pid;
  IS(client_join(&c, MS), 0, "by itself");
  door_drop(&c);
}

static void test_no_door(void) {
  client_start(&c, agent, "/", NULL);
  IS(door_hello(&c), UINT64_MAX, "without a door there is no LAST_OP");
  c.op = 100;
  IS(client_simple(&c, PCO_WIRE_COMMANDS, MS), EOPNOTSUPP, "nor COMMANDS");
  IS(client_stop(&c), 0, "and it ends with its stream");
}

static void test_arguments(void) {
  const char *const wrong[][8] = {
      {"--listen", "5", NULL},
      {"--listen", "5", "--state", "6", "--info", "7", NULL},
      {"--fd", "5", "--ttl", "1000", NULL},
      {"--fd", "5", "--name", "x", NULL},
      {"--door", "5", NULL},
      {"--fd", "5", "--door", "2", NULL},
  };
  for (int i = 0; i < N(wrong); i++) {
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
      const char *argv[10] = {agent};
      for (int j = 0; wrong[i][j]; j++)
        argv[j + 1] = wrong[i][j];
      union {
        const char **in;
        char **out;
      } v = {argv};
      close(2);
      execv(agent, v.out);
      _exit(127);
    }
    waitpid(pid, &status, 0);
    IS(WEXITSTATUS(status), 2, "wrong arguments are refused");
  }
}

/* Nobody comes: it waits while the other tests run. */
static door lonely;

static void check_lonely(void) {
  IS(door_join(&lonely, 60000), 0, "an agent to whom nobody comes ends");
  OK(!door_has(&lonely, "info"), "and its files are gone");
  door_remove(&lonely);
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fputs("usage: agent_door_test AGENT\n", stderr);
    return 2;
  }
  agent = argv[1];
  door_host_init(agent);
  door_start(&lonely, agent, NULL);
  test_one_host();
  test_crash();
  test_end_by_visitor();
  test_ttl();
  test_foreign();
  test_silent();
  test_hostile();
  test_replaced_files();
  test_keeper();
  test_no_door();
  test_arguments();
  check_lonely();
  return tap_done();
}
