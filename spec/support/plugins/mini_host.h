/* SPDX-License-Identifier: MIT */
/*
 * A host that is just enough to call a plugin's functions and see what it
 * answers, for C tests.  Strict: a second completion, a push to a stopped sink
 * or a second eof ends the test.
 */
#ifndef PCO_SPEC_MINI_HOST_H
#define PCO_SPEC_MINI_HOST_H

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "portico/plugin.h"
#include "portico/plugin_util.h"
#include "tap.h"

#define MINI __attribute__((unused)) static

/* ---- ops ---------------------------------------------------------------- */

struct pco_op {
  int completions;
  int code; /* 0, or the error's */
  char text[600];
  char path[300];
  pco_cancel_fn cancel;
  void *cancel_arg;
  /* Copies of what a result may be, by what the caller expects. */
  enum {
    NOTHING,
    SANDBOX,
    PROCESS,
    EXIT,
    PROBE,
    LIST,
    STAT,
    STATS,
    DATA,
    CAUSE
  } expect;
  pco_sandbox *sandbox;
  pco_process *process;
  int64_t pid;
  int fd;
  pco_exit_result exit;
  pco_stat stat;
  uint64_t caps;
  bool more;   /* or eof */
  char *bytes; /* owned: data, or names with a blank after each */
  size_t n;
};

MINI void add_bytes(pco_op *op, const void *data, size_t n) {
  op->bytes = (char *)realloc(op->bytes, op->n + n + 1);
  REQUIRE(op->bytes);
  if (n)
    memcpy(op->bytes + op->n, data, n);
  op->n += n;
  op->bytes[op->n] = '\0';
}

MINI void add_name(pco_op *op, const char *name) {
  add_bytes(op, name, strlen(name));
  add_bytes(op, " ", 1);
}

MINI void take_sandbox(pco_op *op, const pco_sandbox_result *r) {
  REQUIRE(r->struct_size == sizeof *r && r->sandbox && r->id);
  op->sandbox = r->sandbox;
  op->fd = r->agent_fd;
  snprintf(op->text, sizeof op->text, "%s", r->id);
  snprintf(op->path, sizeof op->path, "%s", r->cwd ? r->cwd : "");
}

MINI void take_stats(pco_op *op, const pco_stat_list *r) {
  op->more = r->more != 0;
  add_bytes(op, "", 0);
  for (size_t i = 0; i < r->n_entries; i++)
    add_name(op, r->entries[i]->name);
}

MINI void take_list(pco_op *op, const pco_list_result *r) {
  add_bytes(op, "", 0);
  for (size_t i = 0; i < r->n_sandboxes; i++)
    add_name(op, r->sandboxes[i]->id);
}

MINI void take_result(pco_op *op, const void *result) {
  REQUIRE((op->expect == NOTHING) == (result == NULL));
  switch (op->expect) {
  case NOTHING:
    break;
  case SANDBOX:
    take_sandbox(op, (const pco_sandbox_result *)result);
    break;
  case PROCESS:
    op->process = ((const pco_process_result *)result)->process;
    op->pid = ((const pco_process_result *)result)->pid;
    break;
  case EXIT:
    op->exit = *(const pco_exit_result *)result;
    break;
  case PROBE:
    op->caps = ((const pco_probe_result *)result)->caps;
    op->n = ((const pco_probe_result *)result)->n_capabilities;
    break;
  case LIST:
    take_list(op, (const pco_list_result *)result);
    break;
  case STAT:
    op->stat = *(const pco_stat *)result;
    break;
  case STATS:
    take_stats(op, (const pco_stat_list *)result);
    break;
  case DATA:
    op->more = ((const pco_data *)result)->eof != 0;
    add_bytes(op, ((const pco_data *)result)->base,
              ((const pco_data *)result)->len);
    break;
  case CAUSE:
    op->code = ((const pco_error *)result)->code;
    if (((const pco_error *)result)->message)
      snprintf(op->text, sizeof op->text, "%s",
               ((const pco_error *)result)->message);
  }
}

MINI void host_complete(const pco_host *host, pco_op *op, const void *result) {
  (void)host;
  REQUIRE(op->completions++ == 0);
  take_result(op, result);
}

MINI void host_fail(const pco_host *host, pco_op *op, const pco_error *err) {
  (void)host;
  REQUIRE(op->completions++ == 0 && err->code < 0);
  op->code = err->code;
  if (err->message)
    snprintf(op->text, sizeof op->text, "%s", err->message);
  if (err->path)
    snprintf(op->path, sizeof op->path, "%s", err->path);
}

MINI void host_set_cancel(const pco_host *host, pco_op *op, pco_cancel_fn fn,
                          void *arg) {
  (void)host;
  op->cancel = fn;
  op->cancel_arg = arg;
}

MINI void op_cancel(pco_op *op) {
  REQUIRE(op->completions == 0 && op->cancel);
  pco_cancel_fn fn = op->cancel;
  op->cancel = NULL;
  fn(op->cancel_arg);
}

MINI void op_free(pco_op *op) {
  free(op->bytes);
  *op = (pco_op){.completions = 0};
}

/* ---- sinks -------------------------------------------------------------- */

struct pco_sink {
  char *data;
  size_t len;
  size_t pushes;
  bool reading;
  bool greedy; /* push answers true */
  int eofs;
  void (*on_push)(pco_sink *sink); /* called inside push */
  void *arg;
};

