/* SPDX-License-Identifier: MIT */
/*
 * A game, 60 frames a second, whose robots are led by programs in sandboxes;
 * see README.md.
 *
 *   game [OPTION...]
 *     --script FILE     what leads the robots; robots.lua in this folder
 *     --backend NAME    of the sandboxes; bwrap
 *     --robots N        100
 *     --budget-us N     what scripts may take of a frame; 4000
 *     --rounds N        end when each robot has walked so often; 0: by hand
 *     --picture FILE    write the last frame there, as a PNG
 */
#include <SDL.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "overlay.h"
#include "png.h"
#include "scripts.h"
#include "world.h"

#ifndef GAME_SCRIPT
#  define GAME_SCRIPT "robots.lua"
#endif

#define FRAME_NS UINT64_C(16666667)
#define BACK     0x181c22

typedef struct options {
  const char *script, *backend, *picture;
  int robots, budget_us, rounds;
} options;

typedef struct game {
  SDL_Window *window;
  SDL_Surface *surface; /* what canvas draws into */
  canvas canvas;
  world world;
  scripts *scripts;
  overlay overlay;
} game;

/* ---- options ------------------------------------------------------------- */

static int parse(int argc, char **argv, options *o) {
  const struct {
    const char *name;
    const char **text;
    int *number;
  } known[] = {
      {"--script", &o->script, NULL},       {"--backend", &o->backend, NULL},
      {"--picture", &o->picture, NULL},     {"--robots", NULL, &o->robots},
      {"--budget-us", NULL, &o->budget_us}, {"--rounds", NULL, &o->rounds}};
  const size_t n = sizeof known / sizeof *known;
  for (int i = 1; i < argc; i += 2) {
    size_t k = 0;
    while (k < n && strcmp(argv[i], known[k].name) != 0)
      k++;
    if (k == n || i + 1 == argc) {
      fprintf(stderr, "game: %s is no option, or needs a value\n", argv[i]);
      return -1;
    }
    if (known[k].text)
      *known[k].text = argv[i + 1];
    else
      *known[k].number = atoi(argv[i + 1]);
  }
  return 0;
}

/* ---- the window ---------------------------------------------------------- */

static int open_window(game *g) {
  if (SDL_Init(SDL_INIT_VIDEO) < 0)
    return -1;
  g->window =
      SDL_CreateWindow("robots", SDL_WINDOWPOS_UNDEFINED,
                       SDL_WINDOWPOS_UNDEFINED, WORLD_WIDTH, WORLD_HEIGHT, 0);
  g->surface = SDL_CreateRGBSurfaceWithFormat(0, WORLD_WIDTH, WORLD_HEIGHT, 32,
                                              SDL_PIXELFORMAT_RGB888);
  if (!g->window || !g->surface)
    return -1;
  g->canvas = (canvas){g->surface->pixels, WORLD_WIDTH, WORLD_HEIGHT};
  return 0;
}

static void close_window(game *g) {
  SDL_FreeSurface(g->surface);
  if (g->window)
    SDL_DestroyWindow(g->window);
  SDL_Quit();
}

static bool wants_to_quit(void) {
  SDL_Event event;
  bool quit = false;
  while (SDL_PollEvent(&event))
    quit |= event.type == SDL_QUIT ||
            (event.type == SDL_KEYDOWN && event.key.keysym.sym == SDLK_ESCAPE);
  return quit;
}

static void draw(game *g) {
  static const uint32_t colors[N_TEAMS] = {0xe87050, 0x60b0f0, 0xd8c050,
                                           0xb080e0};
  const canvas *c = &g->canvas;
  draw_rect(c, 0, 0, c->width, c->height, BACK);
  for (int i = 0; i < g->world.n_robots; i++) {
    const robot *r = &g->world.robots[i];
    draw_rect(c, (int)r->goal_x, (int)r->goal_y, 2, 2, colors[r->team]);
    draw_rect(c, (int)r->x - 3, (int)r->y - 3, 7, 7, colors[r->team]);
  }
  overlay_draw(&g->overlay, c, scripts_tasks(g->scripts));
  SDL_BlitSurface(g->surface, NULL, SDL_GetWindowSurface(g->window), NULL);
  SDL_UpdateWindowSurface(g->window);
}

/* ---- frames -------------------------------------------------------------- */

static void wait_for_frame(Uint64 begin) {
  Uint64 ticks = SDL_GetPerformanceCounter() - begin;
  double ms = (double)ticks * 1e3 / (double)SDL_GetPerformanceFrequency();
  double left = (double)FRAME_NS / 1e6 - ms;
  if (left >= 1)
    SDL_Delay((Uint32)left);
}

static void frame(game *g) {
  Uint64 begin = SDL_GetPerformanceCounter();
  tick_cost cost;
  world_step(&g->world);
  scripts_frame(g->scripts, g->overlay.budget_ns, &cost);
  overlay_note(&g->overlay, &cost);
  draw(g);
  wait_for_frame(begin);
}

/* Until the player has enough, or each robot has walked `rounds` times. */
static void play(game *g, int rounds) {
  while (!wants_to_quit() && scripts_failures(g->scripts) == 0 &&
         (rounds == 0 || world_rounds(&g->world) < rounds))
    frame(g);
}

static void report(const game *g) {
  const overlay *o = &g->overlay;
  printf("robots=%d rounds=%d frames=%d failures=%d most_slices=%u cut=%d "
         "over=%d lua_over=%d tasks=%d longest_us=%d\n",
         g->world.n_robots, world_rounds(&g->world), o->frames,
         scripts_failures(g->scripts), o->most_slices, o->cut, o->over,
         o->lua_over, scripts_tasks(g->scripts),
         (int)(o->longest_cpu_ns / 1000));
}

static int run(game *g, const options *o) {
  int rc = 0;
  world_init(&g->world, o->robots);
  g->overlay.budget_ns = (uint64_t)o->budget_us * 1000;
  g->scripts = scripts_start(&g->world, o->script, o->backend);
  if (!g->scripts)
    return 1;
  play(g, o->rounds);
  report(g);
  if (o->picture && png_write(&g->canvas, o->picture) < 0) {
    perror(o->picture);
    rc = 1;
  }
  rc |= scripts_failures(g->scripts) > 0;
  scripts_end(g->scripts);
  while (!scripts_ended(g->scripts))
    frame(g);
  scripts_free(g->scripts);
  return rc;
}

int main(int argc, char **argv) {
  static game g;
  options o = {.script = GAME_SCRIPT,
               .backend = "bwrap",
               .robots = 100,
               .budget_us = 4000};
  if (parse(argc, argv, &o) < 0)
    return 2;
  int rc = 1;
  if (open_window(&g) < 0)
    fprintf(stderr, "no window: %s\n", SDL_GetError());
  else
    rc = run(&g, &o);
  close_window(&g);
  return rc;
}
