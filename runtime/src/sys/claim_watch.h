/* SPDX-License-Identifier: MIT */
/*
 * Makes sure that a uv_poll_t which was just started can be served.
 *
 * libuv hands the descriptor to the system only when it next waits, and ends
 * the program if that is refused then.  So the place is taken here, where an
 * error can be dealt with; libuv finds it taken and uses it.
 */
#ifndef PCO_SYS_CLAIM_WATCH_H
#define PCO_SYS_CLAIM_WATCH_H

#include <uv.h>

/* After uv_poll_start().  0, or a libuv error: stop the handle then.  [loop] */
int pco__claim_watch(uv_loop_t *loop, int fd);

#endif /* PCO_SYS_CLAIM_WATCH_H */
