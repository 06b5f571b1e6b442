/* SPDX-License-Identifier: MIT */
/* Rectangles and letters; see draw.h. */
#include "draw.h"

#include <string.h>

/* Five rows of three dots, an octal digit each, from the top. */
static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ.:/%-";
static const uint16_t dots[] = {
    075557, 026227, 071747, 071717, 055711, 074717, 074757, 071111, 075757,
    075717, 025755, 065656, 034443, 065556, 074647, 074644, 034553, 055755,
    072227, 011152, 055655, 044447, 057755, 065555, 025552, 065644, 025563,
    065655, 034216, 072222, 055557, 055552, 055775, 055255, 055222, 071247,
    000002, 002020, 011244, 051245, 000700};

static int clip(int value, int end) {
  return value < 0 ? 0 : value > end ? end : value;
}

void draw_rect(const canvas *c, int x, int y, int w, int h, uint32_t color) {
  int right = clip(x + w, c->width);
  int bottom = clip(y + h, c->height);
  for (int row = clip(y, c->height); row < bottom; row++)
    for (int column = clip(x, c->width); column < right; column++)
      c->pixels[row * c->width + column] = color;
}

static void draw_letter(const canvas *c, int x, int y, int scale,
                        uint32_t color, unsigned bits) {
  for (int row = 0; row < 5; row++)
    for (int column = 0; column < 3; column++)
      if (bits >> (14 - row * 3 - column) & 1)
        draw_rect(c, x + column * scale, y + row * scale, scale, scale, color);
}

void draw_text(const canvas *c, int x, int y, int scale, uint32_t color,
               const char *text) {
  for (; *text; text++, x += 4 * scale) {
    const char *found = strchr(letters, *text);
    if (found)
      draw_letter(c, x, y, scale, color, dots[found - letters]);
  }
}
