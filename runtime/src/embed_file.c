/* SPDX-License-Identifier: MIT */
/* Files in sandboxes of a host in C. */
#include <stdlib.h>
#include <string.h>

#include "embed_call.h"
#include "fs_ops.h"

#define ALL_FLAGS                                                              \
  (PCO_FS_NOFOLLOW | PCO_FS_PARENTS | PCO_FS_RECURSIVE | PCO_FS_REPLACE |      \
   PCO_FS_APPEND | PCO_FILE_MISSING_OK)

static const char *bad_options(const pco_file_opts *o) {
  if (o->flags & ~ALL_FLAGS)
    return "a flag of pco_file_opts is unknown";
  if (o->mode > 07777)
    return "mode must be permission bits, 0 to 07777";
  if (o->offset > INT64_MAX)
    return "offset must be INT64_MAX or less";
  return o->timeout_ns < 0 ? "timeout_ns is negative" : NULL;
}

/* *own: the options as we know them. */
static int check(const pco__caller *c, const char *path,
                 const pco_file_opts *opts, pco_file_opts *own) {
  *own = (pco_file_opts){.size = sizeof *own};
  int rc = pco__call_check(c);
  if (rc < 0)
    return rc;
  if (!path || !path[0])
    return pco__embed_fail(c->rt, PCO_EINVAL, "the path is empty");
  if (opts &&
      pco__embed_take(own, sizeof *own, PCO__END_OF(pco_file_opts, timeout_ns),
                      opts, opts->size) < 0)
    return pco__embed_fail(c->rt, PCO_ESIZE, "the size of pco_file_opts");
  const char *bad = bad_options(own);
  return bad ? pco__embed_fail(c->rt, PCO_EINVAL, "%s", bad) : 0;
}

static pco__fs_op *op_of(pco_pending *p) {
  return PCO_CONTAINER(p->op, pco__fs_op, op);
}

static void use_options(pco_pending *p, const pco_file_opts *o) {
  pco__fs_op *op = op_of(p);
  op->flags = o->flags & ~PCO_FILE_MISSING_OK;
  op->missing_ok = (o->flags & PCO_FILE_MISSING_OK) != 0;
  op->mode = o->mode ? (int32_t)o->mode : -1;
  op->offset = o->offset;
  op->length = o->length ? o->length : UINT64_MAX;
  op->max_size = o->max_size ? o->max_size : PCO__FS_DEFAULT_MAX_SIZE;
  p->op->timeout = o->timeout_ns ? o->timeout_ns : -1;
}

int pco__file_op(pco_box *box, const pco__op_class *cls, int kind,
                 const char *path, const pco_file_opts *opts, pco__caller *c,
                 pco_pending **p) {
  int rc = pco__box_check(box);
  if (rc < 0)
    return rc;
  c->rt = box->rt;
  c->loop = box->loop;
  pco_file_opts own;
  rc = check(c, path, opts, &own);
  if (rc < 0)
    return rc;
  *p = pco__call_new(c, cls, sizeof(pco__fs_op));
  if (!*p)
    return UV_ENOMEM;
  pco__sandbox_ref(box->sandbox);
  op_of(*p)->sandbox = box->sandbox;
  op_of(*p)->kind = kind;
  op_of(*p)->path = pco__call_copy(*p, path);
  use_options(*p, &own);
  return 0;
}

static int simple(pco_box *box, const pco__op_class *cls, int kind,
                  const char *path, const pco_file_opts *opts, pco__caller *c) {
  pco_pending *p;
  int rc = pco__file_op(box, cls, kind, path, opts, c, &p);
  return rc < 0 ? rc : pco__call_start(c, p);
}

int pco_file_read(pco_box *box, const char *path, const pco_file_opts *opts,
                  pco_done_fn done, void *ud, pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  return simple(box, &pco__fs_read_class, PCO__FS_READ, path, opts, &c);
}

int pco__file_give(pco_runtime *rt, pco_pending *p, const void *data,
                   size_t len) {
  if (!data && len)
    return pco__embed_fail(rt, PCO_EINVAL, "no data");
  op_of(p)->data = pco__arena_copy(&p->op->arena, data ? data : "", len);
  op_of(p)->len = len;
  return 0;
}

int pco_file_write(pco_box *box, const char *path, const void *data, size_t len,
                   const pco_file_opts *opts, pco_done_fn done, void *ud,
                   pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  bool append = opts && opts->flags & PCO_FS_APPEND;
  pco_pending *p;
  int rc =
      pco__file_op(box, append ? &pco__fs_append_class : &pco__fs_write_class,
                   PCO__FS_WRITE, path, opts, &c, &p);
  if (rc < 0)
    return rc;
  rc = pco__file_give(c.rt, p, data, len);
  if (rc < 0)
    return pco__call_drop(p, rc);
  return pco__call_start(&c, p);
}

