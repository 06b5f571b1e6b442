/* SPDX-License-Identifier: MIT */
/* Arguments of core functions; see lua_args.h. */
#include "lua_args.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lua_error.h"
#include "signals.h"

#define NS_PER_S    1e9
#define MAX_SECONDS 1e9 /* 31 years; more is "never" */
#define MAX_NAME    64

const char *const pco__timeout_only[] = {"timeout", NULL};

int pco__bad_argument(lua_State *L, const char *operation, const char *fmt,
                      ...) {
  char text[512];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return pco__raise(
      L, pco__error_new(PCO_EINVAL, PCO_SOURCE_HOST, NULL, "%s", text),
      operation, 0);
}

void pco__check_arena(lua_State *L, const char *operation,
                      const pco__arena *arena) {
  if (arena->failed)
    pco__raise(L, pco__error_no_memory(), operation, 0);
}

/* ---- names --------------------------------------------------------------- */

static size_t min_of(size_t a, size_t b) {
  return a < b ? a : b;
}

/* Edit distance of two short names, two letters that changed places being one
 * edit; long ones are never near. */
static size_t distance(const char *a, const char *b) {
  size_t la = strlen(a);
  size_t lb = strlen(b);
  if (la > MAX_NAME || lb > MAX_NAME)
    return MAX_NAME;
  size_t rows[3][MAX_NAME + 1];
  for (size_t j = 0; j <= lb; j++)
    rows[0][j] = j;
  for (size_t i = 1; i <= la; i++) {
    size_t *row = rows[i % 3];
    const size_t *last = rows[(i - 1) % 3];
    row[0] = i;
    for (size_t j = 1; j <= lb; j++) {
      size_t change = last[j - 1] + (a[i - 1] != b[j - 1]);
      row[j] = min_of(change, min_of(last[j], row[j - 1]) + 1);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = min_of(row[j], rows[(i - 2) % 3][j - 2] + 1);
    }
  }
  return rows[la % 3][lb];
}

const char *pco__nearest(const char *name, const char *const *known) {
  const char *best = NULL;
  size_t least = strlen(name) / 2 + 1;
  for (; *known; known++) {
    size_t d = distance(name, *known);
    if (d < least) {
      least = d;
      best = *known;
    }
  }
  return best;
}

static bool is_known(const char *name, const char *const *known) {
  for (; *known; known++)
    if (strcmp(name, *known) == 0)
      return true;
  return false;
}

static void push_list(lua_State *L, const char *const *known) {
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  for (size_t i = 0; known[i]; i++) {
    if (i)
      luaL_addstring(&b, ", ");
    luaL_addstring(&b, known[i]);
  }
  luaL_pushresult(&b);
}

/* `of`: the option that it is in, and a dot; or "". */
static void unknown_option(lua_State *L, const char *operation, const char *of,
                           const char *name, const char *const *known) {
  const char *near = pco__nearest(name, known);
  if (near)
    pco__bad_argument(L, operation,
                      "unknown option \"%s%s\": did you mean \"%s%s\"?", of,
                      name, of, near);
  push_list(L, known);
  pco__bad_argument(L, operation, "unknown option \"%s%s\": it takes %s", of,
                    name, *known ? lua_tostring(L, -1) : "no options");
}

void pco__check_options(lua_State *L, int idx, const char *operation,
                        const char *const *known) {
  pco__check_options_of(L, idx, operation, "", known);
}

void pco__check_options_of(lua_State *L, int idx, const char *operation,
                           const char *of, const char *const *known) {
  if (lua_isnoneornil(L, idx))
    return;
  if (!lua_istable(L, idx))
    pco__bad_argument(L, operation, "options must be a table (got %s)",
                      luaL_typename(L, idx));
  lua_pushnil(L);
  while (lua_next(L, idx)) {
    lua_pop(L, 1);
    if (lua_type(L, -1) != LUA_TSTRING)
      pco__bad_argument(L, operation,
                        "an option's name must be a string (got %s%s)", of,
                        pco__describe(L, -1));
    const char *name = lua_tostring(L, -1);
    if (!is_known(name, known))
      unknown_option(L, operation, of, name, known);
  }
}

