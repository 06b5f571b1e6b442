/* SPDX-License-Identifier: MIT */
/*
 * The agent: what its parts share.
 *
 * One process, one thread, one epoll.  The parts are the host's channel
 * (agent.c), requests (dispatch.c), commands and their supervisors
 * (commands.c), relayed streams (relay.c), and file work, which goes to workers
 * (workers.c).  With a door hosts come and go (entrance.c, hosts.c), and what
 * commands did meanwhile is on record (records.c).  Nothing in a turn of the
 * loop waits for anyone; what takes long is done in steps.
 *
 * Backpressure: while more than PCO_OUT_HIGH bytes wait for the host, nothing
 * is read from the host or the supervisors, and jobs and relayed output pause
 * at PCO_OUT_LOW; so the queue is bounded by the former and one frame.
 */
#ifndef PCO_AGENT_H
#define PCO_AGENT_H

#include "channel.h"
#include "commands.h"
#include "entrance.h"
#include "hosts.h"
#include "job.h"
#include "launch.h"
#include "leaves.h"
#include "litter.h"
#include "path.h"
#include "records.h"
#include "relay.h"
#include "source.h"
#include "workers.h"

#include <stdbool.h>
#include <stdint.h>

#define PCO_OUT_LOW  (256u * 1024)
#define PCO_OUT_HIGH (1024u * 1024)

typedef struct pco_agent {
  int epoll;
  int null; /* /dev/null */
  pco_channel host;
  pco_source host_source;
  pco_wire_buf buf; /* for the frame that is being written */
  uint64_t last_op; /* the highest request so far */
  pco_hosts hosts;
  bool ending; /* the stream ended or SHUTDOWN was answered */
  int status;  /* exit status then: 0, or 3 for a protocol error */
  pco_commands commands;
  pco_workers workers;
  pco_relays relays;
  pco_records records;
  pco_jobs jobs;   /* of a worker; here, only if there can be none */
  bool own_system; /* it is the first process of its PID namespace */
  bool is_worker;
  bool confines;         /* what it unpacks: it works for the host itself */
  pco_left *left;        /* what workers left that were killed */
  pco_litter *litter;    /* of a worker: what it makes; or NULL */
  struct pco_open *open; /* what a worker keeps open (fs_open.c); or NULL */
  struct pco_seen *seen; /* the same of a watch (fs_watch.c) */
  /* Last what is large, mostly not touched: each page costs every sandbox. */
  pco_entrance entrance;
  pco_paths paths;
  pco_leaves leaves;
} pco_agent;

/* What main() found out; borrowed. */
typedef struct pco_agent_options {
  int fd; /* -1: hosts come by the entrance only */
  pco_entrance_options entrance;
  const char *root;   /* "/" if not given */
  const char *alias;  /* or NULL */
  const char *user;   /* of commands, "UID:GID"; or NULL */
  const char *groups; /* of that user, "all" or "one"; or NULL */
  int keeper;         /* a socket to it, for cgroups; or -1 */
  pco_rlimits limits; /* of every command, where no cgroup has them */
  bool may_emulate;   /* limits of one command, those in `emulated` only */
  uint32_t emulated;  /* PCO_KEEPER_LIMIT_* */
  bool confine;       /* unpack in a process that can do nothing else */
} pco_agent_options;

/* `a` is zeroed, and so large that to zero it again would cost every sandbox
 * its pages.  Returns 0 or a negative errno, with *what naming the step that
 * failed. */
int pco_agent_init(pco_agent *a, const pco_agent_options *o, const char **what);
/* Runs until the stream ends, then kills every process below this one.  The
 * exit status. */
int pco_agent_run(pco_agent *a);
/* Closes the stream; the host may see it as the sign that all is gone. */
void pco_agent_deinit(pco_agent *a);

/* The host broke the protocol: it is let go, or the agent ends. */
void pco_agent_protocol_error(pco_agent *a);
/* The next host's stream, owned from now on: 0 or a negative errno. */
int pco_agent_take_host(pco_agent *a, int fd);

/* Handles one checked frame of the host (dispatch.c). */
void pco_dispatch(pco_agent *a, pco_frame *f);
/* Does what was asked in this process. */
void pco_dispatch_here(pco_agent *a, pco_frame *f, const pco_request *r);

/* ---- answers (answer.c) ------------------------------------------------- */

/* Queues the frame in a->buf, if the host is still to hear it. */
void pco_answer(pco_agent *a);
/* The same for one that another process of the agent wrote. */
void pco_answer_relay(pco_agent *a, const pco_frame *f);
void pco_answer_empty(pco_agent *a, uint64_t op);
/* `error` is a positive errno; path and message may be NULL. */
void pco_answer_error(pco_agent *a, uint64_t op, int error, const char *path,
                      const char *message);

#endif /* PCO_AGENT_H */
