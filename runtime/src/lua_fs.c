/* SPDX-License-Identifier: MIT */
/* Core functions of FileSystem. */
#include "lua_fs.h"

#include <stdlib.h>
#include <string.h>

#include "lua_args.h"
#include "lua_error.h"
#include "lua_table.h"
#include "lua_wait.h"
#include "lua_walk.h"
#include "wire.h"

/* ---- results ------------------------------------------------------------- */

#define LEND_FROM (128u * 1024) /* bytes: less is as quickly copied */

static pco__fs_op *op_of(pco__op *op) {
  return PCO_CONTAINER(op, pco__fs_op, op);
}

int pco__push_bytes(lua_State *L, pco__op *op) {
  pco__fs_op *o = op_of(op);
  lua_pushlstring(L, o->bytes ? o->bytes : "", o->n_bytes);
  return 1;
}

void pco__push_stat(lua_State *L, const pco__entry *e) {
  static const char *const types[] = {"file", "directory", "symlink", "other"};
  lua_createtable(L, 0, 9);
  lua_pushstring(L, e->name);
  lua_setfield(L, -2, "name");
  lua_pushstring(L, types[e->type < 4 ? e->type : 3]);
  lua_setfield(L, -2, "type");
  pco__set_integer(L, "size", (lua_Integer)e->size);
  pco__set_integer(L, "mode", e->mode);
  pco__set_integer(L, "uid", e->uid);
  pco__set_integer(L, "gid", e->gid);
  lua_pushnumber(L, (lua_Number)e->mtime_ns / 1e9);
  lua_setfield(L, -2, "mtime");
  pco__set_integer(L, "mtime_ns", e->mtime_ns);
  lua_pushstring(L, e->link);
  lua_setfield(L, -2, "target");
}

int pco__push_entry(lua_State *L, pco__op *op) {
  pco__push_stat(L, op_of(op)->entries);
  return 1;
}

