/* SPDX-License-Identifier: MIT */
/*
 * Starting a command by an agent: the host makes the pipes and sends the
 * child's ends with the SPAWN frame, or asks the agent to make and relay them.
 */
#include "process_agent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- pipes --------------------------------------------------------------- */

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

static int make_pipes(ends *e, const pco__spawn_opts *opts, unsigned relayed,
                      bool foreign) {
  for (int i = 0; i < 3; i++)
    e->child[i] = e->ours[i] = -1;
  if (opts->terminal || relayed)
    return 0;
  int rc = opts->in == PCO__PIPE ? make_pipe(e, 0, foreign) : 0;
  if (rc == 0 && opts->out == PCO__PIPE)
    rc = make_pipe(e, 1, foreign);
  if (rc == 0 && opts->err == PCO__PIPE)
    rc = make_pipe(e, 2, foreign);
  if (rc < 0)
    close_ends(e);
  return rc;
}

/* ---- the request --------------------------------------------------------- */

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

/* What the agent is to relay, beside a terminal; PCO__RELAY_*. */
static unsigned relayed_streams(const pco__process *p,
                                const pco__spawn_opts *opts) {
  if (!p->sandbox->detachable || opts->terminal)
    return 0;
  return (opts->in == PCO__PIPE ? PCO__RELAY_IN : 0) |
         (opts->out == PCO__PIPE ? PCO__RELAY_OUT : 0) |
         (opts->err == PCO__PIPE ? PCO__RELAY_ERR : 0);
}

static uint64_t flags_of(const pco__process *p, const pco__spawn_opts *opts) {
  return (opts->clean_env ? PCO_SPAWN_FLAG_CLEAN_ENV : 0) |
         (opts->terminal && !opts->echo ? PCO_SPAWN_FLAG_NO_ECHO : 0) |
         (!p->sandbox->detachable ? 0
          : p->exec               ? PCO_SPAWN_FLAG_FORGET
                                  : PCO_SPAWN_FLAG_UNREAD);
}

static uint64_t stdio_of(const pco__spawn_opts *opts, int mode, bool relayed) {
  static const uint8_t by_mode[] = {[PCO__PIPE] = PCO_STDIO_FD,
                                    [PCO__NULL] = PCO_STDIO_NULL,
                                    [PCO__CLOSED] = PCO_STDIO_CLOSED,
                                    [PCO__MERGE] = PCO_STDIO_MERGE};
  return opts->terminal ? PCO_STDIO_TERMINAL
         : relayed      ? PCO_STDIO_RELAY
                        : by_mode[mode];
}

static void encode(pco_wire_buf *b, const pco__process *p,
                   const pco__spawn_opts *opts, unsigned relayed) {
  pco_wire_begin(b, PCO_WIRE_SPAWN, 0, p->agent->target);
  for (char **s = opts->argv; *s; s++)
    pco_wire_string(b, PCO_TAG_ARGV, *s);
  for (char **s = opts->env; s && *s; s++)
    pco_wire_string(b, PCO_TAG_ENV, *s);
  if (opts->cwd)
    pco_wire_string(b, PCO_TAG_CWD, opts->cwd);
  if (opts->user)
    pco_wire_string(b, PCO_TAG_USER, opts->user);
  pco_wire_number(b, PCO_TAG_FLAGS, flags_of(p, opts));
  if (opts->timeout)
    pco_wire_number(b, PCO_TAG_TIMEOUT, opts->timeout);
  pco_wire_number(b, PCO_TAG_GRACE, opts->grace);
  if (opts->limits)
    encode_limits(b, opts->limits);
  if (opts->terminal) {
    pco_wire_number(b, PCO_TAG_COLS, opts->cols);
    pco_wire_number(b, PCO_TAG_ROWS, opts->rows);
  }
  pco_wire_number(b, PCO_TAG_STDIO,
                  stdio_of(opts, opts->in, relayed & PCO__RELAY_IN));
  pco_wire_number(b, PCO_TAG_STDIO,
                  stdio_of(opts, opts->out, relayed & PCO__RELAY_OUT));
  pco_wire_number(b, PCO_TAG_STDIO,
                  stdio_of(opts, opts->err, relayed & PCO__RELAY_ERR));
}

/* ---- what goes wrong ----------------------------------------------------- */

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

/* ---- the start ----------------------------------------------------------- */

/* Hands our ends to their owners, or makes a relay; false without memory. */
static bool open_ours(pco__process *p, const pco__spawn_opts *opts, ends *e,
                      unsigned relayed) {
  pco__agent_process *a = p->agent;
  pco__agent_stdin_open(p, e->ours[0]);
  if (opts->terminal)
    relayed = PCO__RELAY_IN | PCO__RELAY_OUT;
  if (relayed) {
    a->relay = pco__relay_open(p->sandbox->link, a->target, p, relayed,
                               opts->terminal);
    if (a->relay && p->sandbox->detachable && !p->exec)
      pco__relay_hold(a->relay);
    return a->relay != NULL;
  }
  for (int i = 1; i < 3; i++)
    if (e->ours[i] >= 0)
      pco__stream_open_fd(&p->streams[i - 1], e->ours[i]);
  for (int i = 0; i < 3; i++)
    e->ours[i] = -1;
  return true;
}

pco__agent_process *pco__agent_process_new(pco__process *p, uint64_t target) {
  pco__agent_process *a = calloc(1, sizeof *a);
  if (!a)
    return NULL;
  a->in_fd = -1;
  a->process = p;
  a->target = target;
  pco__list_init(&a->spawn.node);
  a->spawn.id = a->target;
  a->spawn.type = PCO_WIRE_SPAWN;
  a->spawn.frame = pco__agent_on_frame;
  a->spawn.lost = pco__agent_on_lost;
  return a;
}

/* Sends the frame (taken) and the child's ends. */
static void send_spawn(pco__process *p, const pco__spawn_opts *opts,
                       pco_wire_buf *frame, const ends *e) {
  pco__agent_process *a = p->agent;
  int fds[3];
  uint8_t n = 0;
  for (int i = 0; i < 3; i++)
    if (e->child[i] >= 0)
      fds[n++] = e->child[i];
  /* A time limit ends the call whatever the agent does. */
  if (opts->timeout && opts->timeout < PCO__MAX_NS && opts->grace < PCO__MAX_NS)
    a->ends_within = opts->timeout + opts->grace;
  pco__process_ref(p); /* the request's */
  pco__link_request_send(p->sandbox->link, &a->spawn, frame, fds, n, true);
}

void pco__agent_spawn(pco__process *p, const pco__spawn_opts *opts) {
  ends e;
  pco_wire_buf frame = {0};
  p->agent = pco__agent_process_new(p, pco__link_next(p->sandbox->link));
  if (!p->agent) {
    fail(p, UV_ENOMEM, "starting the command");
    return;
  }
  unsigned relayed = relayed_streams(p, opts);
  int rc = make_pipes(&e, opts, relayed, p->sandbox->foreign || opts->user);
  if (rc < 0) {
    fail(p, rc, "making the command's pipes");
    return;
  }
  encode(&frame, p, opts, relayed);
  rc = end_frame(&frame);
  if (rc == 0 && !open_ours(p, opts, &e, relayed))
    rc = UV_ENOMEM;
  if (rc == 0) {
    send_spawn(p, opts, &frame, &e);
    return;
  }
  close_ends(&e);
  pco_wire_buf_free(&frame);
  if (rc == UV_E2BIG)
    fail_size(p, opts);
  else
    fail(p, rc, "starting the command");
}
