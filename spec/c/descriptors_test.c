/* SPDX-License-Identifier: MIT */
/*
 * No descriptors: none for the pipes of a command, or too many on their way
 * between processes of the user.  Each is one clear error, and over when there
 * are descriptors again.  (The second holds for ordinary users only, so this
 * becomes one.)
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent_link.h"
#include "forged_agent.h"

#define MS UINT64_C(1000000)

enum { FEW = 64, MANY = 250 };

static struct rlimit usual;

static void limit_to(rlim_t most) {
  setrlimit(RLIMIT_NOFILE, &(struct rlimit){most, usual.rlim_max});
}

/* The limit that leaves so many free. */
static rlim_t limit_for(int room) {
  int fd = 0;
  for (; room > 0 || fcntl(fd, F_GETFD) >= 0; fd++)
    room -= fcntl(fd, F_GETFD) < 0;
  return (rlim_t)fd;
}

static pco__op *start(box *b) {
  pco__process_op *o = spawn_op(b);
  o->opts.in = PCO__PIPE;
  submit(&o->op, -1);
  return &o->op;
}

/* A command starts and ends as ever. */
static void starts(box *b) {
  asked a;
  pco__op *op = start(b);
  uint64_t id = box_expect(b, PCO_WIRE_SPAWN, &a);
  SAME(a.h.n_fds, 3);
  asked_free(&a);
  box_say_number(b, PCO_WIRE_STARTED, PCO_WIRE_MORE, id, PCO_TAG_PID, 7);
  check_op(op, 0);
  box_exit(b, id, 0, 0, PCO_REASON_EXITED);
  end_op(op, 0);
}

/* Whatever they are missing for: six are needed. */
static void test_pipes(box *b) {
  int fds = count_fds();
  for (int room = 0; room < 6; room++) {
    pco__op *op;
    limit_to(limit_for(room));
    op = start(b);
    check_op(op, UV_EMFILE);
    char remedy[160];
    MUST(op->error && !strcmp(pco__error_class(op->error), "LimitError"));
    MUST(op->error && op->error->limit && op->error->retryable);
    MUST(op->error && strstr(pco__error_remedy(op->error, remedy, 160), "may"));
    limit_to(usual.rlim_cur);
    end_op(op, UV_EMFILE);
    SAME(count_fds(), fds);
  }
  starts(b);
  case_end("no descriptors for the pipes: a LimitError, and nothing is left");
}

/* ---- in flight ----------------------------------------------------------- */

/* So many descriptors are on their way while `pair` is open. */
static void fly(int pair[2], int n) {
  int fds[MANY];
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof fds)];
  } control = {0};
  char byte = 'x';
  struct iovec v = {&byte, 1};
  struct msghdr m = {.msg_iov = &v,
                     .msg_iovlen = 1,
                     .msg_control = control.bytes,
                     .msg_controllen = CMSG_SPACE((size_t)n * sizeof(int))};
  MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
  for (int i = 0; i < n; i++)
    fds[i] = pair[0];
  struct cmsghdr *h = CMSG_FIRSTHDR(&m);
  h->cmsg_level = SOL_SOCKET;
  h->cmsg_type = SCM_RIGHTS;
  h->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
  memcpy(CMSG_DATA(h), fds, (size_t)n * sizeof(int));
  MUST(sendmsg(pair[0], &m, MSG_DONTWAIT) == 1);
}

/* What nobody received goes with the end that was to receive it. */
static void land(const int pair[2]) {
  close(pair[1]);
  close(pair[0]);
}

static void test_never_lands(void) {
  int pair[2];
  pco__link_patience = 600 * MS; /* it is given up after a sixth */
  box *b = box_new();
  pco__link_patience = 30000 * MS;
  fly(pair, MANY);
  limit_to(FEW);
  pco__link_patience = 600 * MS;
  pco__op *first = start(b), *second = start(b);
  check_op(first, -ETOOMANYREFS);
  check_op(second, -ETOOMANYREFS);
  pco__link_patience = 30000 * MS;
  MUST(first->error && !strcmp(pco__error_class(first->error), "LimitError"));
  MUST(first->error && strstr(first->error->message, "64"));
  limit_to(usual.rlim_cur);
  end_op(first, -ETOOMANYREFS);
  end_op(second, -ETOOMANYREFS);
  box_stat(b);
  starts(b);
  land(pair);
  box_end(b);
  case_end("too many in flight for good: a LimitError, the sandbox lives");
}

static void test_lands(void) {
  int pair[2];
  asked a;
  box *b = box_new();
  fly(pair, MANY);
  limit_to(FEW);
  pco__op *op = start(b);
  for (int i = 0; i < 20; i++)
    wait_turn(i);
  MUST(!box_peek(b, &a));
  land(pair);
  limit_to(usual.rlim_cur);
  uint64_t id = box_expect(b, PCO_WIRE_SPAWN, &a);
  SAME(a.h.n_fds, 3);
  asked_free(&a);
  box_say_number(b, PCO_WIRE_STARTED, PCO_WIRE_MORE, id, PCO_TAG_PID, 7);
  check_op(op, 0);
  box_exit(b, id, 0, 0, PCO_REASON_EXITED);
  end_op(op, 0);
  box_end(b);
  case_end("too many in flight for a while: it starts when they have landed");
}

int main(void) {
  if (geteuid() == 0 && (setresgid(61235, 61235, 61235) != 0 ||
                         setresuid(61235, 61235, 61235) != 0)) {
    printf("1..0 # SKIP this root cannot be somebody else\n");
    return 0;
  }
  getrlimit(RLIMIT_NOFILE, &usual);
  world_open();
  int fds = count_fds();
  box *b = box_new();
  test_pipes(b);
  box_end(b);
  test_never_lands();
  test_lands();
  SAME(count_fds(), fds);
  case_end("no descriptor is left");
  MUST(world_close());
  case_end("nothing is left");
  return tap_done();
}
