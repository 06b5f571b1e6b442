/* SPDX-License-Identifier: MIT */
/*
 * See agent_client.h.
 */
#include "agent_client.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- TAP ---------------------------------------------------------------- */

int tap_failed;
static int tap_count;

void tap_ok(bool good, const char *file, int line, const char *text, ...) {
  va_list ap;
  va_start(ap, text);
  printf("%sok %d - ", good ? "" : "not ", ++tap_count);
  vprintf(text, ap);
  printf(good ? "\n" : " # %s:%d\n", file, line);
  va_end(ap);
  fflush(stdout);
  tap_failed += !good;
}

void tap_skip(const char *what, const char *why) {
  printf("ok %d - %s # SKIP %s\n", ++tap_count, what, why);
  fflush(stdout);
}

int tap_done(void) {
  printf("1..%d\n", tap_count);
  if (tap_failed)
    printf("# %d failed\n", tap_failed);
  return tap_failed ? 1 : 0;
}

static _Noreturn void die(const char *what) {
  printf("Bail out! %s: %s\n", what, strerror(errno));
  exit(1);
}

static long long now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- the agent ---------------------------------------------------------- */

static _Noreturn void exec_agent(int fd, const char *agent, const char *cwd,
                                 const char *const *args) {
  const char *argv[16] = {agent, "--fd", NULL};
  char number[16];
  int n = 3;
  snprintf(number, sizeof number, "%d", fd);
  argv[2] = number;
  for (; args && *args && n < 15; args++)
    argv[n++] = *args;
  if (fcntl(fd, F_SETFD, 0) == 0 && chdir(cwd) == 0) {
    union {
      const char **in;
      char **out;
    } v = {argv};
    execv(agent, v.out);
  }
  _exit(127);
}

void client_start(client *c, const char *agent, const char *cwd,
                  const char *const *args) {
  int fds[2];
  memset(c, 0, sizeof *c);
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
    die("socketpair");
  c->fd = fds[0];
  c->agent = fork();
  if (c->agent == 0)
    exec_agent(fds[1], agent, cwd, args);
  if (c->agent < 0)
    die("fork");
  close(fds[1]);
}

int client_join(client *c, int ms) {
  long long until = now_ms() + ms;
  int status;
  pid_t rc;
  while ((rc = waitpid(c->agent, &status, WNOHANG)) == 0 && now_ms() < until)
    usleep(1000);
  if (rc == c->agent) {
    c->agent = 0;
    return status;
  }
  return -1;
}

int client_stop(client *c) {
  close(c->fd);
  int status = client_join(c, 10000);
  if (status < 0 && c->agent > 0) {
    kill(c->agent, SIGKILL);
    waitpid(c->agent, NULL, 0);
  }
  while (c->waiting) {
    frame *f = c->waiting;
    c->waiting = f->next;
    free(f);
  }
  free(c->in);
  pco_wire_buf_free(&c->buf);
  return status;
}

/* ---- sending ------------------------------------------------------------ */

uint64_t client_begin(client *c, uint16_t type) {
  pco_wire_begin(&c->buf, type, 0, ++c->op);
  return c->op;
}

void client_number(client *c, uint16_t tag, uint64_t v) {
  pco_wire_number(&c->buf, tag, v);
}

void client_string(client *c, uint16_t tag, const char *s) {
  pco_wire_string(&c->buf, tag, s);
}

void client_raw(client *c, const void *p, size_t len) {
  const char *at = p;
  while (len > 0) {
    ssize_t n = send(c->fd, at, len, MSG_NOSIGNAL);
    if (n < 0)
      return; /* the agent may have ended; the test will see */
    at += n;
    len -= (size_t)n;
  }
}

void client_send(client *c, const int *fds, int n) {
  if (pco_wire_end(&c->buf, (uint8_t)n) != 0)
    die("encode");
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(16 * sizeof(int))];
  } control;
  memset(&control, 0, sizeof control);
  struct iovec v = {c->buf.data, c->buf.len};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
  if (n > 0) {
    m.msg_control = control.bytes;
    m.msg_controllen = CMSG_SPACE((size_t)n * sizeof(int));
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    h->cmsg_level = SOL_SOCKET;
    h->cmsg_type = SCM_RIGHTS;
    h->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
    memcpy(CMSG_DATA(h), fds, (size_t)n * sizeof(int));
  }
  ssize_t sent = sendmsg(c->fd, &m, MSG_NOSIGNAL);
  if (sent > 0 && (size_t)sent < c->buf.len)
    client_raw(c, c->buf.data + sent, c->buf.len - (size_t)sent);
}

