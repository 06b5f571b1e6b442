/* SPDX-License-Identifier: MIT */
/* The waiting calls on files; see fs_ops.h. */
#include "fs_ops.h"

#include <stdlib.h>
#include <string.h>

#include "fs_file.h"
#include "fs_glob.h"
#include "lua_file.h"
#include "lua_fs.h"
#include "lua_result.h"

/* A name costs its entry at least this; a listing may hold this many bytes. */
#define MAX_LISTING (64u * 1024 * 1024)

static pco__fs_op *op_of(pco__op *op) {
  return PCO_CONTAINER(op, pco__fs_op, op);
}

int pco__fs_add_entry(pco__fs_op *o, const pco__entry *e, size_t name_len,
                      size_t link_len) {
  size_t size = sizeof *e + name_len + link_len + 2;
  if (o->n_bytes + size > MAX_LISTING)
    return PCO_ELIMIT;
  pco__entry *copy = calloc(1, size);
  if (!copy)
    return UV_ENOMEM;
  *copy = *e;
  memcpy(copy->text, e->name, name_len);
  copy->name = copy->text;
  if (e->link) {
    memcpy(copy->text + name_len + 1, e->link, link_len);
    copy->link = copy->text + name_len + 1;
  }
  copy->next = o->entries;
  o->entries = copy;
  o->n_entries++;
  o->n_bytes += size;
  return 0;
}

int pco__by_name(const void *a, const void *b) {
  const pco__entry *const *x = (const pco__entry *const *)a;
  const pco__entry *const *y = (const pco__entry *const *)b;
  return strcmp((*x)->name, (*y)->name); /* strcmp compares unsigned bytes */
}

char *pco__join_path(const char *directory, const char *name) {
  size_t len = strlen(directory);
  while (len > 1 && directory[len - 1] == '/')
    len--;
  if (len == 0 || (len == 1 && directory[0] == '.'))
    return strdup(name);
  bool root = len == 1 && directory[0] == '/';
  size_t size = len + strlen(name) + 2;
  char *path = malloc(size);
  if (path)
    snprintf(path, size, "%.*s%s%s", (int)len, directory, root ? "" : "/",
             name);
  return path;
}

char *pco__fs_room(pco__fs_op *o, size_t len) {
  if (o->n_bytes + len <= o->cap_bytes)
    return o->bytes + o->n_bytes;
  size_t cap = o->cap_bytes ? o->cap_bytes * 2 : 4096;
  while (cap < o->n_bytes + len)
    cap *= 2;
  char *bytes = realloc(o->bytes, cap);
  if (!bytes)
    return NULL;
  o->bytes = bytes;
  o->cap_bytes = cap;
  return o->bytes + o->n_bytes;
}

int pco__fs_add_bytes(pco__fs_op *o, const void *data, size_t len) {
  if (len > o->max_size - o->n_bytes)
    return PCO_ELIMIT;
  if (len == 0)
    return 0;
  char *room = pco__fs_room(o, len);
  if (!room)
    return UV_ENOMEM;
  memcpy(room, data, len);
  o->n_bytes += len;
  return 0;
}

const char *pco__fs_data(pco__fs_op *o) {
  if (o->borrowed)
    pthread_mutex_lock(&o->op.loop->lock);
  return o->data;
}

void pco__fs_data_end(pco__fs_op *o) {
  if (o->borrowed)
    pthread_mutex_unlock(&o->op.loop->lock);
}

pco__error *pco__fs_limit_error(const pco__fs_op *o) {
  pco__error *err;
  if (o->kind == PCO__FILE_READ)
    err = pco__error_new(PCO_ELIMIT, PCO_SOURCE_HOST, o->path,
                         "the sandbox gave more than was asked for");
  else if (o->kind == PCO__FS_READ)
    err =
        pco__error_new(PCO_ELIMIT, PCO_SOURCE_HOST, o->path,
                       "there is more than max_size = %zu bytes", o->max_size);
  else
    err = pco__error_new(PCO_ELIMIT, PCO_SOURCE_HOST, o->path,
                         "the directory has too many entries for one list");
  err->limit = o->kind == PCO__FS_READ || o->kind == PCO__FILE_READ ? "max_size"
                                                                    : "list";
  return err;
}

/* What is no error for this call. */
static bool forgiven(pco__fs_op *o, const pco__error *err) {
  bool missing = err->code == UV_ENOENT || err->code == UV_ENOTDIR;
  bool denied = err->code == UV_EACCES || err->code == UV_EPERM;
  if (o->exists && missing)
    return true;
  if (o->forgives & PCO__FORGIVES_MISSING && (missing || err->code == UV_ELOOP))
    return true;
  if (o->forgives & PCO__FORGIVES_DENIED && denied)
    return true;
  return o->missing_ok && err->code == UV_ENOENT;
}

/* What comes after the cancellation is dropped, so what such a call holds may
 * not be all; a change that was made is made. */
