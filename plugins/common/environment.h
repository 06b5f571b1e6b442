/* SPDX-License-Identifier: MIT */
/*
 * The environment that commands of a sandbox start with: a minimal base, and
 * what create() was asked to add to it or take from it.  Nothing of the host's
 * own environment is in it.
 */
#ifndef PLUGIN_ENVIRONMENT_H
#define PLUGIN_ENVIRONMENT_H

#include <stddef.h>

#include "portico/plugin.h"

typedef struct plugin_environment {
  char **items; /* NULL-terminated "K=V", owned; NULL before the first set */
  size_t n;
  size_t room;
} plugin_environment;

/* Sets K=V.  UV_ENOMEM. */
int plugin_environment_set(plugin_environment *e, const char *key,
                           const char *value);
/* Applies a list of "K=V", and "K", which removes K.  UV_EINVAL and *err for an
 * empty name. */
int plugin_environment_apply(plugin_environment *e, const char *const *changes,
                             pco_error *err);
/* Sets PATH and LANG as everywhere, and what differs between backends. */
int plugin_environment_base(plugin_environment *e, const char *home,
                            const char *tmpdir, const char *user);
void plugin_environment_deinit(plugin_environment *e);

#endif /* PLUGIN_ENVIRONMENT_H */
