/* SPDX-License-Identifier: MIT */
/*
 * Core functions of File.
 *
 * Where a file is read or written next is known here, on the caller's thread:
 * each request says its offset, so one that was cancelled has changed nothing.
 * Lines are cut out of a buffer, which the next write or seek throws away.
 */
#include "lua_file.h"

#include <stdlib.h>
#include <string.h>

#include "lua_args.h"
#include "lua_error.h"
#include "lua_fs.h"
#include "lua_process.h"
#include "lua_table.h"
#include "lua_wait.h"
#include "wire.h"

#define AHEAD     (128u * 1024)  /* bytes that are read for lines */
#define PIECE     (1024u * 1024) /* and at most, for a long one, or the rest */
#define MAX_COUNT (UINT64_C(1) << 40)

enum { PCO__FORMAT_COUNT, PCO__FORMAT_ALL, PCO__FORMAT_LINE, PCO__FORMAT_END };

static pco__fs_op *op_of(pco__op *op) {
  return PCO_CONTAINER(op, pco__fs_op, op);
}

/* ---- opening ------------------------------------------------------------- */

int pco__push_file(lua_State *L, pco__op *op) {
  return pco__push_open_object(L, op, PCO__FILE);
}

static uint32_t parse_mode(lua_State *L, int idx, const char *name) {
  const char *s = luaL_opt(L, lua_tostring, idx, "r");
  bool text = lua_isnoneornil(L, idx) || lua_type(L, idx) == LUA_TSTRING;
  uint32_t flags = text && s ? pco__file_mode(s) : 0;
  if (!flags)
    pco__bad_argument(L, name,
                      "the mode must be \"r\", \"w\" or \"a\", with \"+\" to "
                      "read and write, and \"wx\" for a new file (got %s)",
                      pco__describe(L, idx));
  return flags;
}

int pco__fs_open(lua_State *L) {
  static const char *const known[] = {"mode", "parents", "follow", "timeout",
                                      NULL};
  const char *name = pco__fs_open_class.name;
  pco__handle *h = pco__open_self(L, PCO__FILESYSTEM, name);
  lua_settop(L, 4);
  pco__check_options(L, 4, name, known);
  uint32_t flags = parse_mode(L, 3, name);
  lua_settop(L, 4);
  pco__op *op =
      pco__new_op(L, &pco__fs_open_class, sizeof(pco__fs_op), h->loop);
  pco__fs_op *o = op_of(op);
  pco__sandbox_ref(h->sandbox);
  o->sandbox = h->sandbox;
  o->kind = PCO__FS_OPEN;
  o->path = pco__arg_path(L, 2, name, "the path", &op->arena);
  o->mode = pco__opt_mode(L, 4, name);
  if (!pco__opt_boolean(L, 4, name, "follow", true))
    flags |= PCO_FS_NOFOLLOW;
  if (pco__opt_boolean(L, 4, name, "parents", false))
    flags |= PCO_FS_PARENTS;
  op->timeout = pco__opt_seconds(L, 4, name, "timeout", -1, true);
  o->flags = flags;
  o->file = pco__file_new(h->sandbox, o->path, flags);
  if (!o->file)
    return pco__raise(L, pco__error_no_memory(), name, 1);
  return pco__await(L, 5);
}

/* ---- the buffer ---------------------------------------------------------- */

static size_t buffered(const pco__opened *f) {
  return f->len - f->start;
}

/* Where the script is in the file. */
static uint64_t position(const pco__opened *f) {
  return f->at - buffered(f);
}

static void move_to(pco__opened *f, uint64_t at) {
  f->at = at;
  f->start = f->len = f->lineless = 0;
  f->ended = false;
}

/* Puts what an op read behind what is there; the first time it just takes it.
 * False without memory. */
static bool take_bytes(pco__opened *f, pco__fs_op *o) {
  if (buffered(f) == 0) {
    free(f->buffer);
    f->buffer = o->bytes;
    f->cap = o->cap_bytes;
    f->start = 0;
    f->len = o->n_bytes;
    o->bytes = NULL;
    f->at += o->n_bytes;
    return true;
  }
  if (f->len + o->n_bytes > f->cap) {
    size_t used = buffered(f);
    size_t cap = 2 * (used + o->n_bytes);
    char *p = malloc(cap);
    if (!p)
      return false;
    memcpy(p, f->buffer + f->start, used);
    free(f->buffer);
    f->buffer = p;
    f->cap = cap;
    f->start = 0;
    f->len = used;
  }
  if (o->n_bytes)
    memcpy(f->buffer + f->len, o->bytes, o->n_bytes);
  f->len += o->n_bytes;
  f->at += o->n_bytes;
  return true;
}

