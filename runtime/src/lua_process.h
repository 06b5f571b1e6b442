/* SPDX-License-Identifier: MIT */
/* Process and Iterator objects; see lua_process.c and lua_iterator.c. */
#ifndef PCO_LUA_PROCESS_H
#define PCO_LUA_PROCESS_H

#include "lua_state.h"

enum {
  PCO__ITERATE_CHUNKS,
  PCO__ITERATE_LINES,
  PCO__ITERATE_WALK,
  PCO__ITERATE_FILE,
  PCO__ITERATE_EVENTS
};

/* Pushes a Process for *from of the sandbox at index `at`.  It takes the
 * reference: *from is NULL then, also if something raises after that. */
void pco__push_process(lua_State *L, pco__process **from, int at);
/* After a read of the object at 1 (Process or Iterator): takes the chunks and
 * gives what that object gives. */
int pco__after_read(lua_State *L, pco__chunks *chunks, bool ended);
/* Pushes an OutputChunk. */
void pco__push_output(lua_State *L, const pco__chunk *c);
/* Takes the first unread chunk and pushes it as an OutputChunk, or nil. */
void pco__push_chunk(lua_State *L, pco__handle *h);
/* Pushes the Result that the Process at idx gave before; false: none. */
bool pco__cached_result(lua_State *L, int idx);
/* Remembers the Result on top for the Process at idx. */
void pco__cache_result(lua_State *L, int idx);
/* Makes and awaits a read for the object at 1, of process handle h. */
int pco__read_more(lua_State *L, pco__handle *h, bool iterates,
                   const pco__op_class *cls, int64_t timeout);
/* Raises UsageError while an iterator over the output is open. */
void pco__check_reader(lua_State *L, const pco__handle *h,
                       const char *operation);
/* Pushes an iterator over the Process at 1, in the form of generic for. */
int pco__push_iterator(lua_State *L, pco__handle *h, int format,
                       int64_t timeout, size_t max_line);
/* The handle of the Process of the Iterator at idx; NULL if the script has put
 * something else there. */
pco__handle *pco__iterated_process(lua_State *L, int idx);
int pco__iterator_next_item(lua_State *L, bool ended);

#endif /* PCO_LUA_PROCESS_H */
