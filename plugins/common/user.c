/* SPDX-License-Identifier: MIT */
/*
 * See user.h.
 */
#include "user.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LINES 65536 /* of a file that may be anything */

/* Takes apart "name:password:uid:…". */
static bool is_user(char *line, uid_t uid, const char **name) {
  char *rest = line, *end;
  *name = strsep(&rest, ":");
  if (!strsep(&rest, ":") || !rest)
    return false;
  unsigned long id = strtoul(rest, &end, 10);
  return end != rest && *end == ':' && id == uid;
}

bool plugin_user_name(uid_t uid, char *out, size_t size) {
  char line[1024];
  const char *name;
  bool found = false;
  snprintf(out, size, "%lu", (unsigned long)uid);
  FILE *f = fopen("/etc/passwd", "re");
  for (int n = 0; f && !found && n < MAX_LINES && fgets(line, sizeof line, f);
       n++) {
    found = is_user(line, uid, &name);
    if (found)
      snprintf(out, size, "%s", name);
  }
  if (f)
    fclose(f);
  return found;
}
