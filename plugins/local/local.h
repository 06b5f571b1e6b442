/* SPDX-License-Identifier: MIT */
/*
 * The local backend: commands run as the host's user with the host's files.
 * NOT a security boundary; README.md says what that means.
 *
 *   local.c         the entry, backends, the table of sandboxes
 *   local_create.c  directories, environment, starting the agent
 *   local_door.c    sandboxes that may be detached: their first visit, attach
 *                   and detach
 *   local_end.c     waiting for an agent, killing it, removing what is left
 *   local_far.c     the same for sandboxes of other programs
 *
 * A sandbox is an agent process and a private directory.  The plugin starts the
 * agent and hands the host a stream to it; everything inside is the agent's.
 * At the end the plugin sees to it that the agent is dead and the directory
 * gone, with the agent's help or without.  One that may be detached has a door
 * (common/door.h), which its agent keeps; the plugin that makes it is the first
 * to come in by it.
 *
 * Everything of a backend is touched on its loop only.  What instances share is
 * the table of sandboxes, under its lock (common/table.h).
 */
#ifndef PCO_LOCAL_H
#define PCO_LOCAL_H

#include <uv.h>

#include "../common/children.h"
#include "../common/door.h"
#include "../common/fail.h"
#include "../common/host.h"
#include "../common/path.h"
#include "../common/table.h"
#include "../common/visit.h"
#include "../common/wait.h"
#include "portico/plugin.h"
#include "portico/plugin_util.h"

typedef struct local_ending local_ending;
typedef struct local_inquest local_inquest;
typedef struct local_visit local_visit;
typedef struct local_reaping local_reaping;

struct pco_backend {
  const pco_host *host;
  plugin_host services;
  char *tmpdir;
  char *state; /* where detachable ones are written down; NULL: default */
  pco_sandbox *sandboxes; /* by ->next */
  local_visit *visits;    /* that are under way */
  unsigned work;          /* waits and endings that run */
  pco_op *closing;        /* the op of close(), or NULL */
};

struct pco_sandbox {
  plugin_entry entry; /* first; its process is the agent */
  pco_sandbox *next;  /* of the same backend */
  pco_backend *backend;
  char *dir;         /* private: tmp/ and, unless one was given, workspace/ */
  char *cwd;         /* where commands start */
  bool foreign;      /* its commands are of another user than this program */
  plugin_door *door; /* owned; NULL: it ends with this program */
  int control;       /* to its agent, with a door; or -1.  Set under the lock */
  local_visit *leaving; /* a detach(), which has control meanwhile; or NULL */
  local_ending *ending; /* made with the sandbox: its end cannot lack memory */
  local_inquest *inquest; /* a cause_of_death() that waits, or NULL */
  bool status_known;      /* the agent was reaped by us: */
  int exit_code;          /* or -1 */
  int exit_signal;        /* or 0 */
};

/* ---- local.c ---- */

#define LOCAL_ID "local"

extern plugin_table local_table;

/* Frees s but not its ending; s is in no list. */
void local_sandbox_free(pco_sandbox *s);
/* To be called when backend->work has become less: a close() that waits may
 * complete, and the backend be gone. */
void local_settle(pco_backend *b);

/* Whether the agent, which has our rights, can make a command another user. */
bool local_may_change_user(void);

/* ---- local_create.c ---- */

int local_create(pco_backend *b, const pco_create_opts *o, pco_op *op);

/* ---- local_door.c ---- */

/* Puts a sandbox among the backend's own, and hands it to the host. */
void local_hand_over(pco_sandbox *s, int stream, pco_op *op);
/* Comes in by the door of a sandbox whose agent was just started, and then
 * completes op. */
int local_first_visit(pco_sandbox *s, pco_op *op);
int local_attach(pco_backend *b, const char *id, pco_op *op);
int local_detach(pco_sandbox *s, pco_op *op);
/* Ends all visits. */
void local_cancel_visits(pco_backend *b);
/* Orders the end, by its door.  Needs the lock of the table, or the sandbox is
 * not in it any more. */
void local_order_end(const pco_sandbox *s);
/* The same, and gives control up: s goes. */
void local_door_end(pco_sandbox *s);

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
/* The same for a sandbox with a door, which is removed last; it is taken. */
void local_ending_set_door(local_ending *e, plugin_door *door);
/* Fails op with err at the end, whatever comes of it.  err is copied. */
void local_ending_fail(local_ending *e, const pco_error *err);
/* Tells of the end, whatever comes of it. */
void local_ending_tell(local_ending *e, local_reaping *r);
/* Removes the directory of a sandbox whose agent has ended; otherwise as
 * local_end(). */
void local_remove(pco_backend *b, local_ending *e, char *dir, pco_op *op);
/* Whether nothing has that name. */
bool local_is_gone(const char *dir);
/* Answers a cause_of_death() that waits: s goes. */
void local_end_inquest(pco_sandbox *s);
int local_cause_of_death(pco_sandbox *s, pco_op *op);

/* ---- local_far.c ---- */

/* As destroy_id() of the ABI, for one that is none of this process's. */
int local_end_elsewhere(pco_backend *b, const char *id, pco_op *op);
int local_reap(pco_backend *b, pco_op *op);
/* An ending that tells of its end has ended. */
void local_reaped(local_reaping *r, bool removed);

#endif /* PCO_LOCAL_H */
