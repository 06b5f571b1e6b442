/* SPDX-License-Identifier: MIT */
/* The waiting calls on backends and sandboxes; see sandbox_ops.h. */
#include "sandbox_ops.h"

#include <stdlib.h>
#include <string.h>

#include "departed.h"
#include "farewell.h"
#include "lua_sandbox.h"
#include "plugin_loader.h"
#include "runtime.h"

/* ---- open ---------------------------------------------------------------- */

/* 0 or a code, with *err. */
static int open_now(pco__opening *o, pco__loop *loop, pco__backend **backend,
                    pco__error **err) {
  const pco_backend_info *info = o->info;
  o->info = NULL;
  return pco__backend_open(loop, info, o->settings, o->n_settings, backend,
                           err);
}

static void drop_opening(pco__opening *o) {
  if (o->info)
    pco__loader_release(o->info);
}

static void open_start(pco__op *op) {
  pco__open_op *o = PCO_CONTAINER(op, pco__open_op, op);
  pco__error *err = NULL;
  open_now(&o->opening, op->loop, &o->backend, &err);
  pco__op_complete(op, err);
}

static void open_destroy(pco__op *op) {
  pco__open_op *o = PCO_CONTAINER(op, pco__open_op, op);
  drop_opening(&o->opening);
  pco__backend_unref(o->backend);
}

/* A plugin's open does not wait, so the op is over at once, in a task or not.
 */
const pco__op_class pco__open_class = {.name = "open",
                                       .shielded = true,
                                       .start = open_start,
                                       .push = pco__push_opened,
                                       .destroy = open_destroy};

/* ---- create -------------------------------------------------------------- */

static pco__create_op *create_of(pco__op *op) {
  return PCO_CONTAINER(op, pco__create_op, op);
}

static void create_start(pco__op *op) {
  pco__create_op *o = create_of(op);
  pco__error *err = NULL;
  if (!o->backend) {
    if (open_now(&o->opening, op->loop, &o->backend, &err) < 0) {
      pco__op_complete(op, err);
      return;
    }
    o->opened = true;
  }
  if (o->attach_id)
    pco__sandbox_attach(o->backend, o->attach_id, op, &o->sandbox);
  else
    pco__sandbox_create(o->backend, &o->opts, op, &o->sandbox);
}

/* The sandbox that is being made is the last of its backend's whose op this
 * is. */
static void create_cancel(pco__op *op) {
  pco__create_op *o = create_of(op);
  pco__backend *b = o->backend;
  for (pco__node *n = b->sandboxes.next; n != &b->sandboxes; n = n->next) {
    pco__sandbox *sb = PCO_CONTAINER(n, pco__sandbox, node);
    if (sb->create_op == op) {
      pco__sandbox_create_cancel(sb);
      return;
    }
  }
}

/* A failed creation closes the backend that it opened before it is told. */
static bool create_hold(pco__op *op, pco__error **err) {
  pco__create_op *o = create_of(op);
  if (o->failure) {
    pco__error_free(*err);
    *err = o->failure;
    o->failure = NULL;
    return false;
  }
  if (!*err || !o->opened)
    return false;
  o->opened = false;
  o->failure = *err;
  pco__backend_close(o->backend, op);
  return true;
}

/* A sandbox that nobody took (its caller has given up) ends, or is left as it
 * was. */
static void create_leave(pco__op *op) {
  pco__create_op *o = create_of(op);
  bool opened = o->sandbox && o->opened;
  if (!opened)
    pco__backend_unref(o->backend);
  pco__say_farewell(op->loop,
                    (pco__farewell){.sandbox = o->sandbox,
                                    .backend = opened ? o->backend : NULL});
  o->sandbox = NULL;
  o->backend = NULL;
}

static void create_destroy(pco__op *op) {
  pco__create_op *o = create_of(op);
  create_leave(op);
  drop_opening(&o->opening);
  pco__error_free(o->failure);
}

const pco__op_class pco__create_class = {.name = "backend.create",
                                         .start = create_start,
                                         .cancel = create_cancel,
                                         .hold = create_hold,
                                         .push = pco__push_created,
                                         .leave = create_leave,
                                         .destroy = create_destroy};
const pco__op_class pco__attach_class = {.name = "backend.attach",
                                         .start = create_start,
                                         .cancel = create_cancel,
                                         .hold = create_hold,
                                         .push = pco__push_created,
                                         .leave = create_leave,
                                         .destroy = create_destroy};
const pco__op_class pco__sandbox_class = {.name = "sandbox",
                                          .start = create_start,
                                          .cancel = create_cancel,
                                          .hold = create_hold,
                                          .push = pco__push_created,
                                          .leave = create_leave,
                                          .destroy = create_destroy};

/* ---- probe, list, destroy ------------------------------------------------ */

