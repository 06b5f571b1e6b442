/* SPDX-License-Identifier: MIT */
/*
 * A real agent: frames that are broken end the connection, those that come in
 * pieces do not, and a host that does not read does not make it grow.
 * usage: agent_frames_test AGENT
 */
#include "agent_place.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- broken frames ------------------------------------------------------ */

static void expect_broken(client *c, const char *text) {
  OK(client_ended(c, 3000), "%s ends the connection", text);
  int status = client_join(c, 3000);
  OK(WIFEXITED(status) && WEXITSTATUS(status) == 3, "%s: exit status 3", text);
  close(c->fd);
  c->fd = -1;
  client_stop(c);
}

static void broken_header(const char *text, const uint8_t bytes[16]) {
  client c;
  client_start(&c, agent, dir, NULL);
  client_raw(&c, bytes, 16);
  expect_broken(&c, text);
}

typedef void build_fn(client *c);

static void broken(const char *text, build_fn *build, int n_fds) {
  client c;
  int fds[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  client_start(&c, agent, dir, NULL);
  start_sh(&c, "sleep 1000", 0, 0);
  processes_come(1, 2000);
  build(&c);
  client_send(&c, fds, n_fds);
  expect_broken(&c, text);
  IS(processes_left(500), 0, "and everything");
}

static void b_signo(client *c) {
  client_begin(c, PCO_WIRE_SIGNAL);
  client_number(c, PCO_TAG_TARGET, 1);
  client_number(c, PCO_TAG_SIGNO, 4000);
}
static void b_mode(client *c) {
  client_begin(c, PCO_WIRE_MKDIR);
  client_string(c, PCO_TAG_PATH, "x");
  client_number(c, PCO_TAG_FLAGS, 0);
  client_number(c, PCO_TAG_MODE, 010000);
}
static void b_missing(client *c) {
  client_begin(c, PCO_WIRE_STAT);
  client_number(c, PCO_TAG_FLAGS, 0);
}
static void b_twice(client *c) {
  client_begin(c, PCO_WIRE_STAT);
  client_string(c, PCO_TAG_PATH, "x");
  client_string(c, PCO_TAG_PATH, "y");
  client_number(c, PCO_TAG_FLAGS, 0);
}
static void b_answer(client *c) {
  client_begin(c, PCO_WIRE_REPLY);
}
static void b_old_op(client *c) {
  c->op = 0;
  client_begin(c, PCO_WIRE_PING);
}
static void b_spawn(client *c, int stdio, int n, uint64_t timeout) {
  client_begin(c, PCO_WIRE_SPAWN);
  client_string(c, PCO_TAG_ARGV, "true");
  client_number(c, PCO_TAG_FLAGS, 0);
  client_number(c, PCO_TAG_TIMEOUT, timeout);
  for (int i = 0; i < n; i++)
    client_number(c, PCO_TAG_STDIO, (uint64_t)stdio);
}
static void b_two_stdio(client *c) {
  b_spawn(c, PCO_STDIO_NULL, 2, 1);
}
static void b_four_stdio(client *c) {
  b_spawn(c, PCO_STDIO_NULL, 4, 1);
}
static void b_bad_stdio(client *c) {
  b_spawn(c, PCO_STDIO_CLOSED + 1, 3, 1);
}
static void b_merge_stdin(client *c) {
  b_spawn(c, PCO_STDIO_MERGE, 3, 1);
}
static void b_no_fds(client *c) {
  b_spawn(c, PCO_STDIO_FD, 3, 1);
}
static void b_null(client *c) {
  b_spawn(c, PCO_STDIO_NULL, 3, 1);
}
static void b_timeout(client *c) {
  b_spawn(c, PCO_STDIO_NULL, 3, 0);
}
static void b_timeout_huge(client *c) {
  b_spawn(c, PCO_STDIO_NULL, 3, UINT64_MAX);
}
static void b_limit(client *c, uint16_t tag, uint64_t value) {
  b_spawn(c, PCO_STDIO_NULL, 3, 1);
  client_number(c, tag, value);
}
static void b_no_memory(client *c) {
  b_limit(c, PCO_TAG_LIMIT_MEMORY, 0);
}
static void b_no_pids(client *c) {
  b_limit(c, PCO_TAG_LIMIT_PIDS, 0);
}
static void b_pids_huge(client *c) {
  b_limit(c, PCO_TAG_LIMIT_PIDS, UINT64_C(1) << 63);
}
static void b_cpus_huge(client *c) {
  b_limit(c, PCO_TAG_LIMIT_CPUS, UINT64_C(1) << 32);
}
static void b_files_huge(client *c) {
  b_limit(c, PCO_TAG_LIMIT_OPEN_FILES, UINT64_MAX);
}
static void b_two_limits(client *c) {
  b_limit(c, PCO_TAG_LIMIT_OPEN_FILES, 9);
  client_number(c, PCO_TAG_LIMIT_OPEN_FILES, 9);
}
static void b_ping(client *c) {
  client_begin(c, PCO_WIRE_PING);
}
static void b_data_ahead(client *c) {
  client_begin(c, PCO_WIRE_DATA);
  pco_wire_bytes(&c->buf, PCO_TAG_DATA, "x", 1);
}
static void b_more(client *c) {
  pco_wire_begin(&c->buf, PCO_WIRE_PING, PCO_WIRE_MORE, ++c->op);
}
static void b_reason(client *c) {
  client_begin(c, PCO_WIRE_KILL);
  client_number(c, PCO_TAG_TARGET, 1);
  client_number(c, PCO_TAG_REASON, 7);
}

static void test_broken_frames(void) {
  broken_header("a payload of 4 GiB",
                (uint8_t[16]){255, 255, 255, 255, 2, 0, 0, 0, 1});
  broken_header("200 descriptors", (uint8_t[16]){0, 0, 0, 0, 2, 0, 200, 0, 1});
  broken_header("unknown flags", (uint8_t[16]){0, 0, 0, 0, 2, 0, 0, 2, 1});
  broken_header("op 0", (uint8_t[16]){0, 0, 0, 0, 2});
  broken_header("an unknown type", (uint8_t[16]){0, 0, 0, 0, 9, 9, 0, 0, 1});
  broken_header("descriptors that did not come",
                (uint8_t[16]){0, 0, 0, 0, 16, 0, 1, 0, 1});
  broken("signal 4000", b_signo, 0);
  broken("mode 010000", b_mode, 0);
  broken("no path", b_missing, 0);
  broken("two paths", b_twice, 0);
  broken("an answer", b_answer, 0);
  broken("a number used before", b_old_op, 0);
  broken("two stdio", b_two_stdio, 0);
  broken("four stdio", b_four_stdio, 0);
  broken("stdio of kind 5", b_bad_stdio, 0);
  broken("stdin merged", b_merge_stdin, 0);
  broken("three descriptors promised, none sent", b_no_fds, 0);
  broken("a descriptor too many", b_null, 1);
  broken("descriptors with a PING", b_ping, 2);
  broken("five descriptors", b_null, 5);
  broken("timeout 0", b_timeout, 0);
  broken("timeout 2^64-1", b_timeout_huge, 0);
  broken("no memory", b_no_memory, 0);
  broken("no processes", b_no_pids, 0);
  broken("2^63 processes", b_pids_huge, 0);
  broken("2^32 milliprocessors", b_cpus_huge, 0);
  broken("2^64-1 open files", b_files_huge, 0);
  broken("a limit twice", b_two_limits, 0);
  broken("DATA of a number to come", b_data_ahead, 0);
  broken("MORE on a request", b_more, 0);
  broken("reason 7", b_reason, 0);
}

/* Descriptors that travel with bytes that promise none. */
static void test_stray_descriptor(void) {
  client c;
  int fds[1] = {0};
  client_start(&c, agent, dir, NULL);
  client_begin(&c, PCO_WIRE_PING);
  client_send(&c, fds, 1); /* the header says one */
  expect_broken(&c, "a PING with a descriptor");
  client_start(&c, agent, dir, NULL);
  client_begin(&c, PCO_WIRE_PING);
  pco_wire_end(&c.buf, 0);
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control;
  struct iovec v = {c.buf.data, c.buf.len};
  struct msghdr m = {.msg_iov = &v,
                     .msg_iovlen = 1,
                     .msg_control = control.bytes,
                     .msg_controllen = sizeof control.bytes};
  struct cmsghdr *h = CMSG_FIRSTHDR(&m);
  h->cmsg_level = SOL_SOCKET;
  h->cmsg_type = SCM_RIGHTS;
  h->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(h), fds, sizeof(int));
  sendmsg(c.fd, &m, MSG_NOSIGNAL);
  expect_broken(&c, "a descriptor that no header promised");
}

