/* SPDX-License-Identifier: MIT */
/*
 * Where images that were unpacked are kept.
 *
 *   images/KEY/     a root directory; KEY is the SHA-256 of the tar's bytes;
 * its time of change is that of its last use index/MARK      a link whose text
 * is KEY: what a file was when it was read making/MARK/    one that is being
 * unpacked; its maker holds a lock (flock) on it as long as it lives, so what
 * can be locked is left over from somebody who was killed
 *
 * All of it is this user's alone.  A directory that is not, or that somebody
 * else could have put in its place, is refused, and no link is followed on the
 * way to it.  What is in images/ got there whole, by a rename.
 */
#ifndef BWRAP_IMAGE_CACHE_H
#define BWRAP_IMAGE_CACHE_H

#include <sys/stat.h>

#include "portico/plugin_util.h"

#define BWRAP_KEY_SIZE  65
#define BWRAP_MARK_SIZE 128

#define BWRAP_CACHE_MAKING "making"

typedef struct bwrap_cache {
  const char *path; /* borrowed */
  int images, index, making;
} bwrap_cache;

/* Where it is if nobody says otherwise: no one else may share it. */
void bwrap_cache_default(char *out, size_t size);

/* Opens the cache and makes what is missing of it.  0, or a negative code and
 * *err.  close after either. */
int bwrap_cache_open(bwrap_cache *c, const char *path, pco_error *err);
void bwrap_cache_close(bwrap_cache *c);

/* Names what a file is now, by everything that changes with its contents. */
void bwrap_cache_mark(const struct stat *st, char out[BWRAP_MARK_SIZE]);

/* Looks for the image of a mark: false, or true and its key. */
bool bwrap_cache_find(const bwrap_cache *c, const char *mark,
                      char key[BWRAP_KEY_SIZE]);
/* Whether there is an image of that key; from now on it counts as used, by its
 * time of change. */
bool bwrap_cache_use(const bwrap_cache *c, const char *key);
bool bwrap_cache_is_key(const char *text);
/* Remembers the key of a mark, and forgets older ones of the same file. */
void bwrap_cache_remember(const bwrap_cache *c, const char *mark,
                          const char *key);

/* Takes making/MARK for the caller, until that releases *fd.  0; UV_EBUSY if
 * somebody has it, or has left something in it (see below); or another negative
 * code. */
int bwrap_cache_claim(const bwrap_cache *c, const char *mark, int *fd);
/* Takes one that was left over, to be removed: false if there is none. */
bool bwrap_cache_claim_dead(const bwrap_cache *c, char mark[BWRAP_MARK_SIZE],
                            int *fd);
/* Gives up a claim and sets *fd to -1, which it may have been. */
void bwrap_cache_release(int *fd);
/* Makes `tree`, in the directory `dir`, the image of that key, unless there is
 * one.  0 or a negative code. */
int bwrap_cache_add(const bwrap_cache *c, int dir, const char *tree,
                    const char *key);

#endif /* BWRAP_IMAGE_CACHE_H */
