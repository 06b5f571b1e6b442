/* SPDX-License-Identifier: MIT */
/*
 * One order to a keeper and the wait for its answer, with a deadline, on a
 * plugin's loop: by the door of a sandbox (state.h, runtime/agent/door.h), or
 * over a control socket that is there already.
 *
 * A keeper is one of this user's own programs; but it may hang, or be killed at
 * any moment.
 */
#ifndef PLUGIN_VISIT_H
#define PLUGIN_VISIT_H

#include <stdbool.h>
#include <uv.h>

#include "../../runtime/agent/keeper.h"
#include "state.h"

typedef struct plugin_visit plugin_visit;

/* How it went: `report` is what came (type 0: the end of the connection), with
 * the descriptor `stream` (or -1), which belongs to the callee, as `fd` does,
 * the connection.  Else `status` is a negative code: UV_ENOENT, there is no
 * such door; UV_ECONNREFUSED, nobody behind it; UV_ETIMEDOUT; UV_ECANCELED; and
 * both descriptors are -1. */
typedef void (*plugin_visit_fn)(plugin_visit *v, int status,
                                const pco_keeper_report *report, int fd,
                                int stream);

/* Lives in its owner, who keeps it until fn was called. */
struct plugin_visit {
  uv_poll_t poll;
  uv_timer_t timer;
  int fd;                    /* the connection; -1 */
  int stream;                /* -1 */
  uint64_t deadline;         /* of uv_now */
  unsigned handles;          /* to close */
  const plugin_state *state; /* whose door; or NULL.  Borrowed */
  char id[65];
  pco_keeper_order order;
  bool polled;
  int status;
  pco_keeper_report report;
  plugin_visit_fn fn;
};

/* Goes to the door of a sandbox; where too many wait before it, it waits, too.
 * `state` is borrowed until fn was called. */
void plugin_visit_door(plugin_visit *v, uv_loop_t *loop,
                       const plugin_state *state, const char *id,
                       pco_keeper_order order, unsigned ms, plugin_visit_fn fn);
/* The same over a connection, which fn gives back, also when it fails.  No
 * other handle of the loop polls that descriptor. */
void plugin_visit_control(plugin_visit *v, uv_loop_t *loop, int fd,
                          pco_keeper_order order, unsigned ms,
                          plugin_visit_fn fn);
/* Ends it with UV_ECANCELED; fn is still called. */
void plugin_visit_stop(plugin_visit *v);

#endif /* PLUGIN_VISIT_H */
