/* SPDX-License-Identifier: MIT */
/*
 * `portico-agent --unpack`: unpacks a tar into a new directory within bounds;
 * and what a plugin that starts it reads from its exit status.
 *
 * It runs as the first process of a sandbox in which nothing else can be
 * written, and starts the system's own programs there: one that decompresses,
 * if there is need of one, and tar.  The bytes between them pass through here
 * and are counted, and so are the names that tar says it unpacks, so that
 * neither a bomb of bytes nor one of files gets further than its bound.  What
 * these programs print as errors goes to standard error.
 */
#ifndef PCO_UNPACK_H
#define PCO_UNPACK_H

#define PCO_UNPACK_TREE "tree" /* that directory, in the working directory */

/* Exit statuses, beside 0; 1 and 2 are the agent's for what cannot start. */
enum {
  PCO_UNPACK_BAD = 10, /* it is no good tar; standard error says why */
  PCO_UNPACK_BYTES,    /* more than BYTES in all */
  PCO_UNPACK_ENTRIES,  /* more than ENTRIES files and directories */
  PCO_UNPACK_MISSING   /* a program; its name is the last line */
};

/* PROGRAM FD BYTES ENTRIES: what decompresses with -dc, or "none"; the tar; and
 * the bounds. */
#define PCO_UNPACK_WORDS 4

/* Returns the exit status; 2 for wrong words. */
int pco_unpack_main(char *const words[PCO_UNPACK_WORDS]);

#endif /* PCO_UNPACK_H */
