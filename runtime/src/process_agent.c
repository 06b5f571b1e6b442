/* SPDX-License-Identifier: MIT */
/*
 * The driver of processes in a sandbox with an agent.
 *
 * The host makes the pipes and sends the child's ends with the SPAWN frame, so
 * that bytes never pass through the agent; but for a terminal's, whose master
 * stays with the agent (stream_relay.h): whoever else holds one could make the
 * host's read of it block.  A command is named by the number of its SPAWN; that
 * request stays pending until EXIT.
 */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fields.h"
#include "stream_relay.h"
#include "sys/quiet_write.h"

#define MAX_PID (1u << 30)
#define MAX_NS  (UINT64_C(1) << 62)

typedef struct pco__agent_process {
  pco__link_request spawn;
  pco__process *process; /* a reference while spawn is pending */
  uint64_t target;
  uint64_t ends_within; /* ns; 0: it has no time limit */
  int in_fd;            /* our end of stdin; -1: none */
  pco__watch in_watch;  /* while the pipe is full */
  pco__relay *relay;    /* the link's; NULL: nothing is relayed */
} pco__agent_process;

/* A SIGNAL or KILL on its way. */
typedef struct command_request {
  pco__link_request request;
  pco__process *process; /* a reference */
  pco__op *op;           /* SIGNAL: to complete */
} command_request;

/* ---- frames that come ---------------------------------------------------- */

static int on_started(pco__process *p, const pco_wire_header *h,
                      const uint8_t *payload) {
  uint64_t pid;
  if (p->started ||
      pco__field_number(h, payload, PCO_TAG_PID, MAX_PID, &pid) != 1 ||
      pid == 0)
    return -EPROTO;
  pco__agent_process *a = p->agent;
  pco__link_answered(&a->spawn);
  if (a->ends_within)
    pco__link_expect(&a->spawn, a->ends_within);
  pco__process_started(p, (int64_t)pid);
  return 0;
}

/* Reads the SURVIVOR fields; their number, or -EPROTO. */
static int read_survivors(const pco_wire_header *h, const uint8_t *payload,
                          int64_t out[PCO__MAX_SURVIVORS]) {
  pco_wire_iter it;
  pco_wire_field f;
  int n = 0;
  pco_wire_iter_init(&it, payload, h->size);
  while (pco_wire_next(&it, &f) == 1) {
    if (f.tag != PCO_TAG_SURVIVOR)
      continue;
    if (n == PCO__MAX_SURVIVORS || f.number == 0 || f.number > MAX_PID)
      return -EPROTO;
    out[n++] = (int64_t)f.number;
  }
  return n;
}

static int on_exit_frame(pco__process *p, const pco_wire_header *h,
                         const uint8_t *payload) {
  uint64_t code;
  uint64_t signal = 0;
  uint64_t reason;
  uint64_t duration = 0;
  uint64_t limit = PCO_LIMIT_NONE;
  pco__exit x = {0};
  if (!p->started ||
      pco__field_number(h, payload, PCO_TAG_CODE, 255, &code) != 1 ||
      pco__field_number(h, payload, PCO_TAG_REASON, PCO_REASON_OOM, &reason) !=
          1 ||
      pco__field_number(h, payload, PCO_TAG_LIMIT, PCO_LIMIT_PIDS, &limit) <
          0 ||
      pco__field_number(h, payload, PCO_TAG_SIGNAL, 64, &signal) < 0 ||
      pco__field_number(h, payload, PCO_TAG_DURATION, MAX_NS, &duration) < 0 ||
      (signal && code != 128 + signal) ||
      (reason == PCO_REASON_OOM && signal != SIGKILL))
    return -EPROTO;
  x.n_survivors = read_survivors(h, payload, x.survivors);
  if (x.n_survivors < 0)
    return -EPROTO;
  x.code = (int)code;
  x.signal = (int)signal;
  x.reason = (int)reason;
  x.limit = (int)limit;
  x.duration = duration;
  pco__process_exited(p, &x);
  return 0;
}

static int on_error_frame(pco__process *p, const pco_wire_header *h,
                          const uint8_t *payload) {
  pco__error *err = pco__field_error(h, payload);
  if (!err || p->started) {
    pco__error_free(err);
    return -EPROTO;
  }
  if (p->agent->relay)
    pco__relay_drop(p->agent->relay);
  pco__process_failed(p, err);
  return 0;
}

