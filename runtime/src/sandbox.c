/* SPDX-License-Identifier: MIT */
/*
 * The life of a sandbox; see sandbox.h.
 *
 * Creation is transactional: whatever fails after the plugin made something,
 * the plugin is told to destroy it before the op completes, and the first error
 * is the one that comes out.
 */
#include "sandbox_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "departed.h"
#include "fields.h"
#include "process.h"
#include "runtime.h"

#define DEATH_NS UINT64_C(2000000000) /* for a plugin to say why */

/* ---- references and fields ----------------------------------------------- */

void pco__sandbox_ref(pco__sandbox *sb) {
  atomic_fetch_add_explicit(&sb->refs, 1, memory_order_relaxed);
}

static void free_labels(pco__sandbox *sb) {
  for (size_t i = 0; i < sb->n_labels; i++) {
    free((char *)(uintptr_t)sb->labels[i].key);
    free((char *)(uintptr_t)sb->labels[i].value);
  }
  free(sb->labels);
}

void pco__sandbox_unref(pco__sandbox *sb) {
  if (!sb || atomic_fetch_sub_explicit(&sb->refs, 1, memory_order_acq_rel) != 1)
    return;
  free(sb->id);
  free(sb->name);
  free(sb->image);
  free(sb->cwd);
  free_labels(sb);
  pco__error_free(sb->death);
  if (sb->calls)
    pco__error_free(sb->calls->left);
  pco__backend_unref(sb->backend);
  free(sb->calls);
  free(sb);
}

bool pco__sandbox_copy(char **to, const char *s) {
  *to = s ? strdup(s) : NULL;
  return *to || !s;
}

int pco__sandbox_set_labels(pco__sandbox *sb, const pco_pair *labels,
                            size_t n) {
  if (n == 0)
    return 0;
  sb->labels = calloc(n, sizeof *sb->labels);
  if (!sb->labels)
    return UV_ENOMEM;
  sb->n_labels = n;
  for (size_t i = 0; i < n; i++) {
    char *key = strdup(labels[i].key);
    char *value = strdup(labels[i].value);
    sb->labels[i] = (pco_pair){.key = key, .value = value};
    if (!key || !value)
      return UV_ENOMEM;
  }
  return 0;
}

static int copy_opts(pco__sandbox *sb, const pco_create_opts *opts) {
  if (!pco__sandbox_copy(&sb->name, opts->name) ||
      !pco__sandbox_copy(&sb->image, opts->image))
    return UV_ENOMEM;
  sb->detachable = (opts->flags & PCO_CREATE_DETACHABLE) != 0;
  return pco__sandbox_set_labels(sb, opts->labels, opts->n_labels);
}

pco__error *pco__sandbox_check(const pco__sandbox *sb) {
  switch (sb->state) {
  case PCO__SANDBOX_RUNNING:
    return NULL;
  case PCO__SANDBOX_DEAD:
    return pco__error_copy(sb->death);
  case PCO__SANDBOX_DETACHING:
    return pco__error_new(PCO_ECLOSED, PCO_SOURCE_HOST, NULL,
                          "the sandbox is being detached");
  default:
    return pco__error_new(PCO_ECLOSED, PCO_SOURCE_HOST, NULL,
                          "the sandbox is closed");
  }
}

/* ---- the end ------------------------------------------------------------- */

/* Nobody waits any more for why the agent ended. */
static void forget_death(pco__sandbox *sb) {
  struct pco__sandbox_calls *c = sb->calls;
  pco__timer_stop(sb->loop, &c->death_timer);
  pco__error_free(c->why_dead);
  pco__error_free(c->told);
  c->why_dead = c->told = NULL;
}

/* Tells everybody who waits for something in this sandbox. */
static void tell_processes(pco__sandbox *sb, const pco__error *err) {
  /* Those with a handle stay in the list, the others leave it: all move to a
   * list of their own first, and return as they are told. */
  pco__node untold;
  pco__list_init(&untold);
  for (pco__node *n; (n = pco__list_shift(&sb->processes)) != NULL;)
    pco__list_append(&untold, n);
  for (pco__node *n; (n = pco__list_shift(&untold)) != NULL;) {
    pco__list_append(&sb->processes, n);
    pco__process_lost(PCO_CONTAINER(n, pco__process, node),
                      pco__error_copy(err));
  }
}

