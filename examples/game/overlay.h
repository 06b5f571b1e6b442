/* SPDX-License-Identifier: MIT */
/* What frames took: the last of them as bars, and all of them as numbers. */
#ifndef GAME_OVERLAY_H
#define GAME_OVERLAY_H

#include "draw.h"
#include "scripts.h"

enum { OVERLAY_FRAMES = 150 };

typedef struct overlay {
  uint64_t budget_ns;
  tick_cost last[OVERLAY_FRAMES]; /* a ring */
  /* Of all frames: */
  int frames;
  uint32_t most_slices;
  uint64_t longest_cpu_ns;
  int cut;      /* the budget was over before the work was */
  int over;     /* cpu_ns was more than the budget and one slice */
  int lua_over; /* lua_ns was */
} overlay;

void overlay_note(overlay *o, const tick_cost *cost);
void overlay_draw(const overlay *o, const canvas *c, int tasks);

#endif /* GAME_OVERLAY_H */
