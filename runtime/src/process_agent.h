/* SPDX-License-Identifier: MIT */
/*
 * What the files of the agent's driver tell each other: process_agent.c has
 * the driver and the frames that come, process_agent_spawn.c the start,
 * process_agent_found.c what is found running, process_agent_stdin.c the input,
 * process_agent_command.c the requests that name a command.
 */
#ifndef PCO_PROCESS_AGENT_H
#define PCO_PROCESS_AGENT_H

#include "process.h"
#include "stream_relay.h"

#define PCO__MAX_PID (1u << 30)
#define PCO__MAX_NS  (UINT64_C(1) << 62)

typedef struct pco__agent_process {
  pco__link_request spawn;
  pco__process *process; /* a reference while spawn is pending */
  uint64_t target;
  uint64_t ends_within; /* ns; 0: it has no time limit */
  int in_fd;            /* our end of stdin; -1: none */
  pco__watch in_watch;  /* while the pipe is full */
  pco__relay *relay;    /* the link's; NULL: nothing is relayed */
} pco__agent_process;

/* What the agent of a sandbox that is taken over has told of its commands so
 * far. */
typedef struct pco__found {
  uint64_t most_target; /* the last number that was used */
  uint64_t last_target; /* they come in order */
  size_t count;
  size_t bytes; /* of their arguments, kept */
} pco__found;

/* Reads how a command ended: 0 or -EPROTO. */
int pco__agent_exit(const pco_wire_header *h, const uint8_t *payload,
                    pco__exit *out);
/* Reads the SURVIVOR fields; their number, or -EPROTO. */
int pco__agent_survivors(const pco_wire_header *h, const uint8_t *payload,
                         int64_t out[PCO__MAX_SURVIVORS]);

/* Of the SPAWN of that number, which is not sent yet; NULL without memory. */
pco__agent_process *pco__agent_process_new(pco__process *p, uint64_t target);

/* Frames that answer a SPAWN; for its request. */
int pco__agent_on_frame(pco__link_request *r, const pco_wire_header *h,
                        const uint8_t *payload);
void pco__agent_on_lost(pco__link_request *r, const pco__error *err);

/* ---- commands of other hosts (process_agent_found.c) ----------------------
 */

/* Makes a process of the fields of a COMMAND, whose size h has: 0, UV_ENOMEM or
 * -EPROTO. */
int pco__agent_found(pco__sandbox *sb, pco__found *found,
                     const pco_wire_header *h, const uint8_t *payload);

/* ---- stdin (process_agent_stdin.c) --------------------------------------- */

/* Our end of it (taken), or -1. */
void pco__agent_stdin_open(pco__process *p, int fd);
/* Gives our end to the caller; -1: there is none. */
int pco__agent_stdin_take(pco__agent_process *a);

/* ---- members of the driver ----------------------------------------------- */

void pco__agent_spawn(pco__process *p, const pco__spawn_opts *opts);
void pco__agent_signal(pco__process *p, int signo, pco__op *op);
void pco__agent_resize(pco__process *p, uint16_t cols, uint16_t rows,
                       pco__op *op);
void pco__agent_kill(pco__process *p, uint64_t grace, int reason);
void pco__agent_write(pco__process *p);
int pco__agent_take_stdin(pco__process *p);
void pco__agent_close_stdin(pco__process *p);

#endif /* PCO_PROCESS_AGENT_H */
