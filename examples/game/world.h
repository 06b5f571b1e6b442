/* SPDX-License-Identifier: MIT */
/* The world of the game: robots that walk.  It knows nothing of scripts. */
#ifndef GAME_WORLD_H
#define GAME_WORLD_H

#include <stdbool.h>

enum { WORLD_WIDTH = 640, WORLD_HEIGHT = 360, MAX_ROBOTS = 200, N_TEAMS = 4 };

typedef struct robot {
  double x, y;
  double goal_x, goal_y;
  int team;
  int walks; /* that it has finished */
  bool is_walking;
} robot;

typedef struct world {
  robot robots[MAX_ROBOTS];
  int n_robots;
} world;

void world_init(world *w, int n_robots);
/* Sends a robot somewhere; a goal outside of the world is moved to its edge. */
void world_walk(world *w, int i, double x, double y);
/* Moves all of them by a frame of 1/60 s. */
void world_step(world *w);
/* How many walks each robot has finished at least. */
int world_rounds(const world *w);

#endif /* GAME_WORLD_H */
