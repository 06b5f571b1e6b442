/* SPDX-License-Identifier: MIT */
/* Files in sandboxes of a host in C: read, written, listed, moved. */
#include "embed_file.h"

#include <stdlib.h>
#include <string.h>

#include "wire.h"

#define ALL_FLAGS                                                              \
  (PCO_FS_NOFOLLOW | PCO_FS_PARENTS | PCO_FS_RECURSIVE | PCO_FS_REPLACE |      \
   PCO_FS_APPEND | PCO_FILE_MISSING_OK | PCO_FILE_IN_PLACE | PCO_FILE_FSYNC |  \
   PCO_FILE_DIRECTORY | PCO_FILE_HIDDEN | PCO_FILE_SKIP)
#define WIRE_FLAGS                                                             \
  (PCO_FS_NOFOLLOW | PCO_FS_PARENTS | PCO_FS_RECURSIVE | PCO_FS_REPLACE |      \
   PCO_FS_APPEND)
#define MAX_OWNER 400

/* ---- options ------------------------------------------------------------- */

bool pco__file_bad_owner(const char *owner) {
  return !owner[0] || strcmp(owner, ":") == 0 || strlen(owner) > MAX_OWNER;
}

static const char *bad_options(const pco_file_opts *o) {
  if (o->flags & ~ALL_FLAGS)
    return "a flag of pco_file_opts is unknown";
  if (o->mode > 07777)
    return "mode must be permission bits, 0 to 07777";
  if (o->offset > INT64_MAX)
    return "offset must be INT64_MAX or less";
  if (o->owner && pco__file_bad_owner(o->owner))
    return "owner must be \"USER\", \"USER:GROUP\" or \":GROUP\"";
  if (o->flags & PCO_FS_APPEND && o->flags & PCO_FILE_IN_PLACE)
    return "PCO_FS_APPEND is in place already: leave out PCO_FILE_IN_PLACE";
  if (o->reserved)
    return "reserved is not 0";
  return o->timeout_ns < 0 ? "timeout_ns is negative" : NULL;
}

/* What is given and not taken. */
static const char *not_taken(const pco__file_call *call,
                             const pco_file_opts *o) {
  if (o->flags & ~call->flags)
    return "a flag of pco_file_opts";
  if (o->mode && !(call->takes & PCO__TAKES_MODE))
    return "mode";
  if ((o->offset || o->length) && !(call->takes & PCO__TAKES_RANGE))
    return "offset or length";
  if (o->max_size && !(call->takes & PCO__TAKES_MAX_SIZE))
    return "max_size";
  if (o->owner && !(call->takes & PCO__TAKES_OWNER))
    return "owner";
  if ((o->include || o->exclude) && !(call->takes & PCO__TAKES_PATTERNS))
    return "include or exclude";
  return o->depth && !(call->takes & PCO__TAKES_DEPTH) ? "depth" : NULL;
}

static int check_options(pco_runtime *rt, const pco__file_call *call,
                         const pco_file_opts *opts, pco_file_opts *own) {
  *own = (pco_file_opts){.size = sizeof *own};
  if (opts &&
      pco__embed_take(own, sizeof *own, PCO__END_OF(pco_file_opts, timeout_ns),
                      opts, opts->size) < 0)
    return pco__embed_fail(rt, PCO_ESIZE, "the size of pco_file_opts");
  const char *bad = bad_options(own);
  if (bad)
    return pco__embed_fail(rt, PCO_EINVAL, "%s", bad);
  bad = not_taken(call, own);
  return bad ? pco__embed_fail(rt, PCO_EINVAL, "%s does not take %s",
                               call->cls->name, bad)
             : 0;
}

static void use_options(pco_pending *p, const pco_file_opts *o) {
  pco__fs_op *op = pco__file_op_of(p);
  op->flags = o->flags & WIRE_FLAGS;
  if (o->flags & PCO_FILE_IN_PLACE)
    op->flags |= PCO_FS_IN_PLACE;
  if (o->flags & PCO_FILE_FSYNC)
    op->flags |= PCO_FS_SYNC;
  if (o->flags & PCO_FILE_DIRECTORY)
    op->flags |= PCO_FS_DIRECTORY;
  op->missing_ok = (o->flags & PCO_FILE_MISSING_OK) != 0;
  op->mode = o->mode ? (int32_t)o->mode : -1;
  op->owner = pco__call_copy(p, o->owner);
  op->offset = o->offset;
  op->length = o->length ? o->length : UINT64_MAX;
  op->max_size = o->max_size ? o->max_size : PCO__FS_DEFAULT_MAX_SIZE;
  p->op->timeout = o->timeout_ns ? o->timeout_ns : -1;
}

/* ---- calls --------------------------------------------------------------- */

