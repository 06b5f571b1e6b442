/* SPDX-License-Identifier: MIT */
/*
 * The op by which a program takes the pipes of a command that it has spawned.
 *
 * Our ends go to the caller as they are, each stream by itself, and the runtime
 * touches them no more: for it stdin is closed and the output has ended, so
 * wait() tells of the exit alone.  This is for programs that pass bytes on and
 * look at none (`portico exec`); scripts have read and write.
 */
#include "pipes.h"

#include <unistd.h>

#include <lua.h>

static pco__pipes_op *op_of(pco__op *op) {
  return PCO_CONTAINER(op, pco__pipes_op, op);
}

static pco__error *why_not(const pco__process *p) {
  if (p->reader || p->reader_open || p->input.busy)
    return pco__error_new(PCO_EBUSY, PCO_SOURCE_HOST, NULL,
                          "somebody reads or writes the pipes of this process");
  for (int i = 0; i < 2; i++)
    if (p->streams[i].open && p->streams[i].fd < 0)
      return pco__error_new(PCO_EUNSUPPORTED, PCO_SOURCE_HOST, NULL,
                            "commands of this backend have no pipes");
  return NULL;
}

static void pipes_start(pco__op *op) {
  pco__pipes_op *o = op_of(op);
  pco__process *p = o->process;
  pco__error *err = why_not(p);
  if (!err) {
    if (p->stdin_open)
      o->fds[0] = p->driver->take_stdin ? p->driver->take_stdin(p) : -1;
    for (int i = 0; i < 2; i++)
      o->fds[i + 1] = pco__stream_take(&p->streams[i]);
    pco__process_update(p);
  }
  pco__op_complete(op, err);
}

/* The caller owns them from here on. */
static int push_fds(lua_State *L, pco__op *op) {
  pco__pipes_op *o = op_of(op);
  for (int i = 0; i < 3; i++) {
    lua_pushinteger(L, o->fds[i]);
    o->fds[i] = -1;
  }
  return 3;
}

static void destroy(pco__op *op) {
  pco__pipes_op *o = op_of(op);
  for (int i = 0; i < 3; i++)
    if (o->fds[i] >= 0)
      close(o->fds[i]);
  pco__process_unref(o->process);
}

const pco__op_class pco__pipes_class = {.name = "process.pipes",
                                        .start = pipes_start,
                                        .push = push_fds,
                                        .destroy = destroy};
