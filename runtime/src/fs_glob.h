/* SPDX-License-Identifier: MIT */
/*
 * glob: the paths that match a pattern.
 *
 * One op after the other, each a directory that is listed or a name that is
 * looked for; between them the caller's thread matches what came, and notes
 * which directories are to be looked at next.  "**" enters no links, so it
 * ends; what vanishes or may not be read has no entries.
 */
#ifndef PCO_FS_GLOB_H
#define PCO_FS_GLOB_H

#include "fs_ops.h"

#define PCO__GLOB_MAX_PARTS 256

/* Makes the search of an op that has its sandbox and timeout: 0; PCO_EINVAL if
 * the pattern, which is not empty, has more than PCO__GLOB_MAX_PARTS
 * components; UV_ENOMEM. */
int pco__glob_begin(pco__fs_op *o, const char *pattern, bool hidden);
/* Takes what an op has found.  1: another is needed (pco__glob_again); 0: that
 * was all; or a code, with *err. */
int pco__glob_take(pco__fs_op *o, pco__error **err);
/* Makes the next op; NULL without memory. */
pco__op *pco__glob_again(const pco__op *op);
/* What was found, in byte order, each once: the i-th path, or NULL. */
const char *pco__glob_path(const struct pco__glob *g, size_t i);
size_t pco__glob_count(const struct pco__glob *g);
void pco__glob_unref(struct pco__glob *g);

#endif /* PCO_FS_GLOB_H */
