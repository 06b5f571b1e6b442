/* SPDX-License-Identifier: MIT */
/*
 * What an image is: a root directory, of which a sandbox sees every entry, or a
 * tar of one (image_tar.h).
 *
 * The contents are a stranger's.  A link in an image means what it means inside
 * of it: a link at its top is made again in the sandbox, everything below is
 * looked up by programs in there, and a mount is not put behind one.
 */
#ifndef BWRAP_IMAGE_H
#define BWRAP_IMAGE_H

#include "portico/plugin_util.h"

typedef struct bwrap_image_entry {
  char *name;
  char *link; /* where it leads; NULL: a directory or file */
} bwrap_image_entry;

typedef struct bwrap_image {
  char *named; /* by the caller; NULL: there is no image */
  char *path;  /* of the root directory, without links; NULL: none yet */
  bwrap_image_entry *entries; /* of it that are shown */
  size_t n_entries;
  bool is_tar;
  int tar;             /* if it is: a descriptor for reading */
  const char *program; /* that decompresses it, or "none"; static */
} bwrap_image;

/* Finds out what is there and, if it is a directory, reads it.  0, or a
 * negative code and *err (whose path is borrowed from `named`).  deinit after
 * either. */
int bwrap_image_open(bwrap_image *m, const char *named, pco_error *err);
/* Reads the root directory that a tar has become. */
int bwrap_image_read(bwrap_image *m, const char *path, pco_error *err);
/* True if something can be mounted there without following the image's links;
 * false with *err if not. */
bool bwrap_image_has_place(const bwrap_image *m, const char *target,
                           pco_error *err);
void bwrap_image_deinit(bwrap_image *m);

#endif /* BWRAP_IMAGE_H */