static int on_frame(pco__link_request *r, const pco_wire_header *h,
                    const uint8_t *payload) {
  pco__agent_process *a = PCO_CONTAINER(r, pco__agent_process, spawn);
  pco__process *p = a->process;
  int rc;
  if (h->type == PCO_WIRE_STARTED)
    return on_started(p, h, payload);
  if (h->type == PCO_WIRE_EXIT)
    rc = on_exit_frame(p, h, payload);
  else
    rc = on_error_frame(p, h, payload);
  /* A broken final frame ends the link, and with it the process; the request
   * is no longer the link's either way. */
  pco__process_unref(p);
  return rc;
}

/* The sandbox told the process before; only our reference is left. */
static void on_lost(pco__link_request *r, const pco__error *err) {
  (void)err;
  pco__process_unref(PCO_CONTAINER(r, pco__agent_process, spawn)->process);
}

/* ---- start --------------------------------------------------------------- */

/* The ends of the pipes of one start: the child's to send, ours to keep. */
typedef struct ends {
  int child[3];
  int ours[3];
} ends;

static void close_ends(ends *e) {
  for (int i = 0; i < 3; i++) {
    if (e->child[i] >= 0)
      close(e->child[i]);
    if (e->ours[i] >= 0)
      close(e->ours[i]);
  }
}

/* Makes the pipe of descriptor `i` (0: the child reads, else it writes).  A
 * command of another id must be allowed to open its /dev/stdout again; nobody
 * comes to a pipe but by a descriptor of it. */
static int make_pipe(ends *e, int i, bool foreign) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) < 0)
    return -errno;
  e->child[i] = fds[i == 0 ? 0 : 1];
  e->ours[i] = fds[i == 0 ? 1 : 0];
  if (fcntl(e->ours[i], F_SETFL, O_NONBLOCK) < 0 ||
      (foreign && fchmod(e->ours[i], 0666) < 0))
    return -errno;
  return 0;
}

static int make_pipes(ends *e, const pco__spawn_opts *opts, bool foreign) {
  for (int i = 0; i < 3; i++)
    e->child[i] = e->ours[i] = -1;
  if (opts->terminal)
    return 0;
  int rc = opts->has_stdin ? make_pipe(e, 0, foreign) : 0;
  if (rc == 0 && opts->out == PCO__PIPE)
    rc = make_pipe(e, 1, foreign);
  if (rc == 0 && opts->err == PCO__PIPE)
    rc = make_pipe(e, 2, foreign);
  if (rc < 0)
    close_ends(e);
  return rc;
}

static void encode_limits(pco_wire_buf *b, const pco_limits *l) {
  if (l->memory_bytes)
    pco_wire_number(b, PCO_TAG_LIMIT_MEMORY, l->memory_bytes);
  if (l->pids)
    pco_wire_number(b, PCO_TAG_LIMIT_PIDS, l->pids);
  if (l->cpus > 0) /* 1/1000 at least, and less than 2^32 of them */
    pco_wire_number(b, PCO_TAG_LIMIT_CPUS, (uint64_t)(l->cpus * 1000 + 0.5));
  if (l->open_files)
    pco_wire_number(b, PCO_TAG_LIMIT_OPEN_FILES, l->open_files);
}

static void encode(pco_wire_buf *b, uint64_t id, const pco__spawn_opts *opts,
                   const ends *e) {
  pco_wire_begin(b, PCO_WIRE_SPAWN, 0, id);
  for (char **s = opts->argv; *s; s++)
    pco_wire_string(b, PCO_TAG_ARGV, *s);
  for (char **s = opts->env; s && *s; s++)
    pco_wire_string(b, PCO_TAG_ENV, *s);
  if (opts->cwd)
    pco_wire_string(b, PCO_TAG_CWD, opts->cwd);
  pco_wire_number(
      b, PCO_TAG_FLAGS,
      (opts->clean_env ? PCO_SPAWN_FLAG_CLEAN_ENV : 0) |
          (opts->terminal && !opts->echo ? PCO_SPAWN_FLAG_NO_ECHO : 0));
  if (opts->timeout)
    pco_wire_number(b, PCO_TAG_TIMEOUT, opts->timeout);
  pco_wire_number(b, PCO_TAG_GRACE, opts->grace);
  if (opts->limits)
    encode_limits(b, opts->limits);
  if (opts->terminal) {
    pco_wire_number(b, PCO_TAG_COLS, opts->cols);
    pco_wire_number(b, PCO_TAG_ROWS, opts->rows);
  }
  for (int i = 0; i < 3; i++) {
    bool merge = i == 2 && opts->err == PCO__MERGE;
    pco_wire_number(b, PCO_TAG_STDIO,
                    opts->terminal     ? PCO_STDIO_TERMINAL
                    : e->child[i] >= 0 ? PCO_STDIO_FD
                    : merge            ? PCO_STDIO_MERGE
                                       : PCO_STDIO_NULL);
  }
}

