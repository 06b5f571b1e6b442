/* SPDX-License-Identifier: MIT */
/*
 * How a tree is to be moved, as words "KEY=VALUE" of a PACK, UNPACK or SURVEY;
 * and patterns.
 *
 *   symlinks=keep     links stay what they are
 *           =inside   the same, but one that leads out of the tree is an error
 *           =follow   what a link leads to within the tree is packed in its
 *                     place; one that leads out is an error
 *           =refuse   every link is an error
 *   on_error=skip     what cannot be done is left out and told
 *   include=PATTERN   only what matches one of these, or is below
 *   exclude=PATTERN   nothing that matches one of these, or is below
 *   bytes=N, entries=N  bounds of what is unpacked
 *   umask=N           permission bits that what is unpacked does not get
 *   progress=1        tell how far it is
 *   total=1           count first, and tell
 *   changed=1         only what the other side has not; it may be nothing
 *   checksum=1        a SURVEY tells of contents, and a PACK compares them
 *   parents=1         directories above the target are made
 *
 * A pattern with a slash is matched against the path below the tree ("src/x"),
 * one without against each name; a slash at its end asks for a directory.  "*"
 * and "?" match within a name, "**" any directories.
 */
#ifndef PCO_TRANSFER_WORDS_H
#define PCO_TRANSFER_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PCO_TRANSFER_MAX_WORDS 1024

typedef enum pco_symlinks {
  PCO_SYMLINKS_KEEP,
  PCO_SYMLINKS_INSIDE,
  PCO_SYMLINKS_FOLLOW,
  PCO_SYMLINKS_REFUSE
} pco_symlinks;

typedef struct pco_transfer_words {
  pco_symlinks symlinks;
  bool skip, progress, total, changed, checksum, parents;
  uint64_t bytes, entries;
  uint64_t mask;
  const char **include, **exclude; /* owned arrays; the words are borrowed */
  size_t n_include, n_exclude;
} pco_transfer_words;

/* Reads words that lie one behind the other, each with its NUL.  0, -EPROTO or
 * -ENOMEM; either way to be freed. */
int pco_transfer_words_read(pco_transfer_words *w, const char *text,
                            size_t len);
void pco_transfer_words_free(pco_transfer_words *w);

/* Whether a path below the tree matches a pattern. */
bool pco_transfer_matches(const char *pattern, const char *path,
                          bool directory);
bool pco_transfer_excluded(const pco_transfer_words *w, const char *path,
                           bool directory);
/* Whether it is wanted by itself; what is below such a directory is, too. */
bool pco_transfer_included(const pco_transfer_words *w, const char *path,
                           bool directory);

#endif /* PCO_TRANSFER_WORDS_H */
