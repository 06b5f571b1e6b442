/* SPDX-License-Identifier: MIT */
/*
 * `portico exec`, and the commands for sandboxes that outlive it: what exec.lua
 * and boxes.lua need of this program.
 *
 * The script reads the command line, makes the sandbox by the sync facade and
 * waits; here are the bytes (pump.c), the terminal (terminal.c), the signals
 * (stop.c), and what is known of our own stdio.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lauxlib.h>

#include "boxes_lua.h"
#include "cli.h"
#include "exec_lua.h"
#include "exec_options_lua.h"
#include "exec_words_lua.h"
#include "find_lua.h"
#include "pump.h"
#include "stop.h"
#include "terminal.h"

/* ---- our stdio ----------------------------------------------------------- */

static bool is_same(int a, int b) {
  struct stat one, two;
  return fstat(a, &one) == 0 && fstat(b, &two) == 0 &&
         one.st_dev == two.st_dev && one.st_ino == two.st_ino;
}

/* A job in the background would be stopped for reading its terminal, which the
 * command itself may never do. */
static bool is_foreign_terminal(int fd) {
  pid_t owner = tcgetpgrp(fd);
  return owner >= 0 && owner != getpgrp();
}

/* What the command is to have in place of ours, as an option of spawn. */
static const char *mode(int fd) {
  if (!pump_can(fd))
    return "closed";
  return fd == STDIN_FILENO && is_foreign_terminal(fd) ? "null" : "pipe";
}

static bool is_readable(int fd) {
  return pump_can(fd) && !is_foreign_terminal(fd);
}

/* stdio() -> {stdin=, stdout=, stderr=: options of spawn, one=: stdout and
 * stderr are the same, so their order counts, words=: stderr is a terminal,
 * directory=: stdin is one,
 * terminal=: stdin and stdout are one, terminal_out=: stdout is one} */
static int stdio(lua_State *L) {
  struct stat st;
  lua_newtable(L);
  lua_pushstring(L, mode(STDIN_FILENO));
  lua_setfield(L, -2, "stdin");
  lua_pushstring(L, mode(STDOUT_FILENO));
  lua_setfield(L, -2, "stdout");
  lua_pushstring(L, mode(STDERR_FILENO));
  lua_setfield(L, -2, "stderr");
  lua_pushboolean(L, pump_can(STDOUT_FILENO) && pump_can(STDERR_FILENO) &&
                         is_same(STDOUT_FILENO, STDERR_FILENO));
  lua_setfield(L, -2, "one");
  lua_pushboolean(L, isatty(STDERR_FILENO));
  lua_setfield(L, -2, "words");
  lua_pushboolean(L, fstat(STDIN_FILENO, &st) == 0 && S_ISDIR(st.st_mode));
  lua_setfield(L, -2, "directory");
  lua_pushboolean(L, is_readable(STDIN_FILENO) && isatty(STDIN_FILENO) &&
                         isatty(STDOUT_FILENO));
  lua_setfield(L, -2, "terminal");
  lua_pushboolean(L, isatty(STDOUT_FILENO));
  lua_setfield(L, -2, "terminal_out");
  return 1;
}

/* ---- bytes --------------------------------------------------------------- */

/* connect(stdin, stdout, stderr): the command's pipes, or -1 */
static int connect_pipes(lua_State *L) {
  int pipes[3];
  for (int i = 0; i < 3; i++)
    pipes[i] = (int)luaL_checkinteger(L, i + 1);
  int rc = pump_start(pipes);
  if (rc < 0)
    return luaL_error(L, "cannot pass bytes on: %s", strerror(-rc));
  return 0;
}

/* finish(seconds) -> "done", "late", or nil after a signal */
static int finish(lua_State *L) {
  switch (pump_finish(luaL_checknumber(L, 1))) {
  case PUMP_DONE:
    lua_pushliteral(L, "done");
    return 1;
  case PUMP_LATE:
    lua_pushliteral(L, "late");
    return 1;
  default:
    return 0;
  }
}

/* failure() -> text or nil */
static int get_failure(lua_State *L) {
  lua_pushstring(L, pump_failure());
  return 1;
}

/* ---- signals and words --------------------------------------------------- */

/* signal() -> number or nil */
static int get_signal(lua_State *L) {
  if (stop_signal() == 0)
    return 0;
  lua_pushinteger(L, stop_signal());
  return 1;
}

