/* SPDX-License-Identifier: MIT */
/*
 * See path.h.
 */
#include "path.h"

#include <string.h>

bool plugin_is_inside(const char *path, const char *dir) {
  size_t len = strcmp(dir, "/") == 0 ? 0 : strlen(dir);
  return strncmp(path, dir, len) == 0 && (path[len] == '/' || !path[len]);
}
