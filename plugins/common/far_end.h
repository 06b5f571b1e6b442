/* SPDX-License-Identifier: MIT */
/*
 * The end of a sandbox that may outlive its program, by its id, wherever it was
 * made and whoever is attached to it: the order by its door, and if that is not
 * followed a SIGKILL for its keeper.
 *
 * A door at which nobody answers is no end: the sandbox may be about to begin,
 * or to end.  It has ended when nobody holds byte 0 of what is written of it
 * (state.h); until then, or the deadline, the order is given again.
 *
 * All on one loop.
 */
#ifndef PLUGIN_FAR_END_H
#define PLUGIN_FAR_END_H

#include "state.h"
#include "visit.h"
#include "wait.h"

typedef struct plugin_far_end plugin_far_end;

/* Lives in its owner, who keeps it until fn was called. */
struct plugin_far_end {
  plugin_visit visit;
  plugin_wait wait;
  uv_timer_t timer; /* until the next look */
  plugin_state state;
  char id[65];
  uv_loop_t *loop;
  uint64_t deadline; /* of uv_now */
  int pidfd;         /* of the keeper, or -1: it cannot be seen from here */
  bool killed;
  void (*fn)(plugin_far_end *e, int status);
};

/* Its keeper has `ms` to follow the order.  1: it goes on, and fn is called
 * once with 0 or a negative code; PCO_EBACKEND: it does not end.  0: its keeper
 * is dead already, and fn is not called.  Else a negative code and maybe *err:
 * UV_ENOENT, there is none.  What a killed keeper has left is for
 * plugin_door_claim(). */
int plugin_far_end_start(plugin_far_end *e, uv_loop_t *loop,
                         const char *backend, const char *setting,
                         const char *id, unsigned ms,
                         void (*fn)(plugin_far_end *e, int status),
                         pco_error *err);

#endif /* PLUGIN_FAR_END_H */
