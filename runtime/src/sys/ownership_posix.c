/* SPDX-License-Identifier: MIT */
/*
 * Who could change a file; see ownership.h.
 *
 * Walks from the root down.  Each step is judged by its own owner and mode and,
 * in a sticky directory, by the owner of the next one, since there only an
 * owner can rename or remove.  Access lists need no look of their own: where
 * one lets somebody write, the group bits show its mask.
 */
#include "sys/ownership.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool owner_is_trusted(const struct stat *st) {
  return st->st_uid == 0 || st->st_uid == geteuid();
}

/* Judges one component; an open sticky directory is fine if the next step's
 * owner is, which that step checks for itself. */
static int judge(const char *path, const struct stat *st, char *why,
                 size_t size) {
  const char *kind = S_ISDIR(st->st_mode) ? "directory" : "file";
  if (!owner_is_trusted(st)) {
    snprintf(why, size,
             "the %s %s belongs to uid %u; root or uid %u must own it", kind,
             path, (unsigned)st->st_uid, (unsigned)geteuid());
    return -EPERM;
  }
  bool sticky = S_ISDIR(st->st_mode) && st->st_mode & S_ISVTX;
  if (st->st_mode & (S_IWGRP | S_IWOTH) && !sticky) {
    snprintf(why, size,
             "the %s %s (mode %04o) can be written by %s; chmod go-w it", kind,
             path, (unsigned)(st->st_mode & 07777),
             st->st_mode & S_IWOTH ? "anyone" : "its group");
    return -EPERM;
  }
  return 0;
}

int pco__path_owned(const char *path, struct stat *st, char *why, size_t size) {
  char part[PATH_MAX];
  size_t len = strlen(path);
  if (*path != '/' || len >= sizeof part)
    return *path == '/' ? -ENAMETOOLONG : -EINVAL;
  for (size_t end = 0;;) {
    /* "/", "/usr", "/usr/lib" ... */
    memcpy(part, path, end ? end : 1);
    part[end ? end : 1] = '\0';
    if (lstat(part, st) < 0) {
      int rc = -errno;
      snprintf(why, size, "%s: %s", part, strerror(-rc));
      return rc;
    }
    int rc = judge(part, st, why, size);
    if (rc < 0 || end >= len)
      return rc;
    const char *slash = strchr(path + end + 1, '/');
    end = slash ? (size_t)(slash - path) : len;
  }
}
