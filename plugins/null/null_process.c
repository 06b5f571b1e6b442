/* SPDX-License-Identifier: MIT */
/*
 * Commands of the null backend; see null.h.
 *
 * A process is a script of pieces of output, written in order, each to one of
 * two streams, as a program with one thread would: a piece that the reader does
 * not take holds back all that follows.  When the script is done the process
 * does what it waits for (a timer, its stdin) and then ends.
 *
 *   pump()    pushes what the readers take, then goes on to what comes next
 *   finish()  ends it, once: eof on both streams, then the waits complete
 *
 * The host may call back from inside push() and eof() (read_stop, release,
 * destroy ...), so whoever calls out holds the process by `pins`; a process is
 * freed by unpin() when nobody needs it any more.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "null.h"

#define CHUNK      ((size_t)64 * 1024)
#define PIPE_ROOM  ((size_t)64 * 1024) /* what an unread stdin takes */
#define ECHO_LIMIT ((size_t)64 * 1024 * 1024)
#define MAX_SLEEP  1e9 /* seconds */

enum { OUT, ERR };
typedef enum { PLAIN, CAT, SLEEP } kind; /* what it does after its output */

/* Output to come. */
typedef struct piece {
  struct piece *next;
  null_blob *blob; /* owned reference */
  size_t at;       /* bytes gone */
  int stream;
} piece;

typedef struct stream {
  pco_sink *sink; /* NULL: discard */
  bool reading;
  bool ended; /* saw eof */
} stream;

/* An op that waits for the end. */
typedef struct waiter {
  struct waiter *next;
  pco_process *process;
  pco_op *op;
} waiter;

struct pco_process {
  pco_process *next; /* in list */
  null_processes *list;
  pco_backend *backend;
  pco_sandbox *sandbox; /* NULL: it was destroyed */
  int64_t pid;
  kind kind;
  stream streams[2];
  piece *pieces;
  piece **last_piece;
  int exit_code; /* when the script is done */
  double seconds;

  pco_op *write; /* the write that runs, or NULL */
  const pco_iov *bufs;
  size_t n_bufs;
  size_t buf_at;   /* bytes of bufs[0] gone */
  size_t unread;   /* bytes that lie in the stdin of one that does not read */
  bool stdin_open; /* write() may come */

  waiter *waiters;
  pco_exit_result result;
  bool ended;
  bool released;
  bool pumping;
  unsigned pins;
  bool has_timer; /* timer is open or closing */
  bool timer_closing;
  uv_timer_t timer;
};

/* ---- life --------------------------------------------------------------- */

static void list_push(null_processes *list, pco_process *p) {
  p->next = list->first;
  list->first = p;
  p->list = list;
}

static void list_remove(pco_process *p) {
  pco_process **at = &p->list->first;
  while (*at != p)
    at = &(*at)->next;
  *at = p->next;
  p->list = NULL;
}

static void drop_pieces(pco_process *p) {
  while (p->pieces) {
    piece *x = p->pieces;
    p->pieces = x->next;
    null_blob_unref(x->blob);
    free(x);
  }
  p->last_piece = &p->pieces;
}

static void on_timer_closed(uv_handle_t *h) {
  pco_process *p = h->data;
  pco_backend *b = p->backend;
  p->has_timer = false;
  b->handles--;
  if (!p->list && p->pins == 0)
    free(p);
  null_backend_settle(b);
}

static void close_timer(pco_process *p) {
  if (!p->has_timer || p->timer_closing)
    return;
  p->timer_closing = true;
  uv_close((uv_handle_t *)&p->timer, on_timer_closed);
}

static void pin(pco_process *p) {
  p->pins++;
}

/* Frees a process that ended and was released, unless libuv still has its
 * timer, whose callback then does. */
static void unpin(pco_process *p) {
  if (--p->pins > 0 || !p->ended || !p->released)
    return;
  if (p->list)
    list_remove(p);
  if (!p->has_timer)
    free(p);
}

static void complete_waiters(pco_process *p) {
  const pco_host *host = p->backend->host;
  while (p->waiters) {
    waiter *w = p->waiters;
    p->waiters = w->next;
    host->complete(host, w->op, &p->result);
    free(w);
  }
}

static void end_stream(pco_process *p, stream *s) {
  pco_sink *sink = s->sink;
  if (s->ended || !sink)
    return;
  s->ended = true;
  p->backend->host->eof(p->backend->host, sink, 0);
}