MINI bool host_push(const pco_host *host, pco_sink *sink, const void *data,
                    size_t len) {
  (void)host;
  REQUIRE(sink->reading && !sink->eofs && len > 0);
  sink->data = (char *)realloc(sink->data, sink->len + len + 1);
  REQUIRE(sink->data);
  memcpy(sink->data + sink->len, data, len);
  sink->len += len;
  sink->data[sink->len] = '\0';
  sink->pushes++;
  sink->reading = sink->greedy;
  if (sink->on_push)
    sink->on_push(sink);
  return sink->reading;
}

MINI void host_eof(const pco_host *host, pco_sink *sink, int status) {
  (void)host;
  (void)status;
  REQUIRE(sink->eofs++ == 0);
}

MINI void sink_free(pco_sink *sink) {
  free(sink->data);
  *sink = (pco_sink){.data = NULL};
}

/* ---- the host ----------------------------------------------------------- */

typedef struct mini_post {
  struct mini_post *next;
  void (*fn)(void *arg);
  void *arg;
} mini_post;

typedef struct mini_host {
  pco_host host; /* first */
  uv_loop_t loop;
  const pco_backend_api *api;
  pco_backend *backend;
  const void *(*extension)(const char *id);
  pthread_mutex_t lock; /* guards the rest */
  mini_post *posts, **last_post;
  bool closing;
} mini_host;

MINI int host_post(const pco_host *host, void (*fn)(void *arg), void *arg) {
  mini_host *h = (mini_host *)(uintptr_t)host;
  mini_post *p = (mini_post *)malloc(sizeof *p);
  REQUIRE(p);
  *p = (mini_post){NULL, fn, arg};
  pthread_mutex_lock(&h->lock);
  bool closing = h->closing;
  if (!closing) {
    *h->last_post = p;
    h->last_post = &p->next;
  }
  pthread_mutex_unlock(&h->lock);
  if (closing)
    free(p);
  return closing ? UV_ECANCELED : 0;
}

MINI void run_posts(mini_host *h) {
  pthread_mutex_lock(&h->lock);
  while (h->posts) {
    mini_post *p = h->posts;
    h->posts = p->next;
    if (!h->posts)
      h->last_post = &h->posts;
    pthread_mutex_unlock(&h->lock);
    p->fn(p->arg);
    free(p);
    pthread_mutex_lock(&h->lock);
  }
  pthread_mutex_unlock(&h->lock);
}

MINI void host_log(const pco_host *host, int level, const char *msg) {
  (void)host;
  printf("# log %d: %s\n", level, msg);
}

MINI const void *host_get_extension(const pco_host *host, const char *id) {
  const mini_host *h = (const mini_host *)host;
  return h->extension ? h->extension(id) : NULL;
}

MINI void mini_start(mini_host *h, const pco_backend_api *api) {
  memset(h, 0, sizeof *h);
  h->host = (pco_host){.struct_size = sizeof h->host,
                       .abi_minor = PCO_ABI_MINOR,
                       .loop = &h->loop,
                       .complete = host_complete,
                       .fail = host_fail,
                       .set_cancel = host_set_cancel,
                       .push = host_push,
                       .eof = host_eof,
                       .post = host_post,
                       .log = host_log,
                       .get_extension = host_get_extension};
  h->api = api;
  h->last_post = &h->posts;
  pthread_mutex_init(&h->lock, NULL);
  REQUIRE(uv_loop_init(&h->loop) == 0);
}

MINI void mini_open(mini_host *h, const pco_backend_api *api) {
  mini_start(h, api);
  REQUIRE(api->open(&h->host, NULL, 0, &h->backend, NULL) == 0);
}

/* Runs the loop until the op is done, at most about ms. */
MINI bool wait_op(mini_host *h, const pco_op *op, uint64_t ms) {
  uint64_t end = uv_hrtime() + ms * 1000000;
  while (!op->completions && uv_hrtime() < end) {
    run_posts(h);
    if (!op->completions && uv_run(&h->loop, UV_RUN_NOWAIT) >= 0)
      uv_sleep(1);
  }
  return op->completions == 1;
}

MINI void mini_stop(mini_host *h) {
  int rc = uv_loop_close(&h->loop);
  REQUIRE(rc == 0);
  pthread_mutex_destroy(&h->lock);
}

/* Closes the backend; the loop must be left clean. */
MINI void mini_close(mini_host *h) {
  pco_op op = {.expect = NOTHING};
  pthread_mutex_lock(&h->lock);
  h->closing = true;
  pthread_mutex_unlock(&h->lock);
  REQUIRE(h->api->close(h->backend, &op) == 0);
  REQUIRE(wait_op(h, &op, 20000) && op.code == 0);
  REQUIRE(!h->posts);
  mini_stop(h);
}

/* Loads a plugin without the loader's checks. */
MINI const pco_backend_api *load_api(const char *path) {
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle)
    printf("Bail out! %s\n", dlerror());
  const pco_plugin_entry *entry =
      handle ? (const pco_plugin_entry *)dlsym(handle, PCO_ENTRY_SYMBOL) : NULL;
  REQUIRE(entry);
  return entry->backends[0]->api;
}

#endif /* PCO_SPEC_MINI_HOST_H */