int pco__file_op(pco_box *box, const pco__file_call *call, const char *path,
                 const pco_file_opts *opts, pco_file_opts *own, pco__caller *c,
                 pco_pending **p) {
  int rc = pco__box_check(box);
  if (rc < 0)
    return rc;
  c->rt = box->rt;
  c->loop = box->loop;
  rc = pco__call_check(c);
  if (rc < 0)
    return rc;
  if (path ? !path[0] : call->kind != PCO__FS_MKTEMP)
    return pco__embed_fail(c->rt, PCO_EINVAL, "the path is empty");
  rc = check_options(c->rt, call, opts, own);
  if (rc < 0)
    return rc;
  *p = pco__call_new(c, call->cls, sizeof(pco__fs_op));
  if (!*p)
    return UV_ENOMEM;
  pco__fs_op *o = pco__file_op_of(*p);
  pco__sandbox_ref(box->sandbox);
  o->sandbox = box->sandbox;
  o->kind = call->kind;
  o->path = pco__call_copy(*p, path);
  use_options(*p, own);
  return 0;
}

int pco__file_simple(pco_box *box, const pco__file_call *call, const char *path,
                     const pco_file_opts *opts, pco__caller *c) {
  pco_file_opts own;
  pco_pending *p;
  int rc = pco__file_op(box, call, path, opts, &own, c, &p);
  return rc < 0 ? rc : pco__call_start(c, p);
}

int pco_file_read(pco_box *box, const char *path, const pco_file_opts *opts,
                  pco_done_fn done, void *ud, pco_pending **out) {
  static const pco__file_call call = {&pco__fs_read_class, PCO__FS_READ,
                                      PCO_FS_NOFOLLOW,
                                      PCO__TAKES_RANGE | PCO__TAKES_MAX_SIZE};
  pco__caller c = pco__call_from(done, ud, out);
  return pco__file_simple(box, &call, path, opts, &c);
}

int pco__file_give(pco_runtime *rt, pco_pending *p, const void *data,
                   size_t len) {
  if (!data && len)
    return pco__embed_fail(rt, PCO_EINVAL, "no data");
  pco__fs_op *o = pco__file_op_of(p);
  o->data = pco__arena_copy(&p->op->arena, data ? data : "", len);
  o->len = len;
  return 0;
}

int pco_file_write(pco_box *box, const char *path, const void *data, size_t len,
                   const pco_file_opts *opts, pco_done_fn done, void *ud,
                   pco_pending **out) {
  enum {
    FLAGS = PCO_FS_NOFOLLOW | PCO_FS_PARENTS | PCO_FS_APPEND |
            PCO_FILE_IN_PLACE | PCO_FILE_FSYNC,
    TAKES = PCO__TAKES_MODE | PCO__TAKES_OWNER
  };
  static const pco__file_call write = {&pco__fs_write_class, PCO__FS_WRITE,
                                       FLAGS, TAKES};
  static const pco__file_call append = {&pco__fs_append_class, PCO__FS_WRITE,
                                        FLAGS, TAKES};
  pco__caller c = pco__call_from(done, ud, out);
  bool adds = opts && opts->flags & PCO_FS_APPEND;
  pco_file_opts own;
  pco_pending *p;
  int rc = pco__file_op(box, adds ? &append : &write, path, opts, &own, &c, &p);
  if (rc < 0)
    return rc;
  rc = pco__file_give(c.rt, p, data, len);
  if (rc < 0)
    return pco__call_drop(p, rc);
  return pco__call_start(&c, p);
}

int pco_file_stat(pco_box *box, const char *path, const pco_file_opts *opts,
                  pco_done_fn done, void *ud, pco_pending **out) {
  static const pco__file_call call = {&pco__fs_stat_class, PCO__FS_STAT,
                                      PCO_FS_NOFOLLOW, 0};
  pco__caller c = pco__call_from(done, ud, out);
  return pco__file_simple(box, &call, path, opts, &c);
}

int pco_file_list(pco_box *box, const char *path, const pco_file_opts *opts,
                  pco_done_fn done, void *ud, pco_pending **out) {
  static const pco__file_call call = {&pco__fs_list_class, PCO__FS_LIST,
                                      PCO_FS_NOFOLLOW, 0};
  pco__caller c = pco__call_from(done, ud, out);
  return pco__file_simple(box, &call, path, opts, &c);
}

int pco_file_mkdir(pco_box *box, const char *path, const pco_file_opts *opts,
                   pco_done_fn done, void *ud, pco_pending **out) {
  static const pco__file_call call = {&pco__fs_mkdir_class, PCO__FS_MKDIR,
                                      PCO_FS_NOFOLLOW | PCO_FS_PARENTS,
                                      PCO__TAKES_MODE};
  pco__caller c = pco__call_from(done, ud, out);
  return pco__file_simple(box, &call, path, opts, &c);
}

