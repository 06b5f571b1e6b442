/* SPDX-License-Identifier: MIT */
/* Lines out of chunks; see lua_lines.h. */
#include "lua_lines.h"

#include <lauxlib.h>
#include <lua.h>
#include <stdlib.h>
#include <string.h>

struct pco__lines {
  size_t max_line;
  pco__chunks part[PCO__N_STREAMS]; /* of each stream: the begin of an
                                       incomplete line */
};

pco__lines *pco__lines_new(size_t max_line) {
  pco__lines *lines = calloc(1, sizeof *lines);
  if (!lines)
    return NULL;
  lines->max_line = max_line;
  for (int i = 0; i < PCO__N_STREAMS; i++)
    pco__chunks_init(&lines->part[i]);
  return lines;
}

void pco__lines_free(pco__lines *lines) {
  if (!lines)
    return;
  for (int i = 0; i < PCO__N_STREAMS; i++)
    pco__chunks_free(&lines->part[i]);
  free(lines);
}

/* Pushes the kept parts of a stream and `len` bytes more as one line. */
static int push_line(lua_State *L, pco__chunks *part, uint8_t stream,
                     const char *data, size_t len) {
  if (!part->count) {
    lua_pushlstring(L, data, len);
  } else {
    luaL_Buffer b; /* nothing is used up before it is Lua's */
    luaL_buffinitsize(L, &b, part->bytes + len);
    for (const pco__chunk *c = part->first; c; c = c->next)
      luaL_addlstring(&b, c->data + c->start, c->len - c->start);
    luaL_addlstring(&b, data, len);
    luaL_pushresult(&b);
    pco__chunks_free(part);
  }
  lua_pushstring(L, pco__stream_name(stream));
  return PCO__LINE_GIVEN;
}

int pco__lines_next(lua_State *L, pco__lines *lines, pco__chunks *from) {
  for (pco__chunk *c; (c = from->first) != NULL;) {
    pco__chunks *part = &lines->part[c->stream];
    const char *data = c->data + c->start;
    size_t left = c->len - c->start;
    const char *end = memchr(data, '\n', left);
    size_t len = end ? (size_t)(end - data) : left;
    if (part->bytes + len > lines->max_line)
      return PCO__LINE_TOO_LONG;
    if (end) {
      uint8_t stream = c->stream;
      push_line(L, part, stream, data, len);
      c->start += len + 1;
      from->bytes -= len + 1;
      if (c->start == c->len)
        free(pco__chunks_shift(from));
      return PCO__LINE_GIVEN;
    }
    pco__chunks_append(part, pco__chunks_shift(from));
  }
  return PCO__LINE_NONE;
}

int pco__lines_rest(lua_State *L, pco__lines *lines) {
  for (uint8_t i = 0; i < PCO__N_STREAMS; i++)
    if (lines->part[i].count)
      return push_line(L, &lines->part[i], i, "", 0);
  return PCO__LINE_NONE;
}

void pco__lines_give_back(pco__lines *lines, pco__chunks *to) {
  for (int i = PCO__N_STREAMS; i > 0; i--)
    pco__chunks_move_front(to, &lines->part[i - 1]);
}
