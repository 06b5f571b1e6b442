/* SPDX-License-Identifier: MIT */
/*
 * Relayed streams: output that the agent reads and passes on within the host's
 * credit, and input that it takes within its own.
 *
 * A relay is what one command has of them.  Of a pipe the agent keeps its end
 * and passes the other on with the SPAWN, like a descriptor of the host's; of a
 * terminal it keeps the master, and a slave until the first process has ended,
 * so that a command that closes its terminal may open it again.
 *
 * What is *adopted* has no reader for now: it is read all the same, so that the
 * command is not held back, and the newest of it is kept in a ring.
 *
 * Invariants: of what is not adopted no byte is read beyond the credit, so
 * nothing has to be kept; at most PCO_RELAY_CREDIT bytes of input are; every
 * stream ends once, and the
 * host is told.  While the host is slow (PCO_OUT_LOW) nothing is read.  A
 * source that is not wanted is not watched at all: a hang-up would be told all
 * the time.
 */
#ifndef PCO_RELAY_H
#define PCO_RELAY_H

#include "request.h"
#include "ring.h"
#include "source.h"

#include <stdbool.h>
#include <stdint.h>

struct pco_agent;
typedef struct pco_relay pco_relay;

/* An output: a pipe's end or a terminal's master. */
typedef struct pco_relay_out {
  pco_relay *relay;
  pco_source source; /* its fd is -1 once nothing more comes */
  uint8_t stream;    /* 1 or 2 */
  bool watched;
  bool adopted;
  int eof;          /* PCO_EOF_* that follows the ring; 0: not yet */
  pco_ring ring;    /* if adopted */
  uint64_t offset;  /* bytes that were passed on, or dropped */
  uint64_t credit;  /* bytes that may be */
  uint64_t closing; /* op of a CLOSE_OUTPUT that waits for its end, or 0 */
  uint64_t until;   /* the offset at which it is over, then */
} pco_relay_out;

typedef struct pco_relay_in {
  pco_relay *relay;
  pco_source source; /* its fd is -1 once it has ended */
  bool watched;
  bool ending;   /* of a pipe: closed once all is written */
  uint8_t *data; /* of PCO_RELAY_CREDIT bytes; owned */
  size_t at, len;
} pco_relay_in;

struct pco_relay {
  pco_relay *next, *prev;
  struct pco_agent *agent;
  uint64_t op;
  bool terminal;
  bool started;
  int slave; /* or -1 */
  pco_relay_out out[2];
  pco_relay_in in;
};

typedef struct pco_relays {
  pco_relay *live;
  pco_relay *gone; /* to be freed at the end of the turn */
  bool clogged;    /* the host is slow: nothing is read */
} pco_relays;

/* Makes what a SPAWN wants relayed; f gets the descriptors for it among its
 * own.  0, or a negative errno: then nothing is there, and f has none. */
int pco_relay_open(struct pco_agent *a, pco_frame *f, const pco_request *r);
/* What became of the command; without a relay these do nothing. */
void pco_relay_started(struct pco_agent *a, uint64_t op);
void pco_relay_exited(struct pco_agent *a, uint64_t op);
/* It did not start. */
void pco_relay_drop(struct pco_agent *a, uint64_t op);

/* The requests.  adopt owns the descriptors of f afterwards. */
void pco_relay_adopt(struct pco_agent *a, pco_frame *f, const pco_request *r);
void pco_relay_credit(struct pco_agent *a, const pco_request *r);
void pco_relay_input(struct pco_agent *a, const pco_request *r);
void pco_relay_close_input(struct pco_agent *a, const pco_request *r);
void pco_relay_close_output(struct pco_agent *a, const pco_request *r);
void pco_relay_resize(struct pco_agent *a, const pco_request *r);

/* What a later host has to know of the streams of a command. */
typedef struct pco_relay_state {
  bool out, err, in; /* not ended */
  uint64_t out_offset, err_offset;
  size_t in_room; /* for input */
} pco_relay_state;
void pco_relay_look(const struct pco_agent *a, uint64_t op,
                    pco_relay_state *out);
/* Nothing of the command lives: nobody reads its stdin any more. */
void pco_relay_end_input(struct pco_agent *a, uint64_t op);
/* Of a command that is over: what of its output nobody reads for now (adopted)
 * is given up, and has ended.  Who reads the others is not disturbed. */
void pco_relay_give_up(struct pco_agent *a, uint64_t op);
/* The host is gone: everything is adopted; what is on no record, that is, of
 * commands of which nobody will hear, is dropped. */
void pco_relays_let_go(struct pco_agent *a);

/* Once a turn, after the host's channel was flushed: stops while the host is
 * slow, and frees.  True if it went on again, and so may have queued frames. */
bool pco_relays_tick(struct pco_agent *a);
void pco_relays_deinit(struct pco_agent *a);

#endif /* PCO_RELAY_H */