/* After CLOSED no process is held by the loop any more. */
static void retire_processes(pco__sandbox *sb) {
  while (!pco__list_empty(&sb->processes)) {
    pco__process *p = PCO_CONTAINER(sb->processes.next, pco__process, node);
    pco__process_ref(p); /* it may have no handle that keeps it */
    p->handles = 0;
    pco__process_release(p);
    bool stays = !pco__list_empty(&p->node);
    pco__process_unref(p);
    if (stays)
      break;
  }
  pco__departed_forget_all(sb);
}

static void close_link(pco__sandbox *sb, pco__error *err) {
  pco__link *link = sb->link;
  sb->link = NULL;
  if (link)
    pco__link_close(link, err);
  else
    pco__error_free(err);
}

static void complete_create(pco__sandbox *sb, pco__error *err) {
  pco__op *op = sb->create_op;
  sb->create_op = NULL;
  if (!err) {
    pco__sandbox_ref(sb);
    *sb->calls->out = sb;
  }
  pco__op_complete(op, err);
}

/* Nobody waits for what the plugin could not end; takes err. */
static void log_left(pco__sandbox *sb, pco__error *err) {
  if (err)
    pco__log_write(&sb->loop->runtime->log, PCO_LOG_WARNING,
                   "the end of the sandbox %s: %s", sb->id ? sb->id : "?",
                   err->message ? err->message : pco__code_text(err->code));
  pco__error_free(err);
}

/* Tells who waits for it; takes err. */
static void become_closed(pco__sandbox *sb, pco__error *err) {
  struct pco__sandbox_calls *c = sb->calls;
  pco__backend *b = sb->backend;
  sb->state = PCO__SANDBOX_CLOSED;
  if (sb->create_op) {
    /* The failure comes first; what went wrong while undoing it is a note. */
    pco__error *failure = c->failure;
    c->failure = NULL;
    while (err && failure->cause)
      failure = failure->cause;
    complete_create(sb, pco__error_because(failure, err));
    err = NULL;
  }
  for (pco__node *n; (n = pco__list_shift(&sb->closers)) != NULL;) {
    pco__op_complete(PCO_CONTAINER(n, pco__op, owner_node), err);
    err = NULL;
  }
  log_left(sb, err);
  pco__list_remove(&sb->node);
  pco__backend_sandbox_gone(b);
  pco__sandbox_unref(sb);
}

static void on_destroyed(pco_op *op, pco__error *err) {
  struct pco__sandbox_calls *c =
      PCO_CONTAINER(op, struct pco__sandbox_calls, destroy);
  pco__sandbox *sb = c->sandbox;
  c->destroying = false;
  sb->plugin = NULL;
  if (sb->state == PCO__SANDBOX_DEAD) { /* close() is still to come */
    c->left = err;
    return;
  }
  if (!err) {
    err = c->left;
    c->left = NULL;
  }
  pco__sandbox_end(sb, err);
}

void pco__sandbox_end(pco__sandbox *sb, pco__error *err) {
  if (sb->n_holds == 0) {
    become_closed(sb, err);
    return;
  }
  sb->destroyed = true;
  sb->calls->left = err;
}

void pco__sandbox_hold(pco__sandbox *sb) {
  sb->n_holds++;
}

void pco__sandbox_let_go(pco__sandbox *sb) {
  sb->n_holds--;
  if (sb->n_holds > 0 || !sb->destroyed)
    return;
  pco__error *err = sb->calls->left;
  sb->calls->left = NULL;
  sb->destroyed = false;
  become_closed(sb, err);
}

void pco__sandbox_destroy(pco__sandbox *sb) {
  pco_op *op = &sb->calls->destroy;
  if (sb->calls->destroying)
    return;
  sb->calls->destroying = true;
  pco__plugin_op_init(op, sb->backend, NULL, on_destroyed);
  if (sb->plugin)
    pco__plugin_op_submitted(op,
                             sb->backend->info->api->destroy(sb->plugin, op));
  else
    on_destroyed(op, NULL);
}

static void send_shutdown(pco__sandbox *sb) {
  if (!sb->link)
    return;
  pco_wire_buf frame = {0};
  pco_wire_begin(&frame, PCO_WIRE_SHUTDOWN, 0, pco__link_next(sb->link));
  pco__link_send(sb->link, &frame);
}

static void cancel_ops(pco__sandbox *sb) {
  for (pco__node *n = sb->ops.next; n != &sb->ops;) {
    pco__op *op = PCO_CONTAINER(n, pco__op, owner_node);
    n = n->next;
    pco__op_cancel_now(op, PCO_ECLOSED);
  }
}

