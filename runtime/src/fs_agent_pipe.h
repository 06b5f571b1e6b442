/* SPDX-License-Identifier: MIT */
/*
 * Contents of files by a pipe, beside the frames of a request.
 *
 * The host makes the pipe and sends one end with the request; at the other end
 * of the link it is spliced from or to the file.  What comes out of it is
 * hostile: the agent says how much is to come, and neither more than was asked
 * for nor more than it said is taken.  A pipe that is never read or written
 * holds up its call only, which can be cancelled as ever.
 */
#ifndef PCO_FS_AGENT_PIPE_H
#define PCO_FS_AGENT_PIPE_H

#include "fs_ops.h"

/* Says whether the contents of this call are large enough for a pipe. */
bool pco__fs_pipe_fits(const pco__fs_op *o);
/* Makes it; gives the agent's end, which the caller owns, or -1: there is none
 * to be had, and frames will do. */
int pco__fs_pipe_make(pco__fs_op *o);
/* The request is sent: writes what fits, and the rest when there is room; or
 * reads what comes. */
void pco__fs_pipe_begin(pco__fs_op *o);
/* A REPLY to a call that reads: that they come, or that they all are there.  0,
 * -EPROTO, or why they could not be taken. */
int pco__fs_pipe_reply(pco__fs_op *o, const pco_wire_header *h,
                       const uint8_t *payload);
void pco__fs_pipe_close(pco__fs_op *o);

/* Ends the call with that error; the agent is asked to stop (fs_agent.c). */
void pco__fs_give_up(pco__fs_op *o, int rc);

#endif /* PCO_FS_AGENT_PIPE_H */
