/* SPDX-License-Identifier: MIT */
/* Writes a canvas as a PNG, not compressed. */
#ifndef GAME_PNG_H
#define GAME_PNG_H

#include "draw.h"

/* Returns 0, or -1 with errno set. */
int png_write(const canvas *c, const char *path);

#endif /* GAME_PNG_H */
