/* SPDX-License-Identifier: MIT */
/* Sandboxes of a host in C: made, closed, let go. */
#include <stdlib.h>
#include <string.h>

#include "embed_call.h"
#include "farewell.h"
#include "plugin_loader.h"

#define DEFAULT_BACKEND "bwrap"
#define MAX_PAIRS       10000

/* Takes note of a detach that has ended: the box is closed, or as it was. */
static void settle(pco_box *box) {
  pco__op *op = box->leaving;
  if (!op ||
      atomic_load_explicit(&op->word, memory_order_acquire) != PCO__OP_DONE)
    return;
  box->closed = box->closed || !op->error;
  box->leaving = NULL;
  pco__op_unref(op);
}

int pco__box_check(pco_box *box) {
  if (!box)
    return PCO_EINVAL;
  settle(box);
  int rc = box->rt ? pco__embed_check(box->rt) : PCO_ECLOSED;
  if (rc == 0 && box->closed)
    return pco__embed_fail(box->rt, PCO_ECLOSED, "the box is closed");
  return rc;
}

/* ---- creation ------------------------------------------------------------ */

static pco_pair *copy_pairs(pco_pending *p, const pco_pair *pairs, size_t n) {
  if (n > MAX_PAIRS)
    p->op->arena.failed = true;
  pco_pair *copy = n && n <= MAX_PAIRS
                       ? pco__arena_alloc(&p->op->arena, n * sizeof *copy)
                       : NULL;
  for (size_t i = 0; copy && i < n; i++) {
    copy[i].key = pco__call_copy(p, pairs[i].key);
    copy[i].value = pco__call_copy(p, pairs[i].value);
  }
  return copy;
}

/* The i-th of an array whose elements have the size of the host's header. */
static const pco_mount *mount_at(const pco_mount *mounts, size_t i) {
  const void *at = (const char *)mounts + i * mounts->struct_size;
  return (const pco_mount *)at;
}

static pco_mount *copy_mounts(pco_pending *p, const pco_mount *mounts,
                              size_t n) {
  if (n > MAX_PAIRS)
    p->op->arena.failed = true;
  pco_mount *copy = n && n <= MAX_PAIRS
                        ? pco__arena_alloc(&p->op->arena, n * sizeof *copy)
                        : NULL;
  for (size_t i = 0; copy && i < n; i++) {
    const pco_mount *m = mount_at(mounts, i);
    copy[i] = (pco_mount){.struct_size = sizeof *copy, .flags = m->flags};
    copy[i].source = pco__call_copy(p, m->source);
    copy[i].target = pco__call_copy(p, m->target);
  }
  return copy;
}

/* *c is ours, with the host's mounts and limits. */
static void copy_create(pco_pending *p, pco__create_op *o,
                        const pco_create_opts *c) {
  o->opts = *c;
  o->opts.name = pco__call_copy(p, c->name);
  o->opts.image = pco__call_copy(p, c->image);
  o->opts.cwd = pco__call_copy(p, c->cwd);
  o->opts.user = pco__call_copy(p, c->user);
  o->opts.network = pco__call_copy(p, c->network);
  o->opts.snapshot = pco__call_copy(p, c->snapshot);
  o->opts.env = (const char *const *)pco__call_copy_list(p, c->env);
  o->opts.labels = copy_pairs(p, c->labels, c->n_labels);
  o->opts.settings = copy_pairs(p, c->settings, c->n_settings);
  o->opts.mounts = copy_mounts(p, c->mounts, c->n_mounts);
  if (c->limits) {
    pco__embed_take_limits(&o->limits, c->limits);
    o->opts.limits = &o->limits;
  }
}

static int check_mounts(pco_runtime *rt, const pco_create_opts *c) {
  for (size_t i = 0; i < c->n_mounts; i++) {
    const pco_mount *m = mount_at(c->mounts, i);
    pco_mount own;
    if (m->struct_size != c->mounts->struct_size ||
        pco__embed_take(&own, sizeof own, PCO__END_OF(pco_mount, target), m,
                        m->struct_size) < 0)
      return pco__embed_fail(rt, PCO_ESIZE, "struct_size of a pco_mount");
    if (!m->source || !m->target)
      return pco__embed_fail(rt, PCO_EINVAL, "a mount needs source and target");
  }
  return 0;
}

/* The structs of plugin.h inside of the options; *own: the options as we know
 * them. */
