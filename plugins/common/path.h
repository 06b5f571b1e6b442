/* SPDX-License-Identifier: MIT */
/*
 * What lies where, by the text of paths; and directories of ours.
 */
#ifndef PLUGIN_PATH_H
#define PLUGIN_PATH_H

#include <stdbool.h>

/* Makes a directory of ours alone, whatever the umask of the program; path is
 * below at, or AT_FDCWD.  0, or a negative errno: -EEXIST if it is there. */
int plugin_make_private(int at, const char *path);

/* True if path is dir or lies in it; both are absolute, without links. */
bool plugin_is_inside(const char *path, const char *dir);

#endif /* PLUGIN_PATH_H */
