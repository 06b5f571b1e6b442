/* SPDX-License-Identifier: MIT */
/*
 * The plugin's side of a keeper (runtime/agent/keeper.h): starting one, hearing
 * what it reports, and its end, which cannot fail to come.
 *
 * All on the backend's loop.  A keeper lives in its owner, who keeps it until
 * bwrap_keeper_end() has called back.
 */
#ifndef BWRAP_KEEPER_H
#define BWRAP_KEEPER_H

#include <uv.h>

#include "../../runtime/agent/keeper.h"
#include "../common/wait.h"
#include "portico/plugin.h"

typedef struct bwrap_keeper bwrap_keeper;

struct bwrap_keeper {
  struct pco_backend *backend;
  const char *program; /* the launcher; the backend's or static */
  int pidfd;
  int control;
  uv_poll_t *poll; /* on control; owned */
  plugin_wait wait;
  bool started; /* STARTED came: */
  pco_keeper_report start;
  bool let_go;            /* DETACHED came: it lives on without this host */
  bool over;              /* no report comes any more: */
  pco_keeper_report last; /* FAILED or ENDED; type 0: it was killed */
  char cgroup[96];        /* its name; "": there is none */
  bool killing;
  bool removing; /* the cgroup, which it could not */
  bool hangs;    /* it does not die */
  void (*on_report)(bwrap_keeper *k);
  void (*on_ended)(bwrap_keeper *k);
};

/* Starts one; `fds` are for the launcher, from PCO_KEEPER_FIRST_FD on, and stay
 * the caller's, as `words` does.  on_report is called after STARTED and when it
 * is over.  0, or a negative code, *err, and nothing to end. */
int bwrap_keeper_start(bwrap_keeper *k, struct pco_backend *b, int words,
                       const int32_t *fds, size_t n_fds,
                       void (*on_report)(bwrap_keeper *k), pco_error *err);
/* Takes over one that has answered an ATTACH: `control` is the connection, and
 * `start` its report; both descriptors are the keeper's, also on failure.  0,
 * or a negative code and *err. */
int bwrap_keeper_adopt(bwrap_keeper *k, struct pco_backend *b, int pidfd,
                       int control, const pco_keeper_report *start,
                       void (*on_report)(bwrap_keeper *k), pco_error *err);
/* Lets one go that has said DETACHED.  on_ended is called once, when it is not
 * listened to any more. */
void bwrap_keeper_leave(bwrap_keeper *k, void (*on_ended)(bwrap_keeper *k));
/* Ends it: what runs inside has grace_ms to end by itself.  on_report is not
 * called any more; on_ended once, when nothing is left, or k->hangs.  A second
 * call only makes the grace shorter; its on_ended is not called. */
void bwrap_keeper_end(bwrap_keeper *k, uint32_t grace_ms,
                      void (*on_ended)(bwrap_keeper *k));
/* Asks to be let go.  0, or a negative code. */
int bwrap_keeper_ask_to_leave(const bwrap_keeper *k);
/* Orders the end through a descriptor of the control socket.  [any] */
void bwrap_keeper_order_end(int control, uint32_t grace_ms);

#endif /* BWRAP_KEEPER_H */
