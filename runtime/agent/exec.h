/* SPDX-License-Identifier: MIT */
/*
 * Starting a program: a vfork-like clone, what must happen before the exec,
 * the search in PATH, and an exact account of what failed.
 *
 * Invariants: the caller is single-threaded, has every signal blocked and no
 * handler; the child shares its memory until the exec, so the account is
 * written where the caller reads it, and no exit code is ever used for it.
 */
#ifndef PCO_EXEC_H
#define PCO_EXEC_H

#include "users.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct pco_exec {
  /* in; borrowed */
  char *const *argv;
  char *const *env;
  const char *cwd;      /* NULL: that of the caller */
  const pco_user *user; /* NULL: that of the caller */
  bool other_user;      /* to have nothing that is the agent's */
  int stdio[3];         /* descriptors above 2, to become 0, 1, 2 */
  bool terminal;        /* they are one: the controlling one of the session */
  const int *procs;     /* of cgroup.procs: where the child moves to */
  unsigned n_procs;
  bool first_victim; /* the kernel is to kill it before its supervisor */
  uint64_t max_memory, max_pids, max_files; /* resource limits; 0: none */
  /* out, if it failed */
  int error;                 /* errno */
  int stage;                 /* PCO_STAGE_* */
  char path[PATH_MAX + 256]; /* the program that was tried last, the cwd ... */
  char message[512];         /* "" if it adds nothing to the errno */
} pco_exec;

/* Prepares the stack of the children; once a process.  0 or -ENOMEM. */
int pco_exec_init(void);
/* The pid of the running program, or a negative errno with x->stage. */
pid_t pco_exec_start(pco_exec *x);

#endif /* PCO_EXEC_H */
