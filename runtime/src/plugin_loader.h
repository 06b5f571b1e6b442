/* SPDX-License-Identifier: MIT */
/*
 * The plugins of this process: finding, checking and loading backends.
 *
 * One table for the whole process, since a shared library is: it only grows,
 * under one lock, and what is in it never changes or moves, so a pointer given
 * out stays good for ever (the files are never unmapped).  Only a plugin that
 * passed every check, its init() included, is in the table.
 *
 * Nothing here is read from the environment or the disk before a call asks.
 */
#ifndef PCO_PLUGIN_LOADER_H
#define PCO_PLUGIN_LOADER_H

#include "error.h"
#include "portico/plugin.h"

/* Where a backend that is linked in says it is from. */
#define PCO_LOADER_BUILT_IN "built-in"

/* Gives a backend by name or by path and counts one use of its plugin (the
 * first calls its init()).
 *
 * A name, [a-z0-9-]{1,32}, is looked up among the built-in and loaded backends,
 * then as DIR/portico-NAME.so in the directories of PORTICO_PLUGIN_PATH
 * (absolute, separated by colons; ignored in a program with raised rights),
 * then in the plugin directory beside libportico, never in the current one.
 * Anything with a '/' is the path of a plugin, absolute or beginning with "./";
 * its first backend is given.
 *
 * *path is the file, without links, or PCO_LOADER_BUILT_IN; it and *out live
 * for ever.  Returns 0; or *err (the caller's) and its code: UV_ENOENT if
 * nothing has that name, else PCO_EPLUGIN.  Both strings must be free of NULs
 * by the caller's care.  [any] */
int pco__loader_open(const char *name_or_path, const pco_backend_info **out,
                     const char **path, pco__error **err);

/* Ends a use that pco__loader_open() counted; the last calls deinit().
 * [any] */
void pco__loader_release(const pco_backend_info *info);

/* Registers a plugin that is linked in; the same entry again is fine.  Returns
 * 0, or *err and PCO_EPLUGIN.  [any] */
int pco__loader_add(const pco_plugin_entry *entry, pco__error **err);

/* Calls each() for every backend there is to open: built in, loaded, then the
 * files of the directories by name, without opening any.  No lock is held
 * meanwhile.  Returns 0 or UV_ENOMEM.  [any] */
int pco__loader_list(void (*each)(void *arg, const char *name,
                                  const char *path),
                     void *arg);

/* Writes the plugin directory beside libportico.  Returns 0 or a negative
 * code.  [any] */
int pco__loader_plugin_dir(char *out, size_t size);

#endif /* PCO_PLUGIN_LOADER_H */
