/* SPDX-License-Identifier: MIT */
/*
 * From a SPAWN frame to a running program: argument list, environment, user
 * and stdio, and the ERROR frame if it cannot be started.
 */
#ifndef PCO_LAUNCH_H
#define PCO_LAUNCH_H

#include "channel.h"
#include "request.h"

#include <sys/types.h>

/* Starts the program of a checked SPAWN; `null` is a descriptor of /dev/null.
 * The descriptors of f stay the caller's.  The pid, or a negative errno with
 * the ERROR frame in *answer. */
pid_t pco_launch(const pco_frame *f, const pco_request *r, int null,
                 pco_wire_buf *answer);

#endif /* PCO_LAUNCH_H */