/* ---- reading ------------------------------------------------------------- */

/* Pushes the next n bytes of the buffer, and leaves out `skip` after them. */
static int give(lua_State *L, pco__opened *f, size_t n, size_t skip) {
  lua_pushlstring(L, f->buffer ? f->buffer + f->start : "", n);
  f->start += n + skip;
  f->lineless = 0;
  return 1;
}

/* What was looked at before is not looked at again: a long line comes in many
 * pieces. */
static int give_line(lua_State *L, pco__opened *f, bool with_end) {
  size_t n = buffered(f), old = f->lineless;
  const char *from = n ? f->buffer + f->start : "";
  const char *end = n > old ? memchr(from + old, '\n', n - old) : NULL;
  if (end)
    return give(L, f, (size_t)(end - from) + with_end, !with_end);
  f->lineless = n;
  if (!f->ended)
    return PCO__OP_AGAIN;
  if (n)
    return give(L, f, n, 0);
  lua_pushnil(L);
  return 1;
}

/* Gives what the format asks for, if it is there: PCO__OP_AGAIN if not. */
static int give_part(lua_State *L, pco__opened *f, int format, uint64_t count) {
  size_t n = buffered(f);
  switch (format) {
  case PCO__FORMAT_LINE:
  case PCO__FORMAT_END:
    return give_line(L, f, format == PCO__FORMAT_END);
  case PCO__FORMAT_ALL:
    return f->ended ? give(L, f, n, 0) : PCO__OP_AGAIN;
  default:
    if (n < (count ? count : 1) && !f->ended)
      return PCO__OP_AGAIN;
    if (n == 0 && f->ended) {
      lua_pushnil(L);
      return 1;
    }
    return give(L, f, n < count ? n : (size_t)count, 0);
  }
}

/* Is the line, or the rest, more than may be given at once? */
static bool is_too_much(const pco__opened *f, int format, size_t max) {
  if (format == PCO__FORMAT_COUNT || buffered(f) <= max)
    return false;
  return format == PCO__FORMAT_ALL ||
         !memchr(f->buffer + f->start, '\n', max + 1);
}

static int too_much(lua_State *L, const pco__opened *f, int format, size_t max,
                    const char *name) {
  pco__error *err = pco__error_new(
      PCO_ELIMIT, PCO_SOURCE_HOST, f->file->path,
      format == PCO__FORMAT_ALL
          ? "there is more than max_size = %zu bytes"
          : "a line is longer than max_size = %zu bytes; read(n) gives it",
      max);
  err->limit = "max_size";
  return pco__raise(L, err, name, 1);
}

/* The File of a read: self, or what the iterator at 1 is of. */
static pco__handle *file_at(lua_State *L) {
  pco__handle *h = pco__handle_at(L, 1);
  return h->kind == PCO__FILE ? h : pco__iterated(L, PCO__FILE, "file.lines");
}

static int end_of_lines(lua_State *L, int n) {
  pco__handle *h = pco__handle_at(L, 1);
  if (h->kind == PCO__ITERATOR && lua_isnil(L, -1))
    pco__mark_closed(L, 1);
  return n;
}

int pco__push_part(lua_State *L, pco__op *op) {
  pco__fs_op *o = op_of(op);
  pco__handle *h = file_at(L);
  pco__opened *f = h->opened;
  /* A device gives less than it was asked for, but for its end nothing. */
  f->ended = o->n_bytes == 0;
  if (!take_bytes(f, o))
    return pco__raise(L, pco__error_no_memory(), op->cls->name, 1);
  if (o->format == PCO__FORMAT_COUNT && o->n_bytes < o->length &&
      buffered(f) > 0)
    return give(L, f, buffered(f) < o->count ? buffered(f) : (size_t)o->count,
                0);
  if (is_too_much(f, o->format, o->part_max))
    return too_much(L, f, o->format, o->part_max, op->cls->name);
  int n = give_part(L, f, o->format, o->count);
  o->opened = f;
  return n == PCO__OP_AGAIN ? n : end_of_lines(L, n);
}

/* How much to ask for next; `have` bytes of it lie there. A line that is long
 * already is asked for in larger pieces. */