/* say(text): a line for stderr */
static int say(lua_State *L) {
  size_t length;
  const char *text = luaL_checklstring(L, 1, &length);
  cli_put("portico: ", 9);
  cli_put(text, length);
  cli_put("\n", 1);
  return 0;
}

/* hint(err): what to do about an error, or nil */
static int hint(lua_State *L) {
  lua_pushstring(L, cli_hint(L, 1));
  return 1;
}

/* realpath(path) -> path, or nil and why not */
static int real_path(lua_State *L) {
  char *real = realpath(luaL_checkstring(L, 1), NULL);
  if (real == NULL)
    return luaL_fileresult(L, 0, NULL);
  lua_pushstring(L, real);
  free(real);
  return 1;
}

/* is_directory(path) -> boolean */
static int is_directory(lua_State *L) {
  struct stat st;
  lua_pushboolean(L, stat(luaL_checkstring(L, 1), &st) == 0 &&
                         S_ISDIR(st.st_mode));
  return 1;
}

static const luaL_Reg functions[] = {{"attempt", stop_attempt},
                                     {"begin", terminal_begin},
                                     {"connect", connect_pipes},
                                     {"emit", terminal_emit},
                                     {"failure", get_failure},
                                     {"finish", finish},
                                     {"hint", hint},
                                     {"is_directory", is_directory},
                                     {"realpath", real_path},
                                     {"restore", terminal_end},
                                     {"say", say},
                                     {"signal", get_signal},
                                     {"size", terminal_size},
                                     {"stdio", stdio},
                                     {"typed", terminal_typed},
                                     {NULL, NULL}};

/* The scripts; each is called with what this program offers, and what the ones
 * before it returned. */
typedef struct part {
  const char *name;
  const unsigned char *text;
  size_t size;
} part;

static const part common[] = {
    {"=portico exec options", exec_options_lua, sizeof exec_options_lua},
    {"=portico exec words", exec_words_lua, sizeof exec_words_lua},
    {"=portico find", find_lua, sizeof find_lua}};
enum { N_COMMON = sizeof common / sizeof common[0] };

static const part exec_part = {"=portico exec", exec_lua, sizeof exec_lua};
static const part boxes_part = {"=portico boxes", boxes_lua, sizeof boxes_lua};

/* Pushes a script, and its arguments above it: those on the stack from `from`
 * on. */
static void push_part(lua_State *L, const part *p, int from) {
  int n = lua_gettop(L) - from + 1;
  if (luaL_loadbuffer(L, (const char *)p->text, p->size, p->name) != LUA_OK)
    lua_error(L);
  for (int k = 0; k < n; k++)
    lua_pushvalue(L, from + k);
}

/* What is run: the last script, and the arguments for it. */
typedef struct command {
  const part *part;
  const char *word; /* the first argument; or NULL */
  char **args;
} command;

/* The scripts, one after the other; the command is a light userdata.  Returns
 * the exit code. */
static int run_parts(lua_State *L) {
  const command *c = lua_touserdata(L, 1);
  luaL_newlib(L, functions);
  for (int i = 0; i < N_COMMON; i++) {
    push_part(L, &common[i], 2);
    lua_call(L, i + 1, 1);
  }
  push_part(L, c->part, 2);
  int n = N_COMMON + 1;
  if (c->word != NULL) {
    lua_pushstring(L, c->word);
    n++;
  }
  for (char **args = c->args; *args != NULL; args++, n++) {
    luaL_checkstack(L, 1, "too many arguments");
    lua_pushstring(L, *args);
  }
  lua_call(L, n, 1);
  return 1;
}

static int run(lua_State *L, const command *c, int failed) {
  int rc = pump_hold_stdio();
  if (rc < 0)
    return luaL_error(L, "cannot open /dev/null: %s", strerror(-rc));
  stop_watch(L);
  lua_pushcfunction(L, run_parts);
  lua_pushlightuserdata(L, (void *)c);
  int status = lua_pcall(L, 1, 1, 0);
  terminal_restore();
  if (status == LUA_OK)
    return (int)lua_tointeger(L, -1);
  cli_report(L);
  return failed;
}

int cli_exec(lua_State *L, char **args) {
  const command c = {&exec_part, NULL, args};
  return run(L, &c, EXIT_EXEC);
}

int cli_boxes(lua_State *L, const char *word, char **args) {
  const command c = {&boxes_part, word, args};
  return run(L, &c, EXIT_SCRIPT);
}
