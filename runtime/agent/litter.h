/* SPDX-License-Identifier: MIT */
/*
 * What a worker that is killed leaves behind, and removing it.
 *
 * A worker notes the temporary name that it is about to make, in memory that it
 * shares with the agent; one at a time, since it has one request at a time.
 * When it was killed, and only then, a process of its own removes what has that
 * name: the agent itself must not touch a file system that may hang.  The names
 * are random, so a note that is no longer true names nothing.
 */
#ifndef PCO_LITTER_H
#define PCO_LITTER_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct pco_agent;

typedef struct pco_litter {
  _Atomic bool there;
  char path[PATH_MAX + NAME_MAX + 2];
} pco_litter;

/* One that a worker left who is dead or dies now; in a list of the agent's. */
typedef struct pco_left {
  struct pco_left *next;
  pid_t pid;          /* of who left it; or of who removes it, then */
  pco_litter *litter; /* that is NULL */
} pco_left;

/* Shared with what is forked from now on; NULL: no memory, and nothing is
 * noted. */
pco_litter *pco_litter_new(void);
void pco_litter_free(pco_litter *l);
/* Makes a random name for what is in `dir` only for the time being, and notes
 * it.  l may be NULL: then nothing is noted.  0 or a negative errno. */
int pco_litter_name(pco_litter *l, int dir, char name[NAME_MAX + 1]);
void pco_litter_clear(pco_litter *l);

/* Waits for the end of that worker, and takes its litter. */
void pco_litter_expect(struct pco_agent *a, pid_t pid, pco_litter *l);
/* It has ended, or somebody who removed: what it left is removed. */
void pco_litter_reaped(struct pco_agent *a, pid_t pid);
/* Whether a child is one that removes, or whose end is waited for. */
bool pco_litter_has(const struct pco_agent *a, pid_t pid);
void pco_litter_forget(struct pco_agent *a);
/* Removes `name` in the directory `dir`, with all that is in it. */
void pco_litter_remove(int dir, const char *name);

#endif /* PCO_LITTER_H */
