/* SPDX-License-Identifier: MIT */
/*
 * The agent's side of commands: a pool of supervisors (supervisor.h), relaying
 * to and from them, and what to do when one of them dies or falls silent.
 *
 * Invariants: a supervisor is idle, has one command, or is gone; every request
 * that was passed to one is remembered until it is answered, and is answered
 * by the agent if the supervisor cannot.  Processes that lose their supervisor
 * land at the agent (a subreaper), which kills them.
 */
#ifndef PCO_COMMANDS_H
#define PCO_COMMANDS_H

#include "channel.h"
#include "placement.h"
#include "request.h"
#include "source.h"
#include "tree.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct pco_agent;

#define PCO_MAX_IDLE    4  /* supervisors that wait for a command */
#define PCO_MAX_PENDING 48 /* requests at one supervisor, <= its own bound */

typedef struct pco_pending {
  uint64_t op;
  uint16_t type; /* PCO_WIRE_SIGNAL, _KILL or _KILL_ALL */
} pco_pending;

/* A SPAWN whose supervisor waits for leaves. */
typedef struct pco_held {
  pco_frame frame;  /* of bytes, with its descriptors */
  uint32_t refused; /* PCO_KEEPER_LIMIT_* that cannot be had, or 0 */
  int error;        /* why, an errno; or 0 */
  char text[PCO_CGROUP_TEXT];
  uint8_t bytes[];
} pco_held;

typedef struct pco_sup {
  struct pco_sup *next, *prev;
  struct pco_agent *agent;
  pid_t pid;
  int pidfd;
  pco_channel chan;
  pco_source source;
  uint64_t op;     /* of its command; 0: idle */
  int64_t asked;   /* when the command was passed on */
  bool started;    /* STARTED came */
  bool final;      /* EXIT or ERROR came */
  int64_t ends_at; /* by the time limit of its command, or PCO_NEVER */
  bool silent;     /* it had to be killed because it did not answer */
  bool crowded;    /* too many descriptors are in flight to send it any */
  bool overdue;    /* ... and the time limit of its command was over */
  /* Without EXIT or IDLE (of its command), or an answer (to what is pending),
   * by then it is taken for dead. */
  int64_t limit_at, answer_at;
  int64_t run_until; /* limit_at, once the command has started */
  pco_pending pending[PCO_MAX_PENDING];
  size_t n_pending;
  pco_held *held; /* owned; while `placing` answers of the keeper are due */
  unsigned placing;
  int own_leaf; /* or PCO_NO_LEAF */
  uint32_t in;  /* PCO_KEEPER_LIMIT_* that hold in it */
  int command_leaf;
  /* How often the kernel killed there for want of memory: what counts if the
   * supervisor dies.  Owned. */
  pco_counter own_kills, command_kills;
} pco_sup;

/* A KILL_ALL that waits for supervisors. */
typedef struct pco_kill_all {
  uint64_t op; /* 0: this place is free */
  size_t waiting;
  size_t n_survivors;
  uint64_t survivors[PCO_MAX_SURVIVORS];
} pco_kill_all;

#define PCO_MAX_KILL_ALL 4

typedef struct pco_commands {
  pco_sup *live; /* idle and busy ones */
  pco_sup *lost; /* dead ones whose processes are being killed */
  pco_sup *gone; /* to be freed at the end of the turn */
  pco_sup *idle[PCO_MAX_IDLE];
  size_t n_idle;
  int64_t retire_at; /* when those go, if n_idle > 0 */
  size_t n_busy;
  pco_source sigchld;
  int64_t next_silent; /* no supervisor falls silent before */
  int64_t lost_until;  /* when the killing of orphans is given up */
  bool retry_flush;    /* a queue waits for descriptors in flight */
  pco_kill_all kill_all[PCO_MAX_KILL_ALL];
} pco_commands;

int pco_commands_init(struct pco_agent *a);
void pco_commands_deinit(struct pco_agent *a);

/* The requests.  spawn owns the descriptors of f afterwards. */
void pco_commands_spawn(struct pco_agent *a, pco_frame *f,
                        const pco_request *r);
void pco_commands_signal(struct pco_agent *a, const pco_frame *f,
                         const pco_request *r);
void pco_commands_kill(struct pco_agent *a, const pco_frame *f,
                       const pco_request *r);
void pco_commands_kill_all(struct pco_agent *a, uint64_t op);
/* The host is gone: what has not started will not, since nobody would know of
 * it. */
void pco_commands_let_go(struct pco_agent *a);

/* How many commands have a living process. */
size_t pco_commands_count(const pco_commands *c);
/* When pco_commands_tick() has something to do, or PCO_NEVER. */
int64_t pco_commands_next(const pco_commands *c);
/* Once a turn: time limits, orphans, memory of the dead. */
void pco_commands_tick(struct pco_agent *a);

/* True if something of the command may live. */
bool pco_commands_has(struct pco_agent *a, uint64_t op);

/* Kills every process below the agent, supervisors included. */
void pco_commands_end(struct pco_agent *a);

/* ---- for places.c: steps in the life of a supervisor --------------------- */

/* The ERROR of a SPAWN; `limit` is PCO_LIMIT_NONE, or why. */
void pco_commands_refuse(struct pco_agent *a, uint64_t op, int error, int limit,
                         const char *message);
/* It is where it is to be: passes the SPAWN on. */
void pco_commands_start(struct pco_agent *a, pco_sup *s, pco_frame *f,
                        const pco_request *r);
void pco_commands_flush(struct pco_agent *a, pco_sup *s);
/* It has no command any more. */
void pco_commands_idle(struct pco_agent *a, pco_sup *s);

#endif /* PCO_COMMANDS_H */