static void test_half_a_frame(void) {
  client c;
  client_start(&c, agent, dir, NULL);
  client_raw(&c, (uint8_t[]){0, 0, 64, 0, 16, 0, 0, 0, 1}, 9);
  client_raw(&c, (uint8_t[]){0, 0, 0, 0, 0, 0, 0, 1, 2, 3}, 10);
  usleep(100000);
  long kib = resident_kib(c.agent);
  OK(kib < 2048, "4 MiB declared, nothing allocated (%ld KiB)", kib);
  int status = client_stop(&c);
  OK(WIFEXITED(status) && WEXITSTATUS(status) == 0,
     "the end amid a frame is an end");
}

static void test_byte_by_byte(client *c) {
  const char *const argv[] = {"/bin/sh", "-c", "exit 7", NULL};
  uint64_t op = client_begin(c, PCO_WIRE_SPAWN);
  for (const char *const *p = argv; *p; p++)
    client_string(c, PCO_TAG_ARGV, *p);
  client_number(c, PCO_TAG_FLAGS, 0);
  for (int i = 0; i < 3; i++)
    client_number(c, PCO_TAG_STDIO, PCO_STDIO_NULL);
  pco_wire_end(&c->buf, 0);
  for (size_t i = 0; i < c->buf.len; i++) {
    client_raw(c, c->buf.data + i, 1);
    usleep(200);
  }
  IS(client_end(c, op, 5000).code, 7, "a frame that comes byte by byte");
}

