/* SPDX-License-Identifier: MIT */
/* A forged agent for tests of the host side; see forged_agent.h. */
#include "forged_agent.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugin_loader.h"
#include "portal.h"
#include "portico/plugin_util.h"

#define ROOM        (64u * 1024)
#define MOST_UNREAD (4u * 1024 * 1024)

/* ---- the backend --------------------------------------------------------- */

struct pco_backend {
  const pco_host *host;
};
struct pco_sandbox {
  const pco_host *host;
};

static pco__runtime runtime;
pco__loop *loop;
pco__backend *backend;
atomic_int forged_live;
bool forged_holds;
static pco_op *held;
static atomic_int last_peer = -1;

static int forged_open(const pco_host *host, const pco_pair *settings, size_t n,
                       pco_backend **out, pco_error *err) {
  (void)settings, (void)n, (void)err;
  *out = calloc(1, sizeof **out);
  if (!*out)
    return UV_ENOMEM;
  (*out)->host = host;
  return 0;
}

static int forged_close(pco_backend *b, pco_op *op) {
  const pco_host *host = b->host;
  free(b);
  host->complete(host, op, NULL);
  return 0;
}

static void complete_create(const pco_host *host, pco_op *op) {
  int fds[2];
  pco_sandbox *s = calloc(1, sizeof *s);
  if (!s || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
    abort();
  s->host = host;
  forged_live++;
  last_peer = fds[1];
  pco_sandbox_result r = {.struct_size = sizeof r,
                          .flags = PCO_SANDBOX_HAS_AGENT,
                          .sandbox = s,
                          .id = "forged",
                          .agent_fd = fds[0]};
  host->complete(host, op, &r);
}

static int forged_create(pco_backend *b, const pco_create_opts *opts,
                         pco_op *op) {
  (void)opts;
  if (forged_holds)
    held = op;
  else
    complete_create(b->host, op);
  return 0;
}

void forged_create_now(box *b) {
  pco_op *op = held;
  held = NULL;
  complete_create(&backend->host, op);
  b->fd = last_peer;
}

int forged_leaves;

/* What attach() finds is told apart by its id. */
static int forged_attach(pco_backend *b, const char *id, pco_op *op) {
  if (strcmp(id, "forged") != 0)
    pco_fail(b->host, op, UV_ENOENT, PCO_SOURCE_PLUGIN, "none");
  else
    forged_create(b, NULL, op);
  return 0;
}

int forged_stays;
int forged_left;
bool forged_detach_holds;
static pco_op *held_detach;
static pco_sandbox *held_sandbox;

void forged_detach_now(void) {
  pco_op *op = held_detach;
  pco_sandbox *s = held_sandbox;
  const pco_host *host = s->host;
  held_detach = NULL;
  if (forged_stays) {
    pco_fail(host, op, forged_stays, PCO_SOURCE_PLUGIN, "it stays");
    return;
  }
  free(s);
  forged_live--;
  forged_left++;
  host->complete(host, op, NULL);
}

static int forged_detach(pco_sandbox *s, pco_op *op) {
  held_detach = op;
  held_sandbox = s;
  if (!forged_detach_holds)
    forged_detach_now();
  return 0;
}

static int forged_destroy(pco_sandbox *s, pco_op *op) {
  const pco_host *host = s->host;
  free(s);
  forged_live--;
  if (forged_leaves)
    pco_fail(host, op, forged_leaves, PCO_SOURCE_PLUGIN, "left over");
  else
    host->complete(host, op, NULL);
  return 0;
}

static int forged_probe(pco_backend *b, pco_op *op) {
  pco_probe_result r = {.struct_size = sizeof r};
  b->host->complete(b->host, op, &r);
  return 0;
}

static const void *forged_extension(pco_backend *b, const char *id) {
  (void)b, (void)id;
  return NULL;
}

static const pco_backend_api forged_api = {
    .struct_size = sizeof(pco_backend_api),
    .open = forged_open,
    .close = forged_close,
    .probe = forged_probe,
    .get_extension = forged_extension,
    .create = forged_create,
    .attach = forged_attach,
    .detach = forged_detach,
    .destroy = forged_destroy,
};
static const pco_backend_info forged_info = {
    .struct_size = sizeof(pco_backend_info),
    .id = "forged",
    .summary = "an agent that a test plays",
    .version = "0",
    .license = "MIT",
    .api = &forged_api,
};
static const pco_backend_info *const forged_backends[] = {&forged_info, NULL};

static const void *forged_uv(void) {
  return (const void *)uv_version_string();
}

static const pco_plugin_entry forged_entry = {
    .struct_size = sizeof(pco_plugin_entry),
    .abi_major = PCO_ABI_MAJOR,
    .abi_minor = PCO_ABI_MINOR,
    .backends = forged_backends,
    .uv_identity = forged_uv,
};

/* ---- the world ----------------------------------------------------------- */

static void need(bool good, const char *what) {
  if (good)
    return;
  printf("Bail out! %s: %s\n", what, strerror(errno));
  exit(1);
}

static const pco_backend_info *open_runtime(void) {
  pco__error *err = NULL;
  const pco_backend_info *info;
  const char *path;
  need(pco__loader_add(&forged_entry, &err) == 0, "pco__loader_add");
  need(pco__loader_open("forged", &info, &path, &err) == 0, "loader_open");
  need(pco__runtime_init(&runtime) == 0, "pco__runtime_init");
  return info;
}

void world_open(void) {
  const pco_backend_info *info = open_runtime();
  pco__error *err = NULL;
  need(pco__runtime_loop(&runtime, &loop) == 0, "pco__runtime_loop");
  need(pco__backend_open(loop, info, NULL, 0, &backend, &err) == 0,
       "pco__backend_open");
}

void world_open_portal(void) {
  pco__portal *portal;
  const pco_backend_info *info = open_runtime();
  need(pco__portal_open(&runtime, true, &portal) == 0, "pco__portal_open");
  loop = &portal->loop;
  pco__op *op = pco__op_new(&pco__open_class, sizeof(pco__open_op), loop);
  pco__open_op *o = PCO_CONTAINER(op, pco__open_op, op);
  o->opening.info = info;
  submit(op, -1);
  check_op(op, 0);
  backend = o->backend;
  pco__backend_ref(backend);
  pco__op_unref(op);
}

bool world_close(void) {
  bool portal = loop->is_portal;
  pco__backend_unref(backend);
  if (!portal)
    pco__backend_close_all(loop);
  bool clean =
      portal || (pco__list_empty(&loop->backends) && loop->n_timers == 0);
  pco__runtime_deinit(&runtime);
  return clean && forged_live == 0;
}

int count_fds(void) {
  DIR *dir = opendir("/proc/self/fd");
  need(dir != NULL, "/proc/self/fd");
  int n = -3; /* ".", ".." and the directory itself */
  while (readdir(dir))
    n++;
  closedir(dir);
  return n;
}

size_t heap_bytes(void) {
  return mallinfo2().uordblks + mallinfo2().hblkhd;
}

/* ---- checks -------------------------------------------------------------- */

bool case_bad;

void case_note(const char *file, int line, const char *what, long long got) {
  case_bad = true;
  printf("# %s:%d: %s (got %lld)\n", file, line, what, got);
}

void case_end(const char *name) {
  tap_ok(!case_bad, __FILE__, __LINE__, "%s", name);
  case_bad = false;
}

/* ---- boxes --------------------------------------------------------------- */

void turn(void) {
  if (loop->is_portal)
    poll(NULL, 0, 1);
  else
    uv_run(&loop->uv, UV_RUN_NOWAIT);
}

static box *begin(const pco__op_class *cls, int64_t timeout_ms) {
  box *b = calloc(1, sizeof *b);
  need(b != NULL, "box");
  b->fd = -1;
  b->create = pco__op_new(cls, sizeof(pco__create_op), loop);
  pco__create_op *o = PCO_CONTAINER(b->create, pco__create_op, op);
  pco__backend_ref(backend);
  o->backend = backend;
  o->opts = pco_create_opts_init();
  o->attach_id = cls == &pco__attach_class ? "forged" : NULL;
  last_peer = -1;
  submit(b->create, timeout_ms);
  for (int i = 0; i < 2000 && last_peer < 0 && !forged_holds; i++)
    turn();
  turn();
  b->fd = last_peer;
  return b;
}

box *box_begin(int64_t timeout_ms) {
  return begin(&pco__create_class, timeout_ms);
}

box *box_begin_attach(int64_t timeout_ms) {
  return begin(&pco__attach_class, timeout_ms);
}

void box_hello_again(box *b, uint64_t last_op) {
  uint64_t op = box_expect(b, PCO_WIRE_HELLO, NULL);
  box_begin_frame(b, PCO_WIRE_REPLY, 0, op);
  pco_wire_number(&b->buf, PCO_TAG_VERSION, PCO_WIRE_VERSION);
  pco_wire_number(&b->buf, PCO_TAG_PID, 1);
  pco_wire_number(&b->buf, PCO_TAG_LAST_OP, last_op);
  box_send(b);
}

void box_hello(box *b) {
  uint64_t op = box_expect(b, PCO_WIRE_HELLO, NULL);
  box_begin_frame(b, PCO_WIRE_REPLY, 0, op);
  pco_wire_number(&b->buf, PCO_TAG_VERSION, PCO_WIRE_VERSION);
  pco_wire_number(&b->buf, PCO_TAG_PID, 1);
  box_send(b);
}

box *box_new(void) {
  box *b = box_begin(-1);
  box_hello(b);
  box_take(b);
  return b;
}

void box_take(box *b) {
  check_op(b->create, 0);
  b->sb = PCO_CONTAINER(b->create, pco__create_op, op)->sandbox;
  need(b->sb != NULL, "no sandbox");
  /* Taken, as a caller would: an op that keeps its result undoes it. */
  PCO_CONTAINER(b->create, pco__create_op, op)->sandbox = NULL;
  pco__op_unref(b->create);
  b->create = NULL;
}

void box_hang_up(box *b) {
  if (b->fd >= 0)
    close(b->fd);
  b->fd = -1;
}

void box_end(box *b) {
  if (b->create) { /* a creation that failed */
    end_op(b->create, b->create->error ? b->create->error->code : 0);
  }
  if (b->sb) {
    pco__op *op =
        pco__op_new(&pco__sandbox_close_class, sizeof(pco__backend_op), loop);
    PCO_CONTAINER(op, pco__backend_op, op)->sandbox = b->sb;
    submit(op, -1);
    end_op(op, 0);
  }
  box_hang_up(b);
  for (int i = 0; i < 4; i++)
    turn();
  pco_wire_buf_free(&b->buf);
  free(b->in);
  free(b);
}

/* Room for a frame, as a rule: descriptors come with its first byte.  It grows,
 * since thousands of boxes with much room each take a sanitizer minutes. */
static void make_room(box *b) {
  if (b->cap - b->len >= ROOM)
    return;
  b->cap = b->cap ? b->cap * 2 : 2 * ROOM;
  b->in = realloc(b->in, b->cap);
  need(b->in != NULL && b->cap <= MOST_UNREAD, "room");
}

/* Receives what there is; descriptors that come go to fds. */
static void receive(box *b, int fds[3]) {
  make_room(b);
  struct iovec iov = {b->in + b->len, b->cap - b->len};
  union {
    char space[CMSG_SPACE(3 * sizeof(int))];
    struct cmsghdr align;
  } control;
  struct msghdr msg = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control.space,
                       .msg_controllen = sizeof control.space};
  ssize_t n = recvmsg(b->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n <= 0)
    return;
  b->len += (size_t)n;
  struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
  if (c && c->cmsg_type == SCM_RIGHTS)
    memcpy(fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
}

static bool take(box *b, asked *out) {
  if (b->len < PCO_WIRE_HEADER || pco_wire_header_read(b->in, &out->h) < 0)
    return false;
  size_t size = PCO_WIRE_HEADER + out->h.size;
  if (b->len < size)
    return false;
  out->payload = malloc(out->h.size + 1);
  need(out->payload != NULL, "payload");
  memcpy(out->payload, b->in + PCO_WIRE_HEADER, out->h.size);
  b->len -= size;
  memmove(b->in, b->in + size, b->len);
  return true;
}

bool box_peek(box *b, asked *out) {
  memset(out, 0, sizeof *out);
  out->fds[0] = out->fds[1] = out->fds[2] = -1;
  if (take(b, out))
    return true;
  if (b->fd >= 0)
    receive(b, out->fds);
  return take(b, out);
}

bool box_next(box *b, asked *out) {
  uint64_t until = uv_hrtime() + 2 * UINT64_C(1000000000);
  while (!box_peek(b, out)) {
    if (b->fd < 0 || uv_hrtime() > until)
      return false;
    turn();
  }
  return true;
}

void asked_free(asked *a) {
  for (int i = 0; i < 3; i++)
    if (a->fds[i] >= 0)
      close(a->fds[i]);
  free(a->payload);
}

uint64_t asked_number(const asked *a, uint16_t tag) {
  pco_wire_iter it;
  pco_wire_field f;
  pco_wire_iter_init(&it, a->payload, a->h.size);
  while (pco_wire_next(&it, &f) == 1)
    if (f.tag == tag)
      return f.number;
  return UINT64_MAX;
}

/* The next frame but for PINGs, which a host sends that was slow itself, and
 * which are answered. */
static bool next_but_ping(box *b, uint16_t type, asked *out) {
  while (box_next(b, out)) {
    if (type == PCO_WIRE_PING || out->h.type != PCO_WIRE_PING)
      return true;
    box_say(b, PCO_WIRE_REPLY, 0, out->h.op);
    asked_free(out);
  }
  return false;
}

uint64_t box_expect(box *b, uint16_t type, asked *out) {
  asked mine;
  asked *a = out ? out : &mine;
  if (!next_but_ping(b, type, a)) {
    case_note(__FILE__, __LINE__, "no frame came, wanted type", type);
    return 0;
  }
  uint64_t op = a->h.op;
  SAME(a->h.type, type);
  if (!out)
    asked_free(a);
  return op;
}

void box_drain(box *b) {
  int fds[3] = {-1, -1, -1};
  for (int i = 0; i < 3; i++) {
    turn();
    receive(b, fds);
    b->len = 0;
    for (int j = 0; j < 3; j++) {
      if (fds[j] >= 0)
        close(fds[j]);
      fds[j] = -1;
    }
  }
}

/* ---- frames -------------------------------------------------------------- */

void box_begin_frame(box *b, uint16_t type, uint8_t flags, uint64_t op) {
  pco_wire_begin(&b->buf, type, flags, op);
}

void box_raw(box *b, const void *data, size_t len) {
  const char *at = data;
  uint64_t until = uv_hrtime() + 10 * UINT64_C(1000000000);
  while (len > 0 && b->fd >= 0 && uv_hrtime() < until) {
    ssize_t n = send(b->fd, at, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      at += n;
      len -= (size_t)n;
    } else if (errno == EAGAIN) {
      turn();
    } else {
      return; /* the host has hung up */
    }
  }
}

void box_send_fds(box *b, uint8_t n_fds, const int *fds, int n) {
  union {
    char space[CMSG_SPACE(3 * sizeof(int))];
    struct cmsghdr align;
  } control = {0};
  if (pco_wire_end(&b->buf, n_fds) < 0)
    abort();
  struct iovec iov = {b->buf.data, b->buf.len};
  struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
  size_t size = sizeof(int) * (size_t)n;
  if (n) {
    msg.msg_control = control.space;
    msg.msg_controllen = CMSG_SPACE(size);
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(c), fds, size);
  }
  ssize_t sent = sendmsg(b->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
  SAME(sent, b->buf.len);
}

void box_send(box *b) {
  if (pco_wire_end(&b->buf, 0) < 0)
    abort();
  box_raw(b, b->buf.data, b->buf.len);
}

void box_say(box *b, uint16_t type, uint8_t flags, uint64_t op) {
  box_begin_frame(b, type, flags, op);
  box_send(b);
}

void box_say_number(box *b, uint16_t type, uint8_t flags, uint64_t op,
                    uint16_t tag, uint64_t value) {
  box_begin_frame(b, type, flags, op);
  pco_wire_number(&b->buf, tag, value);
  box_send(b);
}

void box_entry(box *b, const char *name, size_t len) {
  pco_wire_nest_begin(&b->buf, PCO_TAG_ENTRY);
  if (name)
    pco_wire_bytes(&b->buf, PCO_TAG_NAME, name, len);
  pco_wire_number(&b->buf, PCO_TAG_TYPE, PCO_FILE);
  pco_wire_number(&b->buf, PCO_TAG_SIZE, 5);
  pco_wire_number(&b->buf, PCO_TAG_MODE, 0644);
  pco_wire_nest_end(&b->buf);
}

void box_exit(box *b, uint64_t op, uint64_t code, uint64_t signal,
              uint64_t reason) {
  box_begin_frame(b, PCO_WIRE_EXIT, 0, op);
  pco_wire_number(&b->buf, PCO_TAG_CODE, code);
  pco_wire_number(&b->buf, PCO_TAG_SIGNAL, signal);
  pco_wire_number(&b->buf, PCO_TAG_REASON, reason);
  pco_wire_number(&b->buf, PCO_TAG_DURATION, 1);
  box_send(b);
}

void box_output(box *b, uint64_t op, uint64_t stream, uint64_t offset,
                size_t len, uint64_t eof) {
  static char zeros[PCO_RELAY_CREDIT];
  box_begin_frame(b, PCO_WIRE_OUTPUT, 0, op);
  pco_wire_number(&b->buf, PCO_TAG_STREAM, stream);
  pco_wire_number(&b->buf, PCO_TAG_OFFSET, offset);
  if (len)
    pco_wire_bytes(&b->buf, PCO_TAG_DATA, zeros, len);
  if (eof)
    pco_wire_number(&b->buf, PCO_TAG_EOF, eof);
  box_send(b);
}

/* ---- ops ----------------------------------------------------------------- */

void submit(pco__op *op, int64_t timeout_ms) {
  op->timeout = timeout_ms < 0 ? -1 : timeout_ms * 1000000;
  pco__op_submit(op);
}

void wait_turn(int i) {
  turn();
  if (i > 100)
    poll(NULL, 0, 1);
}

static bool has_ended(pco__op *op) {
  return atomic_load(&op->word) == PCO__OP_DONE;
}

bool wait_op(pco__op *op, int ms) {
  uint64_t until = uv_hrtime() + (uint64_t)ms * 1000000;
  for (int i = 0; !has_ended(op) && uv_hrtime() < until; i++)
    wait_turn(i);
  return has_ended(op);
}

void check_op(pco__op *op, int code) {
  if (!wait_op(op, 3000)) {
    printf("Bail out! %s never ended\n", op->cls->name);
    exit(1);
  }
  for (int i = 0; i < 3; i++)
    turn();
  int got = op->error ? op->error->code : 0;
  if (got != code)
    case_note(op->cls->name, code, "ended with another code", got);
  if (got == PCO_EPROTO)
    MUST(strcmp(pco__error_class(op->error), "ProtocolError") == 0);
  if (got == PCO_EGONE || got == PCO_ECONN)
    MUST(strcmp(pco__error_class(op->error), "ConnectionError") == 0);
}

void end_op(pco__op *op, int code) {
  check_op(op, code);
  /* A second completion would have taken a reference that was not its own. */
  SAME(atomic_load(&op->refs), 1);
  pco__op_unref(op);
}

pco__fs_op *fs_op(box *b, int kind) {
  static const pco__op_class *const classes[] = {
      [PCO__FS_STAT] = &pco__fs_stat_class,
      [PCO__FS_LIST] = &pco__fs_list_class,
      [PCO__FS_READ] = &pco__fs_read_class,
      [PCO__FS_WRITE] = &pco__fs_write_class,
      [PCO__FS_MKDIR] = &pco__fs_mkdir_class,
      [PCO__FS_REMOVE] = &pco__fs_remove_class,
      [PCO__FS_RENAME] = &pco__fs_rename_class,
      [PCO__FS_CHMOD] = &pco__fs_chmod_class,
      [PCO__FS_CHOWN] = &pco__fs_chown_class,
      [PCO__FS_SYMLINK] = &pco__fs_symlink_class,
      [PCO__FS_MKTEMP] = &pco__fs_mktemp_class,
      [PCO__FS_USAGE] = &pco__fs_usage_class,
      [PCO__FS_COPY] = &pco__fs_copy_class,
  };
  pco__op *op = pco__op_new(classes[kind], sizeof(pco__fs_op), loop);
  pco__fs_op *o = PCO_CONTAINER(op, pco__fs_op, op);
  pco__sandbox_ref(b->sb);
  o->sandbox = b->sb;
  o->kind = kind;
  o->path = "file";
  if (kind == PCO__FS_RENAME || kind == PCO__FS_SYMLINK || kind == PCO__FS_COPY)
    o->target = "other";
  if (kind == PCO__FS_CHOWN)
    o->owner = "user:group";
  if (kind == PCO__FS_MKTEMP)
    o->name = "tmp-*";
  o->mode = -1;
  o->length = UINT64_MAX;
  o->max_size = PCO__FS_DEFAULT_MAX_SIZE;
  return o;
}

void box_stat(box *b) {
  pco__fs_op *o = fs_op(b, PCO__FS_STAT);
  submit(&o->op, -1);
  uint64_t id = box_expect(b, PCO_WIRE_STAT, NULL);
  box_begin_frame(b, PCO_WIRE_REPLY, 0, id);
  box_entry(b, "file", 4);
  box_send(b);
  check_op(&o->op, 0);
  SAME(o->n_entries, 1);
  end_op(&o->op, 0);
}

static char command[] = "command";
static char *argv[] = {command, NULL};

static void init_opts(pco__spawn_opts *o) {
  o->argv = argv;
  o->in = PCO__NULL;
  o->grace = 1000000;
  o->drain = 20000000;
  o->max_output = 1 << 20;
}

pco__exec *exec_op(box *b) {
  pco__op *op = pco__op_new(&pco__exec_class, sizeof(pco__exec), loop);
  pco__exec *e = PCO_CONTAINER(op, pco__exec, op);
  pco__sandbox_ref(b->sb);
  e->sandbox = b->sb;
  init_opts(&e->opts);
  return e;
}

pco__process_op *spawn_op(box *b) {
  pco__op *op = pco__op_new(&pco__spawn_class, sizeof(pco__process_op), loop);
  pco__process_op *o = PCO_CONTAINER(op, pco__process_op, op);
  pco__sandbox_ref(b->sb);
  o->sandbox = b->sb;
  init_opts(&o->opts);
  return o;
}

pco__process_op *process_op(pco__process *p, const pco__op_class *cls) {
  pco__op *op = pco__op_new(cls, sizeof(pco__process_op), loop);
  pco__process_op *o = PCO_CONTAINER(op, pco__process_op, op);
  pco__process_ref(p);
  o->process = p;
  o->signo = 15;
  o->grace = 1000000;
  return o;
}