int pco_file_remove(pco_box *box, const char *path, const pco_file_opts *opts,
                    pco_done_fn done, void *ud, pco_pending **out) {
  static const pco__file_call call = {
      &pco__fs_remove_class, PCO__FS_REMOVE,
      PCO_FS_NOFOLLOW | PCO_FS_RECURSIVE | PCO_FILE_MISSING_OK, 0};
  pco__caller c = pco__call_from(done, ud, out);
  return pco__file_simple(box, &call, path, opts, &c);
}

int pco__file_aim(pco_runtime *rt, pco_pending *p, const char *target) {
  if (!target || !target[0])
    return pco__embed_fail(rt, PCO_EINVAL, "the target is empty");
  pco__file_op_of(p)->target = pco__call_copy(p, target);
  return 0;
}

/* One that has a second path. */
static int with_target(pco_box *box, const pco__file_call *call,
                       const char *source, const char *target,
                       const pco_file_opts *opts, pco__caller *c) {
  pco_file_opts own;
  pco_pending *p;
  int rc = pco__file_op(box, call, source, opts, &own, c, &p);
  if (rc < 0)
    return rc;
  rc = pco__file_aim(c->rt, p, target);
  return rc < 0 ? pco__call_drop(p, rc) : pco__call_start(c, p);
}

int pco_file_rename(pco_box *box, const char *source, const char *target,
                    const pco_file_opts *opts, pco_done_fn done, void *ud,
                    pco_pending **out) {
  static const pco__file_call call = {&pco__fs_rename_class, PCO__FS_RENAME,
                                      PCO_FS_NOFOLLOW | PCO_FS_REPLACE, 0};
  pco__caller c = pco__call_from(done, ud, out);
  return with_target(box, &call, source, target, opts, &c);
}

int pco_file_copy(pco_box *box, const char *source, const char *target,
                  const pco_file_opts *opts, pco_done_fn done, void *ud,
                  pco_pending **out) {
  static const pco__file_call call = {
      &pco__fs_copy_class, PCO__FS_COPY,
      PCO_FS_NOFOLLOW | PCO_FS_REPLACE | PCO_FS_RECURSIVE | PCO_FS_PARENTS, 0};
  pco__caller c = pco__call_from(done, ud, out);
  return with_target(box, &call, source, target, opts, &c);
}

/* ---- outcomes ------------------------------------------------------------ */

static bool says_bytes(const pco_pending *p) {
  return pco__call_is(p, &pco__fs_read_class) ||
         pco__call_is(p, &pco__file_read_class) ||
         pco__call_is(p, &pco__fs_mktemp_class);
}

int pco_pending_bytes(pco_pending *pending, const char **data, size_t *len) {
  if (!data || !len)
    return PCO_EINVAL;
  *data = NULL;
  *len = 0;
  int rc = pco_pending_code(pending);
  if (rc < 0)
    return rc;
  const pco__fs_op *o = pco__file_op_of(pending);
  if (says_bytes(pending)) {
    *data = o->bytes ? o->bytes : "";
    *len = o->n_bytes;
    return 0;
  }
  if (!pco__call_is(pending, &pco__fs_readlink_class))
    return UV_ENOENT;
  *data = o->entries->link ? o->entries->link : "";
  *len = strlen(*data);
  return 0;
}

/* Puts the entries of a list in order, once; false without memory. */
static bool put_in_order(pco_pending *p) {
  pco__fs_op *o = pco__file_op_of(p);
  size_t n = 0;
  if (p->entries)
    return true;
  p->entries =
      pco__arena_alloc(&p->arena, (o->n_entries + 1) * sizeof *p->entries);
  if (!p->entries)
    return false;
  for (pco__entry *e = o->entries; e; e = e->next)
    p->entries[n++] = e;
  qsort(p->entries, n, sizeof *p->entries, pco__by_name);
  p->n_entries = n;
  return true;
}

static bool says_entries(const pco_pending *p) {
  return pco__call_is(p, &pco__fs_stat_class) ||
         pco__call_is(p, &pco__file_stat_class) ||
         pco__call_is(p, &pco__fs_list_class) ||
         pco__call_is(p, &pco__fs_walk_class);
}

/* *e: the i-th entry, or NULL behind the last; 0 or a code. */
static int entry_at(pco_pending *p, size_t i, const pco__entry **e) {
  *e = NULL;
  int rc = pco_pending_code(p);
  if (rc < 0)
    return rc;
  if (!says_entries(p))
    return UV_ENOENT;
  if (!pco__call_is(p, &pco__fs_walk_class) && !put_in_order(p))
    return UV_ENOMEM;
  if (i < p->n_entries)
    *e = p->entries[i];
  return 0;
}

int pco_pending_entry(pco_pending *pending, size_t i, pco_stat *entry) {
  const pco__entry *e;
  int rc = entry ? entry_at(pending, i, &e) : PCO_EINVAL;
  if (rc < 0 || !e)
    return rc;
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

const char *pco_pending_target(pco_pending *pending, size_t i) {
  const pco__entry *e;
  return entry_at(pending, i, &e) == 0 && e ? e->link : NULL;
}
