/* SPDX-License-Identifier: MIT */
/* Robots that walk; see world.h. */
#include "world.h"

#include <math.h>
#include <string.h>

#define SPEED 6.0 /* pixels a frame */

void world_init(world *w, int n_robots) {
  const int columns = 20;
  memset(w, 0, sizeof *w);
  w->n_robots = n_robots < MAX_ROBOTS ? n_robots : MAX_ROBOTS;
  for (int i = 0; i < w->n_robots; i++) {
    robot *r = &w->robots[i];
    r->x = r->goal_x = 20 + i % columns * 31;
    r->y = r->goal_y = 100 + (i / columns) * 25;
    r->team = i % N_TEAMS;
  }
}

static double within(double value, double end) {
  return value >= 0 ? fmin(value, end - 1) : 0; /* 0 for what is no number */
}

void world_walk(world *w, int i, double x, double y) {
  robot *r = &w->robots[i];
  r->goal_x = within(x, WORLD_WIDTH);
  r->goal_y = within(y, WORLD_HEIGHT);
  r->is_walking = true;
}

static void step(robot *r) {
  double dx = r->goal_x - r->x;
  double dy = r->goal_y - r->y;
  double way = hypot(dx, dy);
  if (way > SPEED) {
    r->x += dx / way * SPEED;
    r->y += dy / way * SPEED;
    return;
  }
  r->x = r->goal_x;
  r->y = r->goal_y;
  r->is_walking = false;
  r->walks++;
}

void world_step(world *w) {
  for (int i = 0; i < w->n_robots; i++)
    if (w->robots[i].is_walking)
      step(&w->robots[i]);
}

int world_rounds(const world *w) {
  int least = w->n_robots ? w->robots[0].walks : 0;
  for (int i = 1; i < w->n_robots; i++)
    if (w->robots[i].walks < least)
      least = w->robots[i].walks;
  return least;
}