static void end_write(pco_process *p, int rc) {
  const pco_host *host = p->backend->host;
  pco_op *op = p->write;
  p->write = NULL;
  if (!op)
    return;
  if (rc == 0)
    host->complete(host, op, NULL);
  else
    pco_fail(host, op, rc, PCO_SOURCE_PLUGIN, NULL);
}

/* Ends the process, once.  It may be freed when this returns, unless it is
 * pinned. */
static void finish(pco_process *p, int code, int signo, uint32_t flags) {
  if (p->ended)
    return;
  pin(p);
  p->ended = true;
  p->result = pco_exit_result_init();
  p->result.exit_code = signo ? -1 : code;
  p->result.signal = signo;
  p->result.flags = flags;
  drop_pieces(p);
  close_timer(p);
  end_write(p, UV_EPIPE);
  end_stream(p, &p->streams[OUT]);
  end_stream(p, &p->streams[ERR]);
  complete_waiters(p);
  unpin(p);
}

/* ---- output ------------------------------------------------------------- */

/* Offers bytes to a stream; gives how many have gone.  None: it is paused. */
static size_t offer(pco_process *p, int i, const void *data, size_t len) {
  stream *s = &p->streams[i];
  if (!s->sink)
    return len;
  if (!s->reading || len == 0)
    return 0;
  if (len > CHUNK)
    len = CHUNK;
  const pco_host *host = p->backend->host;
  if (!host->push(host, s->sink, data, len))
    s->reading = false;
  return len;
}

/* Writes the pieces; false: a reader holds it back, or the process ended. */
static bool pump_pieces(pco_process *p) {
  while (!p->ended && p->pieces) {
    piece *x = p->pieces;
    size_t left = x->blob->len - x->at;
    null_blob *blob = null_blob_ref(x->blob); /* push may end the process */
    size_t n = offer(p, x->stream, blob->data + x->at, left);
    null_blob_unref(blob);
    if (p->ended || (n == 0 && left > 0))
      return false;
    x->at += n;
    if (x->at < x->blob->len)
      continue;
    p->pieces = x->next;
    if (!p->pieces)
      p->last_piece = &p->pieces;
    null_blob_unref(x->blob);
    free(x);
  }
  return !p->ended;
}

/* Copies the write that runs to stdout. */
static void pump_write(pco_process *p) {
  while (!p->ended && p->write) {
    if (p->n_bufs == 0) {
      end_write(p, 0);
      return;
    }
    size_t left = p->bufs->len - p->buf_at;
    const char *data = (const char *)p->bufs->base + p->buf_at;
    size_t n = left ? offer(p, OUT, data, left) : 0;
    if (p->ended || !p->write || (left && n == 0))
      return;
    p->buf_at += n;
    if (p->buf_at == p->bufs->len) {
      p->bufs++;
      p->n_bufs--;
      p->buf_at = 0;
    }
  }
}

static void on_timer(uv_timer_t *t) {
  finish(t->data, ((pco_process *)t->data)->exit_code, 0, 0);
}

static void start_timer(pco_process *p) {
  if (p->has_timer)
    return;
  uv_update_time(p->backend->host->loop); /* it may be long since the last */
  uv_timer_init(p->backend->host->loop, &p->timer);
  p->timer.data = p;
  p->has_timer = true;
  p->backend->handles++;
  uv_timer_start(&p->timer, on_timer, (uint64_t)(p->seconds * 1000 + 0.5), 0);
}

/* Goes on as far as it can.  Not re-entered: a call from inside push() leaves
 * its change to the loop that runs. */
static void pump(pco_process *p) {
  if (p->pumping || p->ended)
    return;
  p->pumping = true;
  pin(p);
  if (pump_pieces(p)) {
    if (p->kind == CAT)
      pump_write(p);
    if (p->kind == SLEEP)
      start_timer(p);
    else if (!p->ended && (p->kind == PLAIN || (!p->stdin_open && !p->write)))
      finish(p, p->exit_code, 0, 0);
  }
  p->pumping = false;
  unpin(p);
}

static int add_piece(pco_process *p, int i, null_blob *blob) {
  piece *x = calloc(1, sizeof *x);
  if (!x) {
    null_blob_unref(blob);
    return UV_ENOMEM;
  }
  x->blob = blob;
  x->stream = i;
  *p->last_piece = x;
  p->last_piece = &x->next;
  return 0;
}

/* ---- the commands ------------------------------------------------------- */

/* Each fills in what a fresh process is to do.  Returns 0 or UV_ENOMEM. */
typedef int command_fn(pco_process *p, const char *const *argv,
                       const char *cwd);