void pco__sandbox_part(pco__sandbox *sb, const char *text) {
  pco__error *err =
      pco__error_new(PCO_ECLOSED, PCO_SOURCE_HOST, NULL, "%s", text);
  if (sb->link)
    pco__link_hang_up(sb->link);
  forget_death(sb);
  cancel_ops(sb);
  tell_processes(sb, err);
  retire_processes(sb);
  close_link(sb, err);
}

void pco__sandbox_begin_close(pco__sandbox *sb) {
  sb->state = PCO__SANDBOX_CLOSING;
  forget_death(sb);
  pco__error *err = pco__error_new(PCO_ECLOSED, PCO_SOURCE_HOST, NULL,
                                   "the sandbox was closed meanwhile");
  cancel_ops(sb);
  tell_processes(sb, err);
  retire_processes(sb);
  send_shutdown(sb);
  close_link(sb, err);
  pco__sandbox_destroy(sb);
}

void pco__sandbox_close(pco__sandbox *sb, pco__op *op) {
  if (sb->state == PCO__SANDBOX_CLOSED) {
    if (op)
      pco__op_complete(op, NULL);
    return;
  }
  if (op)
    pco__list_append(&sb->closers, &op->owner_node);
  if (sb->state == PCO__SANDBOX_CREATING) {
    pco__sandbox_create_cancel(sb);
    return;
  }
  if (sb->state == PCO__SANDBOX_DETACHING)
    sb->calls->close_wished = true; /* it was asked first */
  else if (sb->state != PCO__SANDBOX_CLOSING)
    pco__sandbox_begin_close(sb);
}

void pco__sandbox_abandon(pco__sandbox *sb) {
  if (!sb->stays)
    pco__sandbox_close(sb, NULL);
  else if (sb->state == PCO__SANDBOX_RUNNING)
    pco__sandbox_detach(sb, NULL);
  else if (sb->state != PCO__SANDBOX_DETACHING)
    pco__sandbox_close(sb, NULL);
}

/* ---- an agent that ended by itself --------------------------------------- */

/* What is left of the sandbox ends now, whatever its agent thinks: it may hang,
 * or lie.  What goes wrong in that is told by close(), which has no plugin's
 * sandbox any more. */
static void die(pco__sandbox *sb, pco__error *cause) {
  if (sb->state != PCO__SANDBOX_RUNNING &&
      sb->state != PCO__SANDBOX_DETACHING) {
    pco__error_free(cause);
    return;
  }
  sb->state = PCO__SANDBOX_DEAD;
  int code = cause && cause->code == PCO_EPROTO ? PCO_EPROTO : PCO_EGONE;
  sb->death = pco__error_because(
      pco__error_new(code, PCO_SOURCE_HOST, NULL,
                     code == PCO_EPROTO
                         ? "the sandbox's agent broke the protocol, so the "
                           "sandbox was ended"
                         : "the sandbox is gone: its agent has ended"),
      cause);
  pco__sandbox_detach_fail(sb, pco__error_copy(sb->death));
  tell_processes(sb, sb->death);
  close_link(sb, pco__error_copy(sb->death));
  pco__sandbox_destroy(sb);
  if (sb->calls->close_wished)
    pco__sandbox_begin_close(sb);
}

static void take_death(pco_op *op, const void *result) {
  struct pco__sandbox_calls *c =
      PCO_CONTAINER(op, struct pco__sandbox_calls, death);
  const pco_error *e = (const pco_error *)result;
  if (e && e->code < 0 && !c->told)
    c->told = pco__error_from_abi(e, PCO_EBACKEND);
}

static void fail_create(pco__sandbox *sb, pco__error *err);

/* The sandbox dies of what its plugin knows, or else of what the link saw. */
static void die_of(pco__sandbox *sb) {
  struct pco__sandbox_calls *c = sb->calls;
  bool knows = c->told && c->why_dead->code != PCO_EPROTO;
  pco__error *cause = knows ? c->told : c->why_dead;
  if (knows)
    c->told = NULL;
  else
    c->why_dead = NULL;
  forget_death(sb);
  if (sb->state == PCO__SANDBOX_CREATING)
    fail_create(sb, cause);
  else
    die(sb, cause);
}

static void on_death_known(pco_op *op, pco__error *err) {
  pco__sandbox *sb =
      PCO_CONTAINER(op, struct pco__sandbox_calls, death)->sandbox;
  pco__error_free(err);
  if (sb->calls->why_dead)
    die_of(sb);
  forget_death(sb); /* it came too late */
  pco__sandbox_unref(sb);
}

