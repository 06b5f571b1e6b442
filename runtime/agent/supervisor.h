/* SPDX-License-Identifier: MIT */
/*
 * A supervisor: the process that owns one command at a time, with everything
 * that the command starts.
 *
 * It is a fork of the agent and speaks the frames of wire.h with it over a
 * socketpair: SPAWN, SIGNAL and KILL go down as the host sent them, STARTED,
 * EXIT, ERROR and REPLY come back as the host is to get them.  These are known
 * only between the two:
 *
 *   PCO_SUP_IDLE   op of the SPAWN: nothing of the command lives any more, so
 *                  that the supervisor can take the next one.  COUNT: the kills
 *                  for want of memory that its own leaf has seen
 *   PCO_SUP_LEAF   before a SPAWN, with the same op: a leaf of a cgroup.  FLAGS
 *                  1: the supervisor's own, which it enters for good; 0: of the
 *                  command.  DATA: the keeper's answer.  Descriptors: those of
 *                  cgroup.procs
 *   PCO_SUP_COUNTERS  the same, with those of the counters
 */
#ifndef PCO_SUPERVISOR_H
#define PCO_SUPERVISOR_H

#include <stdbool.h>

#define PCO_SUP_IDLE     0x7001
#define PCO_SUP_LEAF     0x7002
#define PCO_SUP_COUNTERS 0x7003

/* The most KILL requests that can wait for the end of one tree. */
#define PCO_SUP_MAX_KILLS 48

/* How long the last step of a kill may take before survivors are reported. */
#define PCO_KILL_TIME (5 * PCO_S)

/* Runs as a supervisor: `fd` is its end of the socketpair, `null` a descriptor
 * of /dev/null; own_system as in pco_tree_options.  Never returns.  Everything
 * else that is open is closed. */
_Noreturn void pco_supervisor_main(int fd, int null, bool own_system);

#endif /* PCO_SUPERVISOR_H */
