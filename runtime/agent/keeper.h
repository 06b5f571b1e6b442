/* SPDX-License-Identifier: MIT */
/*
 * The keeper: what a launcher plugin (bwrap) and `portico-agent --keep` say to
 * each other.
 *
 * A sandbox made by a launcher is three processes of the host: the keeper, the
 * launcher (bubblewrap) that is its child, and the first process inside.  The
 * keeper prepares a user namespace, a mount namespace and cgroups, starts the
 * launcher in them as the first process of a PID namespace, and stays outside
 * to see that everything ends: when the host's end of the control socket is
 * closed, whoever closed it, it kills the launcher, and the kernel everything
 * below.  So it does not matter which thread made the sandbox, nor whether the
 * agent is willing, nor what the launcher was just doing.  If the keeper itself
 * is killed, the launcher is killed by the kernel (PR_SET_PDEATHSIG: the keeper
 * has one thread).
 *
 * With a door a sandbox outlives its host: another program connects and becomes
 * the host.  An agent that is outside itself (the backend `local`) has the door
 * and is its own keeper; it uses the same messages.
 *
 * Both sides are the host's own programs and trust each other; nothing from
 * inside comes here but the launcher's exit status and its standard error, of
 * which the first and the last bytes are kept.
 *
 * Descriptors of the keeper when it starts: 0-2 /dev/null, 3 the control
 * socket (SOCK_SEQPACKET), 4 a memfd with its words (below), 5 /dev/null, which
 * the keeper may replace, 6 and up whatever the launcher's words speak of.
 * The launcher gets all from 5 on, under the same numbers; the keeper closes
 * its own.
 *
 * The words are a sequence of NUL-terminated strings:
 *
 *   uids one                  map uid and gid 0 to the keeper's own
 *   uids two FIRST COUNT      map 0 (the agent) and 1000 (commands) to two ids
 *                             of that range that no keeper holds now; as root,
 *                             or with newuidmap and a range in /etc/subuid
 *   tmpfs BYTES INODES        the size of the one tmpfs of the sandbox
 *   dir NAME MODE OWNER       make PCO_KEEPER_STAGE/NAME in it; MODE is octal,
 *                             OWNER 0 or 1000 (with one uid both are the same)
 *   bind SOURCE NAME          bind SOURCE, reached with the keeper's own
 *                             rights and through no link, at
 *                             PCO_KEEPER_STAGE/NAME (made as what SOURCE is)
 *   entry DIR ENTRY NAME      the same with the directory or file ENTRY of DIR;
 *                             neither may be, or lead through, a link by now
 *   processes N               each id inside may have N processes at once,
 *                             threads included: a resource limit, which binds
 *                             the agent too; absent: no such limit
 *   cgroup BASE NAME          see cgroup.h; absent: no cgroup
 *   limit WHAT AMOUNT         memory (bytes), pids, cpus (1/1000); needs cgroup
 *   door LISTENER DIR INFO AGENT NAME
 *                             the sandbox may outlive its host (door.h): four
 *                             descriptors, from 6 on, which the keeper keeps
 *                             and the launcher does not get.  AGENT is a
 *                             SOCK_SEQPACKET of which the agent has the other
 *                             end (--door)
 *   ttl MS                    then everything ends, counted from the start of
 *                             the keeper
 *   -- PATH ARG...            the launcher; PATH is argv[0] too
 */
#ifndef PCO_KEEPER_H
#define PCO_KEEPER_H

#include <stdint.h>

#define PCO_KEEPER_CONTROL_FD 3
#define PCO_KEEPER_WORDS_FD   4
#define PCO_KEEPER_AGENT_FD   5 /* with a cgroup: to the agent (cgroup.h) */
#define PCO_KEEPER_FIRST_FD   6 /* the launcher's own from here on */

/* Where the tmpfs is mounted in the mount namespace that the launcher starts
 * in: a directory that exists everywhere.  What the host has there is not seen
 * by the launcher; `bind` takes its sources before. */
#define PCO_KEEPER_STAGE "/dev/shm"

#define PCO_KEEPER_AGENT_ID   0u    /* inside: of the agent */
#define PCO_KEEPER_COMMAND_ID 1000u /* inside: of commands */