static uint64_t next_length(const pco__fs_op *o, size_t have) {
  if (o->format == PCO__FORMAT_COUNT && o->count > 0)
    return o->count - have;
  if (o->format == PCO__FORMAT_ALL || have > PIECE)
    return PIECE;
  return have > AHEAD ? have : AHEAD;
}

static void ask_for(pco__fs_op *o, const pco__opened *f) {
  o->length = next_length(o, buffered(f));
  o->max_size = (size_t)o->length;
}

/* Goes on behind what the old one read. */
pco__op *pco__file_again(const pco__op *op) {
  const pco__fs_op *old = (const pco__fs_op *)(const void *)op; /* its first */
  pco__op *next = pco__op_new(op->cls, sizeof *old, op->loop);
  if (!next)
    return NULL;
  pco__fs_op *o = op_of(next);
  pco__sandbox_ref(old->sandbox);
  pco__file_ref(old->file);
  o->sandbox = old->sandbox;
  o->file = old->file;
  o->kind = old->kind;
  o->mode = -1;
  o->path = old->path;
  o->op.timeout = old->op.timeout;
  o->format = old->format;
  o->count = old->count;
  o->part_max = old->part_max;
  o->offset = old->offset + old->n_bytes;
  ask_for(o, old->opened);
  pco__opened_replace(old->opened, next);
  return next;
}

/* The op reads into the buffer that is empty: memory that is new costs more
 * than the bytes. */
static void give_buffer(pco__opened *f, pco__fs_op *o) {
  if (buffered(f) > 0)
    return;
  o->bytes = f->buffer;
  o->cap_bytes = f->cap;
  f->buffer = NULL;
  f->start = f->len = f->cap = 0;
}

/* Gives what is asked for, or makes the op that reads it. */
static int read_part(lua_State *L, pco__handle *h, const pco__op_class *cls,
                     int format, uint64_t count, size_t max_size,
                     int64_t timeout) {
  pco__opened *f = h->opened;
  if (!(f->file->flags & PCO_OPEN_READ))
    return pco__raise(L,
                      pco__error_new(UV_EBADF, PCO_SOURCE_HOST, f->file->path,
                                     "it was not opened for reading"),
                      cls->name, 1);
  if (!h->sync)
    pco__check_wait(L, cls);
  f->ended = false; /* it may have grown */
  bool idle = !pco__opened_is_busy(f);
  if (idle && is_too_much(f, format, max_size))
    return too_much(L, f, format, max_size, cls->name);
  int n = idle ? give_part(L, f, format, count) : PCO__OP_AGAIN;
  if (n != PCO__OP_AGAIN)
    return n;
  pco__fs_op *o = pco__opened_op(L, h, cls, PCO__FILE_READ, 2);
  o->format = format;
  o->count = count;
  o->part_max = max_size;
  o->offset = f->at;
  ask_for(o, f);
  o->op.timeout = timeout;
  pco__opened_claim(L, h, o);
  give_buffer(f, o);
  return pco__await(L, 2);
}

/* "a", "l", "L" or a count. */
static int parse_format(lua_State *L, int idx, const char *name,
                        uint64_t *count) {
  *count = 0;
  if (lua_isnoneornil(L, idx))
    return PCO__FORMAT_LINE;
  if (lua_isinteger(L, idx) && lua_type(L, idx) == LUA_TNUMBER &&
      lua_tointeger(L, idx) >= 0 &&
      (uint64_t)lua_tointeger(L, idx) <= MAX_COUNT) {
    *count = (uint64_t)lua_tointeger(L, idx);
    return PCO__FORMAT_COUNT;
  }
  const char *s = lua_type(L, idx) == LUA_TSTRING ? lua_tostring(L, idx) : "";
  s += *s == '*';
  if (strcmp(s, "a") == 0)
    return PCO__FORMAT_ALL;
  if (strcmp(s, "l") == 0)
    return PCO__FORMAT_LINE;
  if (strcmp(s, "L") == 0)
    return PCO__FORMAT_END;
  return pco__bad_argument(L, name,
                           "the format must be \"a\", \"l\", \"L\" or a count "
                           "of bytes (got %s)",
                           pco__describe(L, idx));
}

