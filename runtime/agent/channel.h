/* SPDX-License-Identifier: MIT */
/*
 * A channel: frames over a connected SOCK_STREAM Unix socket.
 *
 * The same code serves host and agent, agent and supervisor.  Nothing blocks:
 * every call uses MSG_DONTWAIT, so the socket's own flags, which another
 * process may share, stay as they are.
 *
 * Invariants: memory grows with the bytes that arrived or were queued, never
 * by a size that a header declares; descriptors that arrived belong to the
 * channel until a frame takes them, and those queued belong to it until they
 * are sent.
 */
#ifndef PCO_CHANNEL_H
#define PCO_CHANNEL_H

#include "wire.h"

/* Descriptors that can be here before a frame takes them: those of a frame
 * whose body is not complete, and those of the next one. */
#define PCO_CHANNEL_MAX_FDS (2 * PCO_WIRE_MAX_FDS)
/* Frames with descriptors that can wait to be written. */
#define PCO_CHANNEL_MAX_MARKS 5

typedef struct pco_frame {
  pco_wire_header header;
  const uint8_t *payload;    /* borrowed until the next receive */
  int fds[PCO_WIRE_MAX_FDS]; /* header.n_fds of them, owned by the caller; -1:
                              * it came, but this process could have no more */
} pco_frame;

/* Descriptors that leave with the byte at offset `at` of the queue. */
typedef struct pco_fd_mark {
  size_t at;
  unsigned n;
  int fds[PCO_WIRE_MAX_FDS];
} pco_fd_mark;

typedef struct pco_channel {
  int fd; /* owned; -1 once closed */
  uint8_t *in;
  size_t in_at, in_len, in_cap;
  bool busy; /* a receive filled all there was */
  int in_fds[PCO_CHANNEL_MAX_FDS];
  unsigned n_in_fds;
  bool cut; /* some of the last ones could not be had */
  uint8_t *out;
  size_t out_at, out_len, out_cap;
  pco_fd_mark marks[PCO_CHANNEL_MAX_MARKS]; /* in order */
  unsigned n_marks;
} pco_channel;

void pco_channel_init(pco_channel *c, int fd);
/* Closes the socket and every descriptor that is still held. */
void pco_channel_deinit(pco_channel *c);

/* Receives once.  1: bytes came; 0: end of the stream; -EAGAIN: nothing now;
 * other errors: the stream is broken. */
int pco_channel_receive(pco_channel *c);
/* Gives the next whole frame: 1, 0 if it is not complete, -EPROTO. */
int pco_channel_next(pco_channel *c, pco_frame *f);

/* Queues a finished frame.  Fails with -ENOMEM, or with b's own error. */
int pco_channel_send(pco_channel *c, const pco_wire_buf *b);
/* The same with descriptors, as many as b says, which belong to the channel
 * afterwards, also on failure. */
int pco_channel_send_fds(pco_channel *c, const pco_wire_buf *b, const int *fds,
                         unsigned n);
/* Queues a frame as it was received, with the descriptors that it has now,
 * which belong to the channel afterwards, also on failure. */
int pco_channel_relay(pco_channel *c, const pco_frame *f);
/* Writes what the socket takes.  0: all written; 1: some is left; -EAGAIN: try
 * again later though the socket is writable (too many descriptors in flight);
 * other errors: the stream is broken. */
int pco_channel_flush(pco_channel *c);
/* Bytes that wait to be written. */
static inline size_t pco_channel_queued(const pco_channel *c) {
  return c->out_len - c->out_at;
}

void pco_frame_close_fds(pco_frame *f);
/* True if this process had no room for all its descriptors. */
bool pco_frame_cut(const pco_frame *f);

#endif /* PCO_CHANNEL_H */
