/* SPDX-License-Identifier: MIT */
/*
 * See door_client.h.
 */
#include "door_client.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 20000 /* for what comes at once */

static _Noreturn void die(const char *what) {
  printf("Bail out! %s: %s\n", what, strerror(errno));
  exit(1);
}

/* ---- the directory ------------------------------------------------------ */

static struct sockaddr_un address(const door *d) {
  struct sockaddr_un a = {.sun_family = AF_UNIX};
  snprintf(a.sun_path, sizeof a.sun_path, "/proc/self/fd/%d/" DOOR_NAME ".sock",
           d->dir);
  return a;
}

void door_make(door *d) {
  memset(d, 0, sizeof *d);
  const char *tmp = getenv("TMPDIR");
  snprintf(d->path, sizeof d->path, "%.40s/door-XXXXXX", tmp ? tmp : "/tmp");
  if (!mkdtemp(d->path))
    die("mkdtemp");
  d->dir = open(d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  d->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  struct sockaddr_un a = address(d);
  if (bind(d->listener, (struct sockaddr *)&a, sizeof a) != 0 ||
      listen(d->listener, 64) != 0)
    die("bind");
  d->info = openat(d->dir, DOOR_NAME ".info",
                   O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
  if (d->info < 0 || fcntl(d->info, F_OFD_SETLK, &lock) != 0)
    die("info");
}

void door_handed_over(door *d) {
  close(d->listener);
  close(d->info);
  d->listener = d->info = -1;
}

static void keep_open(int fd) {
  fcntl(fd, F_SETFD, 0);
}

static _Noreturn void exec_agent(const door *d, const char *agent,
                                 const char *const *args) {
  const char *argv[24] = {agent,    "--listen", NULL,     "--state", NULL,
                          "--info", NULL,       "--name", DOOR_NAME};
  char numbers[3][16];
  const int fds[] = {d->listener, d->dir, d->info};
  int n = 9;
  for (int i = 0; i < 3; i++) {
    keep_open(fds[i]);
    snprintf(numbers[i], sizeof numbers[i], "%d", fds[i]);
    argv[2 + 2 * i] = numbers[i];
  }
  for (; args && *args && n < 23; args++)
    argv[n++] = *args;
  union {
    const char **in;
    char **out;
  } v = {argv};
  if (chdir(d->path) == 0)
    execv(agent, v.out);
  _exit(127);
}

void door_start(door *d, const char *agent, const char *const *args) {
  door_make(d);
  d->agent = fork();
  if (d->agent == 0)
    exec_agent(d, agent, args);
  if (d->agent < 0)
    die("fork");
  door_handed_over(d);
}

int door_join(door *d, int ms) {
  client c = {.agent = d->agent};
  int status = client_join(&c, ms);
  d->agent = c.agent;
  return status;
}

static void file_name(const char *suffix, char *name, size_t size) {
  snprintf(name, size, DOOR_NAME ".%s", suffix);
}

bool door_has(const door *d, const char *suffix) {
  char name[64];
  file_name(suffix, name, sizeof name);
  return faccessat(d->dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

bool door_is_held(const door *d) {
  int fd = openat(d->dir, DOOR_NAME ".info", O_RDWR | O_CLOEXEC);
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
  bool held =
      fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  if (fd >= 0)
    close(fd);
  return held;
}

void door_remove(door *d) {
  if (d->agent > 0) {
    kill(d->agent, SIGKILL);
    waitpid(d->agent, NULL, 0);
  }
  DIR *list = opendir(d->path);
  for (struct dirent *e; list && (e = readdir(list));)
    if (e->d_name[0] != '.')
      unlinkat(d->dir, e->d_name, 0);
  if (list)
    closedir(list);
  if (d->listener >= 0)
    door_handed_over(d);
  close(d->dir);
  if (rmdir(d->path) != 0)
    OK(false, "%s is empty: %s", d->path, strerror(errno));
}

/* ---- visits ------------------------------------------------------------- */

int door_connect(const door *d) {
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  struct sockaddr_un a = address(d);
  if (fd < 0)
    die("socket");
  if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
    return fd;
  int rc = -errno;
  close(fd);
  return rc;
}

void door_order(int visit, uint32_t type, uint32_t grace_ms) {
  pco_keeper_order o = {.type = type, .grace_ms = grace_ms};
  send(visit, &o, sizeof o, MSG_NOSIGNAL);
}

bool door_hear(int visit, pco_keeper_report *r, int *with, int ms) {
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control;
  struct iovec v = {r, sizeof *r};
  struct msghdr m = {.msg_iov = &v,
                     .msg_iovlen = 1,
                     .msg_control = control.bytes,
                     .msg_controllen = sizeof control.bytes};
  struct pollfd p = {.fd = visit, .events = POLLIN};
  int fd = -1;
  if (poll(&p, 1, ms) != 1 ||
      recvmsg(visit, &m, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof *r)
    return false;
  struct cmsghdr *h = CMSG_FIRSTHDR(&m);
  if (h)
    memcpy(&fd, CMSG_DATA(h), sizeof fd);
  if (with)
    *with = fd;
  else if (fd >= 0)
    die("a descriptor came that was not expected");
  return true;
}

bool door_ended(int visit, int ms) {
  struct pollfd p = {.fd = visit, .events = POLLIN};
  char byte;
  return poll(&p, 1, ms) == 1 && recv(visit, &byte, 1, MSG_DONTWAIT) <= 0;
}

uint64_t door_hello(client *c) {
  c->op = 41; /* any number */
  uint64_t op = client_begin(c, PCO_WIRE_HELLO);
  client_number(c, PCO_TAG_VERSION_MIN, 1);
  client_number(c, PCO_TAG_VERSION_MAX, 1);
  client_send(c, NULL, 0);
  frame *f = client_take(c, op, MS);
  uint64_t last = frame_number(f, PCO_TAG_LAST_OP, UINT64_MAX);
  free(f);
  c->op = last;
  return last;
}

int door_attach(const door *d, client *c) {
  pco_keeper_report r;
  int visit = door_connect(d);
  memset(c, 0, sizeof *c);
  if (visit < 0)
    return visit;
  door_order(visit, PCO_KEEPER_ATTACH, 0);
  if (!door_hear(visit, &r, &c->fd, MS))
    r = (pco_keeper_report){.type = PCO_KEEPER_REFUSED, .error = EPIPE};
  if (r.type == PCO_KEEPER_ATTACHED && c->fd >= 0 &&
      door_hello(c) != UINT64_MAX)
    return visit;
  close(visit);
  return r.type == PCO_KEEPER_REFUSED ? -r.error : -EPROTO;
}

void door_drop(client *c) {
  close(c->fd);
  while (c->waiting) {
    frame *f = c->waiting;
    c->waiting = f->next;
    free(f);
  }
  free(c->in);
  pco_wire_buf_free(&c->buf);
  memset(c, 0, sizeof *c);
}

void door_detach(int control, client *c) {
  pco_keeper_report r;
  door_drop(c);
  door_order(control, PCO_KEEPER_DETACH, 0);
  OK(door_hear(control, &r, NULL, MS) && r.type == PCO_KEEPER_DETACHED,
     "the host detaches");
  close(control);
}

/* ---- commands ----------------------------------------------------------- */

static void take_text(const pco_wire_field *f, char to[64]) {
  snprintf(to, 64, "%.*s", (int)f->len, (const char *)f->data);
}

static void take_field(const pco_wire_field *f, told *t, int *n_offset) {
  switch (f->tag) {
  case PCO_TAG_TARGET:
    t->op = f->number;
    break;
  case PCO_TAG_PID:
    t->pid = f->number;
    break;
  case PCO_TAG_FLAGS:
    t->flags = f->number;
    break;
  case PCO_TAG_OFFSET:
    *((*n_offset)++ == 0 ? &t->out : &t->err) = f->number;
    break;
  case PCO_TAG_LENGTH:
    t->room = f->number;
    break;
  case PCO_TAG_CODE:
    t->code = (long long)f->number;
    break;
  case PCO_TAG_REASON:
    t->reason = (long long)f->number;
    break;
  case PCO_TAG_ARGV:
    take_text(f, t->n_argv++ == 0 ? t->first : t->last);
    break;
  default:
    break;
  }
}

static void take_command(const frame *f, told *t) {
  pco_wire_iter it, in;
  pco_wire_field field;
  int n_offset = 0;
  *t = (told){.code = -1, .reason = -1};
  pco_wire_iter_init(&it, f->payload, f->header.size);
  if (pco_wire_next(&it, &field) != 1 || field.tag != PCO_TAG_COMMAND)
    die("a COMMAND was expected");
  pco_wire_enter(&in, &field);
  while (pco_wire_next(&in, &field) == 1)
    take_field(&field, t, &n_offset);
}

int door_commands(client *c, told *out, int most) {
  uint64_t op = client_begin(c, PCO_WIRE_COMMANDS);
  client_send(c, NULL, 0);
  for (int n = 0;; n++) {
    frame *f = client_take(c, op, MS);
    bool good = f && f->header.type == PCO_WIRE_REPLY;
    bool more = good && (f->header.flags & PCO_WIRE_MORE);
    if (more && n < most)
      take_command(f, &out[n]);
    free(f);
    if (!more)
      return good ? n : -1;
  }
}