static void on_writable(pco__watch *watch, int status);

/* Hands our ends to their owners, or makes a relay; false without memory. */
static bool open_ours(pco__process *p, const pco__spawn_opts *opts, ends *e) {
  pco__agent_process *a = p->agent;
  pco__watch_init(&a->in_watch, p->loop, e->ours[0], UV_WRITABLE, on_writable);
  if (opts->terminal) {
    a->relay = pco__relay_open(p->sandbox->link, a->target, p,
                               PCO__RELAY_IN | PCO__RELAY_OUT, true);
    return a->relay != NULL;
  }
  for (int i = 1; i < 3; i++)
    if (e->ours[i] >= 0)
      pco__stream_open_fd(&p->streams[i - 1], e->ours[i]);
  a->in_fd = e->ours[0];
  p->stdin_open = e->ours[0] >= 0;
  for (int i = 0; i < 3; i++)
    e->ours[i] = -1;
  return true;
}

static size_t bytes_of(char *const *strings) {
  size_t n = 0;
  for (; strings && *strings; strings++)
    n += strlen(*strings) + 1;
  return n;
}

static void fail_size(pco__process *p, const pco__spawn_opts *opts) {
  pco__process_failed(
      p, pco__error_new(UV_E2BIG, PCO_SOURCE_HOST, NULL,
                        "arguments (%zu bytes) and environment (%zu bytes) are "
                        "too long for one request to the agent",
                        bytes_of(opts->argv), bytes_of(opts->env)));
}

static void fail(pco__process *p, int rc, const char *what) {
  pco__error *err = pco__error_new(rc, PCO_SOURCE_HOST, NULL, "%s: %s", what,
                                   pco__code_text(rc));
  if (rc == UV_EAGAIN)
    err->retryable = true;
  pco__process_failed(p, err);
}

/* E2BIG is told here, before a frame that would break the bound is made. */
static int end_frame(pco_wire_buf *b) {
  return b->error == -EMSGSIZE ? UV_E2BIG : b->error;
}

static void agent_spawn(pco__process *p, const pco__spawn_opts *opts) {
  pco__link *link = p->sandbox->link;
  pco__agent_process *a = calloc(1, sizeof *a);
  ends e;
  pco_wire_buf frame = {0};
  if (!a) {
    fail(p, UV_ENOMEM, "starting the command");
    return;
  }
  p->agent = a;
  a->in_fd = -1;
  a->process = p;
  pco__list_init(&a->spawn.node);
  int rc = make_pipes(&e, opts, p->sandbox->foreign);
  if (rc < 0) {
    fail(p, rc, "making the command's pipes");
    return;
  }
  a->target = pco__link_next(link);
  encode(&frame, a->target, opts, &e);
  rc = end_frame(&frame);
  if (rc == 0 && !open_ours(p, opts, &e))
    rc = UV_ENOMEM;
  if (rc < 0) {
    close_ends(&e);
    pco_wire_buf_free(&frame);
    if (rc == UV_E2BIG)
      fail_size(p, opts);
    else
      fail(p, rc, "starting the command");
    return;
  }
  int fds[3];
  uint8_t n = 0;
  for (int i = 0; i < 3; i++)
    if (e.child[i] >= 0)
      fds[n++] = e.child[i];
  a->spawn.id = a->target;
  a->spawn.type = PCO_WIRE_SPAWN;
  a->spawn.frame = on_frame;
  a->spawn.lost = on_lost;
  /* A time limit ends the call whatever the agent does. */
  if (opts->timeout && opts->timeout < MAX_NS && opts->grace < MAX_NS)
    a->ends_within = opts->timeout + opts->grace;
  pco__process_ref(p); /* the request's */
  pco__link_request_send(link, &a->spawn, &frame, fds, n, true);
}

/* ---- signal and kill ----------------------------------------------------- */

static pco__error *nonsense(void) {
  return pco__error_new(PCO_EPROTO, PCO_SOURCE_AGENT, NULL,
                        "the agent's answer makes no sense");
}

/* KILL was answered: whoever waits for it waits for the EXIT as well, so that
 * one must come now.  (A broken answer ends the link, and with it the wait.) */
