/* SPDX-License-Identifier: MIT */
/* What a host in C can look at: backends, boxes, the commands in them. */
#include "embed_call.h"
#include "plugin_loader.h"
#include "sandbox_ops.h"

/* ---- backends ------------------------------------------------------------ */

typedef struct listing {
  pco_runtime *rt;
  pco_backend_fn fn;
  void *ud;
} listing;

static void list_one(void *arg, const char *name, const char *path) {
  const listing *l = (const listing *)arg;
  if (pco__may_use_backend(l->rt->lua, name))
    l->fn(l->ud, name, path);
}

int pco_list_backends(pco_runtime *rt, pco_backend_fn fn, void *ud) {
  int rc = pco__embed_check(rt);
  if (rc < 0 || !fn)
    return rc < 0 ? rc : PCO_EINVAL;
  listing l = {.rt = rt, .fn = fn, .ud = ud};
  return pco__loader_list(list_one, &l);
}

/* Checks a call on a box. */
static int check(pco_box *box, pco__caller *c) {
  int rc = pco__box_check(box);
  if (rc < 0)
    return rc;
  c->rt = box->rt;
  c->loop = box->loop;
  return pco__call_check(c);
}

int pco_box_probe(pco_box *box, pco_done_fn done, void *ud, pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  int rc = check(box, &c);
  if (rc < 0)
    return rc;
  pco_pending *p =
      pco__call_new(&c, &pco__probe_class, sizeof(pco__backend_op));
  if (!p)
    return UV_ENOMEM;
  pco__backend_ref(box->backend);
  PCO_CONTAINER(p->op, pco__backend_op, op)->backend = box->backend;
  p->op->timeout = -1;
  return pco__call_start(&c, p);
}

int pco_pending_capability(pco_pending *pending, size_t i, const char **name,
                           int *level, const char **reason) {
  if (!name || !level || !reason)
    return PCO_EINVAL;
  *name = *reason = NULL;
  *level = 0;
  int rc = pco_pending_code(pending);
  if (rc < 0)
    return rc;
  if (!pco__call_is(pending, &pco__probe_class))
    return UV_ENOENT;
  const pco__capability *c =
      PCO_CONTAINER(pending->op, pco__backend_op, op)->capabilities;
  while (c && i-- > 0)
    c = c->next;
  if (!c)
    return 0;
  *name = c->name;
  *level = (int)c->level;
  *reason = c->reason;
  return 1;
}

/* ---- boxes and commands -------------------------------------------------- */

static pco__look_op *look_of(const pco_pending *p) {
  return PCO_CONTAINER(p->op, pco__look_op, op);
}

/* Makes a look; it is started by the caller. */
static int new_look(pco_box *box, const pco__op_class *cls, pco__caller *c,
                    pco_pending **p) {
  int rc = check(box, c);
  if (rc < 0)
    return rc;
  *p = pco__call_new(c, cls, sizeof(pco__look_op));
  if (!*p)
    return UV_ENOMEM;
  pco__sandbox_ref(box->sandbox);
  look_of(*p)->sandbox = box->sandbox;
  (*p)->op->timeout = -1;
  return 0;
}

int pco_box_look(pco_box *box, pco_done_fn done, void *ud, pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  pco_pending *p;
  int rc = new_look(box, &pco__info_class, &c, &p);
  return rc < 0 ? rc : pco__call_start(&c, p);
}

int pco_pending_info(pco_pending *pending, pco_box_info *info) {
  int rc = info ? pco_pending_code(pending) : PCO_EINVAL;
  if (rc < 0)
    return rc;
  if (!pco__call_is(pending, &pco__info_class))
    return UV_ENOENT;
  const pco__look_op *o = look_of(pending);
  const pco__sandbox *sb = o->sandbox;
  pco_box_info ours = {
      .size = info->size,
      .state =
          o->state == PCO__SANDBOX_RUNNING ? PCO_STATE_RUNNING : PCO_STATE_DEAD,
      .n_labels = (uint32_t)sb->n_labels,
      .id = sb->id,
      .name = sb->name,
      .image = sb->image,
      .backend = sb->backend->info->id,
      .labels = sb->labels,
      .created = sb->created,
      .expires = sb->expires,
      .pid = sb->pid > 0 ? sb->pid : 0,
  };
  return pco__embed_give(info, info->size, &ours, sizeof ours,
                         PCO__END_OF(pco_box_info, pid));
}

int pco_box_commands(pco_box *box, uint32_t flags, pco_done_fn done, void *ud,
                     pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  pco_pending *p;
  int rc = new_look(box, &pco__processes_class, &c, &p);
  if (rc < 0)
    return rc;
  if (flags & ~PCO_LOOK_ENDED)
    return pco__call_drop(
        p, pco__embed_fail(c.rt, PCO_EINVAL, "a flag is unknown"));
  look_of(p)->all = (flags & PCO_LOOK_ENDED) != 0;
  return pco__call_start(&c, p);
}

int pco_pending_command_info(pco_pending *pending, size_t i,
                             pco_command_info *info) {
  int rc = info ? pco_pending_code(pending) : PCO_EINVAL;
  if (rc < 0)
    return rc;
  if (!pco__call_is(pending, &pco__processes_class))
    return UV_ENOENT;
  const pco__look_op *o = look_of(pending);
  if (i >= o->n_seen)
    return 0;
  const pco__seen_process *s = &o->seen[i];
  pco_command_info ours = {
      .size = info->size,
      .pid = s->process->pid,
      .started = s->process->started_at,
      .argv = (const char *const *)s->process->argv,
      .ended = s->ended,
      .code = s->ended ? s->code : 0,
      .signal = s->ended ? s->signal : 0,
  };
  rc = pco__embed_give(info, info->size, &ours, sizeof ours,
                       PCO__END_OF(pco_command_info, reserved));
  return rc < 0 ? rc : 1;
}

int pco_box_command(pco_box *box, int64_t pid, pco_done_fn done, void *ud,
                    pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  pco_pending *p;
  int rc = new_look(box, &pco__process_class, &c, &p);
  if (rc < 0)
    return rc;
  if (pid <= 0)
    return pco__call_drop(
        p, pco__embed_fail(c.rt, PCO_EINVAL, "%lld is no pid", (long long)pid));
  look_of(p)->pid = pid;
  return pco__call_start(&c, p);
}
