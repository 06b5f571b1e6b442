/* SPDX-License-Identifier: MIT */
/* Core functions of Sandbox: upload and download. */
#include "lua_args.h"
#include "lua_sandbox.h"
#include "lua_table.h"
#include "lua_wait.h"
#include "transfer_ask.h"

#include <stdlib.h>
#include <string.h>

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

static int bad_pattern(lua_State *L, const char *name, const char *key,
                       int at) {
  return pco__bad_argument(L, name,
                           "%s must be a pattern such as \"*.o\", or a "
                           "sequence of at most %d (got %s)",
                           key, PCO__MAX_PATTERNS, pco__describe(L, at));
}

/* The pattern on top. */
static const char *check_pattern(lua_State *L, const char *name,
                                 const char *key) {
  size_t len = 0;
  const char *s =
      lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &len) : NULL;
  if (!s || len == 0 || strlen(s) != len || len > PCO__MAX_PATTERN)
    bad_pattern(L, name, key, lua_gettop(L));
  return s;
}

/* Takes the patterns of an option. */
static const char *const *opt_patterns(lua_State *L, const pco__transfer *t,
                                       const char *key, pco__arena *arena,
                                       size_t *count) {
  const char *name = t->op.cls->name;
  if (!pco__get_option(L, 4, key))
    return NULL;
  int at = lua_gettop(L);
  lua_Integer n = 1;
  if (lua_istable(L, at))
    n = pco__arg_sequence(L, at, name, key);
  if (n > PCO__MAX_PATTERNS)
    bad_pattern(L, name, key, at);
  const char **patterns =
      pco__arena_alloc(arena, (size_t)(n + 1) * sizeof *patterns);
  for (lua_Integer i = 0; patterns && i < n; i++) {
    if (lua_istable(L, at))
      lua_rawgeti(L, at, i + 1);
    else
      lua_pushvalue(L, at);
    patterns[i] = pco__arena_string(arena, check_pattern(L, name, key));
    lua_pop(L, 1);
  }
  pco__check_arena(L, name, arena);
  lua_settop(L, at - 1);
  *count = (size_t)n;
  return patterns;
}

static void parse_choices(lua_State *L, const char *name, bool upload,
                          pco__transfer_wish *w) {
  static const char *const symlinks[] = {"keep", "inside", "follow", "refuse",
                                         NULL};
  static const char *const on_error[] = {"raise", "skip", NULL};
  w->symlinks = pco__opt_choice(L, 4, name, "symlinks", symlinks,
                                upload ? PCO__LINKS_KEEP : PCO__LINKS_INSIDE);
  w->skip = pco__opt_choice(L, 4, name, "on_error", on_error, 0) == 1;
  w->parents = pco__opt_boolean(L, 4, name, "parents", false);
  w->only_changed = pco__opt_boolean(L, 4, name, "only_changed", false);
  w->checksum = pco__opt_boolean(L, 4, name, "checksum", false);
  if (w->checksum && !w->only_changed)
    pco__bad_argument(L, name,
                      "checksum says how only_changed compares: give both");
}

static void parse_bounds(lua_State *L, const char *name, bool upload,
                         pco__transfer_wish *w) {
  w->max_entries =
      pco__opt_size(L, 4, name, "max_entries",
                    upload ? UINT64_MAX : PCO__DEFAULT_ENTRIES, UINT64_MAX);
  w->max_bytes =
      pco__opt_size(L, 4, name, "max_bytes",
                    upload ? UINT64_MAX : PCO__DEFAULT_BYTES, UINT64_MAX);
}

static void parse_wish(lua_State *L, pco__transfer *t) {
  const char *name = t->op.cls->name;
  pco__arena *arena = &t->op.arena;
  pco__transfer_wish w = {0};
  parse_choices(L, name, t->upload, &w);
  w.include = opt_patterns(L, t, "include", arena, &w.n_include);
  w.exclude = opt_patterns(L, t, "exclude", arena, &w.n_exclude);
  parse_bounds(L, name, t->upload, &w);
  if (pco__transfer_ask(t, &w) == PCO_ELIMIT)
    pco__bad_argument(L, name, "include and exclude are more than 100 KiB");
  pco__check_arena(L, name, arena);
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
  parse_wish(L, t);
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
