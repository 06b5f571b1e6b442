/* SPDX-License-Identifier: MIT */
/*
 * The local backend: commands run as the host's user with the host's files.
 * NOT a security boundary; README.md says what that means.
 *
 *   local.c         the entry, backends, the table of sandboxes
 *   local_create.c  directories, environment, starting the agent
 *   local_end.c     waiting for an agent, killing it, removing what is left
 *
 * A sandbox is an agent process and a private directory.  The plugin starts the
 * agent and hands the host a stream to it; everything inside is the agent's.
 * At the end the plugin sees to it that the agent is dead and the directory
 * gone, with the agent's help or without.
 *
 * Everything of a backend is touched on its loop only.  What instances share is
 * the table of sandboxes, under its lock (common/table.h).
 */
#ifndef PCO_LOCAL_H
#define PCO_LOCAL_H

#include <uv.h>

#include "../common/fail.h"
#include "../common/host.h"
#include "../common/path.h"
#include "../common/table.h"
#include "../common/wait.h"
#include "portico/plugin.h"
#include "portico/plugin_util.h"

typedef struct local_ending local_ending;
typedef struct local_inquest local_inquest;

struct pco_backend {
  const pco_host *host;
  plugin_host services;
  char *tmpdir;
  pco_sandbox *sandboxes; /* by ->next */
  unsigned work;          /* waits and endings that run */
  pco_op *closing;        /* the op of close(), or NULL */
};

struct pco_sandbox {
  plugin_entry entry; /* first; its process is the agent */
  pco_sandbox *next;  /* of the same backend */
  pco_backend *backend;
  char *dir;       /* private: tmp/ and, unless one was given, workspace/ */
  char *workspace; /* in dir, or as given */
  local_ending *ending; /* made with the sandbox: its end cannot lack memory */
  local_inquest *inquest; /* a cause_of_death() that waits, or NULL */
  bool status_known;      /* the agent was reaped by us: */
  int exit_code;          /* or -1 */
  int exit_signal;        /* or 0 */
};

/* ---- local.c ---- */

extern plugin_table local_table;

/* Frees s but not its ending; s is in no list. */
void local_sandbox_free(pco_sandbox *s);
/* To be called when backend->work has become less: a close() that waits may
 * complete, and the backend be gone. */
void local_settle(pco_backend *b);

/* ---- local_create.c ---- */

int local_create(pco_backend *b, const pco_create_opts *o, pco_op *op);

/* ---- local_end.c ---- */

/* Makes an ending, NULL without memory. */
local_ending *local_ending_create(void);
void local_ending_free(local_ending *e);
/* Waits for the agent behind pidfd to end by itself, for 5 s (with `ask`: it is
 * sent a SIGTERM and has 1 s), then kills it; removes dir; completes op (may be
 * NULL; with `ask` it can be cancelled, and the ending goes on) and frees e.
 * Takes e, pidfd and dir. */
void local_end(pco_backend *b, local_ending *e, int pidfd, char *dir, bool ask,
               pco_op *op);
/* Answers a cause_of_death() that waits: s goes. */
void local_end_inquest(pco_sandbox *s);
int local_cause_of_death(pco_sandbox *s, pco_op *op);

#endif /* PCO_LOCAL_H */