int pco__push_entries(lua_State *L, pco__op *op) {
  pco__fs_op *o = op_of(op);
  size_t n = o->n_entries;
  const pco__entry **sorted =
      lua_newuserdatauv(L, (n + 1) * sizeof(pco__entry *), 0);
  size_t i = 0;
  for (const pco__entry *e = o->entries; e; e = e->next)
    sorted[i++] = e;
  qsort(sorted, n, sizeof(pco__entry *), pco__by_name);
  lua_createtable(L, (int)n, 0);
  for (i = 0; i < n; i++) {
    pco__push_stat(L, sorted[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

int pco__push_found(lua_State *L, pco__op *op) {
  lua_pushboolean(L, op_of(op)->found);
  return 1;
}

int pco__push_link(lua_State *L, pco__op *op) {
  const pco__entry *e = op_of(op)->entries;
  lua_pushstring(L, e->link ? e->link : "");
  return 1;
}

int pco__push_usage(lua_State *L, pco__op *op) {
  const pco__usage *u = &op_of(op)->usage;
  lua_createtable(L, 0, 4);
  pco__set_integer(L, "bytes", (lua_Integer)u->size);
  pco__set_integer(L, "allocated", (lua_Integer)u->allocated);
  pco__set_integer(L, "files", (lua_Integer)u->files);
  pco__set_integer(L, "directories", (lua_Integer)u->directories);
  return 1;
}

/* ---- arguments ----------------------------------------------------------- */

/* Makes the op: checks self and the options at `options`, reads the path at 2
 * and what all calls take. The box is at options + 1. */
static pco__fs_op *new_op(lua_State *L, const pco__op_class *cls, int kind,
                          int options, const char *const *known) {
  const char *name = cls->name;
  pco__handle *h = pco__open_self(L, PCO__FILESYSTEM, name);
  lua_settop(L, options);
  pco__check_options(L, options, name, known);
  pco__op *op = pco__new_op(L, cls, sizeof(pco__fs_op), h->loop);
  pco__fs_op *o = op_of(op);
  pco__sandbox_ref(h->sandbox);
  o->sandbox = h->sandbox;
  o->kind = kind;
  o->mode = -1;
  o->length = UINT64_MAX;
  if (kind != PCO__FS_MKTEMP)
    o->path = pco__arg_path(L, 2, name, "the path", &op->arena);
  if (!pco__opt_boolean(L, options, name, "follow", true))
    o->flags |= PCO_FS_NOFOLLOW;
  op->timeout = pco__opt_seconds(L, options, name, "timeout", -1, true);
  return o;
}

static void flag(lua_State *L, int options, pco__fs_op *o, const char *name,
                 uint32_t bit) {
  if (pco__opt_boolean(L, options, o->op.cls->name, name, false))
    o->flags |= bit;
}

/* Digits of an octal number that somebody wrote as Lua reads them, in decimal:
 * 755 is 01363.  Nobody means one of these, a sticky bit without the right to
 * write or enter for the owner. */
static bool looks_octal(lua_Integer mode) {
  return mode >= 512 && mode <= 777 && mode / 10 % 10 < 8 && mode % 10 < 8;
}

/* The mode that the octal digits at idx say, or -1. */
static lua_Integer octal_mode(lua_State *L, int idx) {
  size_t len = 0;
  const char *s = lua_tolstring(L, idx, &len);
  bool octal = len > 0 && len <= 5 && strspn(s, "01234567") == len;
  return octal ? strtol(s, NULL, 8) : -1;
}

/* The mode at idx: a number, or octal digits as text. */
static int32_t take_mode(lua_State *L, int idx, const char *name,
                         const char *what) {
  lua_Integer mode = lua_isinteger(L, idx)             ? lua_tointeger(L, idx)
                     : lua_type(L, idx) == LUA_TSTRING ? octal_mode(L, idx)
                                                       : -1;
  if (lua_isinteger(L, idx) && looks_octal(mode))
    pco__bad_argument(L, name,
                      "%s %d has octal digits, but Lua reads it in decimal: "
                      "write \"%d\"",
                      what, (int)mode, (int)mode);
  if (mode < 0 || mode > 07777)
    pco__bad_argument(L, name,
                      "%s must be permission bits: octal digits such as "
                      "\"644\", or a number from 0 to 4095 (got %s)",
                      what, pco__describe(L, idx));
  return (int32_t)mode;
}

int32_t pco__opt_mode(lua_State *L, int options, const char *name) {
  int32_t mode = -1;
  if (pco__get_option(L, options, "mode")) {
    mode = take_mode(L, lua_gettop(L), name, "mode");
    lua_pop(L, 1);
  }
  return mode;
}

static void parse_mode(lua_State *L, int options, pco__fs_op *o) {
  o->mode = pco__opt_mode(L, options, o->op.cls->name);
}

/* A user or group at idx as text: a name or a number; "" for nil. */
static const char *owner_part(lua_State *L, int idx, const pco__fs_op *o,
                              const char *what) {
  if (lua_isnoneornil(L, idx))
    return "";
  bool id = lua_isinteger(L, idx) && lua_tointeger(L, idx) >= 0 &&
            lua_tointeger(L, idx) < UINT32_MAX;
  size_t len = 0;
  const char *s = lua_type(L, idx) == LUA_TSTRING || id
                      ? luaL_tolstring(L, idx, &len)
                      : NULL;
  if (!s || len == 0 || len > 200 || strlen(s) != len || strchr(s, ':'))
    pco__bad_argument(L, o->op.cls->name,
                      "%s must be a name without \":\", a number, or nil "
                      "(got %s)",
                      what, pco__describe(L, idx));
  return s;
}

static void parse_owner(lua_State *L, int options, pco__fs_op *o) {
  size_t len = 0;
  if (!pco__get_option(L, options, "owner"))
    return;
  bool id = lua_isinteger(L, -1) && lua_tointeger(L, -1) >= 0 &&
            lua_tointeger(L, -1) < UINT32_MAX;
  const char *s =
      lua_type(L, -1) == LUA_TSTRING || id ? luaL_tolstring(L, -1, &len) : NULL;
  if (!s || len == 0 || len > 400 || strlen(s) != len || strcmp(s, ":") == 0)
    pco__bad_argument(L, o->op.cls->name,
                      "owner must be a user, \"user:group\" or \":group\", "
                      "names or numbers (got %s)",
                      pco__describe(L, s ? -2 : -1));
  o->owner = pco__arena_copy(&o->op.arena, s, len);
  pco__check_arena(L, o->op.cls->name, &o->op.arena);
  lua_pop(L, 2);
}

static const char *const plain_options[] = {"follow", "timeout", NULL};

/* ---- calls --------------------------------------------------------------- */

static int fs_read(lua_State *L) {
  static const char *const known[] = {"offset", "length",  "max_size",
                                      "follow", "timeout", NULL};
  pco__fs_op *o = new_op(L, &pco__fs_read_class, PCO__FS_READ, 3, known);
  const char *name = o->op.cls->name;
  o->offset = pco__opt_size(L, 3, name, "offset", 0, INT64_MAX);
  o->length = pco__opt_size(L, 3, name, "length", UINT64_MAX, UINT64_MAX);
  o->max_size = pco__opt_size(L, 3, name, "max_size", PCO__FS_DEFAULT_MAX_SIZE,
                              SIZE_MAX / 4);
  return pco__await(L, 4);
}

void pco__fs_take_data(lua_State *L, int box, int idx, pco__fs_op *o) {
  const char *name = o->op.cls->name;
  size_t len;
  const char *s =
      lua_type(L, idx) == LUA_TSTRING ? lua_tolstring(L, idx, &len) : NULL;
  if (!s || len < LEND_FROM) {
    o->data = pco__arg_bytes(L, idx, name, "the data", &o->op.arena, &o->len);
    return;
  }
  o->data = s;
  o->len = len;
  o->borrowed = true;
  pco__lend(L, box, idx);
}

static pco__fs_op *write_op(lua_State *L, const pco__op_class *cls,
                            const char *const *known) {
  pco__fs_op *o = new_op(L, cls, PCO__FS_WRITE, 4, known);
  pco__fs_take_data(L, 5, 3, o);
  parse_mode(L, 4, o);
  parse_owner(L, 4, o);
  flag(L, 4, o, "parents", PCO_FS_PARENTS);
  flag(L, 4, o, "fsync", PCO_FS_SYNC);
  return o;
}

static int fs_write(lua_State *L) {
  static const char *const known[] = {"atomic", "mode",   "owner",   "parents",
                                      "fsync",  "follow", "timeout", NULL};
  pco__fs_op *o = write_op(L, &pco__fs_write_class, known);
  if (!pco__opt_boolean(L, 4, o->op.cls->name, "atomic", true))
    o->flags |= PCO_FS_IN_PLACE;
  return pco__await(L, 5);
}

static int fs_append(lua_State *L) {
  static const char *const known[] = {"mode",   "owner",   "parents", "fsync",
                                      "follow", "timeout", NULL};
  write_op(L, &pco__fs_append_class, known)->flags |= PCO_FS_APPEND;
  return pco__await(L, 5);
}

static int fs_stat(lua_State *L) {
  new_op(L, &pco__fs_stat_class, PCO__FS_STAT, 3, plain_options);
  return pco__await(L, 4);
}

static int fs_exists(lua_State *L) {
  new_op(L, &pco__fs_exists_class, PCO__FS_STAT, 3, plain_options)->exists =
      true;
  return pco__await(L, 4);
}

static int fs_list(lua_State *L) {
  new_op(L, &pco__fs_list_class, PCO__FS_LIST, 3, plain_options);
  return pco__await(L, 4);
}

static int fs_mkdir(lua_State *L) {
  static const char *const known[] = {"mode", "parents", "follow", "timeout",
                                      NULL};
  pco__fs_op *o = new_op(L, &pco__fs_mkdir_class, PCO__FS_MKDIR, 3, known);
  parse_mode(L, 3, o);
  flag(L, 3, o, "parents", PCO_FS_PARENTS);
  return pco__await(L, 4);
}

static int fs_remove(lua_State *L) {
  static const char *const known[] = {"recursive", "missing_ok", "follow",
                                      "timeout", NULL};
  pco__fs_op *o = new_op(L, &pco__fs_remove_class, PCO__FS_REMOVE, 3, known);
  flag(L, 3, o, "recursive", PCO_FS_RECURSIVE);
  o->missing_ok = pco__opt_boolean(L, 3, o->op.cls->name, "missing_ok", false);
  return pco__await(L, 4);
}

static int fs_rename(lua_State *L) {
  static const char *const known[] = {"overwrite", "follow", "timeout", NULL};
  pco__fs_op *o = new_op(L, &pco__fs_rename_class, PCO__FS_RENAME, 4, known);
  o->target = pco__arg_path(L, 3, o->op.cls->name, "the target", &o->op.arena);
  flag(L, 4, o, "overwrite", PCO_FS_REPLACE);
  return pco__await(L, 5);
}

static int fs_chmod(lua_State *L) {
  pco__fs_op *o =
      new_op(L, &pco__fs_chmod_class, PCO__FS_CHMOD, 4, plain_options);
  o->mode = take_mode(L, 3, o->op.cls->name, "the mode");
  return pco__await(L, 5);
}

static int fs_chown(lua_State *L) {
  pco__fs_op *o =
      new_op(L, &pco__fs_chown_class, PCO__FS_CHOWN, 5, plain_options);
  if (lua_isnil(L, 3) && lua_isnil(L, 4))
    pco__bad_argument(L, o->op.cls->name, "give a user or a group, or both");
  const char *user = owner_part(L, 3, o, "the user");
  const char *group = owner_part(L, 4, o, "the group");
  const char *owner = lua_pushfstring(L, *group ? "%s:%s" : "%s", user, group);
  o->owner = pco__arena_string(&o->op.arena, owner);
  pco__check_arena(L, o->op.cls->name, &o->op.arena);
  lua_settop(L, 6);
  return pco__await(L, 6);
}

static int fs_symlink(lua_State *L) {
  static const char *const known[] = {"parents", "timeout", NULL};
  pco__fs_op *o = new_op(L, &pco__fs_symlink_class, PCO__FS_SYMLINK, 4, known);
  /* The text first, as ln has it. */
  o->target = o->path;
  o->path = pco__arg_path(L, 3, o->op.cls->name, "the path", &o->op.arena);
  flag(L, 4, o, "parents", PCO_FS_PARENTS);
  return pco__await(L, 5);
}

static int fs_readlink(lua_State *L) {
  static const char *const known[] = {"timeout", NULL};
  new_op(L, &pco__fs_readlink_class, PCO__FS_STAT, 3, known)->flags |=
      PCO_FS_NOFOLLOW;
  return pco__await(L, 4);
}

/* "NAME-*.txt": one component, in which the last '*' becomes random. */
static void parse_temporary_name(lua_State *L, pco__fs_op *o) {
  const char *name = o->op.cls->name;
  o->name = pco__opt_string(L, 2, name, "name", &o->op.arena);
  if (!o->name)
    o->name = "tmp-*";
  if (!*o->name || strchr(o->name, '/'))
    pco__bad_argument(L, name,
                      "name must be a file's name such as \"build-*.log\", "
                      "without \"/\" (got \"%s\")",
                      o->name);
}

static int fs_mktemp(lua_State *L) {
  static const char *const known[] = {"directory", "name", "parent", "timeout",
                                      NULL};
  pco__fs_op *o = new_op(L, &pco__fs_mktemp_class, PCO__FS_MKTEMP, 2, known);
  const char *name = o->op.cls->name;
  parse_temporary_name(L, o);
  o->path = pco__opt_string(L, 2, name, "parent", &o->op.arena);
  if (o->path && !*o->path)
    pco__bad_argument(L, name, "parent must not be empty");
  flag(L, 2, o, "directory", PCO_FS_DIRECTORY);
  o->max_size = 64 * 1024; /* of the path */
  return pco__await(L, 3);
}

static int fs_copy(lua_State *L) {
  static const char *const known[] = {"overwrite", "recursive", "parents",
                                      "follow",    "timeout",   NULL};
  pco__fs_op *o = new_op(L, &pco__fs_copy_class, PCO__FS_COPY, 4, known);
  o->target = pco__arg_path(L, 3, o->op.cls->name, "the target", &o->op.arena);
  flag(L, 4, o, "overwrite", PCO_FS_REPLACE);
  flag(L, 4, o, "recursive", PCO_FS_RECURSIVE);
  flag(L, 4, o, "parents", PCO_FS_PARENTS);
  return pco__await(L, 5);
}

static int fs_usage(lua_State *L) {
  new_op(L, &pco__fs_usage_class, PCO__FS_USAGE, 3, plain_options);
  return pco__await(L, 4);
}

const pco__core_function pco__fs_functions[] = {{"fs_read", fs_read},
                                                {"fs_write", fs_write},
                                                {"fs_append", fs_append},
                                                {"fs_stat", fs_stat},
                                                {"fs_exists", fs_exists},
                                                {"fs_list", fs_list},
                                                {"fs_mkdir", fs_mkdir},
                                                {"fs_remove", fs_remove},
                                                {"fs_rename", fs_rename},
                                                {"fs_chmod", fs_chmod},
                                                {"fs_chown", fs_chown},
                                                {"fs_symlink", fs_symlink},
                                                {"fs_readlink", fs_readlink},
                                                {"fs_mktemp", fs_mktemp},
                                                {"fs_usage", fs_usage},
                                                {"fs_copy", fs_copy},
                                                {"fs_walk", pco__fs_walk},
                                                {"fs_glob", pco__fs_glob},
                                                {NULL, NULL}};