static int take_create(pco_runtime *rt, const pco_create_opts *c,
                       pco_create_opts *own) {
  pco_limits limits;
  if (pco__embed_take(own, sizeof *own,
                      PCO__END_OF(pco_create_opts, n_settings), c,
                      c->struct_size) < 0 ||
      (own->limits && pco__embed_take_limits(&limits, own->limits) < 0))
    return pco__embed_fail(rt, PCO_ESIZE,
                           "struct_size of pco_create_opts or its limits");
  own->struct_size = sizeof *own;
  if ((own->n_mounts && !own->mounts) || (own->n_labels && !own->labels) ||
      (own->n_settings && !own->settings))
    return pco__embed_fail(rt, PCO_EINVAL,
                           "pco_create_opts: a number of mounts, labels or "
                           "settings, and no array");
  return check_mounts(rt, own);
}

int pco__box_options(pco_runtime *rt, const pco_box_opts *given,
                     pco_box_opts *opts, pco_create_opts *create) {
  *opts = (pco_box_opts){.size = sizeof *opts};
  if (given &&
      pco__embed_take(opts, sizeof *opts, PCO__END_OF(pco_box_opts, timeout_ns),
                      given, given->size) < 0)
    return pco__embed_fail(rt, PCO_ESIZE, "the size of pco_box_opts");
  if (opts->flags & ~PCO_BOX_PORTAL || opts->reserved || opts->timeout_ns < 0)
    return pco__embed_fail(rt, PCO_EINVAL,
                           "flags, reserved or timeout_ns of pco_box_opts");
  int rc = opts->create ? take_create(rt, opts->create, create) : 0;
  if (opts->create)
    opts->create = create;
  return rc;
}

static int find_plugin(pco_runtime *rt, const char *name,
                       const pco_backend_info **info) {
  const char *path;
  pco__error *err = NULL;
  int rc = pco__loader_open(name, info, &path, &err);
  if (rc < 0)
    pco__embed_fail(rt, rc, "%s",
                    err->message ? err->message : pco__code_text(rc));
  pco__error_free(err);
  return rc;
}

/* The loop for a new box; *portal is its own one, or NULL. */
static int choose_loop(pco_runtime *rt, bool own, pco__loop **loop,
                       pco__portal **portal) {
  *portal = NULL;
  *loop = &rt->lua->runtime.loop;
  if (!own)
    return 0;
  int rc = pco__portal_open(&rt->lua->runtime, false, portal);
  if (rc < 0)
    return pco__embed_fail(rt, rc, "making a portal: %s", pco__code_text(rc));
  *loop = &(*portal)->loop;
  return 0;
}

int pco__box_call(pco__caller *c, const pco_box_opts *opts,
                  const pco__op_class *cls, size_t size, pco_pending **p,
                  pco__opening *opening) {
  pco__portal *portal;
  bool own = opts->flags & PCO_BOX_PORTAL;
  *p = NULL;
  if (own && (c->done || !c->out))
    return pco__embed_fail(c->rt, PCO_EINVAL,
                           "with PCO_BOX_PORTAL pass no `done`, and `out`");
  int rc = choose_loop(c->rt, own, &c->loop, &portal);
  if (rc < 0)
    return rc;
  if (portal)
    portal->users++;
  rc = pco__call_check(c);
  if (rc == 0)
    *p = pco__call_new(c, cls, size);
  if (!*p) {
    if (portal)
      pco__portal_release(portal, true);
    return rc < 0 ? rc : UV_ENOMEM;
  }
  (*p)->in_use = own;
  (*p)->op->timeout = opts->timeout_ns ? opts->timeout_ns : -1;
  opening->settings =
      copy_pairs(*p, opts->backend_settings, opts->n_backend_settings);
  opening->n_settings = opts->n_backend_settings;
  rc = find_plugin(c->rt, opts->backend ? opts->backend : DEFAULT_BACKEND,
                   &opening->info);
  return rc < 0 ? pco__call_drop(*p, rc) : 0;
}

int pco_box_create(pco_runtime *rt, const pco_box_opts *opts, pco_done_fn done,
                   void *ud, pco_pending **out) {
  pco_box_opts own;
  pco_create_opts create;
  pco_pending *p;
  pco__opening opening;
  pco__caller c = pco__call_from(done, ud, out);
  int rc = pco__embed_check(rt);
  if (rc == 0)
    rc = pco__box_options(rt, opts, &own, &create);
  c.rt = rt;
  if (rc == 0)
    rc = pco__box_call(&c, &own, &pco__sandbox_class, sizeof(pco__create_op),
                       &p, &opening);
  if (rc < 0)
    return rc;
  pco__create_op *o = PCO_CONTAINER(p->op, pco__create_op, op);
  o->opening = opening;
  o->opts.struct_size = sizeof o->opts;
  if (own.create)
    copy_create(p, o, own.create);
  return pco__call_start(&c, p);
}