bool pco__get_option(lua_State *L, int idx, const char *name) {
  if (!lua_istable(L, idx))
    return false;
  if (lua_getfield(L, idx, name) != LUA_TNIL)
    return true;
  lua_pop(L, 1);
  return false;
}

/* ---- values -------------------------------------------------------------- */

const char *pco__describe(lua_State *L, int idx) {
  int type = lua_type(L, idx);
  if (type == LUA_TNUMBER || type == LUA_TBOOLEAN)
    return luaL_tolstring(L, idx, NULL);
  if (type == LUA_TSTRING) {
    const char *s = lua_tostring(L, idx);
    return lua_pushfstring(L, strlen(s) > 40 ? "a string" : "\"%s\"", s);
  }
  return luaL_typename(L, idx);
}

static int64_t to_ns(lua_State *L, int idx, const char *operation,
                     const char *name, int64_t none, bool may_be_zero) {
  if (lua_type(L, idx) != LUA_TNUMBER)
    pco__bad_argument(L, operation, "%s must be a number of seconds (got %s)",
                      name, pco__describe(L, idx));
  double s = lua_tonumber(L, idx);
  if (isnan(s) || s < 0 || (s == 0 && !may_be_zero))
    pco__bad_argument(L, operation, "%s must be %s seconds (got %s)", name,
                      may_be_zero ? "0 or more" : "more than 0",
                      pco__describe(L, idx));
  if (s > MAX_SECONDS)
    return none;
  double ns = s * NS_PER_S;
  return ns > 0 && ns < 1 ? 1 : (int64_t)ns;
}

int64_t pco__opt_seconds(lua_State *L, int idx, const char *operation,
                         const char *name, int64_t none, bool may_be_zero) {
  if (!pco__get_option(L, idx, name))
    return none;
  int64_t ns = to_ns(L, -1, operation, name, none, may_be_zero);
  lua_pop(L, 1);
  return ns;
}

int64_t pco__opt_span(lua_State *L, int idx, const char *operation,
                      const char *name, int64_t otherwise) {
  if (!pco__get_option(L, idx, name))
    return otherwise;
  int64_t longest = (int64_t)(MAX_SECONDS * NS_PER_S);
  int64_t ns = to_ns(L, -1, operation, name, longest, true);
  lua_pop(L, 1);
  return ns;
}

int64_t pco__arg_seconds(lua_State *L, int idx, const char *operation,
                         const char *name) {
  return to_ns(L, idx, operation, name, INT64_MAX, true);
}

bool pco__opt_boolean(lua_State *L, int idx, const char *operation,
                      const char *name, bool otherwise) {
  if (!pco__get_option(L, idx, name))
    return otherwise;
  if (!lua_isboolean(L, -1))
    pco__bad_argument(L, operation, "%s must be true or false (got %s)", name,
                      pco__describe(L, -1));
  bool value = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return value;
}

uint64_t pco__opt_size(lua_State *L, int idx, const char *operation,
                       const char *name, uint64_t otherwise, uint64_t max) {
  if (!pco__get_option(L, idx, name))
    return otherwise;
  if (lua_type(L, -1) == LUA_TNUMBER && lua_tonumber(L, -1) == HUGE_VAL) {
    lua_pop(L, 1);
    return max;
  }
  int exact = 0;
  lua_Integer n =
      lua_type(L, -1) == LUA_TNUMBER ? lua_tointegerx(L, -1, &exact) : 0;
  if (!exact || n < 0)
    pco__bad_argument(L, operation, "%s must be an integer, 0 or more (got %s)",
                      name, pco__describe(L, -1));
  lua_pop(L, 1);
  return (uint64_t)n < max ? (uint64_t)n : max;
}

uint16_t pco__arg_uint16(lua_State *L, int idx, const char *operation,
                         const char *name) {
  int exact = 0;
  lua_Integer n =
      lua_type(L, idx) == LUA_TNUMBER ? lua_tointegerx(L, idx, &exact) : 0;
  if (!exact || n < 1 || n > UINT16_MAX)
    pco__bad_argument(L, operation,
                      "%s must be an integer from 1 to 65535 (got %s)", name,
                      pco__describe(L, idx));
  return (uint16_t)n;
}