static int file_read(lua_State *L) {
  static const char *const known[] = {"max_size", "timeout", NULL};
  const char *name = pco__file_read_class.name;
  uint64_t count;
  pco__handle *h = pco__open_self(L, PCO__FILE, name);
  lua_settop(L, 3);
  int format = parse_format(L, 2, name, &count);
  pco__check_options(L, 3, name, known);
  size_t max = pco__opt_size(L, 3, name, "max_size", PCO__FS_DEFAULT_MAX_SIZE,
                             SIZE_MAX / 4);
  int64_t timeout = pco__opt_seconds(L, 3, name, "timeout", -1, true);
  if (format == PCO__FORMAT_COUNT)
    max = SIZE_MAX / 4;
  lua_settop(L, 1);
  return read_part(L, h, &pco__file_read_class, format, count, max, timeout);
}

/* ---- lines --------------------------------------------------------------- */

static int file_lines(lua_State *L) {
  const char *name = pco__file_lines_class.name;
  uint64_t count;
  pco__handle *h = pco__open_self(L, PCO__FILE, name);
  lua_settop(L, 2);
  int format = parse_format(L, 2, name, &count);
  pco__handle *it = pco__push_opened_iterator(L, h, "file", PCO__ITERATE_FILE);
  it->max_line = count;
  it->part = format;
  return 4;
}

int pco__lines_of_file(lua_State *L, pco__handle *it) {
  pco__handle *h = pco__iterated(L, PCO__FILE, "file.lines");
  int format = it->part;
  lua_settop(L, 1);
  size_t max =
      format == PCO__FORMAT_COUNT ? SIZE_MAX / 4 : PCO__FS_DEFAULT_MAX_SIZE;
  return read_part(L, h, &pco__file_lines_class, format, it->max_line, max, -1);
}

/* ---- writing ------------------------------------------------------------- */

int pco__push_written(lua_State *L, pco__op *op) {
  const pco__fs_op *o = op_of(op);
  move_to(pco__handle_at(L, 1)->opened, o->offset);
  lua_pushvalue(L, 1);
  return 1;
}

/* Copies the arguments from 2 on, strings and numbers, one behind the other. */
static void join_arguments(lua_State *L, pco__fs_op *o, int n) {
  const char *name = o->op.cls->name;
  for (int i = 2; i <= n; i++) {
    size_t len;
    int type = lua_type(L, i);
    if (type != LUA_TSTRING && type != LUA_TNUMBER)
      pco__bad_argument(L, name,
                        "what is written must be strings or numbers (got %s)",
                        pco__describe(L, i));
    lua_tolstring(L, i, &len);
    o->len += len;
  }
  char *to = pco__arena_alloc(&o->op.arena, o->len + 1);
  pco__check_arena(L, name, &o->op.arena);
  o->data = to;
  for (int i = 2; i <= n; i++) {
    size_t len;
    const char *s = lua_tolstring(L, i, &len);
    memcpy(to, s, len);
    to += len;
  }
}

static int file_write(lua_State *L) {
  const char *name = pco__file_write_class.name;
  pco__handle *h = pco__open_self(L, PCO__FILE, name);
  int n = lua_gettop(L);
  luaL_checkstack(L, 8, "too many arguments");
  if (!(h->opened->file->flags & PCO_OPEN_WRITE))
    return pco__raise(L,
                      pco__error_new(UV_EBADF, PCO_SOURCE_HOST,
                                     h->opened->file->path,
                                     "it was not opened for writing"),
                      name, 1);
  pco__fs_op *o =
      pco__opened_op(L, h, &pco__file_write_class, PCO__FILE_WRITE, n + 1);
  if (n == 2 && lua_type(L, 2) == LUA_TSTRING)
    pco__fs_take_data(L, n + 1, 2, o);
  else
    join_arguments(L, o, n);
  o->offset = position(h->opened);
  pco__opened_claim(L, h, o);
  move_to(h->opened, o->offset);
  return pco__await(L, n + 1);
}

/* ---- moving -------------------------------------------------------------- */

static int seek_to(lua_State *L, pco__handle *h, int64_t base,
                   lua_Integer offset) {
  if (offset < -base || offset > INT64_MAX - base)
    return pco__bad_argument(L, "file.seek",
                             "there is no place %lld bytes from %lld", offset,
                             (long long)base);
  move_to(h->opened, (uint64_t)(base + offset));
  lua_pushinteger(L, (lua_Integer)(base + offset));
  return 1;
}

int pco__push_end(lua_State *L, pco__op *op) {
  const pco__fs_op *o = op_of(op);
  return seek_to(L, pco__handle_at(L, 1), (int64_t)o->entries->size,
                 (lua_Integer)o->count);
}