/* ---- the box ------------------------------------------------------------- */

pco_box *pco_pending_box(pco_pending *pending) {
  if (pco__call_ended(pending) < 0 || !pending->rt ||
      !pco__call_is(pending, &pco__sandbox_class))
    return NULL;
  pco__create_op *o = PCO_CONTAINER(pending->op, pco__create_op, op);
  bool made = o->sandbox && !pending->op->error;
  pco_box *box = made ? calloc(1, sizeof *box) : NULL;
  char *id = box ? strdup(o->sandbox->id) : NULL;
  if (!id) {
    free(box);
    return NULL;
  }
  box->id = id;
  box->rt = pending->rt;
  box->loop = pending->op->loop;
  box->portal = pending->portal;
  pco__portal_ref(box->portal);
  box->in_use = pending->in_use;
  pending->in_use = false;
  box->sandbox = o->sandbox;
  box->backend = o->backend;
  o->sandbox = NULL;
  o->backend = NULL;
  pco__list_append(&box->rt->boxes, &box->node);
  return box;
}

const char *pco_box_id(const pco_box *box) {
  return box ? box->id : NULL;
}

/* Makes the pending of a call that ends what this program has of the box. */
static int new_end(pco_box *box, const pco__op_class *cls, pco__caller *c,
                   pco_pending **p) {
  int rc = pco__box_check(box);
  if (rc < 0)
    return rc;
  c->rt = box->rt;
  c->loop = box->loop;
  rc = pco__call_check(c);
  if (rc < 0)
    return rc;
  *p = pco__call_new(c, cls, sizeof(pco__backend_op));
  if (!*p)
    return UV_ENOMEM;
  pco__backend_op *o = PCO_CONTAINER((*p)->op, pco__backend_op, op);
  pco__backend_ref(box->backend);
  pco__sandbox_ref(box->sandbox);
  o->backend = box->backend;
  o->sandbox = box->sandbox;
  o->with_backend = true;
  return 0;
}

int pco_box_close(pco_box *box, pco_done_fn done, void *ud, pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  pco_pending *p;
  int rc = new_end(box, &pco__sandbox_close_class, &c, &p);
  if (rc < 0)
    return rc;
  box->closed = true;
  return pco__call_start(&c, p);
}

int pco_box_detach(pco_box *box, pco_done_fn done, void *ud,
                   pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  pco_pending *p;
  int rc = new_end(box, &pco__detach_class, &c, &p);
  if (rc < 0)
    return rc;
  if (box->leaving)
    return pco__call_drop(
        p, pco__embed_fail(c.rt, PCO_EBUSY, "the box is being detached"));
  atomic_fetch_add_explicit(&p->op->refs, 1, memory_order_relaxed);
  box->leaving = p->op;
  return pco__call_start(&c, p); /* it copied nothing that could be missing */
}

/* Lets go of what the box has on its loop; closes it there if need be. */
static void leave(pco_box *box, bool wait) {
  settle(box);
  if (box->leaving)
    pco__op_unref(box->leaving);
  box->leaving = NULL;
  if (!box->sandbox)
    return;
  if (!box->closed)
    pco__say_farewell(box->loop, (pco__farewell){.sandbox = box->sandbox,
                                                 .backend = box->backend});
  else {
    pco__sandbox_unref(box->sandbox);
    pco__backend_unref(box->backend);
  }
  box->sandbox = NULL;
  box->backend = NULL;
  box->closed = true;
  if (box->in_use)
    pco__portal_release(box->portal, wait);
  box->in_use = false;
}

void pco_box_release(pco_box *box) {
  if (!box || (box->rt && pco__embed_check(box->rt) < 0))
    return;
  if (box->rt) {
    leave(box, false);
    pco__embed_touch(box->rt);
  }
  pco__list_remove(&box->node);
  pco__portal_unref(box->portal);
  free(box->id);
  free(box);
}

void pco__embed_close_boxes(pco_runtime *rt) {
  for (pco__node *n = rt->boxes.next; n != &rt->boxes; n = n->next)
    leave(PCO_CONTAINER(n, pco_box, node), false);
}

void pco__embed_orphan_boxes(pco_runtime *rt) {
  for (pco__node *n; (n = pco__list_shift(&rt->boxes)) != NULL;) {
    pco_box *box = PCO_CONTAINER(n, pco_box, node);
    leave(box, true);
    box->rt = NULL;
  }
}
