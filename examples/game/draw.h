/* SPDX-License-Identifier: MIT */
/* Drawing into memory: rectangles, and letters of 3 by 5 dots. */
#ifndef GAME_DRAW_H
#define GAME_DRAW_H

#include <stdint.h>

/* Pixels are 0xRRGGBB; rows follow each other without a gap. */
typedef struct canvas {
  uint32_t *pixels; /* borrowed */
  int width, height;
} canvas;

/* What lies outside of the canvas is not drawn. */
void draw_rect(const canvas *c, int x, int y, int w, int h, uint32_t color);
/* Draws digits, capitals and " .:/%-" ; each dot is `scale` pixels wide. */
void draw_text(const canvas *c, int x, int y, int scale, uint32_t color,
               const char *text);

#endif /* GAME_DRAW_H */
