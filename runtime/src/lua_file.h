/* SPDX-License-Identifier: MIT */
/* File and Watch objects, and their iterators; see lua_file.c, lua_watch.c. */
#ifndef PCO_LUA_FILE_H
#define PCO_LUA_FILE_H

#include "fs_file.h"
#include "lua_state.h"

/* What the object of an open file or watch keeps, for the caller's thread. */
typedef struct pco__opened {
  pco__file *file; /* a reference */
  pco__op *call;   /* the last one that reads or moves; a reference, or NULL */
  /* Of a file: what was read and not yet given, from where it was read. */
  char *buffer; /* owned */
  size_t start, len, cap;
  size_t lineless; /* from `start` on so many bytes have no newline */
  uint64_t at;     /* in the file, behind the buffer */
  bool ended;      /* nothing is behind it */
  /* Of a watch: events not yet given. */
  pco__entry *events; /* owned */
} pco__opened;

void pco__opened_free(pco__opened *o);
const char *pco__opened_path(const pco__opened *o);
/* Makes the object for what an op has opened; pushes it. */
int pco__push_open_object(struct lua_State *L, pco__op *op, int kind);
/* The handle of the File or Watch of the iterator at 1; raises if it is closed.
 */
pco__handle *pco__iterated(struct lua_State *L, int kind, const char *name);
/* Makes an op on what self has open, in a box at index `at`. */
pco__fs_op *pco__opened_op(struct lua_State *L, pco__handle *h,
                           const pco__op_class *cls, int kind, int at);
/* Raises PCO_EBUSY while another call of this kind runs; notes the new one. */
void pco__opened_claim(struct lua_State *L, pco__handle *h, pco__fs_op *o);
bool pco__opened_is_busy(const pco__opened *o);
/* The claim goes over to the op that goes on. */
void pco__opened_replace(pco__opened *o, pco__op *next);
/* Pushes an iterator over the object at 1, in the form of generic for. */
pco__handle *pco__push_opened_iterator(struct lua_State *L, pco__handle *h,
                                       const char *field, int format);
/* close() of a File or Watch. */
int pco__opened_close(struct lua_State *L, int kind, const pco__op_class *cls,
                      const char *const *known);

/* fs.open, fs.watch */
int pco__fs_open(struct lua_State *L);
int pco__fs_watch(struct lua_State *L);
int pco__lines_of_file(struct lua_State *L, pco__handle *it);
int pco__events_next(struct lua_State *L, pco__handle *it);
int pco__watch_next(struct lua_State *L);
int pco__watch_events(struct lua_State *L);
int pco__close_watch(struct lua_State *L);

/* Push functions of op classes, and the next op of a read. */
int pco__push_file(struct lua_State *L, pco__op *op);
int pco__push_watch(struct lua_State *L, pco__op *op);
int pco__push_part(struct lua_State *L, pco__op *op);
int pco__push_written(struct lua_State *L, pco__op *op);
int pco__push_end(struct lua_State *L, pco__op *op);
int pco__push_file_stat(struct lua_State *L, pco__op *op);
int pco__push_event(struct lua_State *L, pco__op *op);
int pco__push_shut(struct lua_State *L, pco__op *op);
pco__op *pco__file_again(const pco__op *op);

#endif /* PCO_LUA_FILE_H */
