/* SPDX-License-Identifier: MIT */
/* Helpers of tests of portico/sandbox.h: the same calls on each backend, on the
 * runtime's loop and on a portal. */
#ifndef EMBED_BOXES_H
#define EMBED_BOXES_H

#include "embed_host.h"
#include "portico/sandbox.h"

#define S INT64_C(1000000000)

/* What the calls of a test are made on. */
extern pco_runtime *embed_rt;
extern const char *embed_backend;
extern bool embed_portal;

/* Waits for what `rc` says has begun; prints an error.  The pending, or NULL.
 */
pco_pending *embed_over(int rc, pco_pending **out);
/* The code of such a call, which is released. */
int embed_code(int rc, pco_pending **out);
/* A new box, or NULL. */
pco_box *embed_box(void);
/* A command of a shell that runs. */
pco_command *embed_start(pco_box *box, const char *line, uint32_t flags);
/* Writes a file; true if it could. */
bool embed_put(pco_box *box, const char *path, const char *text);
/* True if a file has this content. */
bool embed_file_is(pco_box *box, const char *path, const char *text);
/* Runs fn on each backend, and on a portal; a descriptor that it leaves open
 * fails. */
void embed_on_each(void (*fn)(void));
/* Makes a runtime and a box for fn, and ends both. */
void embed_with_box(void (*fn)(pco_box *box));

#endif /* EMBED_BOXES_H */
