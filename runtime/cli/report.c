/* SPDX-License-Identifier: MIT */
/*
 * What the user sees of an error that nobody caught: its chain, where it came
 * from, and what to do about it.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <lauxlib.h>

#include "cli.h"

/* ---- what to do about it ---- */

/* By the code if there is a line for it, else by the class.  Only what the
 * message itself cannot know: it says what is wrong with this call. */
static const struct {
  const char *key;
  const char *hint;
} hints[] = {
    {"PCO_ENOTASK", "wrap the code in portico.run(function() ... end), or use "
                    "require \"portico.sync\", which blocks"},
    {"PCO_ENOYIELD",
     "collect first and wait afterwards: table.sort, string.gsub, __gc and "
     "the like cannot be suspended; portico.sync can be called there"},
    {"PCO_ECOROUTINE", "use a task, or require \"portico.coroutine\" in place "
                       "of the coroutine library"},
    {"PCO_ESCOPE", "spawn while the scope is open, and end it before its "
                   "coroutine yields to a consumer"},
    {"PCO_ESYNC", "inside a task use the async member of require \"portico\", "
                  "or create the sandbox with allow_in_tasks = true"},
    {"PCO_EFACADE", "an object belongs to the facade that made it: do not pass "
                    "it from portico to portico.sync or back"},
    {"PCO_EBUSY", "one reader at a time: end the first, or share what it read"},
    {"PCO_EFORKED", "open Portico again in the forked child"},
    {"PCO_EGONE", "the sandbox died: sb:close() it and create another; its "
                  "result so far is in the error's field `result`"},
    {"PCO_ETIMEDOUT", "raise the option `timeout`; the output so far is in the "
                      "error's field `result`"},
    {"PCO_ECALLTIMEOUT", "the call may be made again; of a write, the bytes "
                         "counted in err.written are taken"},
    {"UnavailableError", "`portico backends` lists what is installed, and "
                         "backend:probe() says what works here and why not"},
    {"UnsupportedError", "no setting changes this: use another backend; "
                         "backend:probe() says what each can do"},
    {"PluginError", "rebuild the plugin against this version's "
                    "portico/plugin.h, and let only you or root write it"},
    {"SpawnError", "the command is looked up inside the sandbox, in its PATH, "
                   "not in the one of this shell"},
    {"LimitError", "the error's field `limit` names the limit that was hit"},
    {"ExitError", "what the command wrote is in the error's field `result`"},
    {"ProtocolError", "the agent and this library do not fit together: "
                      "install both from the same version"},
    {"DeadlockError", "a task waits for what only a waiting task can do; the "
                      "message lists who waits for what"},
};

static const char *find_hint(const char *key) {
  if (key == NULL)
    return NULL;
  for (size_t i = 0; i < sizeof hints / sizeof hints[0]; i++) {
    if (strcmp(key, hints[i].key) == 0)
      return hints[i].hint;
  }
  return NULL;
}

/* The string field of the table at index, or NULL; valid while the table holds
 * it.  Raw, since errors are plain data and a broken __index must not hide the
 * error that is being printed. */
static const char *raw_string(lua_State *L, int index, const char *field) {
  index = lua_absindex(L, index);
  lua_pushstring(L, field);
  lua_rawget(L, index);
  const char *s = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
  lua_pop(L, 1);
  return s;
}

/* The last part of the class's __name ("portico.PluginError"), or NULL. */
static const char *class_name(lua_State *L, int index) {
  if (luaL_getmetafield(L, index, "__name") == LUA_TNIL)
    return NULL;
  const char *name = lua_tostring(L, -1); /* the metatable keeps it */
  lua_pop(L, 1);
  if (name == NULL)
    return NULL;
  const char *dot = strrchr(name, '.');
  return dot != NULL ? dot + 1 : name;
}

/* True for a SpawnError that is not about finding the program: what was found
 * cannot be executed, or the working directory or the user is at fault. */
static bool was_found(lua_State *L, int index) {
  const char *code = raw_string(L, index, "code");
  const char *stage = raw_string(L, index, "stage");
  return code == NULL || strcmp(code, "ENOENT") != 0 ||
         (stage != NULL && strcmp(stage, "program") != 0);
}

