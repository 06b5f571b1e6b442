/* SPDX-License-Identifier: MIT */
/*
 * Parsing passwd(5) and group(5); see users.h.
 */
#include "users.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_FILE (8u * 1024 * 1024)
#define SHELL    "/bin/sh" /* of who has none */

/* Reads a regular file whole, with a NUL behind; the caller frees it. */
static int slurp(const char *path, char **out) {
  *out = NULL;
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  struct stat st;
  int rc = fstat(fd, &st) == 0 ? 0 : -errno;
  if (rc == 0 && (!S_ISREG(st.st_mode) || st.st_size > MAX_FILE))
    rc = -EINVAL;
  size_t size = rc == 0 ? (size_t)st.st_size : 0, len = 0;
  char *text = rc == 0 ? malloc(size + 1) : NULL;
  while (text && len < size) {
    ssize_t n = read(fd, text + len, size - len);
    if (n <= 0)
      break;
    len += (size_t)n;
  }
  close(fd);
  if (!text)
    return rc ? rc : -ENOMEM;
  text[len] = 0;
  *out = text;
  return 0;
}

/* Cuts the next line off the text; NULL at the end. */
static char *next_line(char **text) {
  return *text && **text ? strsep(text, "\n") : NULL;
}

/* Cuts a line at its ':' into exactly n fields; what is missing is "". */
static void split(char *line, char **field, size_t n) {
  static char empty[1];
  for (size_t i = 0; i < n; i++)
    field[i] = line ? strsep(&line, ":") : empty;
}

/* Below 2^32 - 1, which means "no id". */
bool pco_id_parse(const char *s, unsigned *out) {
  char *end;
  if (*s < '0' || *s > '9')
    return false;
  unsigned long long v = strtoull(s, &end, 10);
  *out = (unsigned)v;
  return *end == 0 && v < 0xffffffffu;
}

/* Not the whole of it, most of which is room for groups. */
static void clear(pco_user *u) {
  u->uid = 0;
  u->gid = 0;
  u->name[0] = u->home[0] = u->shell[0] = 0;
  u->n_groups = 0;
}

/* Takes the passwd line with that name, or (name NULL) that uid. */
static int find_passwd(char *text, const char *name, uid_t uid, pco_user *out) {
  for (char *line; (line = next_line(&text));) {
    char *f[7];
    unsigned line_uid, gid;
    split(line, f, 7);
    if (!pco_id_parse(f[2], &line_uid) || !pco_id_parse(f[3], &gid) || !*f[0])
      continue;
    if (name ? strcmp(name, f[0]) != 0 : line_uid != uid)
      continue;
    out->uid = line_uid;
    out->gid = gid;
    snprintf(out->name, sizeof out->name, "%s", f[0]);
    snprintf(out->home, sizeof out->home, "%s", *f[5] ? f[5] : "/");
    snprintf(out->shell, sizeof out->shell, "%s", *f[6] ? f[6] : SHELL);
    return 0;
  }
  return -ENOENT;
}

void pco_user_set_group(pco_user *u, gid_t gid) {
  u->gid = gid;
  u->groups[0] = gid;
  u->n_groups = 1;
}

static int add_group(pco_user *u, gid_t gid) {
  for (size_t i = 0; i < u->n_groups; i++)
    if (u->groups[i] == gid)
      return 0;
  if (u->n_groups == PCO_MAX_GROUPS)
    return -E2BIG;
  u->groups[u->n_groups++] = gid;
  return 0;
}

static bool lists(char *members, const char *name) {
  for (char *m; (m = strsep(&members, ","));)
    if (strcmp(m, name) == 0)
      return true;
  return false;
}

/* The primary group, and those of /etc/group that list the user. */
int pco_user_find_groups(pco_user *u) {
  char *text;
  pco_user_set_group(u, u->gid);
  int rc = slurp("/etc/group", &text);
  if (rc != 0)
    return rc == -ENOENT ? 0 : rc;
  char *at = text;
  for (char *line; rc == 0 && (line = next_line(&at));) {
    char *f[4];
    unsigned gid;
    split(line, f, 4);
    if (pco_id_parse(f[2], &gid) && lists(f[3], u->name))
      rc = add_group(u, gid);
  }
  free(text);
  return rc;
}

static int find_line(const char *name, uid_t uid, pco_user *out) {
  char *text;
  int rc = slurp("/etc/passwd", &text);
  if (rc == 0)
    rc = find_passwd(text, name, uid, out);
  free(text);
  return rc;
}

void pco_user_of_uid(uid_t uid, pco_user *out) {
  clear(out);
  if (find_line(NULL, uid, out) != 0) {
    out->uid = uid;
    out->gid = uid;
    snprintf(out->name, sizeof out->name, "%u", (unsigned)uid);
    snprintf(out->home, sizeof out->home, "/");
    snprintf(out->shell, sizeof out->shell, SHELL);
  }
}

/* ---- by name or number --------------------------------------------------- */

static int find_group(const char *name, gid_t *gid) {
  char *text;
  int rc = slurp("/etc/group", &text);
  if (rc != 0)
    return rc;
  char *at = text;
  rc = -ENOENT;
  for (char *line; rc != 0 && (line = next_line(&at));) {
    char *f[4];
    unsigned id;
    split(line, f, 4);
    if (*f[0] && strcmp(f[0], name) == 0 && pco_id_parse(f[2], &id)) {
      *gid = id;
      rc = 0;
    }
  }
  free(text);
  return rc;
}

static int find_uid(const char *name, uid_t *uid) {
  static pco_user user;
  unsigned id;
  if (pco_id_parse(name, &id)) {
    *uid = id;
    return 0;
  }
  int rc = find_line(name, 0, &user);
  *uid = user.uid;
  return rc;
}

static int find_gid(const char *name, gid_t *gid) {
  unsigned id;
  if (!pco_id_parse(name, &id))
    return find_group(name, gid);
  *gid = id;
  return 0;
}

/* A name goes before a number; what reading failed with counts for names. */
static int find_user(const char *name, pco_user *out) {
  unsigned uid;
  clear(out);
  int rc = *name ? find_line(name, 0, out) : -ENOENT;
  if (rc == 0 || *name < '0' || *name > '9')
    return rc;
  if (!pco_id_parse(name, &uid))
    return -EINVAL;
  pco_user_of_uid(uid, out);
  return 0;
}

int pco_user_find(const char *spec, pco_user *out) {
  char name[sizeof out->name];
  size_t len = strcspn(spec, ":");
  const char *group = spec[len] ? spec + len + 1 : NULL;
  gid_t gid;
  if (len >= sizeof name)
    return -ENOENT;
  memcpy(name, spec, len);
  name[len] = 0;
  int rc = find_user(name, out);
  if (rc == 0 && !group)
    return pco_user_find_groups(out);
  if (rc == 0)
    rc = *group ? find_gid(group, &gid) : -EINVAL;
  if (rc == 0)
    pco_user_set_group(out, gid);
  return rc;
}

/* ---- owners of files ----------------------------------------------------- */

int pco_owner_find(const char *spec, uid_t *uid, gid_t *gid,
                   const char **missing) {
  char user[256];
  size_t len = strcspn(spec, ":");
  const char *group = spec[len] ? spec + len + 1 : "";
  *uid = (uid_t)-1;
  *gid = (gid_t)-1;
  *missing = spec;
  if (len >= sizeof user)
    return -ENOENT;
  memcpy(user, spec, len);
  user[len] = 0;
  int rc = len ? find_uid(user, uid) : 0;
  if (rc == 0 && *group) {
    *missing = group;
    rc = find_gid(group, gid);
  }
  return rc;
}