/* A string without NUL. */
static const char *check_text(lua_State *L, int idx, const char *operation,
                              const char *name, size_t *length) {
  size_t len;
  if (lua_type(L, idx) != LUA_TSTRING)
    pco__bad_argument(L, operation, "%s must be a string (got %s)", name,
                      pco__describe(L, idx));
  const char *s = lua_tolstring(L, idx, &len);
  if (strlen(s) != len)
    pco__bad_argument(L, operation, "%s must not contain a zero byte", name);
  *length = len;
  return s;
}

static const char *copy_text(lua_State *L, int idx, const char *operation,
                             const char *name, pco__arena *arena) {
  size_t len;
  const char *s = check_text(L, idx, operation, name, &len);
  const char *copy = pco__arena_copy(arena, s, len);
  pco__check_arena(L, operation, arena);
  return copy;
}

const char *pco__opt_string(lua_State *L, int idx, const char *operation,
                            const char *name, pco__arena *arena) {
  if (!pco__get_option(L, idx, name))
    return NULL;
  const char *s = copy_text(L, -1, operation, name, arena);
  lua_pop(L, 1);
  return s;
}

int pco__opt_choice(lua_State *L, int idx, const char *operation,
                    const char *name, const char *const *choices,
                    int otherwise) {
  if (!pco__get_option(L, idx, name))
    return otherwise;
  const char *s = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
  for (int i = 0; s && choices[i]; i++)
    if (strcmp(choices[i], s) == 0) {
      lua_pop(L, 1);
      return i;
    }
  const char *got = pco__describe(L, -1);
  push_list(L, choices);
  return pco__bad_argument(L, operation, "%s must be one of %s (got %s)", name,
                           lua_tostring(L, -1), got);
}

bool pco__opt_function(lua_State *L, int idx, const char *operation,
                       const char *name) {
  if (!pco__get_option(L, idx, name))
    return false;
  if (!lua_isfunction(L, -1))
    pco__bad_argument(L, operation, "%s must be a function (got %s)", name,
                      pco__describe(L, -1));
  lua_pop(L, 1);
  return true;
}

const char *pco__check_path(lua_State *L, int idx, const char *operation,
                            const char *name) {
  size_t len;
  const char *s = check_text(L, idx, operation, name, &len);
  if (!len)
    pco__bad_argument(L, operation, "%s must not be empty", name);
  return s;
}

const char *pco__arg_path(lua_State *L, int idx, const char *operation,
                          const char *name, pco__arena *arena) {
  const char *s = copy_text(L, idx, operation, name, arena);
  if (!s[0])
    pco__bad_argument(L, operation, "%s must not be empty", name);
  return s;
}

const char *pco__arg_bytes(lua_State *L, int idx, const char *operation,
                           const char *name, pco__arena *arena, size_t *len) {
  if (lua_type(L, idx) != LUA_TSTRING)
    pco__bad_argument(L, operation, "%s must be a string (got %s)", name,
                      pco__describe(L, idx));
  const char *s = lua_tolstring(L, idx, len);
  const char *copy = pco__arena_copy(arena, s, *len);
  pco__check_arena(L, operation, arena);
  return copy;
}

/* The name of a signal that a wrong one was meant for, in the same style; or
 * NULL. */
static const char *nearest_signal(const char *name) {
  char upper[16] = {0};
  const char *known[PCO_N_SIGNALS + 1] = {0};
  for (size_t i = 0; name[i]; i++) {
    if (i == sizeof upper - 1)
      return NULL;
    upper[i] = (char)toupper((unsigned char)name[i]);
  }
  size_t skipped = strncmp(upper, "SIG", 3) == 0 ? 0 : 3;
  for (int i = 0; i < PCO_N_SIGNALS; i++)
    known[i] = pco__signal_name(i + 1) + skipped;
  return pco__nearest(upper, known);
}

