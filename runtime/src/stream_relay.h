/* SPDX-License-Identifier: MIT */
/*
 * The relayed streams of one command: those whose pipes or terminal the agent
 * holds, and whose bytes come in frames (wire.h).
 *
 * Flow is credit: while an output flows, the agent may send up to a window;
 * what was credited may still come after the flow was stopped.  Nothing the
 * agent sends is believed: more than was credited, an offset that does not
 * follow, a stream that is none or has ended, all end the link.  Only what was
 * adopted may leave out bytes.
 *
 * A relay outlives its process: the link keeps it until every stream has ended,
 * so that frames which were on their way are known.  Everything is for the
 * loop's thread.
 */
#ifndef PCO_STREAM_RELAY_H
#define PCO_STREAM_RELAY_H

#include "agent_link.h"

struct pco__process;

typedef struct pco__relay pco__relay;

/* As PCO_ADOPT_*. */
enum { PCO__RELAY_IN = 1, PCO__RELAY_OUT = 2, PCO__RELAY_ERR = 4 };

/* Makes the relay of the command whose SPAWN has the number `target`, with
 * those streams; a terminal is PCO__RELAY_IN and _OUT.  NULL without memory.
 * The process's streams are opened. */
pco__relay *pco__relay_open(pco__link *link, uint64_t target,
                            struct pco__process *p, unsigned streams,
                            bool terminal);
/* Nothing comes before it is read: so what nobody has read is not with us when
 * we go.  Of a relay that was just made. */
void pco__relay_hold(pco__relay *r);
/* The same of a command that another host has started, which the agent adopted
 * then: nothing comes before it is read. */
typedef struct pco__relay_past {
  uint64_t offset[2]; /* of what comes next */
  uint64_t in_credit; /* bytes of input that may be sent */
} pco__relay_past;
pco__relay *pco__relay_resume(pco__link *link, uint64_t target,
                              struct pco__process *p, unsigned streams,
                              bool terminal, const pco__relay_past *past);
/* Nobody reads for now: the agent keeps the newest of it.  Of a relay that was
 * just made, `bits` and the descriptors (taken) are what it is to read. */
void pco__relay_adopt(pco__relay *r, unsigned bits, const int *fds, uint8_t n);
/* The command did not start: nothing comes, and the relay is gone. */
void pco__relay_drop(pco__relay *r);
/* The process wants nothing more of it. */
void pco__relay_release(pco__relay *r);
/* Ends a terminal at once: what runs on it is told by SIGHUP. */
void pco__relay_hang_up(pco__relay *r);
/* Goes on with the process's input as far as the credit goes. */
void pco__relay_write(pco__relay *r);
/* The end of the input: of a pipe for good; on a terminal Ctrl-D is typed, on a
 * line that is not empty twice, since the first only ends the line. */
void pco__relay_close_input(pco__relay *r);

#endif /* PCO_STREAM_RELAY_H */
