/* SPDX-License-Identifier: MIT */
/*
 * What /proc says about processes, and signals that cannot hit another one.
 *
 * A process is named by its pid together with its start time: a number that
 * was reused meanwhile does not match.  Invariant: nothing here signals a
 * process group, pid 0, pid -1, pid 1 or the caller.
 */
#ifndef PCO_PROCFS_H
#define PCO_PROCFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct pco_proc {
  pid_t pid;
  pid_t parent;
  char state; /* 'R', 'S', 'Z' ... */
  uint32_t threads;
  uint64_t start; /* ticks since boot */
} pco_proc;

/* Opens /proc once, before anything hostile runs: 0, or a negative errno if it
 * is missing or shows another PID namespace. */
int pco_procfs_open(void);
/* The descriptor that is held for all of this; a fork must keep it open. */
int pco_procfs_fd(void);

/* 0, or -ESRCH (or another errno) with *out zeroed. */
int pco_procfs_stat(pid_t pid, pco_proc *out);

typedef void pco_pid_fn(void *arg, pid_t pid);

/* Calls fn for each child of any thread of the process: 0, -ESRCH, or -ENOSYS
 * if this kernel does not list children. */
int pco_procfs_children(const pco_proc *p, pco_pid_fn *fn, void *arg);
/* Calls fn for every process. */
int pco_procfs_all(pco_pid_fn *fn, void *arg);

/* Signals the process if it still is the one that p names: 0 or a negative
 * errno. */
int pco_procfs_signal(const pco_proc *p, int signo);

#endif /* PCO_PROCFS_H */
