/* SPDX-License-Identifier: MIT */
/*
 * Core functions of Iterator: chunks and lines of a Process, and files of a
 * walk (lua_walk.c).
 *
 * What was handed over and not yet taken lies in the Process's handle, so that
 * a reader that stops loses nothing for the next one.
 */
#include <stdlib.h>

#include "lua_error.h"
#include "lua_file.h"
#include "lua_lines.h"
#include "lua_process.h"
#include "lua_wait.h"
#include "lua_walk.h"
#include "process_ops.h"

pco__handle *pco__iterated_process(lua_State *L, int idx) {
  lua_pushliteral(L, "process");
  lua_rawget(L, idx);
  pco__handle *h = pco__handle_at(L, -1);
  lua_pop(L, 1);
  return h && h->kind == PCO__PROCESS ? h : NULL;
}

void pco__check_reader(lua_State *L, const pco__handle *h,
                       const char *operation) {
  if (h->process->iterated)
    pco__raise(L,
               pco__error_new(PCO_EBUSY, PCO_SOURCE_HOST, NULL,
                              "an iterator over the output of this process is "
                              "open; end it first"),
               operation, 1);
}

int pco__push_iterator(lua_State *L, pco__handle *h, int format,
                       int64_t timeout, size_t max_line) {
  pco__check_reader(
      L, h, format == PCO__ITERATE_LINES ? "process.lines" : "process.chunks");
  pco__handle *it =
      pco__push_object(L, PCO__ITERATOR, h->lua, h->loop, h->sync);
  it->allow_in_tasks = h->allow_in_tasks;
  it->format = format;
  it->timeout = timeout;
  it->max_line = max_line;
  pco__process_ref(h->process);
  it->process = h->process;
  it->process->iterated = true;
  if (format == PCO__ITERATE_LINES) {
    it->lines = pco__lines_new(max_line);
    if (!it->lines)
      return pco__raise(L, pco__error_no_memory(), "process.lines", 1);
  }
  lua_pushvalue(L, 1);
  lua_setfield(L, -2, "process");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "closed");
  lua_pushnil(L);
  lua_pushnil(L);
  lua_pushvalue(L, -3);
  return 4;
}

/* ---- the end of an iterator ---------------------------------------------- */

typedef struct end_call {
  pco__call call;
  pco__process *process; /* a reference */
} end_call;

static void end_reader(pco__call *call) {
  end_call *e = PCO_CONTAINER(call, end_call, call);
  pco__process_end_reader(e->process);
  pco__process_unref(e->process);
  free(e);
}

/* Ends the claim on the output, without waiting. */
static void close_iterator(lua_State *L, int idx) {
  pco__handle *it = pco__handle_at(L, idx);
  if (it->closed)
    return;
  it->process->iterated = false;
  pco__handle *h = pco__iterated_process(L, idx);
  if (it->lines && h)
    pco__lines_give_back(it->lines, &h->unread);
  pco__mark_closed(L, idx);
  end_call *e = malloc(sizeof *e);
  if (!e)
    return;
  pco__process_ref(it->process);
  *e = (end_call){.call.fn = end_reader, .process = it->process};
  if (!it->loop->is_portal) {
    end_reader(&e->call);
  } else if (pco__loop_post(it->loop, &e->call) < 0) {
    pco__process_unref(e->process);
    free(e);
  }
}

/* ---- next ---------------------------------------------------------------- */

static int line_too_long(lua_State *L, pco__handle *it) {
  pco__error *err = pco__error_new(
      PCO_ELIMIT, PCO_SOURCE_HOST, NULL,
      "a line is longer than max_line = %zu bytes; read() and chunks() give it",
      it->max_line);
  err->limit = "max_line";
  close_iterator(L, 1);
  return pco__raise(L, err, "process.lines", 1);
}

/* PCO__OP_AGAIN: what was handed over is not enough for an item. */
int pco__iterator_next_item(lua_State *L, bool ended) {
  pco__handle *it = pco__handle_at(L, 1);
  pco__handle *h = pco__iterated_process(L, 1);
  if (!h) {
    close_iterator(L, 1);
    lua_pushnil(L);
    return 1;
  }
  if (it->format == PCO__ITERATE_CHUNKS) {
    if (!h->unread.count && !ended)
      return PCO__OP_AGAIN;
    if (!h->unread.count)
      close_iterator(L, 1);
    pco__push_chunk(L, h);
    return 1;
  }
  int rc = pco__lines_next(L, it->lines, &h->unread);
  if (rc == PCO__LINE_TOO_LONG)
    return line_too_long(L, it);
  if (rc == PCO__LINE_NONE && !ended)
    return PCO__OP_AGAIN;
  if (rc == PCO__LINE_NONE)
    rc = pco__lines_rest(L, it->lines);
  if (rc == PCO__LINE_GIVEN)
    return 2;
  close_iterator(L, 1);
  lua_pushnil(L);
  return 1;
}

/* What is closed of the process that the iterator at 1 reads, and of what it
 * belongs to; NULL if nothing is. */
static const char *closed_source(lua_State *L) {
  const pco__handle *h = pco__iterated_process(L, 1);
  if (!h || h->closed)
    return "the process is closed";
  lua_pushliteral(L, "process");
  lua_rawget(L, 1);
  lua_pushliteral(L, "sandbox");
  lua_rawget(L, -2);
  const pco__handle *owner = pco__handle_at(L, -1);
  lua_pop(L, 2);
  return owner && owner->closed ? "the sandbox is closed" : NULL;
}

static int iterator_next(lua_State *L) {
  pco__handle *it = pco__self(L, PCO__ITERATOR, "iterator.next");
  lua_settop(L, 1);
  if (it->closed) {
    lua_pushnil(L);
    return 1;
  }
  if (it->format == PCO__ITERATE_WALK)
    return pco__walk_next(L, it);
  if (it->format == PCO__ITERATE_FILE)
    return pco__lines_of_file(L, it);
  if (it->format == PCO__ITERATE_EVENTS)
    return pco__events_next(L, it);
  const char *closed = closed_source(L);
  if (closed)
    return pco__raise(
        L, pco__error_new(PCO_ECLOSED, PCO_SOURCE_HOST, NULL, "%s", closed),
        "iterator.next", 1);
  const pco__op_class *cls =
      it->format == PCO__ITERATE_LINES ? &pco__lines_class : &pco__chunks_class;
  if (!it->sync)
    pco__check_wait(L, cls);
  int n = pco__iterator_next_item(L, false);
  if (n != PCO__OP_AGAIN)
    return n;
  return pco__read_more(L, it, true, cls, it->timeout);
}

static int iterator_close(lua_State *L) {
  pco__handle *it = pco__self_to_close(L, PCO__ITERATOR, "iterator.close");
  bool first = !it->closed;
  if (it->format == PCO__ITERATE_WALK)
    pco__walk_close(L, it);
  else if (!it->process) /* of a file or a watch, which stays open */
    pco__mark_closed(L, 1);
  else
    close_iterator(L, 1);
  lua_pushboolean(L, first);
  return 1;
}

const pco__core_function pco__iterator_functions[] = {
    {"iterator_next", iterator_next},
    {"iterator_close", iterator_close},
    {NULL, NULL}};