/* ---- receiving ---------------------------------------------------------- */

/* Moves whole frames from the buffer to the list. */
static void cut_frames(client *c) {
  pco_wire_header h;
  size_t at = 0;
  while (c->len - at >= PCO_WIRE_HEADER) {
    if (pco_wire_header_read(c->in + at, &h) != 0)
      die("the agent sent a broken header");
    if (c->len - at < PCO_WIRE_HEADER + h.size)
      break;
    frame *f = malloc(sizeof *f + h.size);
    if (!f)
      die("malloc");
    f->next = NULL;
    f->header = h;
    memcpy(f->payload, c->in + at + PCO_WIRE_HEADER, h.size);
    if (pco_wire_check(f->payload, h.size) != 0)
      die("the agent sent a broken payload");
    frame **end = &c->waiting;
    while (*end)
      end = &(*end)->next;
    *end = f;
    at += PCO_WIRE_HEADER + h.size;
  }
  memmove(c->in, c->in + at, c->len - at);
  c->len -= at;
}

/* 1: something came; 0: the end; -1: nothing within ms. */
static int receive(client *c, int ms) {
  struct pollfd p = {.fd = c->fd, .events = POLLIN};
  if (poll(&p, 1, ms) <= 0)
    return -1;
  if (c->cap - c->len < 65536) {
    c->cap = c->cap * 2 + 65536;
    c->in = realloc(c->in, c->cap);
    if (!c->in)
      die("realloc");
  }
  ssize_t n = recv(c->fd, c->in + c->len, c->cap - c->len, 0);
  if (n <= 0)
    return 0;
  c->len += (size_t)n;
  cut_frames(c);
  return 1;
}

frame *client_take(client *c, uint64_t op, int ms) {
  long long until = now_ms() + ms;
  for (;;) {
    for (frame **at = &c->waiting; *at; at = &(*at)->next) {
      if ((*at)->header.op == op) {
        frame *f = *at;
        *at = f->next;
        return f;
      }
    }
    long long left = until - now_ms();
    if (left <= 0 || receive(c, (int)left) == 0)
      return NULL;
  }
}

bool client_ended(client *c, int ms) {
  long long until = now_ms() + ms;
  int rc = 1;
  while (rc != 0 && now_ms() < until)
    rc = receive(c, (int)(until - now_ms()));
  return rc == 0;
}

/* ---- fields ------------------------------------------------------------- */

static bool find(const frame *f, uint16_t tag, pco_wire_field *out) {
  pco_wire_iter it;
  pco_wire_iter_init(&it, f->payload, f->header.size);
  while (pco_wire_next(&it, out) == 1)
    if (out->tag == tag)
      return true;
  return false;
}

uint64_t frame_number(const frame *f, uint16_t tag, uint64_t none) {
  pco_wire_field field;
  return f && find(f, tag, &field) ? field.number : none;
}

char *frame_text(const frame *f, uint16_t tag) {
  pco_wire_field field;
  if (!f || !find(f, tag, &field))
    return NULL;
  return strndup((const char *)field.data, field.len);
}

size_t frame_count(const frame *f, uint16_t tag) {
  pco_wire_iter it;
  pco_wire_field field;
  size_t n = 0;
  if (!f)
    return 0;
  pco_wire_iter_init(&it, f->payload, f->header.size);
  while (pco_wire_next(&it, &field) == 1)
    n += field.tag == tag;
  return n;
}

/* ---- requests ----------------------------------------------------------- */

uint64_t client_spawn(client *c, const spawn *s) {
  uint64_t op = client_begin(c, PCO_WIRE_SPAWN);
  int fds[3], n = 0;
  for (const char *const *p = s->argv; *p; p++)
    client_string(c, PCO_TAG_ARGV, *p);
  for (const char *const *p = s->env; p && *p; p++)
    client_string(c, PCO_TAG_ENV, *p);
  if (s->cwd)
    client_string(c, PCO_TAG_CWD, s->cwd);
  if (s->user)
    client_string(c, PCO_TAG_USER, s->user);
  client_number(c, PCO_TAG_FLAGS, s->flags);
  if (s->timeout)
    client_number(c, PCO_TAG_TIMEOUT, s->timeout);
  if (s->grace)
    client_number(c, PCO_TAG_GRACE, s->grace);
  for (int i = 0; i < 4; i++)
    if (s->limit[i])
      client_number(c, (uint16_t)(PCO_TAG_LIMIT_MEMORY + i), s->limit[i]);
  if (s->cols)
    client_number(c, PCO_TAG_COLS, s->cols);
  if (s->rows)
    client_number(c, PCO_TAG_ROWS, s->rows);
  for (int i = 0; i < 3; i++) {
    client_number(c, PCO_TAG_STDIO, (uint64_t)s->kind[i]);
    if (s->kind[i] == PCO_STDIO_FD)
      fds[n++] = s->fd[i];
  }
  client_send(c, fds, n);
  return op;
}

