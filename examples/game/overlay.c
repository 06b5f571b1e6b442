/* SPDX-License-Identifier: MIT */
/* What frames took; see overlay.h. */
#include "overlay.h"

#include <stdio.h>

#define GRAY   0x404850
#define WHITE  0xe8e8e8
#define LUA    0x58c878 /* in scripts */
#define TICK   0x5080d0 /* else in a tick */
#define BUDGET 0xe0b040
#define OVER   0xe04040

#define BAR     4  /* pixels, the width of a frame */
#define TALL    40 /* pixels, the budget */
#define SURFACE 64 /* pixels, all bars */

void overlay_note(overlay *o, const tick_cost *cost) {
  uint64_t most = o->budget_ns + cost->longest_ns;
  o->last[o->frames++ % OVERLAY_FRAMES] = *cost;
  if (cost->slices > o->most_slices)
    o->most_slices = cost->slices;
  if (cost->cpu_ns > o->longest_cpu_ns)
    o->longest_cpu_ns = cost->cpu_ns;
  o->cut += cost->has_more;
  o->over += cost->cpu_ns > most;
  o->lua_over += cost->lua_ns > most;
}

static int height(const overlay *o, uint64_t ns) {
  double share = (double)ns / (double)(o->budget_ns ? o->budget_ns : 1000000);
  return share * TALL < SURFACE ? (int)(share * TALL + 0.5) : SURFACE;
}

/* The frame that was `age` frames ago, at the right edge or left of it. */
static void draw_bar(const overlay *o, const canvas *c, int age) {
  const tick_cost *t = &o->last[(o->frames - 1 - age) % OVERLAY_FRAMES];
  int x = c->width - (age + 1) * BAR;
  int cpu = height(o, t->cpu_ns);
  int lua = height(o, t->lua_ns < t->cpu_ns ? t->lua_ns : t->cpu_ns);
  uint32_t color = t->cpu_ns > o->budget_ns + t->longest_ns ? OVER : TICK;
  draw_rect(c, x, SURFACE - cpu, BAR - 1, cpu, color);
  draw_rect(c, x, SURFACE - lua, BAR - 1, lua, LUA);
}

static double ms(uint64_t ns) {
  return (double)ns / 1e6;
}

static void draw_numbers(const overlay *o, const canvas *c, int tasks) {
  const tick_cost *t = &o->last[(o->frames - 1) % OVERLAY_FRAMES];
  char line[160];
  snprintf(line, sizeof line,
           "FRAME %d  TICK %.2f MS  LUA %.2f MS WALL  SLICES %u", o->frames,
           ms(t->cpu_ns), ms(t->lua_ns), t->slices);
  draw_text(c, 4, SURFACE + 6, 2, WHITE, line);
  snprintf(line, sizeof line, "TASKS %d  LONGEST TICK %.2f/%.2f MS  OVER %d",
           tasks, ms(o->longest_cpu_ns), ms(o->budget_ns), o->over);
  draw_text(c, 4, SURFACE + 20, 2, WHITE, line);
}

void overlay_draw(const overlay *o, const canvas *c, int tasks) {
  int n = o->frames < OVERLAY_FRAMES ? o->frames : OVERLAY_FRAMES;
  draw_rect(c, 0, SURFACE, c->width, 1, GRAY);
  draw_rect(c, 0, SURFACE - TALL, c->width, 1, BUDGET);
  for (int age = 0; age < n; age++)
    draw_bar(o, c, age);
  if (n > 0)
    draw_numbers(o, c, tasks);
}