static int file_seek(lua_State *L) {
  static const char *const whences[] = {"set", "cur", "end", NULL};
  const char *name = pco__file_seek_class.name;
  pco__handle *h = pco__open_self(L, PCO__FILE, name);
  lua_settop(L, 3);
  const char *s = lua_isnil(L, 2)                 ? "cur"
                  : lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2)
                                                  : "";
  int whence = 0;
  while (whences[whence] && strcmp(whences[whence], s) != 0)
    whence++;
  if (!whences[whence])
    pco__bad_argument(L, name,
                      "the whence must be \"set\", \"cur\" or \"end\" (got %s)",
                      pco__describe(L, 2));
  if (!lua_isnil(L, 3) &&
      !(lua_type(L, 3) == LUA_TNUMBER && lua_isinteger(L, 3)))
    pco__bad_argument(L, name, "the offset must be an integer (got %s)",
                      pco__describe(L, 3));
  lua_Integer offset = lua_isnil(L, 3) ? 0 : lua_tointeger(L, 3);
  pco__fs_op *o =
      pco__opened_op(L, h, &pco__file_seek_class, PCO__FILE_STAT, 2);
  o->count = (uint64_t)offset;
  pco__opened_claim(L, h, o);
  if (strcmp(whences[whence], "end") == 0)
    return pco__await(L, 2);
  pco__op_unref(h->opened->call); /* it is never started */
  h->opened->call = NULL;
  lua_settop(L, 1);
  return seek_to(L, h, whence == 0 ? 0 : (int64_t)position(h->opened), offset);
}

/* ---- the rest ------------------------------------------------------------ */

int pco__push_file_stat(lua_State *L, pco__op *op) {
  const char *path = op_of(op)->file->path;
  const char *slash = strrchr(path, '/');
  pco__push_stat(L, op_of(op)->entries);
  lua_pushstring(L, slash ? slash + 1 : path);
  lua_setfield(L, -2, "name");
  return 1;
}

static pco__fs_op *plain_op(lua_State *L, const pco__op_class *cls, int kind,
                            int options) {
  pco__handle *h = pco__open_self(L, PCO__FILE, cls->name);
  pco__check_options(L, options, cls->name, pco__timeout_only);
  int64_t timeout =
      pco__opt_seconds(L, options, cls->name, "timeout", -1, true);
  pco__fs_op *o = pco__opened_op(L, h, cls, kind, options + 1);
  o->op.timeout = timeout;
  return o;
}

static int file_truncate(lua_State *L) {
  const char *name = pco__file_truncate_class.name;
  lua_settop(L, 3);
  pco__fs_op *o = plain_op(L, &pco__file_truncate_class, PCO__FILE_TRUNCATE, 3);
  bool fits = lua_type(L, 2) == LUA_TNUMBER && lua_isinteger(L, 2) &&
              lua_tointeger(L, 2) >= 0;
  if (!fits)
    return pco__bad_argument(L, name,
                             "the size must be an integer, 0 or more (got %s)",
                             pco__describe(L, 2));
  if (!(o->file->flags & PCO_OPEN_WRITE))
    return pco__raise(L,
                      pco__error_new(UV_EBADF, PCO_SOURCE_HOST, o->path,
                                     "it was not opened for writing"),
                      name, 1);
  o->offset = (uint64_t)lua_tointeger(L, 2);
  pco__handle *h = pco__handle_at(L, 1);
  pco__opened_claim(L, h, o);
  move_to(h->opened, position(h->opened));
  return pco__await(L, 4);
}

static int file_sync(lua_State *L) {
  lua_settop(L, 2);
  plain_op(L, &pco__file_sync_class, PCO__FILE_SYNC, 2);
  return pco__await(L, 3);
}

static int file_stat(lua_State *L) {
  lua_settop(L, 2);
  plain_op(L, &pco__file_stat_class, PCO__FILE_STAT, 2);
  return pco__await(L, 3);
}

static int file_close(lua_State *L) {
  return pco__opened_close(L, PCO__FILE, &pco__file_close_class,
                           pco__timeout_only);
}

const pco__core_function pco__file_functions[] = {
    {"fs_open", pco__fs_open},         {"file_read", file_read},
    {"file_lines", file_lines},        {"file_write", file_write},
    {"file_seek", file_seek},          {"file_truncate", file_truncate},
    {"file_sync", file_sync},          {"file_stat", file_stat},
    {"file_close", file_close},        {"fs_watch", pco__fs_watch},
    {"watch_next", pco__watch_next},   {"watch_events", pco__watch_events},
    {"watch_close", pco__close_watch}, {NULL, NULL}};
