/* SPDX-License-Identifier: MIT */
/*
 * One output stream of a process: a pipe that this host reads (agent), one that
 * the agent relays (stream_relay.h) or a sink that a plugin pushes into.  It
 * brings bytes only while it flows.
 */
#ifndef PCO_STREAM_H
#define PCO_STREAM_H

#include "loop.h"
#include "portico/plugin.h"
#include "watch.h"

struct pco__process;
struct pco__relay;

typedef struct pco__stream {
  struct pco__process *process; /* borrowed */
  uint8_t index;                /* PCO__STDOUT or PCO__STDERR */
  bool open;                    /* bytes may still come */
  bool flowing;
  bool held;      /* it did not end, but was given up */
  int lost;       /* why it could not be read to its end, an error; or 0 */
  uint64_t bytes; /* all that came */
  int fd;         /* -1: not a pipe */
  pco__watch watch;
  pco_sink *sink;           /* not a sink: NULL */
  struct pco__relay *relay; /* NULL: it is not relayed, or that is over */
  bool given_up;            /* give_up was called: its end is on its way */
  void (*flow)(struct pco__stream *s, bool on); /* NULL: a pipe's */
  void (*give_up)(struct pco__stream *s);       /* the same */
} pco__stream;

void pco__stream_init(pco__stream *s, struct pco__process *p, uint8_t index);
/* Makes it read a pipe's end, which does not block and which it owns from now
 * on. */
void pco__stream_open_fd(pco__stream *s, int fd);
/* Takes the pipe's end away; the stream stays open.  -1: it has none. */
int pco__stream_take_fd(pco__stream *s);
/* Lets bytes come, or not. */
void pco__stream_flow(pco__stream *s, bool on);
/* Takes what lies in the pipe right now, at most what was there at entry. */
void pco__stream_pump(pco__stream *s);
/* Ends it though somebody holds it, after what lies there now. */
void pco__stream_give_up(pco__stream *s);
/* Ends it and gives its pipe's end, which the caller owns then; -1: it has
 * none. */
int pco__stream_take(pco__stream *s);
/* Ends it: by its own end, or (held) because somebody holds it. */
void pco__stream_close(pco__stream *s, bool held);
/* Ends it before its end because of an error: what is missing is told. */
void pco__stream_lose(pco__stream *s, int error);

#endif /* PCO_STREAM_H */
