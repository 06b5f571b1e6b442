/* SPDX-License-Identifier: MIT */
/*
 * What lies where, by the text of paths.
 */
#ifndef PLUGIN_PATH_H
#define PLUGIN_PATH_H

#include <stdbool.h>

/* True if path is dir or lies in it; both are absolute, without links. */
bool plugin_is_inside(const char *path, const char *dir);

#endif /* PLUGIN_PATH_H */
