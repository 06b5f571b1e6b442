/* SPDX-License-Identifier: MIT */
/*
 * `portico-agent --seal`: makes of a tree that a sandbox has unpacked one that
 * can be shown to others; and what a plugin that starts it reads from its exit
 * status.
 *
 * Afterwards everything belongs to the caller, nothing has a set-id or sticky
 * bit or can be written by others, there are only directories, files and links,
 * and all of it is on the disk.  It runs outside of sandboxes, with the
 * caller's rights, after everything that could change the tree has ended;
 * nevertheless no link is followed, no mount entered, and what belongs to
 * anybody but that sandbox (say, by a hard link to elsewhere) is refused before
 * it is touched.
 */
#ifndef PCO_SEAL_H
#define PCO_SEAL_H

#define PCO_SEAL_DEPTH 256 /* directories in each other */

/* Exit statuses, beside 0; 1: an error, which standard error names. */
enum {
  PCO_SEAL_FOREIGN = 20, /* something belongs to another; its name is printed */
  PCO_SEAL_DEEP,         /* deeper than PCO_SEAL_DEPTH */
  PCO_SEAL_BYTES,        /* the sizes of its files are more than BYTES */
  PCO_SEAL_ENTRIES       /* more than ENTRIES */
};

/* DIR FIRST-ID LAST-ID BYTES ENTRIES: the absolute path of the tree, who may
 * own something in it (but for its top, which is the caller's), and the bounds.
 */
#define PCO_SEAL_WORDS 5

/* Returns the exit status; 2 for wrong words. */
int pco_seal_main(char *const words[PCO_SEAL_WORDS]);

#endif /* PCO_SEAL_H */
