/* SPDX-License-Identifier: MIT */
/*
 * All processes below the caller, and how to end them.
 *
 * The caller must be a child subreaper (or PID 1): whatever a descendant does
 * (setsid, double fork), it stays below the caller, and once waitpid() says
 * ECHILD the tree is dead.  Only one thread may use this, with SIGCHLD blocked.
 */
#ifndef PCO_TREE_H
#define PCO_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PCO_MAX_SURVIVORS 64 /* as PCO_TAG_SURVIVOR */

typedef struct pco_tree_options {
  /* Children of the caller that are not to be touched, nor what is below them;
   * may be NULL. */
  bool (*skip)(void *arg, pid_t pid);
  /* Told of each child that was reaped; may be NULL. */
  void (*reaped)(void *arg, pid_t pid, int status);
  bool stopped; /* pco_tree_reap tells of children that were stopped, too */
  void *arg;
  /* All that the caller can signal is the sandbox: PID 1 of its namespace is
   * the agent.  Then pco_tree_kill stops everything for some milliseconds, if
   * the tree is large or grows; what is not of the tree goes on afterwards, and
   * so does what somebody had stopped before. */
  bool own_system;
  bool whole_system; /* scan all of /proc even if there are lists of children */
} pco_tree_options;

/* Sends signo, then SIGCONT so that stopped processes see it, to every process
 * of the tree as it is now.  Takes at most half a second. */
void pco_tree_signal(const pco_tree_options *o, int signo);

/* Kills and reaps the tree until `deadline`; 0 if nothing is left, else how
 * many (up to PCO_MAX_SURVIVORS) live on, with their pids in `survivors`.
 * Also returns when only skipped children are left. */
size_t pco_tree_kill(const pco_tree_options *o, int64_t deadline,
                     pid_t survivors[PCO_MAX_SURVIVORS]);

/* Reaps up to `most` children: 1 if there may be more to reap at once, 0 if
 * the rest still runs, -ECHILD if there are none. */
int pco_tree_reap(const pco_tree_options *o, int most);

#endif /* PCO_TREE_H */