/* The plugin took too long to say why. */
static void on_death_unknown(pco__timer *timer) {
  die_of(PCO_CONTAINER(timer, struct pco__sandbox_calls, death_timer)->sandbox);
}

/* Also while it is being created: the launcher says what is missing here. */
void pco__sandbox_link_died(pco__sandbox *sb, const pco__error *why) {
  struct pco__sandbox_calls *c = sb->calls;
  c->why_dead = pco__error_copy(why);
  c->death_timer.fn = on_death_unknown;
  pco__timer_start(sb->loop, &c->death_timer, DEATH_NS);
  pco__sandbox_ref(sb);
  pco__plugin_op_init(&c->death, sb->backend, take_death, on_death_known);
  const pco_backend_api *api = sb->backend->info->api;
  if (PCO_HAS(api, cause_of_death))
    pco__plugin_op_submitted(&c->death,
                             api->cause_of_death(sb->plugin, &c->death));
  else
    on_death_known(&c->death, NULL);
}

static void on_link_dead(pco__link *link, const pco__error *err) {
  pco__sandbox *sb = pco__link_owner(link);
  if (!pco__sandbox_detach_later(sb, err))
    pco__sandbox_link_died(sb, err);
}

/* ---- creation ------------------------------------------------------------ */

/* Undoes what there is, then tells the op. */
static void fail_create(pco__sandbox *sb, pco__error *err) {
  struct pco__sandbox_calls *c = sb->calls;
  if (c->failure) {
    pco__error_free(err);
    return;
  }
  c->failure = err;
  sb->state = PCO__SANDBOX_CLOSING;
  pco__sandbox_part(sb, "the sandbox was not made");
  if (sb->stays)
    pco__sandbox_give_back(sb);
  else
    pco__sandbox_destroy(sb);
}

static int on_hello(pco__link_request *r, const pco_wire_header *h,
                    const uint8_t *payload) {
  pco__sandbox *sb =
      PCO_CONTAINER(r, struct pco__sandbox_calls, hello)->sandbox;
  uint64_t version;
  uint64_t pid = 0;
  if (sb->state != PCO__SANDBOX_CREATING)
    return 0;
  if (h->type != PCO_WIRE_REPLY ||
      pco__field_number(h, payload, PCO_TAG_VERSION, UINT16_MAX, &version) !=
          1 ||
      version != PCO_WIRE_VERSION ||
      pco__field_number(h, payload, PCO_TAG_PID, 1u << 30, &pid) != 1 ||
      pid == 0)
    return -EPROTO;
  sb->pid = (int64_t)pid;
  if (sb->stays)
    return pco__sandbox_ask_commands(sb, h, payload);
  pco__sandbox_ready(sb);
  return 0;
}

void pco__sandbox_ready(pco__sandbox *sb) {
  sb->state = PCO__SANDBOX_RUNNING;
  complete_create(sb, NULL);
}

static void on_hello_lost(pco__link_request *r, const pco__error *err) {
  (void)r; /* on_link_dead or whoever closed the link knows */
  (void)err;
}

static void say_hello(pco__sandbox *sb) {
  pco__link_request *r = &sb->calls->hello;
  pco_wire_buf frame = {0};
  r->id = pco__link_next(sb->link);
  r->type = PCO_WIRE_HELLO;
  r->frame = on_hello;
  r->lost = on_hello_lost;
  pco_wire_begin(&frame, PCO_WIRE_HELLO, 0, r->id);
  pco_wire_number(&frame, PCO_TAG_VERSION_MIN, PCO_WIRE_VERSION);
  pco_wire_number(&frame, PCO_TAG_VERSION_MAX, PCO_WIRE_VERSION);
  pco__link_request_send(sb->link, r, &frame, NULL, 0, true);
}

void pco__sandbox_take(pco__sandbox *sb, const pco_sandbox_result *r) {
  struct pco__sandbox_calls *c = sb->calls;
  sb->plugin = r->sandbox;
  c->no_memory = !pco__sandbox_copy(&sb->id, r->id);
  if (PCO_HAS(r, cwd) && !pco__sandbox_copy(&sb->cwd, r->cwd))
    c->no_memory = true;
  if (PCO_HAS(r, created))
    sb->created = r->created;
  if (PCO_HAS(r, expires))
    sb->expires = r->expires;
  sb->foreign = r->flags & PCO_SANDBOX_FOREIGN_ID;
  c->agent_fd = r->flags & PCO_SANDBOX_HAS_AGENT ? r->agent_fd : -1;
}