PCO_PRINTF(3, 4)
static int complain(pco_process *p, int code, const char *fmt, ...) {
  char text[PCO_MESSAGE_MAX];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  size_t len = strlen(text);
  null_blob *b = null_blob_create(len);
  if (!b)
    return UV_ENOMEM;
  memcpy(b->data, text, len);
  p->exit_code = code;
  return add_piece(p, ERR, b);
}

static int run_true(pco_process *p, const char *const *argv, const char *cwd) {
  (void)argv;
  (void)cwd;
  p->exit_code = 0;
  return 0;
}

static int run_false(pco_process *p, const char *const *argv, const char *cwd) {
  (void)argv;
  (void)cwd;
  p->exit_code = 1;
  return 0;
}

static int run_echo(pco_process *p, const char *const *argv, const char *cwd) {
  (void)cwd;
  size_t len = 1;
  for (size_t i = 1; argv[i]; i++)
    len += strlen(argv[i]) + (i > 1);
  null_blob *b = len <= ECHO_LIMIT ? null_blob_create(len) : NULL;
  if (!b)
    return len <= ECHO_LIMIT ? UV_ENOMEM : UV_E2BIG;
  unsigned char *at = b->data;
  for (size_t i = 1; argv[i]; i++) {
    if (i > 1)
      *at++ = ' ';
    size_t n = strlen(argv[i]);
    memcpy(at, argv[i], n);
    at += n;
  }
  *at = '\n';
  return add_piece(p, OUT, b);
}

static int run_cat(pco_process *p, const char *const *argv, const char *cwd) {
  if (!argv[1]) {
    p->kind = CAT;
    return 0;
  }
  for (size_t i = 1; argv[i]; i++) {
    int rc;
    null_blob *b = null_fs_content(p->sandbox->fs, cwd, argv[i], &rc);
    if (rc == UV_ENOMEM)
      return rc;
    rc = b ? add_piece(p, OUT, b)
           : complain(p, 1, "cat: %.200s: %s\n", argv[i], uv_strerror(rc));
    if (rc < 0)
      return rc;
  }
  return 0;
}

/* Reads digits with a fraction, whatever the locale; negative: it is none. */
static double parse_seconds(const char *s) {
  double value = 0, scale = 1;
  bool digits = false, fraction = false;
  for (; s && *s; s++) {
    if (*s == '.' && !fraction) {
      fraction = true;
      continue;
    }
    if (*s < '0' || *s > '9')
      return -1;
    digits = true;
    scale *= fraction ? 0.1 : 1;
    value = fraction ? value + (*s - '0') * scale : value * 10 + (*s - '0');
  }
  return !digits ? -1 : value < MAX_SLEEP ? value : MAX_SLEEP;
}

static int run_sleep(pco_process *p, const char *const *argv, const char *cwd) {
  (void)cwd;
  p->seconds = parse_seconds(argv[1]);
  if (p->seconds < 0)
    return complain(p, 1, "sleep: not a number of seconds: %.200s\n",
                    argv[1] ? argv[1] : "(nothing)");
  p->kind = SLEEP;
  return 0;
}

static int run_exit(pco_process *p, const char *const *argv, const char *cwd) {
  (void)cwd;
  double code = parse_seconds(argv[1]);
  if (code < 0 || code > 255 || code != (int)code)
    return complain(p, 2, "exit: not a code from 0 to 255: %.200s\n",
                    argv[1] ? argv[1] : "(nothing)");
  p->exit_code = (int)code;
  return 0;
}

static command_fn *find_command(const char *name) {
  static const struct {
    const char *name;
    command_fn *run;
  } commands[] = {{"true", run_true}, {"false", run_false}, {"echo", run_echo},
                  {"cat", run_cat},   {"sleep", run_sleep}, {"exit", run_exit}};
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    if (pco_streq(commands[i].name, name))
      return commands[i].run;
  return NULL;
}

/* ---- spawn -------------------------------------------------------------- */

