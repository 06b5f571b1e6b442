/* SPDX-License-Identifier: MIT */
/*
 * portico: runs a Lua script that has Portico's modules at hand.
 *
 * It is lua5.4 without the options that nobody puts into a script, and with
 * some things more: it runs single commands (exec.c); it finds Portico's
 * modules beside itself, wherever its prefix was moved; coroutines can wait
 * inside tasks; it says what to do about an error (report.c); and it closes the
 * state at the end, so that sandboxes are closed.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "cli.h"
#include "stop.h"

static const char usage_text[] =
    "usage: portico SCRIPT [ARGUMENT...]   run a Lua script; - is stdin\n"
    "       portico -e CODE [ARGUMENT...]  run CODE\n"
    "       portico exec [OPTION...] -- COMMAND...\n"
    "                                      run a command in a sandbox\n"
    "       portico create [OPTION...]     make a sandbox that lives on\n"
    "       portico list                   list those that live on\n"
    "       portico rm ID...               end some\n"
    "       portico cp SOURCE ID:TARGET    copy into one; ID:SOURCE TARGET "
    "out\n"
    "       portico ls ID:[PATH]           list a directory in one\n"
    "       portico cat ID:PATH            show a file in one\n"
    "       portico backends               list the backends that are here\n"
    "       portico help COMMAND           the options of one of these\n"
    "       portico --version\n"
    "       portico --help\n";

static const char help_text[] =
    "\n"
    "A script gets its arguments as `...` and in the table `arg`.  Without\n"
    "arguments the script is read from stdin.  A script called like a word\n"
    "above, \"exec\", is run as ./exec; -- ends the options.\n"
    "\n"
    "Environment: LUA_PATH, LUA_CPATH as for lua5.4; PORTICO_PLUGIN_PATH, a\n"
    "list of further directories of plugins, separated by colons.\n"
    "\n"
    "Exit codes:\n"
    "  0    the script ended\n"
    "  1    it could not be loaded, or ended with an error\n"
    "  2    wrong usage\n"
    "  130  Ctrl-C\n"
    "  others: what the script gave to os.exit\n"
    "Those of exec are the command's own; see portico help exec.\n"
    "Sandboxes of create live on when it has ended; exec --in, cp, ls and cat\n"
    "work in them.\n";

/* What the command line asks for. */
struct request {
  enum { RUN_FILE, RUN_CODE, RUN_BACKENDS, RUN_EXEC, RUN_BOXES } what;
  const char *text; /* file name (NULL: stdin), or code */
  char **args;      /* the script's own, up to a NULL */
  const char *name; /* arg[0] */
};

static const char backends_code[] =
    "local list = require('portico').backends()\n"
    "for _, backend in ipairs(list) do\n"
    "  print(('%-12s %s'):format(backend.name, backend.path or ''))\n"
    "end\n"
    "if #list == 0 then io.stderr:write('portico: no backends here\\n') end\n";

