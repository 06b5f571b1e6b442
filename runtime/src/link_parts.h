/* SPDX-License-Identifier: MIT */
/*
 * What the files of a link tell each other: agent_link.c has its life,
 * link_send.c and link_receive.c the two directions, link_pending.c who waits
 * for frames, link_patience.c for how long.
 */
#ifndef PCO_LINK_PARTS_H
#define PCO_LINK_PARTS_H

#include "agent_link.h"

#define PCO__LINK_BUCKETS 64u

typedef struct pco__out_frame pco__out_frame; /* of link_send.c */

struct pco__link {
  pco__loop *loop;
  struct pco__sandbox *owner;
  int fd; /* -1 once dead */
  uv_poll_t *poll;
  int events;
  uint64_t next_id;
  pco__out_frame *out_first;
  pco__out_frame **out_last;
  size_t out_bytes;
  pco__timer retry;       /* the kernel's limit of descriptors in flight */
  uint64_t crowded_since; /* it was hit, again and again */
  uint64_t crowded_at;    /* the last time */
  uint8_t *in;            /* owned; an incomplete frame */
  size_t in_len;
  size_t in_cap;
  pco__node requests[PCO__LINK_BUCKETS];
  pco__node streams[PCO__LINK_BUCKETS];
  pco__call *drain;
  void (*dead)(pco__link *link, const pco__error *err);
  pco__error *why;
  pco__call dead_call;
  bool dead_queued;
  size_t n_pending;  /* requests that wait for an answer */
  pco__timer watch;  /* while there are any */
  bool heard;        /* something came since it was set */
  uint64_t heard_at; /* when the agent last got on with anything */
  pco__link_request ping;
  bool closed; /* by the owner: free when nothing is queued */
};

/* ---- life (agent_link.c) ------------------------------------------------- */

/* The channel is useless from now on; everybody hears of it in the next turn,
 * so that no callback runs inside a caller that only wanted to send.  Takes
 * why. */
void pco__link_fail(pco__link *link, pco__error *why);
/* Tells a dead link's owner, or if it closed the link all who wait, in the next
 * turn. */
void pco__link_queue_dead(pco__link *link);
/* What the socket is watched for, UV_*. */
void pco__link_set_events(pco__link *link, int events);

/* ---- sending (link_send.c) ----------------------------------------------- */

void pco__link_send_init(pco__link *link);
/* Sends what the socket takes. */
void pco__link_flush(pco__link *link);
/* Takes the frame's memory and the descriptors. */
void pco__link_queue(pco__link *link, pco_wire_buf *frame, const int *fds,
                     uint8_t n_fds);
/* Frees what was not sent. */
void pco__link_drop_output(pco__link *link);
/* Calls those of pco__link_when_writable. */
void pco__link_drain(pco__link *link);
/* The same, if little waits to be sent. */
void pco__link_drain_if_writable(pco__link *link);

/* ---- receiving (link_receive.c) ------------------------------------------ */

/* Takes what the socket has, within a turn's budget. */
void pco__link_receive(pco__link *link);

/* ---- who waits (link_pending.c) ------------------------------------------ */

void pco__link_pending_init(pco__link *link);
/* It is pending no longer. */
void pco__link_drop(pco__link_request *r);
/* The link is dead: whoever waits hears why. */
void pco__link_tell_all(pco__link *link);

/* ---- for how long (link_patience.c) -------------------------------------- */

/* Readies the deadline of a request that is made. */
void pco__link_deadline_init(pco__link_request *r);
/* A frame came of a request of that type. */
void pco__link_heard(pco__link *link, uint16_t type);
/* Somebody waits: the agent is watched. */
void pco__link_watch(pco__link *link);

#endif /* PCO_LINK_PARTS_H */