/* Fails op for what null cannot do; true if it did. */
static bool refuse(pco_sandbox *s, const pco_spawn_opts *o, pco_op *op) {
  const pco_host *host = s->backend->host;
  const char *name = o->argv[0];
  const char *what = o->flags & PCO_SPAWN_PTY ? "no terminals (pty)"
                     : o->user                ? "no users (user)"
                     : pco_streq(name, "/bin/sh") || pco_streq(name, "sh")
                         ? "no shell; give a sequence like {\"echo\", \"hi\"}"
                         : NULL;
  if (what) {
    pco_fail(host, op, PCO_EUNSUPPORTED, PCO_SOURCE_PLUGIN, "null has %s",
             what);
    return true;
  }
  if (pco_limits_wanted(o->limits)) {
    pco_fail(host, op, PCO_EUNSUPPORTED, PCO_SOURCE_PLUGIN,
             "null cannot do '%s': its commands are not processes; use bwrap",
             pco_wants_name(pco_limits_wanted(o->limits)));
    return true;
  }
  if (!find_command(name)) {
    pco_fail_path(host, op, UV_ENOENT, PCO_SOURCE_PLUGIN, name,
                  "null has no command '%.200s'; it has true, false, echo, "
                  "cat, sleep and exit",
                  name);
    return true;
  }
  if (pco_streq(name, "sleep") && !host->loop) {
    pco_fail(host, op, PCO_EUNAVAILABLE, PCO_SOURCE_PLUGIN,
             "sleep needs the host's loop");
    return true;
  }
  const char *cwd = o->cwd ? o->cwd : s->cwd;
  int rc = null_fs_check_dir(s->fs, s->cwd, cwd);
  if (rc < 0)
    pco_fail_path(host, op, rc, PCO_SOURCE_PLUGIN, cwd,
                  "the working directory: %s", uv_strerror(rc));
  return rc < 0;
}

static pco_process *process_create(pco_sandbox *s, const pco_spawn_opts *o) {
  pco_process *p = calloc(1, sizeof *p);
  if (!p)
    return NULL;
  p->backend = s->backend;
  p->sandbox = s;
  p->pid = ++s->last_pid;
  p->last_piece = &p->pieces;
  p->stdin_open = (o->flags & PCO_SPAWN_STDIN) != 0;
  p->streams[OUT].sink = o->out;
  p->streams[ERR].sink = o->flags & PCO_SPAWN_MERGE ? NULL : o->err;
  return p;
}

/* MERGE: what goes to stderr goes to stdout, in order. */
static void merge_pieces(pco_process *p) {
  for (piece *x = p->pieces; x; x = x->next)
    x->stream = OUT;
}

int null_spawn(pco_sandbox *s, const pco_spawn_opts *o, pco_op *op) {
  const uint32_t known = PCO_SPAWN_PTY | PCO_SPAWN_NO_ECHO | PCO_SPAWN_STDIN |
                         PCO_SPAWN_CLEAN_ENV | PCO_SPAWN_MERGE;
  if (o->flags & ~known || !o->argv || !o->argv[0])
    return UV_EINVAL;
  if (null_is_gone(s, op) || refuse(s, o, op))
    return 0;
  const pco_host *host = s->backend->host;
  pco_process *p = process_create(s, o);
  command_fn *run = find_command(o->argv[0]);
  char cwd[4096];
  int n = snprintf(cwd, sizeof cwd, "%s%s%s",
                   o->cwd && *o->cwd == '/' ? "" : s->cwd, o->cwd ? "/" : "",
                   o->cwd ? o->cwd : "");
  int rc = !p                              ? UV_ENOMEM
           : n < 0 || n >= (int)sizeof cwd ? UV_ENAMETOOLONG
                                           : run(p, o->argv, cwd);
  if (rc < 0) {
    if (p)
      drop_pieces(p);
    free(p);
    pco_fail(host, op, rc, PCO_SOURCE_PLUGIN, NULL);
    return 0;
  }
  if (o->flags & PCO_SPAWN_MERGE)
    merge_pieces(p);
  list_push(&s->processes, p);
  pco_process_result result = pco_process_result_init();
  result.process = p;
  result.pid = p->pid;
  host->complete(host, op, &result);
  pump(p);
  return 0;
}

/* ---- the other entries -------------------------------------------------- */

static void cancel_wait(void *arg) {
  waiter *w = arg;
  pco_process *p = w->process;
  waiter **at = &p->waiters;
  while (*at != w)
    at = &(*at)->next;
  *at = w->next;
  pco_op *op = w->op;
  free(w);
  pco_fail(p->backend->host, op, UV_ECANCELED, PCO_SOURCE_PLUGIN, NULL);
}

int null_wait(pco_process *p, pco_op *op) {
  const pco_host *host = p->backend->host;
  if (p->ended) {
    host->complete(host, op, &p->result);
    return 0;
  }
  waiter *w = calloc(1, sizeof *w);
  if (!w) {
    pco_fail(host, op, UV_ENOMEM, PCO_SOURCE_PLUGIN, NULL);
    return 0;
  }
  *w = (waiter){p->waiters, p, op};
  p->waiters = w;
  host->set_cancel(host, op, cancel_wait, w);
  return 0;
}

