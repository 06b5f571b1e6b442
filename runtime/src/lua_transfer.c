/* SPDX-License-Identifier: MIT */
/* Core functions of Sandbox: upload and download. */
#include "lua_args.h"
#include "lua_sandbox.h"
#include "lua_table.h"
#include "lua_wait.h"
#include "transfer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PATTERNS 500
#define MAX_PATTERN  1024

static pco__transfer *transfer_of(pco__op *op) {
  return PCO_CONTAINER(op, pco__transfer, op);
}

/* ---- results ------------------------------------------------------------- */

static void push_skipped(lua_State *L, const pco__transfer *t) {
  lua_createtable(L, (int)t->n_skipped, 0);
  for (size_t i = 0; i < t->n_skipped; i++) {
    const pco__skipped *s = &t->skipped[i];
    lua_createtable(L, 0, 3);
    pco__set_string(L, "path", s->path);
    pco__set_string(L, "code", pco__code_name(s->code));
    pco__set_string(L, "message",
                    s->message ? s->message : pco__code_text(s->code));
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

int pco__push_transfer(lua_State *L, pco__op *op) {
  const pco__transfer *t = transfer_of(op);
  lua_createtable(L, 0, 4);
  pco__set_integer(L, "files", (lua_Integer)t->files);
  pco__set_integer(L, "directories", (lua_Integer)t->directories);
  pco__set_integer(L, "bytes", (lua_Integer)t->bytes);
  push_skipped(L, t);
  lua_setfield(L, -2, "skipped");
  return 1;
}

bool pco__offer_progress(lua_State *L, pco__op *op) {
  pco__progress p;
  if (!pco__transfer_take(transfer_of(op), &p))
    return false;
  lua_createtable(L, 0, 4);
  pco__set_string(L, "path", p.path ? p.path : "");
  free(p.path);
  pco__set_integer(L, "bytes", (lua_Integer)p.bytes);
  pco__set_integer(L, "files", (lua_Integer)p.files);
  if (p.has_total)
    pco__set_integer(L, "total", (lua_Integer)p.total);
  return true;
}

/* ---- arguments ----------------------------------------------------------- */

/* Adds "KEY=VALUE" and its NUL. */
static void add_word(luaL_Buffer *b, const char *key, const char *value) {
  luaL_addstring(b, key);
  luaL_addchar(b, '=');
  luaL_addstring(b, value);
  luaL_addchar(b, 0);
}

static void add_number(luaL_Buffer *b, const char *key, uint64_t value) {
  char text[24];
  snprintf(text, sizeof text, "%llu", (unsigned long long)value);
  add_word(b, key, text);
}

static int bad_pattern(lua_State *L, const char *name, const char *key,
                       int at) {
  return pco__bad_argument(L, name,
                           "%s must be a pattern such as \"*.o\", or a "
                           "sequence of at most %d (got %s)",
                           key, MAX_PATTERNS, pco__describe(L, at));
}

/* The pattern on top. */
static const char *check_pattern(lua_State *L, const char *name,
                                 const char *key) {
  size_t len = 0;
  const char *s =
      lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &len) : NULL;
  if (!s || len == 0 || strlen(s) != len || len > MAX_PATTERN)
    bad_pattern(L, name, key, lua_gettop(L));
  return s;
}

/* Checks the patterns of an option and pushes them as words. */
static void push_patterns(lua_State *L, int options, const char *name,
                          const char *key) {
  if (!pco__get_option(L, options, key)) {
    lua_pushliteral(L, "");
    return;
  }
  int at = lua_gettop(L);
  lua_Integer n = 1;
  if (lua_istable(L, at))
    n = pco__arg_sequence(L, at, name, key);
  if (n > MAX_PATTERNS)
    bad_pattern(L, name, key, at);
  lua_pushliteral(L, "");
  for (lua_Integer i = 1; i <= n; i++) {
    if (lua_istable(L, at))
      lua_rawgeti(L, at, i);
    else
      lua_pushvalue(L, at);
    lua_pushfstring(L, "%s=%s", key, check_pattern(L, name, key));
    lua_remove(L, -2);
    lua_pushlstring(L, "\0", 1);
    lua_concat(L, 3);
  }
  lua_replace(L, at);
}

/* The umask, which a process can only ask for by changing it. */
static unsigned read_umask(void) {
  char line[128];
  unsigned mask = 022;
  FILE *file = fopen("/proc/self/status", "re");
  if (!file)
    return mask;
  while (fgets(line, sizeof line, file))
    if (sscanf(line, "Umask: %o", &mask) == 1)
      break;
  fclose(file);
  return mask;
}

static void add_bounds(lua_State *L, luaL_Buffer *b, const char *name,
                       bool upload) {
  uint64_t most = upload ? UINT64_MAX : PCO__DEFAULT_ENTRIES;
  add_number(b, "entries",
             pco__opt_size(L, 4, name, "max_entries", most, UINT64_MAX));
  most = upload ? UINT64_MAX : PCO__DEFAULT_BYTES;
  add_number(b, "bytes",
             pco__opt_size(L, 4, name, "max_bytes", most, UINT64_MAX));
}

static void add_choices(lua_State *L, luaL_Buffer *b, const char *name,
                        bool upload) {
  static const char *const symlinks[] = {"keep", "inside", "follow", "refuse",
                                         NULL};
  static const char *const on_error[] = {"raise", "skip", NULL};
  int how = pco__opt_choice(L, 4, name, "symlinks", symlinks, upload ? 0 : 1);
  add_word(b, "symlinks", symlinks[how]);
  if (pco__opt_choice(L, 4, name, "on_error", on_error, 0) == 1)
    add_word(b, "on_error", "skip");
  if (pco__opt_boolean(L, 4, name, "checksum", false))
    add_word(b, "checksum", "1");
  if (pco__opt_boolean(L, 4, name, "parents", false))
    add_word(b, "parents", "1");
}

static void parse_words(lua_State *L, pco__transfer *t) {
  luaL_Buffer b;
  size_t len;
  const char *name = t->op.cls->name;
  t->only_changed = pco__opt_boolean(L, 4, name, "only_changed", false);
  if (pco__opt_boolean(L, 4, name, "checksum", false) && !t->only_changed)
    pco__bad_argument(L, name,
                      "checksum says how only_changed compares: give both");
  push_patterns(L, 4, name, "include");
  push_patterns(L, 4, name, "exclude");
  lua_concat(L, 2);
  int patterns = lua_gettop(L);
  luaL_buffinit(L, &b);
  lua_pushvalue(L, patterns);
  luaL_addvalue(&b);
  add_choices(L, &b, name, t->upload);
  add_bounds(L, &b, name, t->upload);
  if (t->only_changed)
    add_word(&b, "changed", "1");
  if (!t->upload)
    add_number(&b, "umask", read_umask());
  luaL_pushresult(&b);
  const char *s = lua_tolstring(L, -1, &len);
  if (len > 100 * 1024)
    pco__bad_argument(L, name, "include and exclude are more than 100 KiB");
  t->words = pco__arena_copy(&t->op.arena, s, len);
  t->words_len = len;
  pco__check_arena(L, name, &t->op.arena);
  lua_settop(L, 5);
}

static int move_tree(lua_State *L, const pco__op_class *cls) {
  static const char *const known[] = {
      "include",  "exclude",     "symlinks",     "on_error",
      "parents",  "on_progress", "max_entries",  "max_bytes",
      "checksum", "timeout",     "only_changed", NULL};
  const char *name = cls->name;
  pco__handle *h = pco__open_self(L, PCO__SANDBOX, name);
  lua_settop(L, 4);
  pco__check_options(L, 4, name, known);
  pco__op *op = pco__new_op(L, cls, sizeof(pco__transfer), h->loop);
  pco__transfer *t = transfer_of(op);
  pco__sandbox_ref(h->sandbox);
  t->sandbox = h->sandbox;
  t->pidfd = -1;
  t->upload = cls == &pco__upload_class;
  t->source = pco__arg_path(L, 2, name, "the source", &op->arena);
  t->target = pco__arg_path(L, 3, name, "the target", &op->arena);
  op->timeout = pco__opt_seconds(L, 4, name, "timeout", -1, true);
  parse_words(L, t);
  t->tells = pco__opt_function(L, 4, name, "on_progress");
  if (t->tells)
    pco__keep_callback(L, 5, 4, "on_progress");
  return pco__await(L, 5);
}

static int sandbox_upload(lua_State *L) {
  return move_tree(L, &pco__upload_class);
}

static int sandbox_download(lua_State *L) {
  return move_tree(L, &pco__download_class);
}

const pco__core_function pco__transfer_functions[] = {
    {"sandbox_upload", sandbox_upload},
    {"sandbox_download", sandbox_download},
    {NULL, NULL}};
