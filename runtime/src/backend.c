/* SPDX-License-Identifier: MIT */
/* An open backend and the host side of the plugin ABI; see backend.h. */
#include "backend.h"

#include <stdlib.h>

#include "host_services.h"
#include "plugin_loader.h"
#include "portico/plugin_util.h"
#include "runtime.h"
#include "sandbox.h"
#include "sink.h"

#define CLOSE_LIMIT_NS (20u * UINT64_C(1000000000))

struct pco__plugin_call {
  pco_op op;
};

/* ---- ops of the plugin ABI ----------------------------------------------- */

static void finish_op(pco__call *call) {
  pco_op *op = PCO_CONTAINER(call, pco_op, call);
  pco__error *err = op->err;
  op->err = NULL;
  op->done(op, err);
}

void pco__plugin_op_init(pco_op *op, pco__backend *b,
                         void (*take)(pco_op *op, const void *result),
                         void (*done)(pco_op *op, pco__error *err)) {
  *op = (pco_op){.backend = b, .take = take, .done = done};
  op->call.fn = finish_op;
}

static void end_op(pco_op *op, pco__error *err) {
  if (op->completed) {
    pco__log_write(&op->backend->loop->runtime->log, PCO_LOG_ERROR,
                   "plugin %s completed an op twice", op->backend->info->id);
    pco__error_free(err);
    return;
  }
  op->completed = true;
  op->cancel = NULL;
  op->err = err;
  pco__loop_defer(op->backend->loop, &op->call);
}

void pco__plugin_op_submitted(pco_op *op, int rc) {
  if (rc < 0)
    end_op(op, pco__error_new(rc, PCO_SOURCE_PLUGIN, NULL, NULL));
}

void pco__plugin_op_cancel(pco_op *op) {
  if (op->completed || op->cancel_asked)
    return;
  op->cancel_asked = true;
  if (op->cancel)
    op->cancel(op->cancel_arg);
}

static void host_complete(const pco_host *host, pco_op *op,
                          const void *result) {
  (void)host;
  if (!op->completed && op->take)
    op->take(op, result);
  end_op(op, NULL);
}

static void host_fail(const pco_host *host, pco_op *op, const pco_error *err) {
  (void)host;
  end_op(op, pco__error_from_abi(err, PCO_EBACKEND));
}

static void cancel_late(pco__call *call) {
  pco_op *op = PCO_CONTAINER(call, pco_op, cancel_call);
  op->cancel_queued = false;
  if (!op->completed && op->cancel)
    op->cancel(op->cancel_arg);
}

static void host_set_cancel(const pco_host *host, pco_op *op, pco_cancel_fn fn,
                            void *arg) {
  (void)host;
  if (op->completed)
    return;
  op->cancel = fn;
  op->cancel_arg = arg;
  if (op->cancel_asked && !op->cancel_queued) { /* before it said how */
    op->cancel_queued = true;
    op->cancel_call.fn = cancel_late;
    pco__loop_defer(op->backend->loop, &op->cancel_call);
  }
}

/* ---- other host functions ------------------------------------------------ */

typedef struct posted {
  pco__call call;
  void (*fn)(void *arg);
  void *arg;
} posted;

static void run_posted(pco__call *call) {
  posted *p = PCO_CONTAINER(call, posted, call);
  void (*fn)(void *arg) = p->fn;
  void *arg = p->arg;
  free(p);
  fn(arg);
}

static int host_post(const pco_host *host, void (*fn)(void *arg), void *arg) {
  pco__backend *b = (pco__backend *)host->host_data;
  if (atomic_load(&b->abandoned))
    return UV_ECANCELED;
  posted *p = malloc(sizeof *p);
  if (!p)
    return UV_ENOMEM;
  *p = (posted){.call.fn = run_posted, .fn = fn, .arg = arg};
  int rc = pco__loop_post_unless(b->loop, &p->call, &b->plugin_closing);
  if (rc < 0)
    free(p);
  return rc;
}

static void host_log(const pco_host *host, int level, const char *msg) {
  pco__backend *b = (pco__backend *)host->host_data;
  pco__log_write(&b->loop->runtime->log, level, "%s: %s", b->info->id, msg);
}

static const pco_host host_template = {
    .struct_size = sizeof(pco_host),
    .abi_minor = PCO_ABI_MINOR,
    .complete = host_complete,
    .fail = host_fail,
    .set_cancel = host_set_cancel,
    .push = pco__sink_push,
    .eof = pco__sink_eof,
    .post = host_post,
    .log = host_log,
    .get_extension = pco__host_extension,
};

/* ---- life ---------------------------------------------------------------- */