int pco__arg_signal(lua_State *L, int idx, const char *operation) {
  int signo = 0;
  if (lua_isinteger(L, idx)) {
    lua_Integer n = lua_tointeger(L, idx);
    signo = n >= 1 && n <= 64 ? (int)n : 0;
  } else if (lua_type(L, idx) == LUA_TSTRING) {
    signo = pco__signal_number(lua_tostring(L, idx));
  }
  const char *near = !signo && lua_type(L, idx) == LUA_TSTRING
                         ? nearest_signal(lua_tostring(L, idx))
                         : NULL;
  if (near)
    pco__bad_argument(L, operation,
                      "there is no signal %s: did you mean \"%s\"?",
                      pco__describe(L, idx), near);
  if (!signo)
    pco__bad_argument(L, operation,
                      "the signal must be a name such as \"TERM\" or "
                      "\"SIGTERM\", or a number from 1 to 64 (got %s)",
                      pco__describe(L, idx));
  return signo;
}

/* ---- commands, environments, settings ------------------------------------ */

/* A string or integer at the top of the stack as text. */
static const char *top_as_text(lua_State *L, const char *operation,
                               const char *what, pco__arena *arena) {
  if (lua_isinteger(L, -1)) {
    lua_pushvalue(L, -1);
    const char *s = pco__arena_string(arena, lua_tostring(L, -1));
    lua_pop(L, 1);
    pco__check_arena(L, operation, arena);
    return s;
  }
  if (lua_type(L, -1) != LUA_TSTRING)
    pco__bad_argument(L, operation,
                      "%s must be a string or an integer (got %s)", what,
                      pco__describe(L, -1));
  return copy_text(L, -1, operation, what, arena);
}

lua_Integer pco__arg_sequence(lua_State *L, int idx, const char *operation,
                              const char *what) {
  lua_Integer n = (lua_Integer)lua_rawlen(L, idx);
  lua_Integer keys = 0;
  lua_pushnil(L);
  while (lua_next(L, idx)) {
    lua_pop(L, 1);
    if (!lua_isinteger(L, -1))
      pco__bad_argument(L, operation,
                        "%s has the key %s: it must be a sequence; options go "
                        "in an argument of their own",
                        what, pco__describe(L, -1));
    keys++;
  }
  if (keys != n)
    pco__bad_argument(L, operation, "%s has holes: it must be a sequence",
                      what);
  return n;
}

void pco__arg_command(lua_State *L, int idx, const char *operation,
                      pco__arena *arena, pco__spawn_opts *opts) {
  if (lua_type(L, idx) == LUA_TSTRING) {
    opts->argv = pco__arena_alloc(arena, 4 * sizeof *opts->argv);
    pco__check_arena(L, operation, arena);
    opts->argv[0] = pco__arena_string(arena, "/bin/sh");
    opts->argv[1] = pco__arena_string(arena, "-c");
    opts->argv[2] =
        (char *)(uintptr_t)copy_text(L, idx, operation, "the command", arena);
    opts->shell = true;
    if (!opts->argv[2][0])
      pco__bad_argument(L, operation, "the command is empty");
    return;
  }
  if (!lua_istable(L, idx))
    pco__bad_argument(L, operation,
                      "the command must be a sequence of strings or a string "
                      "for the shell (got %s)",
                      pco__describe(L, idx));
  lua_Integer n = pco__arg_sequence(L, idx, operation, "the command");
  if (n == 0)
    pco__bad_argument(L, operation,
                      "the command is empty: it needs at least a program");
  opts->argv = pco__arena_alloc(arena, ((size_t)n + 1) * sizeof *opts->argv);
  pco__check_arena(L, operation, arena);
  for (lua_Integer i = 1; i <= n; i++) {
    char what[48];
    snprintf(what, sizeof what, "element %lld of the command", (long long)i);
    lua_rawgeti(L, idx, i);
    opts->argv[i - 1] =
        (char *)(uintptr_t)top_as_text(L, operation, what, arena);
    lua_pop(L, 1);
  }
  if (!opts->argv[0][0])
    pco__bad_argument(L, operation, "the program's name is empty");
}

