/* SPDX-License-Identifier: MIT */
/*
 * The door of a sandbox that may outlive its host: a socket in a directory of
 * the user's, by which other programs end the sandbox or become its host.
 *
 * Used by the keeper, and by an agent that has none (the backend `local`).  The
 * plugin made the directory and the listening socket in it (SOCK_SEQPACKET,
 * DIR/NAME.sock) and DIR/NAME.info, whose descriptor holds a lock (an open file
 * description lock of its byte 0): as long as that is held the sandbox lives.
 * Messages are pco_keeper_order and pco_keeper_report (keeper.h).
 *
 * Who connects is asked for its user (SO_PEERCRED): another one than this
 * process's, and not root, is turned away at once.  A visitor has
 * PCO_DOOR_PATIENCE to give its order; PCO_DOOR_VISITORS are let in at a time,
 * the next ones wait in the socket's queue.  What is not an order ends the
 * visit.
 *
 * Nothing blocks, and nothing but `epoll` has to be watched: it is readable
 * when pco_door_next() has something to do.
 */
#ifndef PCO_DOOR_H
#define PCO_DOOR_H

#include "keeper.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PCO_DOOR_VISITORS 8
#define PCO_DOOR_PATIENCE 5000 /* ms */

typedef struct pco_visitor {
  int fd;        /* owned; -1: this place is free */
  bool waits;    /* it asked for the end, and waits for it */
  int64_t until; /* when it is sent away, if not */
} pco_visitor;

typedef struct pco_door {
  int epoll; /* owned, as all of these; -1: there is no door */
  int listener;
  int timer; /* of visitors; and of the ttl: ttl_timer */
  int ttl_timer;
  int dir;
  int info;
  uid_t uid;        /* whose it is, whoever the process is later */
  char name[256];   /* of the files, without .sock and .info */
  bool full;        /* the listener is not watched */
  int64_t retry_at; /* there was no descriptor for a visitor; or PCO_NEVER */
  pco_visitor visitors[PCO_DOOR_VISITORS];
} pco_door;

/* What somebody wants. */
typedef enum pco_door_wish {
  PCO_DOOR_NOTHING, /* for now */
  PCO_DOOR_ATTACH,  /* the connection is the caller's, who has to answer */
  PCO_DOOR_END,     /* its visitor waits for pco_door_close() */
  PCO_DOOR_EXPIRED  /* the ttl is over */
} pco_door_wish;

/* Takes the descriptors, also on failure: 0 or a negative errno.  ttl_ms 0:
 * none.  `d` needs no initialization. */
int pco_door_init(pco_door *d, int listener, int dir, int info,
                  const char *name, uint64_t ttl_ms);
/* One that does not exist: what is done to it does nothing. */
void pco_door_init_none(pco_door *d);
/* The next wish: to be called until there is none.  *fd is the connection of
 * ATTACH, *grace_ms that of END. */
pco_door_wish pco_door_next(pco_door *d, int *fd, uint32_t *grace_ms);
/* All is over: removes both files, tells who waits, and closes everything. */
void pco_door_close(pco_door *d, const pco_keeper_report *ended);

/* Sends a report over a connection, with a descriptor (or -1), which stays the
 * caller's.  0 or a negative errno. */
int pco_door_report(int fd, const pco_keeper_report *r, int with);
/* The same, as the last words: closes the connection. */
void pco_door_last_report(int fd, const pco_keeper_report *r);
/* REFUSED; closes the connection. */
void pco_door_refuse(int fd, int error);

#endif /* PCO_DOOR_H */