static pco__backend_op *backend_op_of(pco__op *op) {
  return PCO_CONTAINER(op, pco__backend_op, op);
}

static char *copy(pco__backend_op *o, const char *s) {
  return s ? pco__arena_string(&o->results, s) : NULL;
}

static void plugin_done(pco_op *call, pco__error *err) {
  pco__backend_op *o = PCO_CONTAINER(call, pco__backend_op, call);
  if (!err && o->results.failed)
    err = pco__error_no_memory();
  pco__op_complete(&o->op, err);
}

static void backend_cancel(pco__op *op) {
  pco__plugin_op_cancel(&backend_op_of(op)->call);
}

/* Begins a plugin call of the op; false if the backend is closed. */
static bool begin(pco__backend_op *o,
                  void (*take)(pco_op *call, const void *result)) {
  if (o->backend->closing) {
    pco__op_complete(&o->op, pco__error_new(PCO_ECLOSED, PCO_SOURCE_HOST, NULL,
                                            "the backend is closed"));
    return false;
  }
  pco__plugin_op_init(&o->call, o->backend, take, plugin_done);
  return true;
}

static void take_probe(pco_op *call, const void *result) {
  pco__backend_op *o = PCO_CONTAINER(call, pco__backend_op, call);
  const pco_probe_result *r = (const pco_probe_result *)result;
  pco__capability **last = &o->capabilities;
  for (size_t i = 0; i < r->n_capabilities; i++) {
    pco__capability *c = pco__arena_alloc(&o->results, sizeof *c);
    if (!c)
      return;
    c->name = copy(o, r->capabilities[i].name);
    c->reason = copy(o, r->capabilities[i].reason);
    c->level = r->capabilities[i].level;
    *last = c;
    last = &c->next;
  }
  o->detail = copy(o, r->detail);
}

static void probe_start(pco__op *op) {
  pco__backend_op *o = backend_op_of(op);
  if (begin(o, take_probe))
    pco__plugin_op_submitted(
        &o->call, o->backend->info->api->probe(o->backend->plugin, &o->call));
}

static void copy_labels(pco__backend_op *o, pco__listed *l,
                        const pco_sandbox_info *info) {
  l->labels =
      pco__arena_alloc(&o->results, (info->n_labels + 1) * sizeof *l->labels);
  for (size_t i = 0; l->labels && i < info->n_labels; i++) {
    l->labels[i].key = copy(o, info->labels[i].key);
    l->labels[i].value = copy(o, info->labels[i].value);
    l->n_labels++;
  }
}

static void take_list(pco_op *call, const void *result) {
  pco__backend_op *o = PCO_CONTAINER(call, pco__backend_op, call);
  const pco_list_result *r = (const pco_list_result *)result;
  pco__listed **last = &o->listed;
  for (size_t i = 0; i < r->n_sandboxes; i++) {
    const pco_sandbox_info *info = r->sandboxes[i];
    pco__listed *l = pco__arena_alloc(&o->results, sizeof *l);
    if (!l)
      return;
    l->id = copy(o, info->id);
    l->owner = copy(o, info->owner);
    l->state = info->state;
    l->created = info->created;
    l->expires = info->expires;
    l->name = PCO_HAS(info, name) ? copy(o, info->name) : NULL;
    l->image = PCO_HAS(info, image) ? copy(o, info->image) : NULL;
    copy_labels(o, l, info);
    *last = l;
    last = &l->next;
  }
}

/* Opens the backend of an op that has none; false if that failed. */
static bool open_first(pco__backend_op *o) {
  pco__error *err = NULL;
  if (o->backend)
    return true;
  if (open_now(&o->opening, o->op.loop, &o->backend, &err) < 0) {
    pco__op_complete(&o->op, err);
    return false;
  }
  o->opened = true;
  return true;
}

/* Closes what was opened here before the call ends, in whichever way. */
static bool backend_hold(pco__op *op, pco__error **err) {
  pco__backend_op *o = backend_op_of(op);
  if (o->opened) {
    o->opened = false;
    o->failure = *err;
    pco__backend_close(o->backend, op);
    return true;
  }
  if (o->failure) {
    pco__error_free(*err);
    *err = o->failure;
    o->failure = NULL;
  }
  return false;
}

static void unsupported(pco__op *op, const char *what) {
  pco__backend_op *o = backend_op_of(op);
  pco__op_complete(op, pco__error_new(PCO_EUNSUPPORTED, PCO_SOURCE_HOST, NULL,
                                      "the backend %s cannot %s",
                                      o->backend->info->id, what));
}

static void list_start(pco__op *op) {
  pco__backend_op *o = backend_op_of(op);
  if (!open_first(o))
    return;
  const pco_backend_api *api = o->backend->info->api;
  if (!PCO_HAS(api, list))
    unsupported(op, "list sandboxes");
  else if (begin(o, take_list))
    pco__plugin_op_submitted(&o->call, api->list(o->backend->plugin, &o->call));
}