static bool is_incomplete(const pco__fs_op *o) {
  return o->op.cancel_code &&
         (o->kind == PCO__FS_STAT || o->kind == PCO__FS_LIST ||
          o->kind == PCO__FS_READ || o->kind == PCO__FS_MKTEMP ||
          o->kind == PCO__FS_USAGE || o->kind == PCO__FS_OPEN ||
          o->kind == PCO__FS_WATCH || o->kind == PCO__FILE_READ ||
          o->kind == PCO__FILE_STAT || o->kind == PCO__WATCH_EVENTS);
}

/* The system speaks of too many links also where one is too many. */
static pco__error *explain_link(const pco__fs_op *o, pco__error *err) {
  if (err->code != UV_ELOOP || err->message || !(o->flags & PCO_FS_NOFOLLOW))
    return err;
  pco__error *clear = pco__error_new(
      UV_ELOOP, err->source, err->path,
      "a symbolic link is in the way, which follow = false refuses");
  pco__error_free(err);
  return clear;
}

/* The option of this call that would have helped, or NULL. */
static const char *missing_option(const pco__fs_op *o, const pco__error *err) {
  bool replaces = o->kind == PCO__FS_RENAME || o->kind == PCO__FS_COPY;
  bool makes = o->kind == PCO__FS_WRITE || o->kind == PCO__FS_MKDIR ||
               o->kind == PCO__FS_SYMLINK;
  if (err->code == UV_EEXIST && replaces && !(o->flags & PCO_FS_REPLACE))
    return "overwrite = true replaces it";
  if (err->code == UV_ENOENT && makes && !(o->flags & PCO_FS_PARENTS))
    return "parents = true makes the directories above it";
  return NULL;
}

/* Adds it to the message.  Without memory it stays as it is. */
static void add_option(const pco__fs_op *o, pco__error *err) {
  const char *option = missing_option(o, err);
  const char *text = err->message ? err->message : pco__code_text(err->code);
  size_t size = option ? strlen(text) + strlen(option) + 3 : 0;
  char *all = size ? malloc(size) : NULL;
  if (!all)
    return;
  snprintf(all, size, "%s; %s", text, option);
  free(err->message);
  err->message = all;
}

void pco__fs_end(pco__fs_op *o, pco__error *err) {
  if (o->trouble) {
    pco__error_free(err);
    err = o->trouble;
    o->trouble = NULL;
  }
  if (!err && is_incomplete(o))
    err = pco__error_new(UV_ECANCELED, PCO_SOURCE_HOST, NULL, NULL);
  o->found = !err;
  if (err && !o->op.cancel_code && forgiven(o, err)) {
    pco__error_free(err);
    err = NULL;
  }
  if (!err && o->op.cls == &pco__fs_readlink_class &&
      o->entries->type != PCO_SYMLINK)
    err = pco__error_new(UV_EINVAL, PCO_SOURCE_HOST, NULL,
                         "it is no symbolic link");
  if (err) {
    err = explain_link(o, err);
    add_option(o, err);
  }
  if (err && !err->path && o->path)
    err->path = strdup(o->path);
  o->succeeded = !err;
  pco__op_complete(&o->op, err);
}

/* What a plugin's "pco.fs/1" cannot be asked for, in words; NULL: nothing. */
static const char *beyond_plugins(const pco__fs_op *o) {
  if (o->op.cls == &pco__fs_readlink_class)
    return "links";
  if ((o->kind >= PCO__FS_CHMOD && o->kind <= PCO__FS_COPY) ||
      o->kind == PCO__FS_WATCH)
    return o->op.cls->name;
  if (o->owner)
    return "the option owner";
  if (o->flags & PCO_FS_IN_PLACE)
    return "the option atomic = false";
  return o->flags & PCO_FS_SYNC ? "the option fsync" : NULL;
}

static pco__error *check_backend(const pco__fs_op *o) {
  const char *id = o->sandbox->backend->info->id;
  if (o->sandbox->link)
    return NULL;
  if (!o->sandbox->fs)
    return pco__error_new(PCO_EUNSUPPORTED, PCO_SOURCE_HOST, NULL,
                          "the backend %s has no files", id);
  const char *beyond = beyond_plugins(o);
  if (!beyond)
    return NULL;
  return pco__error_new(PCO_EUNSUPPORTED, PCO_SOURCE_HOST, o->path,
                        "the backend %s does not know %s; bwrap and local do",
                        id, beyond);
}

static void start(pco__op *op) {
  pco__fs_op *o = op_of(op);
  pco__error *err = pco__sandbox_check(o->sandbox);
  if (!err)
    err = check_backend(o);
  if (!err && o->kind == PCO__WATCH_EVENTS && pco__file_take_late(o)) {
    pco__op_complete(op, NULL);
    return;
  }
  if (err) {
    pco__op_complete(op, err);
    return;
  }
  pco__list_append(&o->sandbox->ops, &op->owner_node);
  if (o->sandbox->link)
    pco__fs_agent_start(o);
  else
    pco__fs_plugin_start(o);
}

