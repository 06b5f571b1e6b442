/* SPDX-License-Identifier: MIT */
/*
 * File calls by a plugin's "pco.fs/1": reading and listing ask again until all
 * is there.  Paths become absolute here: a sandbox without an agent has no
 * working directory of its own, so relative ones start where its
 * plugin says, or at "/".
 *
 * A file that is open is its path: a plugin has no other name for it.  Opening
 * one looks whether it is there, and makes or empties it.
 */
#include "fs_file.h"
#include "fs_ops.h"
#include "wire.h"

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

/* What there is under the path that is to be opened. */
static int found(pco__fs_op *o, const pco_stat *st) {
  if (o->flags & PCO_OPEN_EXCLUSIVE)
    return UV_EEXIST;
  if (st->type == PCO_DIRECTORY)
    return UV_EISDIR;
  if (st->type != PCO_FILE)
    return UV_EINVAL;
  o->finished = !(o->flags & PCO_OPEN_TRUNCATE) || st->size == 0;
  return 0;
}

static void take(pco_op *op, const void *result) {
  pco__fs_op *o = op_of(op);
  if (!result && o->kind >= PCO__FS_OPEN)
    return; /* submit_open() knows whether that was all */
  o->finished = true;
  if (o->kind == PCO__FS_OPEN) {
    fail(o, found(o, (const pco_stat *)result));
  } else if (o->kind == PCO__FILE_WRITE) {
    o->offset = ((const pco_stat *)result)->size;
  } else if (o->kind == PCO__FS_STAT || o->kind == PCO__FILE_STAT) {
    const char *slash = strrchr(o->path, '/');
    fail(o, add_stat(o, (const pco_stat *)result, slash ? slash + 1 : o->path));
  } else if (o->kind == PCO__FS_READ || o->kind == PCO__FILE_READ) {
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

/* What one call to the plugin was not enough for. */
static bool goes_on(pco__fs_op *o, pco__error **err) {
  bool missing = *err && (*err)->code == UV_ENOENT;
  if (o->kind == PCO__FS_OPEN && o->step == 0 && missing &&
      o->flags & PCO_OPEN_CREATE) {
    pco__error_free(*err);
    *err = NULL;
    o->finished = false;
  }
  if (o->kind == PCO__FILE_WRITE && !*err)
    o->n_written = o->len;
  o->step++;
  return !*err && !o->trouble && !o->finished && !o->op.cancel_code;
}

static void done(pco_op *op, pco__error *err) {
  pco__fs_op *o = op_of(op);
  if (o->kind >= PCO__FS_OPEN) {
    if (goes_on(o, &err)) {
      call(o);
      return;
    }
    if (!err && !o->trouble && o->kind == PCO__FS_OPEN)
      o->file->open = true;
    pco__fs_end(o, err);
    return;
  }
  if (err || o->trouble || o->finished || o->op.cancel_code)
    pco__fs_end(o, err);
  else
    call(o);
}

#define CALL(method, ...)                                                      \
  (PCO_HAS(fs, method) ? fs->method(s, __VA_ARGS__, op) : PCO_EUNSUPPORTED)

/* Of a file that is open; the kinds that go on do it in steps. */
static int submit_open(pco__fs_op *o, const pco_fs_api *fs, pco_sandbox *s,
                       pco_op *op) {
  uint32_t mode = o->mode > 0 ? (uint32_t)o->mode : 0;
  bool append = o->file->flags & PCO_FS_APPEND;
  switch (o->kind) {
  case PCO__FS_OPEN:
    if (o->step == 0)
      return CALL(stat, o->path, o->flags & PCO_FS_NOFOLLOW);
    o->finished = true;
    return CALL(write, o->path, mode,
                o->flags & (PCO_FS_NOFOLLOW | PCO_FS_PARENTS), NULL, 0);
  case PCO__FILE_READ:
    return CALL(read, o->path, o->offset, READ_SIZE, 0);
  case PCO__FILE_WRITE:
    o->finished = !append || o->step == 1;
    if (append && o->step == 1)
      return CALL(stat, o->path, 0);
    if (append)
      return CALL(write, o->path, 0, PCO_FS_APPEND, &o->iov, 1);
    o->offset += o->len;
    return CALL(write_at, o->path, o->offset - o->len, &o->iov, 1);
  case PCO__FILE_TRUNCATE:
    o->finished = true;
    return CALL(truncate, o->path, o->offset);
  default:
    return CALL(stat, o->path, 0);
  }
}

static int submit(pco__fs_op *o, const pco_fs_api *fs, pco_sandbox *s,
                  pco_op *op) {
  uint32_t mode = o->mode > 0 ? (uint32_t)o->mode : 0; /* 0: as it is */
  switch (o->kind) {
  case PCO__FS_OPEN:
  case PCO__FILE_STAT:
  case PCO__FILE_READ:
  case PCO__FILE_WRITE:
  case PCO__FILE_TRUNCATE:
    return submit_open(o, fs, s, op);
  case PCO__FS_STAT:
    return CALL(stat, o->path, o->flags);
  case PCO__FS_LIST:
    return CALL(list, o->path, o->entries ? o->entries->name : NULL,
                LIST_COUNT);
  case PCO__FS_READ:
    return CALL(read, o->path, o->offset, READ_SIZE, o->flags);
  case PCO__FS_WRITE:
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

/* What is written is the plugin's for as long as its call lasts, so what is the
 * caller's is copied. */
static int take_data(pco__fs_op *o) {
  const char *data = pco__fs_data(o);
  bool missing = !data && o->len > 0;
  if (data && o->borrowed)
    data = pco__arena_copy(&o->op.arena, data, o->len);
  pco__fs_data_end(o);
  o->iov = (pco_iov){.base = data, .len = o->len};
  if (missing)
    return UV_ECANCELED;
  return o->op.arena.failed ? UV_ENOMEM : 0;
}

void pco__fs_plugin_start(pco__fs_op *o) {
  if (o->kind == PCO__FILE_SYNC || o->kind == PCO__FILE_CLOSE) {
    pco__fs_end(o, NULL); /* nothing is kept back, nothing is held */
    return;
  }
  if (o->kind > PCO__FS_OPEN)
    o->path = o->file->path;
  o->path = absolute(o, o->path);
  o->target = absolute(o, o->target);
  int rc = take_data(o);
  if (rc < 0)
    pco__fs_end(o, pco__error_new(rc, PCO_SOURCE_HOST, NULL, NULL));
  else
    call(o);
}

void pco__fs_plugin_cancel(pco__fs_op *o) {
  pco__plugin_op_cancel(&o->call);
}
