/* SPDX-License-Identifier: MIT */
/*
 * Where plugins are searched; see plugin_dirs.h.
 */
#include "plugin_dirs.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>
#include <uv.h>

#include "plugin_loader.h"
#include "sys/image.h"

#ifndef PCO_PLUGIN_SUBDIR
#  define PCO_PLUGIN_SUBDIR "portico/plugins"
#endif

int pco__loader_plugin_dir(char *out, size_t size) {
  static const char here = 0; /* an address in libportico's image */
  char image[PATH_MAX];
  int rc = pco__image_path(&here, image, sizeof image);
  if (rc < 0)
    return rc;
  *strrchr(image, '/') = '\0'; /* it is absolute */
  int n = snprintf(out, size, "%s/" PCO_PLUGIN_SUBDIR, image);
  return n < 0 || (size_t)n >= size ? UV_ENAMETOOLONG : 0;
}

/* A program with raised rights must not take code from its caller. */
static bool environment_is_trusted(void) {
  return getauxval(AT_SECURE) == 0 && getuid() == geteuid() &&
         getgid() == getegid();
}

bool pco__plugin_dirs(bool (*fn)(void *arg, const char *dir), void *arg) {
  char dir[PATH_MAX];
  const char *at =
      environment_is_trusted() ? getenv("PORTICO_PLUGIN_PATH") : NULL;
  while (at && *at) {
    size_t len = strcspn(at, ":");
    if (len > 0 && len < sizeof dir && *at == '/') {
      memcpy(dir, at, len);
      dir[len] = '\0';
      if (fn(arg, dir))
        return true;
    }
    at += len + (at[len] == ':');
  }
  return pco__loader_plugin_dir(dir, sizeof dir) == 0 && fn(arg, dir);
}