static void take_sandbox(pco_op *op, const void *result) {
  pco__sandbox_take(
      PCO_CONTAINER(op, struct pco__sandbox_calls, create)->sandbox,
      (const pco_sandbox_result *)result);
}

static int connect_agent(pco__sandbox *sb) {
  struct pco__sandbox_calls *c = sb->calls;
  int fd = c->agent_fd;
  c->agent_fd = -1;
  int rc = pco__link_open(sb->loop, fd, on_link_dead, &sb->link);
  if (rc == 0) {
    pco__link_set_owner(sb->link, sb);
    say_hello(sb);
  }
  return rc;
}

void pco__sandbox_made(pco_op *op, pco__error *err) {
  struct pco__sandbox_calls *c =
      PCO_CONTAINER(op, struct pco__sandbox_calls, create);
  pco__sandbox *sb = c->sandbox;
  if (!err && sb->create_op->cancel_code)
    err = pco__error_new(UV_ECANCELED, PCO_SOURCE_HOST, NULL, NULL);
  if (!err && (sb->backend->closing || !pco__list_empty(&sb->closers)))
    err = pco__error_new(PCO_ECLOSED, PCO_SOURCE_HOST, NULL,
                         "it was closed meanwhile");
  if (!err && c->no_memory)
    err = pco__error_no_memory();
  int rc = 0;
  if (!err && c->agent_fd >= 0)
    rc = connect_agent(sb);
  if (c->agent_fd >= 0)
    close(c->agent_fd);
  if (rc < 0)
    err = pco__error_new(rc, PCO_SOURCE_HOST, NULL,
                         "cannot watch the agent's stream: %s",
                         pco__code_text(rc));
  if (err) {
    fail_create(sb, err);
  } else if (!sb->link) {
    const pco_backend_api *api = sb->backend->info->api;
    const void *fs = PCO_HAS(api, get_extension)
                         ? api->get_extension(sb->backend->plugin, PCO_FS_ID)
                         : NULL;
    sb->fs = (const pco_fs_api *)fs;
    pco__sandbox_ready(sb);
  }
}

void pco__sandbox_create_cancel(pco__sandbox *sb) {
  if (sb->state != PCO__SANDBOX_CREATING)
    return;
  pco__plugin_op_cancel(&sb->calls->create);
  if (sb->link)
    fail_create(sb, pco__error_new(UV_ECANCELED, PCO_SOURCE_HOST, NULL, NULL));
}

pco__sandbox *pco__sandbox_new(pco__backend *b, pco__op *op,
                               pco__sandbox **out) {
  if (b->closing) {
    pco__op_complete(op, pco__error_new(PCO_ECLOSED, PCO_SOURCE_HOST, NULL,
                                        "the backend is closed"));
    return NULL;
  }
  pco__sandbox *sb = calloc(1, sizeof *sb);
  struct pco__sandbox_calls *calls = calloc(1, sizeof *calls);
  if (!sb || !calls) {
    free(sb);
    free(calls);
    pco__op_complete(op, pco__error_no_memory());
    return NULL;
  }
  atomic_init(&sb->refs, 1);
  pco__backend_ref(b);
  sb->backend = b;
  sb->loop = b->loop;
  sb->created = pco__now_seconds();
  sb->calls = calls;
  calls->sandbox = sb;
  calls->agent_fd = -1;
  pco__list_init(&calls->hello.node);
  pco__list_init(&calls->commands.node);
  pco__list_init(&sb->node);
  pco__list_init(&sb->processes);
  pco__list_init(&sb->departed);
  pco__list_init(&sb->ops);
  pco__list_init(&sb->closers);
  sb->create_op = op;
  calls->out = out;
  pco__list_append(&b->sandboxes, &sb->node);
  return sb;
}

void pco__sandbox_create(pco__backend *b, const pco_create_opts *opts,
                         pco__op *op, pco__sandbox **out) {
  pco__sandbox *sb = pco__sandbox_new(b, op, out);
  if (!sb)
    return;
  pco_op *call = &sb->calls->create;
  pco__plugin_op_init(call, b, take_sandbox, pco__sandbox_made);
  pco__plugin_op_submitted(call,
                           copy_opts(sb, opts) < 0
                               ? UV_ENOMEM
                               : b->info->api->create(b->plugin, opts, call));
}
