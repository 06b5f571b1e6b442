/* SPDX-License-Identifier: MIT */
/*
 * walk: a tree, directory by directory.
 *
 * Each directory is one list, asked for when the caller comes to it, so a walk
 * that is left early has cost little and one that is not taken further holds
 * nothing open inside.  Links are told of and never entered.  What is held are
 * the entries not given yet of the directories above, which is bounded.
 *
 * Everything here is for the caller's thread.
 */
#ifndef PCO_FS_WALK_H
#define PCO_FS_WALK_H

#include "fs_ops.h"

typedef struct pco__walk {
  struct pco__walk_level *top;
  char *next;       /* the directory that is to be listed now; or NULL */
  uint64_t depth;   /* levels at most */
  uint64_t n;       /* levels now */
  size_t bytes;     /* of all entries */
  uint32_t flags;   /* for the first directory */
  bool skips;       /* directories that may not be read */
  pco__op *listing; /* a script's: a reference to what its last caller waits
                       for, or NULL */
} pco__walk;

/* Makes a walk through `path`, with depth, flags and skips of `options`; NULL
 * without memory. */
pco__walk *pco__walk_new(const pco__walk *options, const char *path);
void pco__walk_free(pco__walk *w);
/* Fills in a zeroed op that lists w->next, which is NULL then. */
void pco__walk_aim(pco__walk *w, pco__fs_op *o);
/* Takes what such an op has found: 0; or a code, with *err. */
int pco__walk_take(pco__walk *w, pco__fs_op *o, pco__error **err);
/* The entry that comes next, or NULL at the end; *path is its path, the walk's
 * until pco__walk_forward().  NULL, too, without memory: *path is not. */
const pco__entry *pco__walk_look(pco__walk *w, const char **path);
/* Goes behind that entry.  If w->next is set then, its content comes next. */
void pco__walk_forward(pco__walk *w);

#endif /* PCO_FS_WALK_H */
