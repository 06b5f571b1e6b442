/* SPDX-License-Identifier: MIT */
/*
 * Boxes that outlive their program, and what is known of them by their ids:
 * taken over, listed, ended, tidied up.  There is no open backend for that in
 * C: each call opens one and closes it again, but for a box that it makes.
 */
#include "embed_call.h"

/* The options of a call that makes no box. */
static int take(pco_runtime *rt, const pco_box_opts *given, pco_box_opts *own) {
  pco_create_opts create;
  int rc = pco__embed_check(rt);
  if (rc == 0)
    rc = pco__box_options(rt, given, own, &create);
  if (rc == 0 && own->create)
    return pco__embed_fail(rt, PCO_EINVAL,
                           "`create` is for pco_box_create: leave it NULL");
  return rc;
}

static int check_id(pco_runtime *rt, const char *id) {
  return id && *id ? 0
                   : pco__embed_fail(rt, PCO_EINVAL,
                                     "the id is %s: give one of "
                                     "pco_box_id() or pco_boxes_list()",
                                     id ? "empty" : "NULL");
}

int pco_box_attach(pco_runtime *rt, const pco_box_opts *opts, const char *id,
                   pco_done_fn done, void *ud, pco_pending **out) {
  pco_box_opts own;
  pco_pending *p;
  pco__opening opening;
  pco__caller c = pco__call_from(done, ud, out);
  int rc = take(rt, opts, &own);
  c.rt = rt;
  if (rc == 0)
    rc = check_id(rt, id);
  if (rc == 0)
    rc = pco__box_call(&c, &own, &pco__sandbox_class, sizeof(pco__create_op),
                       &p, &opening);
  if (rc < 0)
    return rc;
  pco__create_op *o = PCO_CONTAINER(p->op, pco__create_op, op);
  o->opening = opening;
  o->attach_id = pco__call_copy(p, id);
  return pco__call_start(&c, p);
}

/* list, destroy, reap; id is NULL but for destroy. */
static int call(pco_runtime *rt, const pco_box_opts *opts,
                const pco__op_class *cls, const char *id, pco__caller *c) {
  pco_box_opts own;
  pco_pending *p;
  pco__opening opening;
  int rc = take(rt, opts, &own);
  c->rt = rt;
  if (rc == 0 && cls == &pco__destroy_class)
    rc = check_id(rt, id);
  if (rc == 0)
    rc = pco__box_call(c, &own, cls, sizeof(pco__backend_op), &p, &opening);
  if (rc < 0)
    return rc;
  pco__backend_op *o = PCO_CONTAINER(p->op, pco__backend_op, op);
  o->opening = opening;
  o->id = pco__call_copy(p, id);
  return pco__call_start(c, p);
}

int pco_boxes_list(pco_runtime *rt, const pco_box_opts *opts, pco_done_fn done,
                   void *ud, pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  return call(rt, opts, &pco__list_class, NULL, &c);
}

int pco_boxes_reap(pco_runtime *rt, const pco_box_opts *opts, pco_done_fn done,
                   void *ud, pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  return call(rt, opts, &pco__reap_class, NULL, &c);
}

int pco_boxes_destroy(pco_runtime *rt, const pco_box_opts *opts, const char *id,
                      pco_done_fn done, void *ud, pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  return call(rt, opts, &pco__destroy_class, id, &c);
}

/* ---- outcomes ------------------------------------------------------------ */

static const pco__backend_op *op_of(const pco_pending *p) {
  return PCO_CONTAINER(p->op, pco__backend_op, op);
}

int pco_pending_listed(pco_pending *pending, size_t i, pco_box_info *info) {
  int rc = info ? pco_pending_code(pending) : PCO_EINVAL;
  if (rc < 0)
    return rc;
  if (!pco__call_is(pending, &pco__list_class) &&
      !pco__call_is(pending, &pco__reap_class))
    return UV_ENOENT;
  const pco__listed *l = op_of(pending)->listed;
  while (l && i-- > 0)
    l = l->next;
  if (!l)
    return 0;
  pco_box_info ours = {
      .size = info->size,
      .state = l->state,
      .n_labels = (uint32_t)l->n_labels,
      .id = l->id,
      .name = l->name,
      .image = l->image,
      .backend = op_of(pending)->backend->info->id,
      .labels = l->labels,
      .created = l->created,
      .expires = l->expires,
      .owner = l->owner,
  };
  rc = pco__embed_give(info, info->size, &ours, sizeof ours,
                       PCO__END_OF(pco_box_info, pid));
  return rc < 0 ? rc : 1;
}

int pco_pending_acted(pco_pending *pending) {
  int rc = pco_pending_code(pending);
  if (rc < 0)
    return rc;
  return pco__call_is(pending, &pco__destroy_class) ? op_of(pending)->acted
                                                    : UV_ENOENT;
}
