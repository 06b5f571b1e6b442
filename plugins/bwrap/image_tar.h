/* SPDX-License-Identifier: MIT */
/*
 * From a tar to a root directory in the cache (image_cache.h), on the backend's
 * loop, without blocking it.
 *
 * One unpacking serves all sandboxes of a backend that want the same file; the
 * lock in the cache keeps other backends and processes away meanwhile.
 */
#ifndef BWRAP_IMAGE_TAR_H
#define BWRAP_IMAGE_TAR_H

#include "portico/plugin.h"

struct bwrap_plan;
struct bwrap_unpack;
typedef struct bwrap_image_wait bwrap_image_wait;

/* Called once: with the path of the root directory, or with err. */
typedef void (*bwrap_image_fn)(bwrap_image_wait *w, const char *path,
                               const pco_error *err);

/* Lives in its owner, zeroed before the first use. */
struct bwrap_image_wait {
  bwrap_image_wait *next;
  struct bwrap_unpack *unpack; /* what is waited for; NULL: nothing */
  bwrap_image_fn fn;
};

/* Gets the root directory of the tar in p->image.  1: it was there, and
 * p->image knows it; 0: fn will be called, not within this call; or a negative
 * code and *err. */
int bwrap_image_want(bwrap_image_wait *w, pco_backend *b, struct bwrap_plan *p,
                     bwrap_image_fn fn, pco_error *err);
/* Waits no longer: fn is called with UV_ECANCELED, now if others still want the
 * image, else once everything that made it has ended and is removed. */
void bwrap_image_leave(bwrap_image_wait *w);

#endif /* BWRAP_IMAGE_TAR_H */
