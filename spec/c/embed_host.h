/* SPDX-License-Identifier: MIT */
/* Helpers of tests that embed a runtime by portico/portico.h. */
#ifndef EMBED_HOST_H
#define EMBED_HOST_H

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "portico/portico.h"

/* Counts and prints one test. */
void embed_ok(bool good, const char *text);
/* The same for a code; prints the one that came. */
void embed_is(long got, long want, const char *text);
/* The same for a string; NULL is one, too. */
void embed_text(const char *got, const char *want, const char *text);
/* Prints how many there were; gives the exit code. */
int embed_end(void);

/* Lets the plugins of this build be found; argv0 is the program's path. */
void embed_begin(const char *argv0);
/* True if the backend works on this machine; else says that `what` is skipped.
 */
bool embed_has(const char *backend, const char *what);
/* Makes a runtime with this config (NULL: the default), or ends the program. */
pco_runtime *embed_new(const pco_config *config);
/* A script of `rt`, or the end of the program. */
pco_task *embed_load(pco_runtime *rt, const char *chunk);
/* Runs a script to its end, at most a minute; its first result as a string in
 * a static buffer, or what it failed with. */
const char *embed_run(pco_runtime *rt, const char *chunk);
/* True if the descriptor is readable now, or within ms. */
bool embed_readable(int fd, int ms);
/* Entries of a directory such as /proc/self/fd. */
int embed_entries(const char *path);

#endif /* EMBED_HOST_H */