int null_signal(pco_process *p, int signo, uint32_t flags, pco_op *op) {
  const pco_host *host = p->backend->host;
  if (signo < 0 || signo > 64 || flags & ~PCO_SIGNAL_TREE)
    return UV_EINVAL;
  if (p->ended) {
    pco_fail(host, op, UV_ESRCH, PCO_SOURCE_PLUGIN, "the process has ended");
    return 0;
  }
  host->complete(host, op, NULL);
  if (signo == SIGTERM || signo == SIGKILL || signo == SIGINT)
    finish(p, 0, signo, 0);
  return 0;
}

static void cancel_write(void *arg) {
  end_write(arg, UV_ECANCELED);
}

static size_t total(const pco_iov *bufs, size_t n) {
  size_t len = 0;
  for (size_t i = 0; i < n; i++)
    len += bufs[i].len;
  return len;
}

/* A command that does not read its stdin still has a pipe there, which takes
 * this much before it blocks the writer. */
static bool lies_in_pipe(pco_process *p, const pco_iov *bufs, size_t n) {
  size_t len = total(bufs, n);
  if (p->kind == CAT || len > PIPE_ROOM - p->unread)
    return false;
  p->unread += len;
  return true;
}

/* Takes a write of cat as far as its pipes would: a copy that waits for the
 * reader.  False: there is no room, or no memory. */
static bool lies_in_cat(pco_process *p, const pco_iov *bufs, size_t n) {
  size_t len = total(bufs, n);
  size_t held = 0;
  for (const piece *x = p->pieces; x; x = x->next)
    held += x->blob->len - x->at;
  if (p->kind != CAT || len == 0 || held > PIPE_ROOM || len > PIPE_ROOM - held)
    return false;
  null_blob *b = null_blob_create(len);
  if (!b)
    return false;
  for (size_t i = 0, at = 0; i < n; at += bufs[i++].len)
    if (bufs[i].len)
      memcpy(b->data + at, bufs[i].base, bufs[i].len);
  return add_piece(p, OUT, b) == 0;
}

int null_write(pco_process *p, const pco_iov *bufs, size_t n, pco_op *op) {
  const pco_host *host = p->backend->host;
  if (p->write)
    return UV_EBUSY;
  p->write = op;
  if (p->ended || !p->stdin_open) {
    end_write(p, UV_EPIPE);
  } else if (lies_in_pipe(p, bufs, n)) {
    end_write(p, 0);
  } else if (lies_in_cat(p, bufs, n)) {
    end_write(p, 0);
    pump(p);
  } else {
    p->bufs = bufs;
    p->n_bufs = n;
    p->buf_at = 0;
    host->set_cancel(host, op, cancel_write, p);
    pump(p);
  }
  return 0;
}

int null_close_stdin(pco_process *p, pco_op *op) {
  p->stdin_open = false;
  p->backend->host->complete(p->backend->host, op, NULL);
  pump(p);
  return 0;
}

static stream *stream_of(pco_process *p, const pco_sink *sink) {
  for (int i = 0; i < 2 && sink; i++)
    if (p->streams[i].sink == sink)
      return &p->streams[i];
  return NULL;
}

int null_read_start(pco_process *p, pco_sink *sink) {
  stream *s = stream_of(p, sink);
  if (!s)
    return UV_EINVAL;
  s->reading = true;
  pump(p);
  return 0;
}

void null_read_stop(pco_process *p, pco_sink *sink) {
  stream *s = stream_of(p, sink);
  if (s)
    s->reading = false;
}

void null_release_process(pco_process *p) {
  pin(p);
  p->released = true;
  p->streams[OUT].sink = p->streams[ERR].sink = NULL;
  pump(p);
  unpin(p);
}

/* ---- ends --------------------------------------------------------------- */

void null_end_processes(pco_sandbox *s) {
  while (s->processes.first) {
    pco_process *p = s->processes.first;
    pin(p);
    finish(p, 0, SIGKILL, PCO_EXIT_GONE);
    if (p->list)
      list_remove(p);
    p->sandbox = NULL;
    list_push(&p->backend->orphans, p);
    unpin(p);
  }
}

void null_free_orphans(pco_backend *b) {
  while (b->orphans.first) {
    pco_process *p = b->orphans.first;
    list_remove(p);
    pin(p);
    p->released = true;
    unpin(p);
  }
}
