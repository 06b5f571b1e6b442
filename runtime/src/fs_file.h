/* SPDX-License-Identifier: MIT */
/*
 * A file or a watch that is open in a sandbox: what its object, its calls and
 * the loop share.
 *
 * Whoever drops the last reference while it is open has it closed, in the
 * background; that may be a handle that was collected, or the result of an open
 * that nobody took.  Everything but the references is for the loop's thread.
 */
#ifndef PCO_FS_FILE_H
#define PCO_FS_FILE_H

#include "fs_ops.h"

typedef struct pco__file {
  atomic_uint refs;
  pco__sandbox *sandbox; /* a reference */
  uint64_t id;           /* of the request that opened it; 0: it is known by its
                            path, to a plugin */
  bool open;
  uint32_t flags;    /* PCO_OPEN_* and PCO_FS_* */
  pco__entry *late;  /* owned; events that came when nobody waited any more */
  pco__call closing; /* to the loop */
  pco__link_request request;
  char path[]; /* as the caller gave it */
} pco__file;

/* The flags of "r", "w", "a", "r+", "w+", "a+", with "x" and "b"; 0: it is none
 * of them. */
uint32_t pco__file_mode(const char *mode);
/* NULL without memory. */
pco__file *pco__file_new(pco__sandbox *sb, const char *path, uint32_t flags);
void pco__file_ref(pco__file *f);
void pco__file_unref(pco__file *f); /* [any] */
/* False if its sandbox is not there any more. */
bool pco__file_is_alive(const pco__file *f);
/* Gives the op the events that came late; false: there are none. */
bool pco__file_take_late(pco__fs_op *o);
/* Keeps the events of an op that gives up, for the next one. */
void pco__file_keep_late(pco__fs_op *o);

#endif /* PCO_FS_FILE_H */