static void reap_start(pco__op *op) {
  pco__backend_op *o = backend_op_of(op);
  if (!open_first(o))
    return;
  const pco_backend_api *api = o->backend->info->api;
  if (!PCO_HAS(api, reap))
    pco__op_complete(op, NULL); /* nothing of it outlives its program */
  else if (begin(o, take_list))
    pco__plugin_op_submitted(&o->call, api->reap(o->backend->plugin, &o->call));
}

/* One of our own is closed as close() would do it. */
static pco__sandbox *own_sandbox(const pco__backend *b, const char *id) {
  for (pco__node *n = b->sandboxes.next; n != &b->sandboxes; n = n->next) {
    pco__sandbox *sb = PCO_CONTAINER(n, pco__sandbox, node);
    if (sb->id && strcmp(sb->id, id) == 0)
      return sb;
  }
  return NULL;
}

static void destroyed(pco_op *call, pco__error *err) {
  pco__backend_op *o = PCO_CONTAINER(call, pco__backend_op, call);
  o->acted = !err;
  if (err && (err->code == UV_ENOENT || err->code == PCO_EGONE)) {
    pco__error_free(err);
    err = NULL;
  }
  pco__op_complete(&o->op, err);
}

static void destroy_start(pco__op *op) {
  pco__backend_op *o = backend_op_of(op);
  if (!open_first(o))
    return;
  const pco_backend_api *api = o->backend->info->api;
  pco__sandbox *own = own_sandbox(o->backend, o->id);
  if (own && own->state != PCO__SANDBOX_CLOSED) {
    o->acted = own->state != PCO__SANDBOX_CLOSING;
    pco__sandbox_close(own, op);
    return;
  }
  if (!PCO_HAS(api, destroy_id)) {
    pco__op_complete(op, NULL); /* what is not here is gone */
    return;
  }
  if (!begin(o, NULL))
    return;
  o->call.done = destroyed;
  pco__plugin_op_submitted(
      &o->call, api->destroy_id(o->backend->plugin, o->id, &o->call));
}

static void backend_destroy(pco__op *op) {
  pco__backend_op *o = backend_op_of(op);
  drop_opening(&o->opening);
  pco__arena_free(&o->results);
  pco__error_free(o->failure);
  pco__sandbox_unref(o->sandbox);
  pco__backend_unref(o->backend);
}

const pco__op_class pco__probe_class = {.name = "backend.probe",
                                        .start = probe_start,
                                        .cancel = backend_cancel,
                                        .push = pco__push_probe,
                                        .destroy = backend_destroy};
const pco__op_class pco__list_class = {.name = "backend.list",
                                       .start = list_start,
                                       .cancel = backend_cancel,
                                       .hold = backend_hold,
                                       .push = pco__push_listed,
                                       .destroy = backend_destroy};
const pco__op_class pco__destroy_class = {.name = "backend.destroy",
                                          .start = destroy_start,
                                          .cancel = backend_cancel,
                                          .hold = backend_hold,
                                          .push = pco__push_acted,
                                          .destroy = backend_destroy};

const pco__op_class pco__reap_class = {.name = "backend.reap",
                                       .start = reap_start,
                                       .cancel = backend_cancel,
                                       .hold = backend_hold,
                                       .push = pco__push_reaped,
                                       .destroy = backend_destroy};

/* ---- close, detach ------------------------------------------------------- */

static void backend_close_start(pco__op *op) {
  pco__backend_close(backend_op_of(op)->backend, op);
}

const pco__op_class pco__backend_close_class = {.name = "backend.close",
                                                .shielded = true,
                                                .start = backend_close_start,
                                                .push = pco__push_true,
                                                .destroy = backend_destroy};

static void sandbox_close_start(pco__op *op) {
  pco__backend_op *o = backend_op_of(op);
  /* Closing the backend closes the sandbox first. */
  if (o->with_backend)
    pco__backend_close(o->backend, op);
  else
    pco__sandbox_close(o->sandbox, op);
}

const pco__op_class pco__sandbox_close_class = {.name = "sandbox.close",
                                                .shielded = true,
                                                .start = sandbox_close_start,
                                                .push = pco__push_true,
                                                .destroy = backend_destroy};

static void detach_start(pco__op *op) {
  pco__sandbox_detach(backend_op_of(op)->sandbox, op);
}

static void detach_cancel(pco__op *op) {
  pco__sandbox_detach_cancel(backend_op_of(op)->sandbox, op);
}

/* The sandbox is left: its backend closes without it.  What goes wrong in that
 * changes nothing of it. */
