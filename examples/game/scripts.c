/* SPDX-License-Identifier: MIT */
/*
 * A runtime in a game.  Scripts see a table `game`, with functions of this
 * file; the one that matters is game.walk(), which suspends the script until
 * its robot has arrived, many frames later.
 *
 * All of this is on the game's one thread, and nothing here blocks: what a
 * frame may take is what scripts_frame() is given.
 */
#include "scripts.h"

#include <lauxlib.h>
#include <lua.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <portico/portico.h>

#define MS           UINT64_C(1000000)
#define MEMORY_LIMIT (64 << 20)
#define GRACE_NS     (1000 * MS)
#define SLICE_NS     (500 * MS) /* a script that never waits is ended then */

struct scripts {
  world *world;
  pco_runtime *rt;
  pco_promise *walks[MAX_ROBOTS]; /* whose scripts wait for them to arrive */
  int n_failures;
};

/* ---- functions for scripts ----------------------------------------------- */

static scripts *self(lua_State *L) {
  return lua_touserdata(L, lua_upvalueindex(1));
}

/* The robot that a script names, as an index; raises for any other. */
static int check_robot(lua_State *L, const scripts *s) {
  lua_Integer id = luaL_checkinteger(L, 1);
  luaL_argcheck(L, id >= 1 && id <= s->world->n_robots, 1, "no such robot");
  return (int)id - 1;
}

/* game.place(id): x, y */
static int game_place(lua_State *L) {
  const scripts *s = self(L);
  const robot *r = &s->world->robots[check_robot(L, s)];
  lua_pushinteger(L, (lua_Integer)r->x);
  lua_pushinteger(L, (lua_Integer)r->y);
  return 2;
}

/* game.walk(id, x, y): returns when the robot is there. */
static int game_walk(lua_State *L) {
  scripts *s = self(L);
  int i = check_robot(L, s);
  lua_Number x = luaL_checknumber(L, 2);
  lua_Number y = luaL_checknumber(L, 3);
  if (s->walks[i])
    return luaL_error(L, "robot %d is walking already", i + 1);
  s->walks[i] = pco_promise_new(L);
  world_walk(s->world, i, x, y);
  return pco_promise_wait(L, s->walks[i]);
}

/* A promise is settled once, whether its script still waits or not. */
static void settle(scripts *s, int i) {
  pco_promise *p = s->walks[i];
  s->walks[i] = NULL;
  if (p)
    pco_promise_resolve(p, NULL, NULL);
}

static void set_function(lua_State *L, scripts *s, const char *name,
                         lua_CFunction fn) {
  lua_pushlightuserdata(L, s);
  lua_pushcclosure(L, fn, 1);
  lua_setfield(L, -2, name);
}

static void set_game(scripts *s, const char *backend) {
  lua_State *L = pco_state(s->rt);
  lua_createtable(L, 0, 7);
  set_function(L, s, "place", game_place);
  set_function(L, s, "walk", game_walk);
  lua_pushstring(L, backend);
  lua_setfield(L, -2, "backend");
  const struct {
    const char *name;
    int value;
  } numbers[] = {{"robots", s->world->n_robots},
                 {"teams", N_TEAMS},
                 {"width", WORLD_WIDTH},
                 {"height", WORLD_HEIGHT}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    lua_pushinteger(L, numbers[i].value);
    lua_setfield(L, -2, numbers[i].name);
  }
  lua_setglobal(L, "game");
}

/* ---- the runtime --------------------------------------------------------- */

static void on_log(void *ud, int level, const char *text) {
  (void)ud;
  (void)level;
  fprintf(stderr, "%s\n", text);
}

static void on_failure(void *ud, pco_runtime *rt, pco_task *task) {
  (void)rt;
  ((scripts *)ud)->n_failures++;
  fprintf(stderr, "a script failed: %s\n", pco_task_message(task));
}

static void on_slice_signal(int signo) {
  (void)signo;
  pco_slice_signal();
}

/* The signal that ends scripts without end is the game's to choose, and its
 * handler the game's: Portico has none. */
static int set_signal(void) {
  struct sigaction act = {.sa_handler = on_slice_signal,
                          .sa_flags = SA_RESTART};
  sigaction(SIGRTMIN + 3, &act, NULL);
  return SIGRTMIN + 3;
}

static int make_runtime(scripts *s) {
  pco_config c;
  pco_config_init(&c);
  c.libs = PCO_LIBS_SAFE; /* sandboxes, and nothing of the player's machine */
  c.memory_limit = MEMORY_LIMIT;
  c.slice_limit_ns = SLICE_NS;
  c.slice_signal = (uint32_t)set_signal();
  c.ud = s;
  c.log = on_log;
  c.on_task_error = on_failure;
  return pco_runtime_create(&c, &s->rt);
}

/* Reads a script and makes a task of it; false: it was said why not. */
static bool load(scripts *s, const char *path) {
  static char text[65536];
  char name[512];
  FILE *f = fopen(path, "rb");
  if (!f) {
    perror(path);
    return false;
  }
  size_t len = fread(text, 1, sizeof text, f);
  fclose(f);
  snprintf(name, sizeof name, "@%s", path);
  if (pco_load(s->rt, text, len, name, NULL) == 0)
    return true;
  fprintf(stderr, "%s\n", pco_last_message(s->rt));
  return false;
}

scripts *scripts_start(world *w, const char *path, const char *backend) {
  scripts *s = calloc(1, sizeof *s);
  if (!s)
    return NULL;
  s->world = w;
  int rc = make_runtime(s);
  if (rc < 0) {
    fprintf(stderr, "no runtime: %s\n", pco_strerror(rc));
    free(s);
    return NULL;
  }
  set_game(s, backend);
  if (!load(s, path)) {
    scripts_free(s);
    return NULL;
  }
  return s;
}

/* ---- a frame ------------------------------------------------------------- */

static uint64_t cpu_ns(void) {
  struct timespec ts;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
  return (uint64_t)ts.tv_sec * 1000 * MS + (uint64_t)ts.tv_nsec;
}

void scripts_frame(scripts *s, uint64_t budget_ns, tick_cost *cost) {
  pco_tick_info info = {.size = sizeof info};
  uint64_t begin = cpu_ns();
  for (int i = 0; i < s->world->n_robots; i++)
    if (s->walks[i] && !s->world->robots[i].is_walking)
      settle(s, i);
  int state = pco_tick(s->rt, budget_ns, &info);
  *cost = (tick_cost){.cpu_ns = cpu_ns() - begin,
                      .lua_ns = info.lua_ns,
                      .longest_ns = info.longest_ns,
                      .slices = info.slices,
                      .has_more = state == PCO_READY};
}

int scripts_tasks(const scripts *s) {
  pco_stats stats = {.size = sizeof stats};
  return pco_get_stats(s->rt, &stats) < 0 ? 0 : (int)stats.tasks;
}

int scripts_failures(const scripts *s) {
  return s->n_failures;
}

/* ---- the end ------------------------------------------------------------- */

void scripts_end(scripts *s) {
  pco_shutdown(s->rt, GRACE_NS);
}

bool scripts_ended(const scripts *s) {
  return pco_shutdown_done(s->rt) != 0;
}

void scripts_free(scripts *s) {
  for (int i = 0; i < MAX_ROBOTS; i++)
    settle(s, i);
  pco_runtime_destroy(s->rt);
  free(s);
}