static int on_killed(pco__process *p, const pco_wire_header *h,
                     const uint8_t *payload) {
  int64_t survivors[PCO__MAX_SURVIVORS];
  int n = 0;
  if (h->type == PCO_WIRE_REPLY)
    n = read_survivors(h, payload, survivors);
  if (n < 0)
    return n;
  if (p->agent)
    pco__link_expect(&p->agent->spawn, 0);
  pco__process_killed(p, survivors, n);
  return 0;
}

static int on_command_reply(pco__link_request *r, const pco_wire_header *h,
                            const uint8_t *payload) {
  command_request *c = PCO_CONTAINER(r, command_request, request);
  pco__process *p = c->process;
  pco__error *err = NULL;
  int rc = 0;
  if (h->type == PCO_WIRE_ERROR) {
    err = pco__field_error(h, payload);
    rc = err ? 0 : -EPROTO;
  }
  if (c->op) {
    pco__op_complete(c->op, rc < 0 ? nonsense() : err);
    pco__op_unref(c->op);
  } else {
    if (rc == 0)
      rc = on_killed(p, h, payload);
    pco__error_free(err);
  }
  pco__process_unref(p);
  free(c);
  return rc;
}

static void on_command_lost(pco__link_request *r, const pco__error *err) {
  command_request *c = PCO_CONTAINER(r, command_request, request);
  if (c->op) {
    pco__op_complete(c->op, pco__error_copy(err));
    pco__op_unref(c->op);
  }
  pco__process_unref(c->process);
  free(c);
}

static command_request *new_command(pco__process *p, uint16_t type,
                                    pco__op *op) {
  command_request *c = calloc(1, sizeof *c);
  if (!c)
    return NULL;
  pco__process_ref(p);
  c->process = p;
  c->op = op;
  if (op) /* it may be cancelled before the answer */
    atomic_fetch_add(&op->refs, 1);
  c->request.id = pco__link_next(p->sandbox->link);
  c->request.type = type;
  c->request.frame = on_command_reply;
  c->request.lost = on_command_lost;
  return c;
}

static void agent_signal(pco__process *p, int signo, pco__op *op) {
  command_request *c = new_command(p, PCO_WIRE_SIGNAL, op);
  if (!c) {
    pco__op_complete(op, pco__error_no_memory());
    return;
  }
  pco_wire_buf frame = {0};
  pco_wire_begin(&frame, PCO_WIRE_SIGNAL, 0, c->request.id);
  pco_wire_number(&frame, PCO_TAG_TARGET, p->agent->target);
  pco_wire_number(&frame, PCO_TAG_SIGNO, (uint64_t)signo);
  pco__link_request_send(p->sandbox->link, &c->request, &frame, NULL, 0, true);
}

static void agent_resize(pco__process *p, uint16_t cols, uint16_t rows,
                         pco__op *op) {
  command_request *c = new_command(p, PCO_WIRE_RESIZE, op);
  if (!c) {
    pco__op_complete(op, pco__error_no_memory());
    return;
  }
  pco_wire_buf frame = {0};
  pco_wire_begin(&frame, PCO_WIRE_RESIZE, 0, c->request.id);
  pco_wire_number(&frame, PCO_TAG_TARGET, p->agent->target);
  pco_wire_number(&frame, PCO_TAG_COLS, cols);
  pco_wire_number(&frame, PCO_TAG_ROWS, rows);
  pco__link_request_send(p->sandbox->link, &c->request, &frame, NULL, 0, true);
}

static void agent_kill(pco__process *p, uint64_t grace, int reason) {
  command_request *c =
      p->sandbox->link ? new_command(p, PCO_WIRE_KILL, NULL) : NULL;
  if (!c) {
    pco__process_killed(p, NULL, 0);
    return;
  }
  pco_wire_buf frame = {0};
  pco_wire_begin(&frame, PCO_WIRE_KILL, 0, c->request.id);
  pco_wire_number(&frame, PCO_TAG_TARGET, p->agent->target);
  pco_wire_number(&frame, PCO_TAG_GRACE, grace);
  pco_wire_number(&frame, PCO_TAG_REASON, (uint64_t)reason);
  pco__link_request_send(p->sandbox->link, &c->request, &frame, NULL, 0, false);
  pco__link_expect(&c->request, grace);
}

/* ---- stdin --------------------------------------------------------------- */

/* Writes what the pipe takes: 1 when all is gone, 0 to be continued, or an
 * error. */
static int write_some(pco__process *p) {
  pco__input *in = &p->input;
  while (in->done < in->len) {
    ssize_t n = pco__quiet_write(p->agent->in_fd, in->data + in->done,
                                 in->len - in->done);
    if (n >= 0)
      in->done += (size_t)n;
    else if (errno == EAGAIN)
      return 0;
    else if (errno != EINTR)
      return -errno;
  }
  return 1;
}