/* A host that sends and does not read must not make the agent grow. */
static void test_slow_reader(void) {
  client c;
  client_start(&c, agent, dir, NULL);
  int flags = fcntl(c.fd, F_GETFL);
  fcntl(c.fd, F_SETFL, flags | O_NONBLOCK);
  uint8_t frames[16 * 256];
  uint64_t op = 0;
  ssize_t n = 1;
  for (int i = 0; i < 20000 && n > 0; i++) {
    pco_wire_buf b = {0};
    for (int j = 0; j < 256; j++) {
      pco_wire_begin(&b, PCO_WIRE_INFO, 0, ++op);
      pco_wire_end(&b, 0);
      memcpy(frames + 16 * j, b.data, 16);
    }
    pco_wire_buf_free(&b);
    n = send(c.fd, frames, sizeof frames, MSG_NOSIGNAL);
    if (n < 0)
      usleep(300000);
    if (n < 0)
      n = send(c.fd, frames, sizeof frames, MSG_NOSIGNAL);
    if (n > 0 && n < (ssize_t)sizeof frames)
      break;
  }
  long kib = resident_kib(c.agent);
  OK(op < 20000 * 256, "the agent stops reading");
  OK(kib < 6144, "and does not grow (%ld KiB)", kib);
  client_stop(&c);
}

int main(int argc, char **argv) {
  client c;
  if (!place_init(argc > 1 ? argv[1] : NULL))
    return 2;
  signal(SIGPIPE, SIG_IGN);
  client_start(&c, agent, dir, NULL);
  test_byte_by_byte(&c);
  int status = client_stop(&c);
  OK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the agent exits 0");
  test_broken_frames();
  test_stray_descriptor();
  test_half_a_frame();
  test_slow_reader();
  return place_done();
}