static const char *class_hint(lua_State *L, int index) {
  const char *name = class_name(L, index);
  if (name != NULL && strcmp(name, "SpawnError") == 0 && was_found(L, index))
    return NULL;
  return find_hint(name);
}

const char *cli_hint(lua_State *L, int index) {
  const char *hint = NULL;
  lua_pushvalue(L, index);
  /* A chain is short; the bound is for one that a script tied into a ring. */
  for (int link = 0; link < 32 && lua_istable(L, -1); link++) {
    hint = find_hint(raw_string(L, -1, "code"));
    if (hint == NULL)
      hint = class_hint(L, -1);
    if (hint != NULL)
      break;
    lua_pushliteral(L, "cause");
    lua_rawget(L, -2);
    lua_remove(L, -2);
  }
  lua_pop(L, 1);
  return hint;
}

/* ---- printing ---- */

void cli_put(const char *text, size_t length) {
  if (!isatty(STDERR_FILENO)) {
    fwrite(text, 1, length, stderr);
    return;
  }
  for (size_t i = 0; i < length; i++) {
    unsigned char c = (unsigned char)text[i];
    unsigned char next = i + 1 < length ? (unsigned char)text[i + 1] : 0;
    if (c == 0xc2 && next >= 0x80 && next < 0xa0) { /* U+0080 to U+009F */
      fprintf(stderr, "\\u{%x}", next);
      i++;
    } else if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f) {
      fprintf(stderr, "\\x%02x", c);
    } else {
      putc(c, stderr);
    }
  }
}

static int to_string(lua_State *L) {
  luaL_tolstring(L, 1, NULL);
  return 1;
}

/* Pushes the error at index as text: what tostring makes of it, if that is
 * more than an address and does not fail. */
static void push_text(lua_State *L, int index) {
  index = lua_absindex(L, index);
  bool plain =
      lua_type(L, index) <= LUA_TNUMBER || lua_type(L, index) == LUA_TSTRING;
  if (plain || luaL_getmetafield(L, index, "__tostring") != LUA_TNIL) {
    if (!plain)
      lua_pop(L, 1);
    lua_pushcfunction(L, to_string);
    lua_pushvalue(L, index);
    if (lua_pcall(L, 1, 1, 0) == LUA_OK)
      return;
    lua_pop(L, 1);
  }
  lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, index));
}

/* ---- the two steps: when it is raised, when it is printed ---- */

/* The registry's key of the last traceback. */
static const char traceback_key = 0;

int cli_traceback(lua_State *L) {
  luaL_traceback(L, L, NULL, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &traceback_key);
  return 1; /* the error itself */
}

static bool ends_with(const char *s, size_t length, const char *end) {
  size_t n = strlen(end);
  return length >= n && memcmp(s + length - n, end, n) == 0;
}

int cli_report(lua_State *L) {
  int error = lua_gettop(L);
  bool object = lua_istable(L, error);
  size_t length;
  push_text(L, error);
  const char *text = lua_tolstring(L, -1, &length);

  /* What a script printed comes first. */
  fflush(stdout);
  fputs("portico: ", stderr);
  cli_put(text, length);
  putc('\n', stderr);

  /* A task's own traceback says more than the one of who waited for it. */
  const char *own = object ? raw_string(L, error, "traceback") : NULL;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &traceback_key);
  const char *traceback = own != NULL ? own : lua_tostring(L, -1);
  if (traceback != NULL && strstr(text, "stack traceback:") == NULL) {
    cli_put(traceback, strlen(traceback));
    putc('\n', stderr);
  }

  const char *hint = cli_hint(L, error);
  if (hint != NULL)
    fprintf(stderr, "hint: %s\n", hint);

  const char *code = object ? raw_string(L, error, "code") : NULL;
  bool interrupted = code != NULL ? strcmp(code, "PCO_EINTERRUPTED") == 0
                                  : lua_type(L, error) == LUA_TSTRING &&
                                        ends_with(text, length, "interrupted!");
  lua_settop(L, error - 1);
  return interrupted ? EXIT_INTERRUPTED : EXIT_SCRIPT;
}