int pco_file_stat(pco_box *box, const char *path, const pco_file_opts *opts,
                  pco_done_fn done, void *ud, pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  return simple(box, &pco__fs_stat_class, PCO__FS_STAT, path, opts, &c);
}

int pco_file_list(pco_box *box, const char *path, const pco_file_opts *opts,
                  pco_done_fn done, void *ud, pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  return simple(box, &pco__fs_list_class, PCO__FS_LIST, path, opts, &c);
}

int pco_file_mkdir(pco_box *box, const char *path, const pco_file_opts *opts,
                   pco_done_fn done, void *ud, pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  return simple(box, &pco__fs_mkdir_class, PCO__FS_MKDIR, path, opts, &c);
}

int pco_file_remove(pco_box *box, const char *path, const pco_file_opts *opts,
                    pco_done_fn done, void *ud, pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  return simple(box, &pco__fs_remove_class, PCO__FS_REMOVE, path, opts, &c);
}

/* One that has a second path. */
static int with_target(pco_box *box, const pco__op_class *cls, int kind,
                       const char *source, const char *target,
                       const pco_file_opts *opts, pco__caller *c) {
  pco_pending *p;
  int rc = pco__file_op(box, cls, kind, source, opts, c, &p);
  if (rc < 0)
    return rc;
  if (!target || !target[0])
    return pco__call_drop(
        p, pco__embed_fail(c->rt, PCO_EINVAL, "the target is empty"));
  op_of(p)->target = pco__call_copy(p, target);
  return pco__call_start(c, p);
}

int pco_file_rename(pco_box *box, const char *source, const char *target,
                    const pco_file_opts *opts, pco_done_fn done, void *ud,
                    pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  return with_target(box, &pco__fs_rename_class, PCO__FS_RENAME, source, target,
                     opts, &c);
}

int pco_file_copy(pco_box *box, const char *source, const char *target,
                  const pco_file_opts *opts, pco_done_fn done, void *ud,
                  pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  return with_target(box, &pco__fs_copy_class, PCO__FS_COPY, source, target,
                     opts, &c);
}

/* ---- outcomes ------------------------------------------------------------ */

int pco_pending_bytes(pco_pending *pending, const char **data, size_t *len) {
  if (!data || !len)
    return PCO_EINVAL;
  *data = NULL;
  *len = 0;
  int rc = pco_pending_code(pending);
  if (rc < 0)
    return rc;
  if (!pco__call_is(pending, &pco__fs_read_class) &&
      !pco__call_is(pending, &pco__file_read_class))
    return UV_ENOENT;
  const pco__fs_op *o = op_of(pending);
  *data = o->bytes ? o->bytes : "";
  *len = o->n_bytes;
  return 0;
}

static int by_name(const void *a, const void *b) {
  const pco__entry *const *x = (const pco__entry *const *)a;
  const pco__entry *const *y = (const pco__entry *const *)b;
  return strcmp((*x)->name, (*y)->name);
}

/* Puts the entries in order, once; NULL without memory. */
static pco__entry **in_order(pco_pending *p) {
  const pco__fs_op *o = op_of(p);
  size_t n = 0;
  if (p->entries)
    return p->entries;
  p->entries =
      pco__arena_alloc(&p->arena, (o->n_entries + 1) * sizeof *p->entries);
  if (!p->entries)
    return NULL;
  for (pco__entry *e = o->entries; e; e = e->next)
    p->entries[n++] = e;
  qsort(p->entries, n, sizeof *p->entries, by_name);
  return p->entries;
}

int pco_pending_entry(pco_pending *pending, size_t i, pco_stat *entry) {
  int rc = pco_pending_code(pending);
  if (rc < 0 || !entry)
    return rc < 0 ? rc : PCO_EINVAL;
  if (!pco__call_is(pending, &pco__fs_stat_class) &&
      !pco__call_is(pending, &pco__file_stat_class) &&
      !pco__call_is(pending, &pco__fs_list_class))
    return UV_ENOENT;
  pco__entry **entries = in_order(pending);
  if (!entries)
    return UV_ENOMEM;
  if (i >= op_of(pending)->n_entries)
    return 0;
  const pco__entry *e = entries[i];
  pco_stat ours = {.struct_size = entry->struct_size,
                   .type = e->type,
                   .mode = e->mode,
                   .uid = e->uid,
                   .gid = e->gid,
                   .size = e->size,
                   .mtime_ns = e->mtime_ns,
                   .name = e->name};
  rc = pco__embed_give(entry, entry->struct_size, &ours, sizeof ours,
                       PCO__END_OF(pco_stat, name));
  return rc < 0 ? rc : 1;
}