static bool detach_hold(pco__op *op, pco__error **err) {
  pco__backend_op *o = backend_op_of(op);
  if (o->acted && *err) {
    pco__log_write(
        &op->loop->runtime->log, PCO_LOG_WARNING,
        "the end of the backend of the detached sandbox %s: %s", o->sandbox->id,
        (*err)->message ? (*err)->message : pco__code_text((*err)->code));
    pco__error_free(*err);
    *err = NULL;
  }
  if (*err || o->acted || !o->with_backend)
    return false;
  o->acted = true;
  pco__backend_close(o->backend, op);
  return true;
}

const pco__op_class pco__detach_class = {.name = "sandbox.detach",
                                         .start = detach_start,
                                         .cancel = detach_cancel,
                                         .hold = detach_hold,
                                         .push = pco__push_detached,
                                         .destroy = backend_destroy};

/* ---- looking ------------------------------------------------------------- */

static pco__look_op *look_of(pco__op *op) {
  return PCO_CONTAINER(op, pco__look_op, op);
}

static size_t length(const pco__node *list) {
  size_t count = 0;
  for (const pco__node *n = list->next; n != list; n = n->next)
    count++;
  return count;
}

/* Notes a process, if it is one that runs, or (with `all`) one of spawn that
 * has ended by itself. */
static void see(pco__look_op *o, pco__process *p) {
  bool runs = p->started && !p->has_exit && !p->error;
  if (!runs && !(o->all && p->has_exit && p->spawned))
    return;
  pco__process_ref(p);
  o->seen[o->n_seen++] = (pco__seen_process){.process = p,
                                             .ended = p->has_exit,
                                             .code = p->exit.code,
                                             .signal = p->exit.signal};
}

static void processes_start(pco__op *op) {
  pco__look_op *o = look_of(op);
  pco__sandbox *sb = o->sandbox;
  pco__error *err = pco__sandbox_check(sb);
  size_t most = length(&sb->processes) + sb->n_departed;
  o->seen = err ? NULL : calloc(most + 1, sizeof *o->seen);
  if (!err && !o->seen)
    err = pco__error_no_memory();
  if (err) {
    pco__op_complete(op, err);
    return;
  }
  for (pco__node *n = sb->departed.next; n != &sb->departed; n = n->next)
    see(o, PCO_CONTAINER(n, pco__process, departed_node));
  for (pco__node *n = sb->processes.next; n != &sb->processes; n = n->next)
    see(o, PCO_CONTAINER(n, pco__process, node));
  pco__op_complete(op, NULL);
}

/* The one with this pid that runs, or else the last one that did. */
static pco__process *find_process(const pco__sandbox *sb, int64_t pid) {
  pco__process *found = NULL;
  for (pco__node *n = sb->processes.next; n != &sb->processes; n = n->next) {
    pco__process *p = PCO_CONTAINER(n, pco__process, node);
    if (p->pid == pid && p->started && p->spawned && (!found || !p->has_exit))
      found = p;
  }
  return found ? found : pco__departed_find(sb, pid);
}

static void process_start(pco__op *op) {
  pco__look_op *o = look_of(op);
  pco__error *err = pco__sandbox_check(o->sandbox);
  pco__process *p = err ? NULL : find_process(o->sandbox, o->pid);
  if (p) {
    pco__process_ref(p);
    o->process = p;
    pco__process_reclaim(p);
  } else if (!err) {
    err = pco__error_new(UV_ESRCH, PCO_SOURCE_HOST, NULL,
                         "no process %lld was started by spawn in this "
                         "sandbox, or it ended long ago",
                         (long long)o->pid);
  }
  pco__op_complete(op, err);
}

static void info_start(pco__op *op) {
  pco__look_op *o = look_of(op);
  o->state = o->sandbox->state;
  pco__op_complete(op, NULL);
}

static void look_leave(pco__op *op) {
  pco__look_op *o = look_of(op);
  if (o->process) /* a handle that nobody took */
    pco__say_farewell(op->loop, (pco__farewell){.process = o->process,
                                                .how = PCO__FAREWELL_RELEASE});
  o->process = NULL;
}

static void look_destroy(pco__op *op) {
  pco__look_op *o = look_of(op);
  look_leave(op);
  for (size_t i = 0; i < o->n_seen; i++)
    pco__process_unref(o->seen[i].process);
  free(o->seen);
  pco__sandbox_unref(o->sandbox);
}

const pco__op_class pco__processes_class = {.name = "sandbox.processes",
                                            .start = processes_start,
                                            .push = pco__push_processes,
                                            .destroy = look_destroy};
const pco__op_class pco__process_class = {.name = "sandbox.process",
                                          .start = process_start,
                                          .push = pco__push_found_process,
                                          .leave = look_leave,
                                          .destroy = look_destroy};
const pco__op_class pco__info_class = {.name = "sandbox.info",
                                       .start = info_start,
                                       .push = pco__push_info,
                                       .destroy = look_destroy};
