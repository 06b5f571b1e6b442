/* SPDX-License-Identifier: MIT */
/*
 * See user.h.
 */
#include "user.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LINES 65536 /* of a file that may be anything */

/* A line of either file: "name:password:id:…", a user's group behind that. */
typedef struct entry {
  char name[256];
  unsigned long id, group;
} entry;

/* Below 2^32 - 1, which means "no id"; 0 to 9 and then `end`. */
static bool get_id(const char *text, char end, unsigned long *out) {
  char *at;
  if (*text < '0' || *text > '9')
    return false;
  *out = strtoul(text, &at, 10);
  return *at == end && *out < 0xffffffffu;
}

/* Takes it apart. */
static bool get_entry(char *line, entry *out) {
  char *rest = line;
  const char *name = strsep(&rest, ":");
  if (!strsep(&rest, ":") || !rest || !get_id(rest, ':', &out->id))
    return false;
  rest = strchr(rest, ':') + 1;
  out->group = out->id;
  (void)get_id(rest, ':', &out->group);
  int n = snprintf(out->name, sizeof out->name, "%s", name);
  return n > 0 && (size_t)n < sizeof out->name;
}

/* The first of that name, or (NULL) of that id. */
static bool find(const char *file, const char *name, unsigned long id,
                 entry *out) {
  char line[1024];
  bool found = false;
  FILE *f = fopen(file, "re");
  for (int n = 0; f && !found && n < MAX_LINES && fgets(line, sizeof line, f);
       n++)
    found = get_entry(line, out) &&
            (name ? strcmp(out->name, name) == 0 : out->id == id);
  if (f)
    fclose(f);
  return found;
}

bool plugin_user_name(uid_t uid, char *out, size_t size) {
  entry e;
  bool found = find("/etc/passwd", NULL, uid, &e);
  snprintf(out, size, "%lu", (unsigned long)uid);
  if (found)
    snprintf(out, size, "%s", e.name);
  return found;
}

/* A name goes before a number. */
static bool find_either(const char *file, const char *name, entry *out) {
  unsigned long id;
  if (find(file, name, 0, out))
    return true;
  if (!get_id(name, '\0', &id))
    return false;
  if (!find(file, NULL, id, out)) {
    out->id = out->group = id;
    snprintf(out->name, sizeof out->name, "%lu", id);
  }
  return true;
}

bool plugin_user_find(const char *spec, plugin_user *out) {
  char name[256];
  entry user, group;
  size_t len = strcspn(spec, ":");
  out->one_group = spec[len] == ':';
  snprintf(name, sizeof name, "%.*s", (int)len, spec);
  if (len == 0 || len >= sizeof name ||
      !find_either("/etc/passwd", name, &user) ||
      (out->one_group && !find_either("/etc/group", spec + len + 1, &group)))
    return false;
  out->uid = (uid_t)user.id;
  out->gid = (gid_t)(out->one_group ? group.id : user.group);
  memcpy(out->name, user.name, sizeof user.name);
  return true;
}