/* What failed, in a report of PCO_KEEPER_FAILED. */
enum {
  PCO_KEEPER_STAGE_WORDS,     /* the plugin's mistake; or memory, descriptors */
  PCO_KEEPER_STAGE_CGROUP,    /* error, text: the file */
  PCO_KEEPER_STAGE_NAMESPACE, /* unshare: user namespaces are forbidden */
  PCO_KEEPER_STAGE_IDS,       /* no free ids, or newuidmap; text */
  PCO_KEEPER_STAGE_TMPFS,
  PCO_KEEPER_STAGE_SOURCE, /* text: the source of a bind */
  PCO_KEEPER_STAGE_EXEC    /* the launcher's program */
};

/* keeper to host */
enum {
  /* Once, first, unless it failed before: cgroups are made and the launcher
   * was executed.  `limits`, `uid`, `gid` and `pid` (of the launcher) are set,
   * and `text` to why a limit that was asked for is not among them. */
  PCO_KEEPER_STARTED = 1,
  /* Once, last: nothing was left behind.  `stage`, `error`, `text`. */
  PCO_KEEPER_FAILED,
  /* Once, last: everything has ended.  `exit_code` or `signal` of the launcher
   * (which passes on that of the first process inside, 128 + n for a signal),
   * `asked`, `error` (0, or why a cgroup could not be removed), `text` (begin
   * and end of the launcher's standard error). */
  PCO_KEEPER_ENDED,
  /* To an ATTACH: this connection is the control socket from now on, and has
   * one descriptor with this message: the stream to the agent.  The fields of
   * STARTED are set. */
  PCO_KEEPER_ATTACHED,
  /* To an ATTACH; then the connection is closed.  `error`: EBUSY, some host is
   * attached; ESHUTDOWN, it is ending; or why no stream could be made. */
  PCO_KEEPER_REFUSED,
  /* To a DETACH. */
  PCO_KEEPER_DETACHED
};

/* Host to keeper.  The end of the control socket means END with no grace,
 * unless there was a DETACH before: then the sandbox lives on without a host.
 * By the door, that is on a connection that is not the control socket, only END
 * and ATTACH may come.  Who asked for END may wait for ENDED and the end of its
 * connection: then all is over. */
enum {
  PCO_KEEPER_END = 1, /* `grace_ms` for it to end by itself, then kill it */
  PCO_KEEPER_ATTACH,  /* by the door: to become the host */
  PCO_KEEPER_DETACH   /* on the control socket, of a keeper with a door */
};

/* Who ended it: `asked` of ENDED. */
enum {
  PCO_KEEPER_BY_ITSELF,
  PCO_KEEPER_BY_HOST, /* its host asked, or closed its end */
  PCO_KEEPER_BY_DOOR, /* somebody else asked */
  PCO_KEEPER_BY_TTL
};

/* The exit status of `portico-agent --probe`: it did run inside, which 0 would
 * not tell of a launcher that only says so. */
#define PCO_KEEPER_PROBED 42

#define PCO_KEEPER_LIMIT_MEMORY (1u << 0)
#define PCO_KEEPER_LIMIT_PIDS   (1u << 1)
#define PCO_KEEPER_LIMIT_CPUS   (1u << 2)

typedef struct pco_keeper_report {
  uint32_t type;
  uint32_t stage;    /* FAILED */
  int32_t error;     /* a positive errno, or 0 */
  int32_t exit_code; /* ENDED: -1 if a signal ended it */
  int32_t signal;
  uint32_t asked;  /* ENDED: PCO_KEEPER_BY_* */
  uint32_t limits; /* STARTED: PCO_KEEPER_LIMIT_* that a cgroup enforces */
  uint32_t uid;    /* STARTED: on the host, of commands; gid as well */
  uint32_t gid;
  int32_t pid;    /* STARTED: on the host, of the launcher */
  char text[512]; /* NUL-terminated */
} pco_keeper_report;

typedef struct pco_keeper_order {
  uint32_t type;
  uint32_t grace_ms;
} pco_keeper_order;

/* Runs a keeper to its end; returns the exit status of the program. */
int pco_keeper_main(void);

#endif /* PCO_KEEPER_H */