static void input_done(pco__process *p, int rc, const char *what) {
  pco__process_input_done(p, rc > 0 ? NULL
                                    : pco__error_new(rc, PCO_SOURCE_HOST, NULL,
                                                     "%s: %s", what,
                                                     pco__code_text(rc)));
}

static void go_on(pco__process *p) {
  pco__agent_process *a = p->agent;
  const char *what = "the process reads no more";
  if (a->relay) {
    pco__relay_write(a->relay);
    return;
  }
  int rc = a->in_fd < 0 ? UV_EPIPE : write_some(p);
  if (rc == 0) {
    rc = pco__watch_start(&a->in_watch);
    if (rc == 0)
      return;
    what = "waiting for the process to read";
  }
  pco__watch_stop(&a->in_watch);
  input_done(p, rc, what);
}

/* Whatever the status is, the next write says it better. */
static void on_writable(pco__watch *watch, int status) {
  pco__agent_process *a = PCO_CONTAINER(watch, pco__agent_process, in_watch);
  pco__process *p = a->process;
  (void)status;
  pco__process_ref(p);
  if (p->input.busy)
    go_on(p);
  else
    pco__watch_stop(watch);
  pco__process_unref(p);
}

/* Gives our end of stdin to the caller; -1: there is none. */
static int take_in_fd(pco__agent_process *a) {
  int fd = a->in_fd;
  if (fd >= 0)
    pco__watch_close(&a->in_watch);
  a->in_fd = -1;
  return fd;
}

static int agent_take_stdin(pco__process *p) {
  p->stdin_open = false;
  return take_in_fd(p->agent);
}

/* A terminal's input stays open. */
static void agent_close_stdin(pco__process *p) {
  if (p->agent->relay) {
    pco__relay_close_input(p->agent->relay);
    return;
  }
  int fd = agent_take_stdin(p);
  if (fd >= 0)
    close(fd);
}

/* Takes what a relay of this command's would have; the bits of it. */
static unsigned take_ends(pco__process *p, int fds[3], uint8_t *n) {
  unsigned bits = 0;
  *n = 0;
  int in = take_in_fd(p->agent);
  if (in >= 0) {
    fds[(*n)++] = in;
    bits |= PCO__RELAY_IN;
  }
  for (int i = 0; i < 2; i++) {
    int fd = pco__stream_take_fd(&p->streams[i]);
    if (fd < 0)
      continue;
    fds[(*n)++] = fd;
    bits |= PCO__RELAY_OUT << i;
  }
  return bits;
}

/* The agent reads from now on, also while this loop does not turn. */
static void agent_hand_over(pco__process *p) {
  pco__agent_process *a = p->agent;
  int fds[3];
  uint8_t n = 0;
  unsigned bits = a->relay ? 0 : take_ends(p, fds, &n);
  if (bits)
    a->relay = pco__relay_open(p->sandbox->link, a->target, p, bits, false);
  if (a->relay) {
    pco__relay_adopt(a->relay, bits, fds, n);
    return;
  }
  while (n > 0)
    close(fds[--n]); /* no memory: they end */
  for (int i = 0; i < 2; i++)
    pco__stream_close(&p->streams[i], true);
}

static void agent_hang_up(pco__process *p) {
  if (p->agent && p->agent->relay)
    pco__relay_hang_up(p->agent->relay);
}

void pco__process_forget_relay(pco__process *p) {
  if (p->agent)
    p->agent->relay = NULL;
}

static void agent_release(pco__process *p) {
  pco__agent_process *a = p->agent;
  if (!a)
    return;
  if (!pco__list_empty(&a->spawn.node)) {
    /* Its sandbox is going: no answer will come. */
    pco__link_forget(&a->spawn);
    pco__process_unref(p); /* the request's; the caller holds another */
  }
  p->stdin_open = false;
  if (a->relay)
    pco__relay_release(a->relay);
  agent_close_stdin(p);
  for (int i = 0; i < 2; i++)
    pco__stream_close(&p->streams[i], false);
  free(a);
  p->agent = NULL;
}

const pco__process_driver pco__process_agent_driver = {
    .spawn = agent_spawn,
    .signal = agent_signal,
    .kill = agent_kill,
    .write = go_on,
    .close_stdin = agent_close_stdin,
    .resize = agent_resize,
    .hand_over = agent_hand_over,
    .hang_up = agent_hang_up,
    .take_stdin = agent_take_stdin,
    .release = agent_release,
};