static void cancel(pco__op *op) {
  pco__fs_op *o = op_of(op);
  if (o->sandbox->link)
    pco__fs_agent_cancel(o);
  else if (o->sandbox->fs)
    pco__fs_plugin_cancel(o);
}

static void give_back(pco__op *op) {
  pco__fs_op *o = op_of(op);
  if (pco__fs_data(o) && o->borrowed)
    o->data = NULL;
  pco__fs_data_end(o);
}

static void leave(pco__op *op) {
  pco__fs_op *o = op_of(op);
  pco__file_unref(o->file);
  o->file = NULL;
  o->path = NULL; /* that may be the file's */
}

static void destroy(pco__op *op) {
  pco__fs_op *o = op_of(op);
  leave(op);
  while (o->entries) {
    pco__entry *next = o->entries->next;
    free(o->entries);
    o->entries = next;
  }
  free(o->bytes);
  pco__glob_unref(o->glob);
  pco__error_free(o->trouble);
  pco__sandbox_unref(o->sandbox);
}

/* What is gone is closed. */
static void start_close(pco__op *op) {
  pco__fs_op *o = op_of(op);
  bool gone = !o->file->open || !pco__file_is_alive(o->file);
  o->file->open = false;
  if (gone)
    pco__op_complete(op, NULL);
  else
    start(op);
}

#define FS_CLASS(variable, text, push_fn)                                      \
  const pco__op_class variable = {.name = text,                                \
                                  .start = start,                              \
                                  .cancel = cancel,                            \
                                  .push = push_fn,                             \
                                  .give_back = give_back,                      \
                                  .leave = leave,                              \
                                  .destroy = destroy}
FS_CLASS(pco__fs_read_class, "fs.read", pco__push_bytes);
FS_CLASS(pco__fs_write_class, "fs.write", pco__push_nothing);
FS_CLASS(pco__fs_append_class, "fs.append", pco__push_nothing);
FS_CLASS(pco__fs_stat_class, "fs.stat", pco__push_entry);
FS_CLASS(pco__fs_exists_class, "fs.exists", pco__push_found);
FS_CLASS(pco__fs_list_class, "fs.list", pco__push_entries);
FS_CLASS(pco__fs_mkdir_class, "fs.mkdir", pco__push_nothing);
FS_CLASS(pco__fs_remove_class, "fs.remove", pco__push_found);
FS_CLASS(pco__fs_rename_class, "fs.rename", pco__push_nothing);
FS_CLASS(pco__fs_chmod_class, "fs.chmod", pco__push_nothing);
FS_CLASS(pco__fs_chown_class, "fs.chown", pco__push_nothing);
FS_CLASS(pco__fs_symlink_class, "fs.symlink", pco__push_nothing);
FS_CLASS(pco__fs_readlink_class, "fs.readlink", pco__push_link);
FS_CLASS(pco__fs_mktemp_class, "fs.mktemp", pco__push_bytes);
FS_CLASS(pco__fs_usage_class, "fs.usage", pco__push_usage);
FS_CLASS(pco__fs_copy_class, "fs.copy", pco__push_nothing);
FS_CLASS(pco__fs_walk_class, "fs.walk", pco__push_walk);
const pco__op_class pco__fs_glob_class = {.name = "fs.glob",
                                          .start = start,
                                          .cancel = cancel,
                                          .push = pco__push_glob,
                                          .again = pco__glob_again,
                                          .destroy = destroy};
FS_CLASS(pco__fs_open_class, "fs.open", pco__push_file);
FS_CLASS(pco__fs_watch_class, "fs.watch", pco__push_watch);
FS_CLASS(pco__file_write_class, "file.write", pco__push_written);
FS_CLASS(pco__file_seek_class, "file.seek", pco__push_end);
FS_CLASS(pco__file_truncate_class, "file.truncate", pco__push_nothing);
FS_CLASS(pco__file_sync_class, "file.sync", pco__push_nothing);
FS_CLASS(pco__file_stat_class, "file.stat", pco__push_file_stat);
FS_CLASS(pco__watch_next_class, "watch.next", pco__push_event);
FS_CLASS(pco__watch_events_class, "watch.events", pco__push_event);
#define READ_CLASS(variable, text)                                             \
  const pco__op_class variable = {.name = text,                                \
                                  .start = start,                              \
                                  .cancel = cancel,                            \
                                  .push = pco__push_part,                      \
                                  .again = pco__file_again,                    \
                                  .leave = leave,                              \
                                  .destroy = destroy}
READ_CLASS(pco__file_read_class, "file.read");
READ_CLASS(pco__file_lines_class, "file.lines");
#define CLOSE_CLASS(variable, text)                                            \
  const pco__op_class variable = {.name = text,                                \
                                  .shielded = true,                            \
                                  .start = start_close,                        \
                                  .cancel = cancel,                            \
                                  .push = pco__push_shut,                      \
                                  .leave = leave,                              \
                                  .destroy = destroy}
CLOSE_CLASS(pco__file_close_class, "file.close");
CLOSE_CLASS(pco__watch_close_class, "watch.close");
