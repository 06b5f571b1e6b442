/* SPDX-License-Identifier: MIT */
/*
 * File calls by a plugin's "pco.fs/1": reading and listing ask again until all
 * is there.  Paths become absolute here: a sandbox without an agent has no
 * working directory of its own, so relative ones start where its
 * plugin says, or at "/".
 */
#include "fs_ops.h"

#include <stdio.h>
#include <string.h>

#define READ_SIZE  (256u * 1024)
#define LIST_COUNT 1024u

static pco__fs_op *op_of(pco_op *op) {
  return PCO_CONTAINER(op, pco__fs_op, call);
}

static const char *absolute(pco__fs_op *o, const char *path) {
  if (!path || path[0] == '/')
    return path;
  const char *cwd = o->sandbox->cwd ? o->sandbox->cwd : "/";
  size_t size = strlen(cwd) + strlen(path) + 2;
  char *s = pco__arena_alloc(&o->op.arena, size);
  if (!s)
    return path;
  snprintf(s, size, "%s/%s", cwd, path);
  return s;
}

static int add_stat(pco__fs_op *o, const pco_stat *st, const char *name) {
  pco__entry e = {.type = st->type,
                  .mode = st->mode,
                  .uid = st->uid,
                  .gid = st->gid,
                  .size = st->size,
                  .mtime_ns = st->mtime_ns,
                  .name = name};
  return pco__fs_add_entry(o, &e, strlen(name), 0);
}

static void fail(pco__fs_op *o, int rc) {
  if (rc < 0 && !o->trouble)
    o->trouble = rc == PCO_ELIMIT
                     ? pco__fs_limit_error(o)
                     : pco__error_new(rc, PCO_SOURCE_HOST, NULL, NULL);
}

static void take(pco_op *op, const void *result) {
  pco__fs_op *o = op_of(op);
  o->finished = true;
  if (o->kind == PCO__FS_STAT) {
    const char *slash = strrchr(o->path, '/');
    fail(o, add_stat(o, (const pco_stat *)result, slash ? slash + 1 : o->path));
  } else if (o->kind == PCO__FS_READ) {
    const pco_data *d = (const pco_data *)result;
    size_t n = d->len < o->length ? d->len : (size_t)o->length;
    fail(o, pco__fs_add_bytes(o, d->base, n));
    o->offset += n;
    o->length -= n;
    o->finished = d->eof || n == 0 || o->length == 0;
  } else if (o->kind == PCO__FS_LIST) {
    const pco_stat_list *l = (const pco_stat_list *)result;
    for (size_t i = 0; i < l->n_entries && !o->trouble; i++)
      fail(o, add_stat(o, l->entries[i], l->entries[i]->name));
    o->finished = !l->more || l->n_entries == 0;
  }
}

static void call(pco__fs_op *o);

static void done(pco_op *op, pco__error *err) {
  pco__fs_op *o = op_of(op);
  if (err || o->trouble || o->finished || o->op.cancel_code)
    pco__fs_end(o, err);
  else
    call(o);
}

#define CALL(method, ...)                                                      \
  (PCO_HAS(fs, method) ? fs->method(s, __VA_ARGS__, op) : PCO_EUNSUPPORTED)

static int submit(pco__fs_op *o, const pco_fs_api *fs, pco_sandbox *s,
                  pco_op *op) {
  uint32_t mode = o->mode > 0 ? (uint32_t)o->mode : 0; /* 0: as it is */
  switch (o->kind) {
  case PCO__FS_STAT:
    return CALL(stat, o->path, o->flags);
  case PCO__FS_LIST:
    return CALL(list, o->path, o->entries ? o->entries->name : NULL,
                LIST_COUNT);
  case PCO__FS_READ:
    return CALL(read, o->path, o->offset, READ_SIZE, o->flags);
  case PCO__FS_WRITE:
    o->iov = (pco_iov){.base = o->data, .len = o->len};
    return CALL(write, o->path, mode, o->flags, &o->iov, 1);
  case PCO__FS_MKDIR:
    return CALL(mkdir, o->path, mode, o->flags);
  case PCO__FS_REMOVE:
    return CALL(remove, o->path, o->flags);
  default:
    return CALL(rename, o->path, o->target, o->flags);
  }
}

static void call(pco__fs_op *o) {
  pco__plugin_op_init(&o->call, o->sandbox->backend, take, done);
  pco__plugin_op_submitted(
      &o->call, submit(o, o->sandbox->fs, o->sandbox->plugin, &o->call));
}

void pco__fs_plugin_start(pco__fs_op *o) {
  o->path = absolute(o, o->path);
  o->target = absolute(o, o->target);
  call(o);
}

void pco__fs_plugin_cancel(pco__fs_op *o) {
  pco__plugin_op_cancel(&o->call);
}