static void copy_text(const frame *f, uint16_t tag, char *to, size_t size) {
  char *text = frame_text(f, tag);
  snprintf(to, size, "%s", text ? text : "");
  free(text);
}

ending client_end(client *c, uint64_t op, int ms) {
  ending e;
  memset(&e, 0, sizeof e);
  for (;;) {
    frame *f = client_take(c, op, ms);
    if (!f)
      return e;
    uint16_t type = f->header.type;
    if (type == PCO_WIRE_STARTED) {
      e.started = true;
      e.pid = (int)frame_number(f, PCO_TAG_PID, 0);
    } else {
      e.exited = type == PCO_WIRE_EXIT;
      e.code = (int)frame_number(f, PCO_TAG_CODE, 999);
      e.signal = (int)frame_number(f, PCO_TAG_SIGNAL, 999);
      e.reason = (int)frame_number(f, PCO_TAG_REASON, 999);
      e.duration = frame_number(f, PCO_TAG_DURATION, 0);
      e.error = (int)frame_number(f, PCO_TAG_ERRNO, 0);
      e.stage = (int)frame_number(f, PCO_TAG_STAGE, 0);
      e.limit = (int)frame_number(f, PCO_TAG_LIMIT, 0);
      e.survivors = frame_count(f, PCO_TAG_SURVIVOR);
      copy_text(f, PCO_TAG_MESSAGE, e.message, sizeof e.message);
      copy_text(f, PCO_TAG_PATH, e.path, sizeof e.path);
    }
    free(f);
    if (type != PCO_WIRE_STARTED)
      return e;
  }
}

ending client_run(client *c, const char *const *argv) {
  spawn s = {.argv = argv};
  return client_end(c, client_spawn(c, &s), 20000);
}

ending client_output(client *c, const spawn *in, bool merge, char *out,
                     size_t size) {
  int p[2];
  spawn s = *in;
  if (pipe2(p, O_CLOEXEC) != 0)
    die("pipe");
  s.kind[1] = PCO_STDIO_FD;
  s.fd[1] = p[1];
  if (merge)
    s.kind[2] = PCO_STDIO_MERGE;
  uint64_t op = client_spawn(c, &s);
  close(p[1]);
  size_t len = 0;
  ssize_t n;
  while (len + 1 < size && (n = read(p[0], out + len, size - 1 - len)) > 0)
    len += (size_t)n;
  out[len] = 0;
  close(p[0]);
  return client_end(c, op, 20000);
}

/* The answer's survivors, or minus its errno. */
static int simple_answer(client *c, uint64_t op, int ms) {
  frame *f = client_take(c, op, ms);
  int rc = -9999;
  if (f && f->header.type == PCO_WIRE_REPLY)
    rc = (int)frame_count(f, PCO_TAG_SURVIVOR);
  else if (f)
    rc = -(int)frame_number(f, PCO_TAG_ERRNO, 9998);
  free(f);
  return rc;
}

int client_kill(client *c, uint64_t target, uint64_t grace, int ms) {
  uint64_t op = client_begin(c, PCO_WIRE_KILL);
  client_number(c, PCO_TAG_TARGET, target);
  client_number(c, PCO_TAG_GRACE, grace);
  client_send(c, NULL, 0);
  return simple_answer(c, op, ms);
}

int client_signal(client *c, uint64_t target, int signo) {
  uint64_t op = client_begin(c, PCO_WIRE_SIGNAL);
  client_number(c, PCO_TAG_TARGET, target);
  client_number(c, PCO_TAG_SIGNO, (uint64_t)signo);
  client_send(c, NULL, 0);
  return simple_answer(c, op, 10000);
}

int client_simple(client *c, uint16_t type, int ms) {
  uint64_t op = client_begin(c, type);
  client_send(c, NULL, 0);
  int rc = simple_answer(c, op, ms);
  return rc >= 0 ? 0 : rc == -9999 ? -1 : -rc;
}

int client_fds(pid_t agent) {
  char path[64];
  int n = 0;
  snprintf(path, sizeof path, "/proc/%d/fd", (int)agent);
  DIR *d = opendir(path);
  while (d && readdir(d))
    n++;
  if (d)
    closedir(d);
  return d ? n : -1;
}