/* The name and value at the top as "K=V", or "K" for false. */
static char *env_entry(lua_State *L, const char *operation, pco__arena *arena) {
  size_t len = 0;
  if (lua_type(L, -2) != LUA_TSTRING)
    pco__bad_argument(L, operation,
                      "a name in env must be a string, as in env = {NAME = "
                      "\"value\"} (got %s)",
                      pco__describe(L, -2));
  const char *name = lua_tolstring(L, -2, &len);
  if (len == 0 || strchr(name, '=') || strlen(name) != len)
    pco__bad_argument(L, operation,
                      "a name in env must not be empty nor contain \"=\" or a "
                      "zero byte (got \"%s\")",
                      name);
  if (lua_isboolean(L, -1) && !lua_toboolean(L, -1))
    return pco__arena_copy(arena, name, len);
  char what[MAX_NAME + 8];
  snprintf(what, sizeof what, "env.%.48s", name);
  const char *value = top_as_text(L, operation, what, arena);
  size_t size = len + strlen(value) + 2;
  char *entry = pco__arena_alloc(arena, size);
  if (entry)
    snprintf(entry, size, "%s=%s", name, value);
  return entry;
}

static size_t count_keys(lua_State *L, int idx) {
  size_t n = 0;
  lua_pushnil(L);
  while (lua_next(L, idx)) {
    lua_pop(L, 1);
    n++;
  }
  return n;
}

char **pco__opt_env(lua_State *L, int idx, const char *operation,
                    pco__arena *arena) {
  if (!pco__get_option(L, idx, "env"))
    return NULL;
  if (!lua_istable(L, -1))
    pco__bad_argument(L, operation, "env must be a table (got %s)",
                      pco__describe(L, -1));
  int table = lua_gettop(L);
  size_t n = count_keys(L, table);
  char **env = pco__arena_alloc(arena, (n + 1) * sizeof *env);
  pco__check_arena(L, operation, arena);
  size_t i = 0;
  lua_pushnil(L);
  while (lua_next(L, table)) {
    env[i++] = env_entry(L, operation, arena);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  pco__check_arena(L, operation, arena);
  return env;
}

/* The value at the top as text. */
static const char *setting_value(lua_State *L, const char *operation,
                                 const char *what, pco__arena *arena) {
  if (lua_isboolean(L, -1))
    return lua_toboolean(L, -1) ? "true" : "false";
  if (lua_type(L, -1) == LUA_TNUMBER) {
    lua_pushvalue(L, -1);
    const char *s = pco__arena_string(arena, lua_tostring(L, -1));
    lua_pop(L, 1);
    return s;
  }
  return copy_text(L, -1, operation, what, arena);
}

pco_pair *pco__arg_settings(lua_State *L, int idx, const char *operation,
                            const char *name, pco__arena *arena, size_t *n) {
  *n = 0;
  if (lua_isnoneornil(L, idx))
    return NULL;
  if (!lua_istable(L, idx))
    pco__bad_argument(L, operation, "%s must be a table (got %s)", name,
                      pco__describe(L, idx));
  size_t count = count_keys(L, idx);
  pco_pair *pairs = pco__arena_alloc(arena, (count + 1) * sizeof *pairs);
  pco__check_arena(L, operation, arena);
  lua_pushnil(L);
  while (lua_next(L, idx)) {
    char what[MAX_NAME * 2];
    if (lua_type(L, -2) != LUA_TSTRING)
      pco__bad_argument(L, operation, "a name in %s must be a string (got %s)",
                        name, pco__describe(L, -2));
    snprintf(what, sizeof what, "%s.%.60s", name, lua_tostring(L, -2));
    pairs[*n].value = setting_value(L, operation, what, arena);
    lua_pushvalue(L, -2);
    pairs[*n].key = copy_text(L, -1, operation, name, arena);
    lua_pop(L, 2);
    (*n)++;
  }
  pco__check_arena(L, operation, arena);
  return pairs;
}
