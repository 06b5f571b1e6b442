/* SPDX-License-Identifier: MIT */
/*
 * Lines out of chunks: what lines() hands out, without the newline, each stream
 * for itself.  Works on the caller's thread, on chunks that were handed over.
 */
#ifndef PCO_LUA_LINES_H
#define PCO_LUA_LINES_H

#include "chunk.h"

struct lua_State;
typedef struct pco__lines pco__lines;

enum { PCO__LINE_NONE, PCO__LINE_GIVEN, PCO__LINE_TOO_LONG };

/* Makes a splitter; NULL without memory. */
pco__lines *pco__lines_new(size_t max_line);
void pco__lines_free(pco__lines *lines);
/* Pushes the next whole line (string, stream name) that is in the chunks, which
 * are used up on the way.  PCO__LINE_NONE: more chunks are needed.  Too long:
 * nothing is pushed, nothing is lost, and pco__lines_give_back returns it. */
int pco__lines_next(struct lua_State *L, pco__lines *lines, pco__chunks *from);
/* At the end of the output: pushes what is left without a newline. */
int pco__lines_rest(struct lua_State *L, pco__lines *lines);
/* Puts incomplete lines back in front of the chunks. */
void pco__lines_give_back(pco__lines *lines, pco__chunks *to);

#endif /* PCO_LUA_LINES_H */