/* Makes the global table arg; pushes the arguments and returns their number. */
static int push_args(lua_State *L, const struct request *req) {
  int n = 0;
  while (req->args[n] != NULL)
    n++;
  luaL_checkstack(L, n + 3, "too many arguments");
  lua_createtable(L, n, 1);
  lua_pushstring(L, req->name);
  lua_rawseti(L, -2, 0);
  for (int i = 0; i < n; i++) {
    lua_pushstring(L, req->args[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setglobal(L, "arg");
  for (int i = 0; i < n; i++)
    lua_pushstring(L, req->args[i]);
  return n;
}

/* Pushes the chunk that was asked for.  Returns a Lua status. */
static int load_chunk(lua_State *L, const struct request *req) {
  switch (req->what) {
  case RUN_FILE:
    return luaL_loadfile(L, req->text);
  case RUN_CODE:
    return luaL_loadbuffer(L, req->text, strlen(req->text), "=(command line)");
  case RUN_BACKENDS:
    return luaL_loadstring(L, backends_code);
  case RUN_EXEC: /* not here: see cli_exec, cli_boxes */
  case RUN_BOXES:
    break;
  }
  return LUA_ERRERR;
}

/* Coroutines that can wait take the place of the stock ones.  Without Portico's
 * modules this is a plain Lua; the script's own `require` will say so. */
static void install_coroutines(lua_State *L) {
  static const char code[] = "require('portico.coroutine').install()";
  if (luaL_loadstring(L, code) != LUA_OK || lua_pcall(L, 0, 0, 0) != LUA_OK)
    lua_pop(L, 1);
}

/* Everything that may raise, in protected mode.  Returns the exit code. */
static int protected_main(lua_State *L) {
  const struct request *req = lua_touserdata(L, 1);
  luaL_checkversion(L);
  luaL_openlibs(L);
  cli_set_paths(L);
  install_coroutines(L);
  if (req->what == RUN_EXEC) {
    lua_pushinteger(L, cli_exec(L, req->args));
    return 1;
  }
  if (req->what == RUN_BOXES) {
    lua_pushinteger(L, cli_boxes(L, req->name, req->args));
    return 1;
  }
  /* A sandbox that was left open says so by a warning. */
  lua_warning(L, "@on", 0);
  int status = load_chunk(L, req);
  if (status == LUA_OK)
    status = cli_call(L, push_args(L, req));
  lua_pushinteger(L, status == LUA_OK ? EXIT_OK : cli_report(L));
  return 1;
}

/* Who could not write the output has not done the work: `failed` is the exit
 * code then. */
static int end_output(int code, int failed) {
  if ((fflush(stdout) == 0 && !ferror(stdout)) || code != EXIT_OK)
    return code;
  fputs("portico: cannot write to stdout\n", stderr);
  return failed;
}

/* True if a SIGINT to this program ended its work, which one of a command in a
 * sandbox does not. */
static bool was_interrupted(const struct request *req, int code) {
  bool is_command = req->what == RUN_EXEC || req->what == RUN_BOXES;
  return code == EXIT_INTERRUPTED && (!is_command || stop_signal() == SIGINT);
}

static int run(const struct request *req) {
  lua_State *L = luaL_newstate();
  if (L == NULL) {
    fputs("portico: not enough memory\n", stderr);
    return EXIT_SCRIPT;
  }
  lua_pushcfunction(L, cli_traceback);
  lua_pushcfunction(L, protected_main);
  lua_pushlightuserdata(L, (void *)req);
  int status = lua_pcall(L, 1, 1, 1);
  int code = status == LUA_OK ? (int)lua_tointeger(L, -1) : cli_report(L);
  if (status != LUA_OK && req->what == RUN_EXEC)
    code = EXIT_EXEC;
  lua_close(L);
  code = end_output(code, req->what == RUN_EXEC ? EXIT_EXEC : EXIT_SCRIPT);
  if (was_interrupted(req, code))
    cli_end_by_interrupt();
  return code;
}

static int usage_error(const char *problem, const char *what) {
  fprintf(stderr, "portico: %s: %s\n%s", problem, what, usage_text);
  return EXIT_USAGE;
}

static bool is(const char *argument, const char *name) {
  return strcmp(argument, name) == 0;
}

static int print_help(void) {
  fputs(usage_text, stdout);
  fputs(help_text, stdout);
  return end_output(EXIT_OK, EXIT_SCRIPT);
}

/* The commands of sandboxes that outlive this program. */
static bool is_box_word(const char *word) {
  static const char *const all[] = {"create", "list", "rm", "cp",
                                    "ls",     "cat",  NULL};
  for (size_t i = 0; all[i] != NULL; i++) {
    if (is(word, all[i]))
      return true;
  }
  return false;
}

/* portico help [COMMAND] */
static int help(char **topics) {
  static char option[] = "--help";
  char *only_help[] = {option, NULL};
  if (topics[0] == NULL)
    return print_help();
  if ((!is(topics[0], "exec") && !is_box_word(topics[0])) || topics[1] != NULL)
    return usage_error("there is no help for", topics[0]);
  struct request req = {is(topics[0], "exec") ? RUN_EXEC : RUN_BOXES, NULL,
                        only_help, topics[0]};
  return run(&req);
}

int main(int argc, char **argv) {
  struct request req = {.what = RUN_FILE};
  if (argc < 2) {
    if (argc < 1 || isatty(STDIN_FILENO)) {
      fputs(usage_text, stderr);
      return EXIT_USAGE;
    }
    req.name = "-";
    req.args = argv + 1;
    return run(&req);
  }
  const char *first = argv[1];
  char **rest = argv + 2; /* argv ends with a NULL */
  if (is(first, "--help") || is(first, "-h"))
    return print_help();
  if (is(first, "--version") || is(first, "-v")) {
    printf("portico %s (%s)\n", PCO_VERSION, LUA_RELEASE);
    return end_output(EXIT_OK, EXIT_SCRIPT);
  }
  if (is(first, "backends")) {
    if (rest[0] != NULL)
      return usage_error("backends takes no arguments", rest[0]);
    req = (struct request){RUN_BACKENDS, NULL, rest, "backends"};
    return run(&req);
  }
  if (is(first, "exec")) {
    req = (struct request){RUN_EXEC, NULL, rest, "exec"};
    return run(&req);
  }
  if (is(first, "help"))
    return help(rest);
  if (is_box_word(first)) {
    req = (struct request){RUN_BOXES, NULL, rest, first};
    return run(&req);
  }
  if (is(first, "-e")) {
    if (rest[0] == NULL)
      return usage_error("code is missing after the option", first);
    req = (struct request){RUN_CODE, rest[0], rest + 1, "-e"};
    return run(&req);
  }
  if (is(first, "--")) {
    if (rest[0] == NULL)
      return usage_error("a script is missing after", first);
    first = rest[0];
    rest++;
  } else if (first[0] == '-' && first[1] != '\0') {
    return usage_error("unknown option", first);
  }
  req.name = first;
  req.text = is(first, "-") ? NULL : first;
  req.args = rest;
  return run(&req);
}
