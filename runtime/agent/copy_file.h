/* SPDX-License-Identifier: MIT */
/*
 * Copying what one regular file holds, in steps: by sharing its blocks where
 * the file system can (reflink), else inside the kernel, else by reading and
 * writing.  Holes stay holes.  It is copied as long as it was at the beginning,
 * so that a file that grows all the time has an end; one that says 0 (those of
 * /proc) is read to its end.
 */
#ifndef PCO_COPY_FILE_H
#define PCO_COPY_FILE_H

#include <stdbool.h>
#include <sys/stat.h>

typedef struct pco_copy_file {
  int in, out; /* owned; -1: none */
  struct stat st;
  off_t at, data_end; /* data from `at` to `data_end` is being copied */
  bool by_hand;       /* the kernel cannot do it */
  const char *failed; /* what was tried, for people */
} pco_copy_file;

/* Begins; takes both descriptors, whatever happens.  `st` is that of `in`. */
void pco_copy_file_begin(pco_copy_file *c, int in, int out,
                         const struct stat *st);
/* Copies a little: 1 if there is more, 0 when all is there with mode and times,
 * or a negative errno. */
int pco_copy_file_step(pco_copy_file *c);
void pco_copy_file_end(pco_copy_file *c);
/* Gives mode and times of an original to what `fd` holds: 0 or a negative
 * errno. A set-id bit does not go over to another owner. */
int pco_copy_attributes(int fd, const struct stat *original);

#endif /* PCO_COPY_FILE_H */
