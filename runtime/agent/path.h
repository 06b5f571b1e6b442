/* SPDX-License-Identifier: MIT */
/*
 * Paths, confined to the sandbox's root.
 *
 * A walk goes component by component from a held descriptor, never following a
 * link except by reading its text and walking that, and goes up ("..") only by
 * a stack of the descriptors it came down by.  So whatever is renamed or linked
 * meanwhile, it never reaches a directory that is not below the root, and what
 * it finds is a descriptor, not a name that must be looked up again.
 */
#ifndef PCO_PATH_H
#define PCO_PATH_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#define PCO_PATH_DEPTH 256
/* Bytes of a path with its NUL: more than the kernel takes at once, since it
 * never gets more than a component. */
#define PCO_PATH_TEXT (64 * 1024)

/* The root, the directory that relative paths start from, and the directories
 * between; open as long as the agent lives. */
typedef struct pco_paths {
  const char *root;  /* as given: absolute */
  const char *alias; /* another spelling, or NULL */
  bool whole;        /* the root is "/" */
  pid_t agent;       /* who made this; a worker has it from there */
  int n_base; /* base[0] is the root, the last one the working directory */
  int base[PCO_PATH_DEPTH];
  char real[PATH_MAX]; /* as the kernel spells it */
} pco_paths;

/* Opens the root and the way to the working directory, which must lie below:
 * 0 or a negative errno.  root and alias are borrowed. */
int pco_paths_init(pco_paths *p, const char *root, const char *alias);
void pco_paths_deinit(pco_paths *p);

#define PCO_WALK_NOFOLLOW 1 /* a link as last component is what is found */
#define PCO_WALK_PARENTS  2 /* makes directories that are missing on the way */

/* Whether a name in a directory is that of the agent's own directory in a
 * procfs, or of this worker's. */
bool pco_path_is_own_proc(const pco_paths *p, int dir, const char *name);

/* What a walk found. */
typedef struct pco_place {
  const pco_paths *paths;
  int stack[PCO_PATH_DEPTH]; /* the last one holds `name` */
  int n_stack;
  char name[NAME_MAX + 1]; /* "" if it is that directory itself */
  bool must_be_directory;  /* the path ended with '/' */
  int fd;         /* O_PATH of what has the name, -1 if nothing has; owned */
  struct stat st; /* of fd; zeroed if there is none */
} pco_place;

/* Walks.  0, also if only the last component is missing; -EXDEV if the path
 * leaves the root; else a negative errno.  On success the caller calls
 * pco_place_deinit(). */
int pco_walk(const pco_paths *p, const char *path, int flags, pco_place *out);
void pco_place_deinit(pco_place *p);

/* The directory that holds the name; borrowed from the place. */
static inline int pco_place_dir(const pco_place *p) {
  return p->stack[p->n_stack - 1];
}

/* Opens what the walk found, by its name in its directory, with O_NOFOLLOW,
 * O_NONBLOCK, O_NOCTTY and O_CLOEXEC added.  The descriptor, or a negative
 * errno: -ELOOP if a link was found (and was not to be followed), -ESTALE if
 * the name became one since: walk again, up to PCO_WALK_RETRIES times. */
int pco_place_open(const pco_place *p, int flags, mode_t mode);
#define PCO_WALK_RETRIES 16

#endif /* PCO_PATH_H */
