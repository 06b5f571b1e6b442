/* SPDX-License-Identifier: MIT */
/*
 * The host's end of the channel to an agent: frames out with descriptors,
 * frames in checked, each handed to the request it answers.
 *
 * The agent is hostile until proven otherwise: a frame is looked at only after
 * its format was checked, only a pending request gets it, and only if its type
 * may answer that request, or an open stream, if its type is of streams.
 * Reading takes a bounded amount a turn.  A link dies once: of an end of
 * stream, a broken frame, or a request that the agent had to answer at once and
 * did not, though it had nothing else to do.  Then the owner is told; it finds
 * out why and closes the link, which tells every pending request.  Everything
 * is for the loop's thread.
 */
#ifndef PCO_AGENT_LINK_H
#define PCO_AGENT_LINK_H

#include "error.h"
#include "loop.h"
#include "wire.h"

struct pco__sandbox;

typedef struct pco__link pco__link;
typedef struct pco__link_request pco__link_request;

/* A request on its way; embedded in what made it, which keeps it until the
 * final frame or `lost`. */
struct pco__link_request {
  pco__node node; /* in its bucket of the link */
  pco__link *link;
  uint64_t id;
  uint16_t type; /* PCO_WIRE_SPAWN ... */
  pco__timer deadline;
  uint64_t longest; /* when patience ends even with an agent that is busy */
  bool overdue;     /* the deadline has passed once */
  /* Gets each frame of a type that may answer; the fields were checked for
   * format.  Returns 0, or -EPROTO to end the link.  After a final frame the
   * request is no longer the link's. */
  int (*frame)(pco__link_request *r, const pco_wire_header *h,
               const uint8_t *payload);
  /* The link died first; err is borrowed. */
  void (*lost)(pco__link_request *r, const pco__error *err);
};

/* A stream of frames that answer no request (relayed output), known by the
 * number of the request that it belongs to; embedded in what made it, which
 * closes it when its last frame has come. */
typedef struct pco__link_stream {
  pco__node node;
  pco__link *link;
  uint64_t id;
  /* As of a request; it may close the stream. */
  int (*frame)(struct pco__link_stream *s, const pco_wire_header *h,
               const uint8_t *payload);
  /* The link is closed; the stream is no longer the link's. */
  void (*lost)(struct pco__link_stream *s);
} pco__link_stream;

/* Makes a link of a connected socket, which it owns from now on (also when it
 * fails).  dead() is called once, in a turn of its own, if the link dies before
 * pco__link_close; its owner then has to close it. */
int pco__link_open(pco__loop *loop, int fd,
                   void (*dead)(pco__link *link, const pco__error *err),
                   pco__link **out);
/* Ends everything: pending requests are told err (taken), the memory is freed
 * later by the loop. */
void pco__link_close(pco__link *link, pco__error *err);
/* The number for the next request. */
uint64_t pco__link_next(pco__link *link);
/* Sends a frame that starts request r; r->frame and r->lost are set.  Takes the
 * frame's memory and the descriptors, whatever happens.  With `prompt` the
 * answer is expected at once.  A link that is dead or a frame that could not be
 * made is told by r->lost, in the next turn. */
void pco__link_request_send(pco__link *link, pco__link_request *r,
                            pco_wire_buf *frame, const int *fds, uint8_t n_fds,
                            bool prompt);
/* From now on s gets the frames of its number; s->id, frame and lost are set.
 */
void pco__link_stream_open(pco__link *link, pco__link_stream *s);
/* Another frame of it would end the link.  Again: nothing. */
void pco__link_stream_close(pco__link_stream *s);
/* An open one, or NULL. */
pco__link_stream *pco__link_stream_find(pco__link *link, uint64_t id);
/* Sends a frame that starts no request (CANCEL, DATA); takes its memory. */
void pco__link_send(pco__link *link, pco_wire_buf *frame);
/* Bytes waiting to be sent. */
size_t pco__link_queued(const pco__link *link);
/* Calls call->fn once, when little waits to be sent or the link has died. */
void pco__link_when_writable(pco__link *link, pco__call *call);
/* A pending request must be answered within `after` ns and the agent's 30 s
 * more, or the link dies; an earlier deadline stays.  An agent that gets on
 * with other requests has those 30 s from the last frame, ten times at most. */
void pco__link_expect(pco__link_request *r, uint64_t after);
/* Request r was made by another host and is pending: its answers are r's. */
void pco__link_request_await(pco__link *link, pco__link_request *r);
/* The pending request of that number, or NULL. */
pco__link_request *pco__link_find(pco__link *link, uint64_t id);
/* Numbers up to `last` were used by other hosts. */
void pco__link_go_on_after(pco__link *link, uint64_t last);
/* Sends nothing and takes nothing any more; dead() is not called.  The owner
 * closes the link in the same turn. */
void pco__link_hang_up(pco__link *link);
/* Takes back a request whose link is about to be closed. */
void pco__link_forget(pco__link_request *r);
/* Stops the clock of a request whose first answer came. */
void pco__link_answered(pco__link_request *r);
/* The sandbox at the other end; for dead(). */
void pco__link_set_owner(pco__link *link, struct pco__sandbox *owner);
struct pco__sandbox *pco__link_owner(const pco__link *link);

/* Those 30 s, in ns.  Only tests change it, before they open a link. */
extern uint64_t pco__link_patience;
/* A short while beside it, about a second. */
#define PCO__LINK_MOMENT (pco__link_patience / 32)

#endif /* PCO_AGENT_LINK_H */
