/* SPDX-License-Identifier: MIT */
/* The scripts of the game: all that it has to do with Portico. */
#ifndef GAME_SCRIPTS_H
#define GAME_SCRIPTS_H

#include <stdbool.h>
#include <stdint.h>

#include "world.h"

typedef struct scripts scripts;

/* What one tick took.  cpu_ns is of this thread alone, so a busy machine does
 * not show in it. */
typedef struct tick_cost {
  uint64_t cpu_ns;
  uint64_t lua_ns;     /* in scripts, by the clock on the wall, as the budget */
  uint64_t longest_ns; /* the longest slice of a script */
  uint32_t slices;
  bool has_more; /* the budget was over before the work was */
} tick_cost;

/* Starts the script at path, for the robots of w; or says why not, and returns
 * NULL. */
scripts *scripts_start(world *w, const char *path, const char *backend);
/* Once a frame: tells scripts which robots have arrived, and lets them run. */
void scripts_frame(scripts *s, uint64_t budget_ns, tick_cost *cost);
/* Tasks that have not ended; of the whole game, also its failures. */
int scripts_tasks(const scripts *s);
int scripts_failures(const scripts *s);
/* Begins to end them: frames go on until scripts_ended(). */
void scripts_end(scripts *s);
bool scripts_ended(const scripts *s);
void scripts_free(scripts *s);

#endif /* GAME_SCRIPTS_H */
