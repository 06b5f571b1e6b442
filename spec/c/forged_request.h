/* SPDX-License-Identifier: MIT */
/*
 * Requests that wait for a forged agent's answer, and a sandbox beside that
 * must not notice: for the tests in which the host believes no agent.
 *
 * A case passes when the op ended once with the right code, the sandbox beside
 * noticed nothing, closing worked, and no descriptor is left (memory is for
 * AddressSanitizer to find).
 */
#ifndef FORGED_REQUEST_H
#define FORGED_REQUEST_H

#include "forged_agent.h"

#define MORE    PCO_WIRE_MORE
#define MS      UINT64_C(1000000)
#define PARTIAL "what came before"

/* The world, with a sandbox beside. */
void requests_open(void);
/* That one must work. */
void ask_beside(void);
/* Ends it early. */
void requests_end_beside(void);
/* Ends all; two cases.  The exit code. */
int requests_close(void);

enum { STAT, LIST, READ, WRITE, MKDIR, SPAWN, RUN, SIGNAL, KILL, HELLO };

typedef struct request {
  int kind;
  box *b;
  pco__op *op;
  uint64_t id;    /* of the frame to answer */
  uint64_t spawn; /* SPAWN .. KILL: of the command */
  asked a;        /* the last frame that was asked */
  int out;        /* RUN: the command's stdout */
  pco__op *spawned;
} request;

/* Makes a request, and takes it as an agent would; timeout_ms below 0: none. */
void request_ask(request *r, int kind, int64_t timeout_ms);
/* Makes the op of a request for files, to be submitted. */
void request_ask_file(request *r);
/* The op ends with `code`; the sandbox has died of `death` (0: it lives), or
 * will. */
void request_finish(request *r, int code, int death);
/* What a command had written, RUN, is in its result. */
void check_partial(pco__op *op);
/* The sandbox is dead for that reason, and says so to whoever asks. */
void check_dead(box *b, int code);

void say_started(box *b, uint64_t id);
/* Without a field. */
void box_reply(box *b, uint64_t id);
void box_data(box *b, uint64_t id);
void box_exit_fine(box *b, uint64_t id);
/* A header by hand, and bytes behind it. */
void box_header(box *b, uint32_t size, uint16_t type, uint8_t n_fds,
                uint8_t flags, uint64_t op, const void *more, size_t len);

#endif /* FORGED_REQUEST_H */