int pco__backend_open(pco__loop *loop, const pco_backend_info *info,
                      const pco_pair *settings, size_t n_settings,
                      pco__backend **out, pco__error **err) {
  *out = NULL;
  pco__backend *b = calloc(1, sizeof *b);
  struct pco__plugin_call *close_call = calloc(1, sizeof *close_call);
  if (!b || !close_call) {
    free(b);
    free(close_call);
    pco__loader_release(info);
    *err = pco__error_no_memory();
    return UV_ENOMEM;
  }
  b->host = host_template;
  b->host.loop = &loop->uv;
  b->host.host_data = b;
  b->info = info;
  b->loop = loop;
  b->close_call = close_call;
  atomic_init(&b->refs, 1);
  pco__list_init(&b->node);
  pco__list_init(&b->sandboxes);
  pco__list_init(&b->closers);
  char text[PCO_MESSAGE_MAX];
  pco_error abi = pco_error_in(text, sizeof text);
  int rc = info->api->open(&b->host, settings, n_settings, &b->plugin, &abi);
  if (rc < 0) {
    abi.code = abi.code < 0 ? abi.code : rc;
    *err = pco__error_from_abi(&abi, rc);
    b->closed = true;
    pco__backend_unref(b);
    return rc;
  }
  pco__backend_ref(b); /* the loop's */
  pco__list_append(&loop->backends, &b->node);
  *out = b;
  return 0;
}

void pco__backend_ref(pco__backend *b) {
  atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
}

void pco__backend_unref(pco__backend *b) {
  if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1)
    return;
  pco__loader_release(b->info);
  free(b->close_call);
  free(b);
}

static void on_closed(pco_op *op, pco__error *err) {
  pco__backend *b = op->backend;
  b->closed = true;
  pco__list_remove(&b->node);
  for (pco__node *n; (n = pco__list_shift(&b->closers)) != NULL;) {
    pco__op *waiting = PCO_CONTAINER(n, pco__op, owner_node);
    pco__op_complete(waiting, err);
    err = NULL;
  }
  pco__error_free(err);
  pco__backend_unref(b);
}

/* Closes the plugin's instance once no sandbox is left. */
static void close_plugin(pco__backend *b) {
  if (!b->closing || b->plugin_closing || !pco__list_empty(&b->sandboxes))
    return;
  pthread_mutex_lock(&b->loop->lock);
  b->plugin_closing = true;
  pthread_mutex_unlock(&b->loop->lock);
  pco_op *op = &b->close_call->op;
  pco__plugin_op_init(op, b, NULL, on_closed);
  pco__plugin_op_submitted(op, b->info->api->close(b->plugin, op));
}

void pco__backend_close(pco__backend *b, pco__op *op) {
  if (b->closed) {
    if (op)
      pco__op_complete(op, NULL);
    return;
  }
  if (op)
    pco__list_append(&b->closers, &op->owner_node);
  if (b->closing)
    return;
  b->closing = true;
  for (pco__node *n = b->sandboxes.next; n != &b->sandboxes;) {
    pco__sandbox *sb = PCO_CONTAINER(n, pco__sandbox, node);
    n = n->next;
    pco__sandbox_close(sb, NULL);
  }
  close_plugin(b);
}

void pco__backend_abandon(pco__backend *b) {
  for (pco__node *n = b->sandboxes.next; n != &b->sandboxes;) {
    pco__sandbox *sb = PCO_CONTAINER(n, pco__sandbox, node);
    n = n->next;
    pco__sandbox_abandon(sb);
  }
  pco__backend_close(b, NULL);
}

void pco__backend_sandbox_gone(pco__backend *b) {
  close_plugin(b);
}

static void on_close_limit(pco__timer *timer) {
  (void)timer; /* its index being 0 is the message */
}

/* A plugin that does not close in time must not hold up the end of the program:
 * its memory and its handles are left as they are, and it reaches the loop no
 * more. */
static void abandon_rest(pco__loop *loop) {
  for (pco__node *n; (n = pco__list_shift(&loop->backends)) != NULL;) {
    pco__backend *b = PCO_CONTAINER(n, pco__backend, node);
    atomic_store(&b->abandoned, true);
    loop->stuck = true;
    pco__log_write(&loop->runtime->log, PCO_LOG_ERROR,
                   "the backend %s did not close in time; it is left behind",
                   b->info->id);
  }
}

void pco__backend_close_all(pco__loop *loop) {
  pco__timer limit = {.fn = on_close_limit};
  if (pco__list_empty(&loop->backends) ||
      pco__timer_start(loop, &limit, CLOSE_LIMIT_NS) < 0)
    return;
  for (pco__node *n = loop->backends.next; n != &loop->backends; n = n->next)
    pco__backend_abandon(PCO_CONTAINER(n, pco__backend, node));
  while (!pco__list_empty(&loop->backends) && limit.index)
    uv_run(&loop->uv, UV_RUN_ONCE);
  pco__timer_stop(loop, &limit);
  abandon_rest(loop);
}
