/* SPDX-License-Identifier: MIT */
/*
 * Moving a tree: one process packs it into a tar, another one unpacks that.
 *
 * The same code runs on both sides, in workers: in the agent of the sandbox,
 * and in one that the host starts for itself (fs_transfer.c).  Neither side
 * trusts the other.  Both hold directories by descriptors and open names
 * relative to them, without following links, so that what others rename or
 * link meanwhile cannot lead out of the tree.
 *
 * The tar's first entry is the tree itself, called PCO_TRANSFER_ROOT; what is
 * in it follows, each directory before what it holds and names in the order of
 * their bytes.
 */
#ifndef PCO_TRANSFER_H
#define PCO_TRANSFER_H

#include "path.h"
#include "tar.h"
#include "transfer_words.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#define PCO_TRANSFER_ROOT "root"

typedef struct pco_transfer pco_transfer;

struct pco_transfer {
  const pco_transfer_words *words; /* borrowed */
  /* The owner's. */
  pco_tar_wait wait;
  /* Something could not be done and is left out: 0 to go on, or a negative
   * errno.  NULL why: the errno's text says it. */
  int (*skipped)(pco_transfer *t, const char *path, int error, const char *why);
  /* Called now and then with how far it is; or NULL. */
  void (*progress)(pco_transfer *t, const char *path);
  /* What was done. */
  uint64_t files, directories, bytes;
  bool empty; /* unpacked: nothing came, as nothing is changed */
  /* How it failed: the path below the tree ("" is the tree itself), and a
   * sentence, or "". */
  char path[PCO_TAR_MAX_PATH];
  char why[160];
  char tried[160]; /* of pco_transfer_tried() */
};

/* Notes what failed, for a return; why may be NULL. */
int pco_transfer_fail(pco_transfer *t, int rc, const char *why);
/* "making the file: no space left on device", valid until the next. */
const char *pco_transfer_tried(pco_transfer *t, int rc, const char *step);
/* An entry, that at t->path, failed: 0 if it may be left out, else rc. */
int pco_transfer_skip(pco_transfer *t, int rc, const char *why);
/* Puts a name behind the first `len` bytes of t->path, and a slash between: the
 * new length, or -ENAMETOOLONG. */
int pco_transfer_enter(pco_transfer *t, size_t len, const char *name);
/* Whether a link at t->path leads to within the tree, whatever else is in it:
 * first up, not further than the tree's top, then only down. */
bool pco_transfer_leads_inside(const pco_transfer *t, const char *text);

/* ---- packing (transfer_pack.c) ------------------------------------------ */

typedef struct pco_pack {
  int dir; /* that holds the tree; borrowed */
  const char *name;
  bool splice;       /* pages of files may go over without being copied */
  bool listing;      /* writes what there is, without content, for `known` */
  pco_tar_out *out;  /* NULL: counts */
  pco_tar_in *known; /* what the other side has; or NULL.  What is as there is
                        left out */
  /* Says that a directory may not be entered; or NULL. */
  bool (*forbidden)(int dir, const char *name);
} pco_pack;

/* Packs.  0, or a negative errno with t->path and t->why. */
int pco_transfer_pack(pco_transfer *t, const pco_pack *p);

/* ---- unpacking (transfer_unpack.c) -------------------------------------- */

typedef struct pco_unpack_tree {
  int stage;     /* an empty directory of our own; borrowed */
  int in;        /* borrowed */
  bool want_dir; /* the target is a directory: only one can become it */
  bool want_file;
  mode_t mask; /* permission bits that nothing gets */
} pco_unpack_tree;

/* Unpacks into stage/root.  As above. */
int pco_transfer_unpack(pco_transfer *t, const pco_unpack_tree *u);

/* Gives stage/root its name in `dir`, which nothing has; with `replace` it may
 * be a file's.  0 or a negative errno. */
int pco_transfer_place(int stage, int dir, const char *name, bool replace);
/* Moves what is in stage/root into the directory `target`: directories that are
 * there get it entry by entry, files are replaced. */
int pco_transfer_merge(pco_transfer *t, int stage, int target);

#endif /* PCO_TRANSFER_H */
