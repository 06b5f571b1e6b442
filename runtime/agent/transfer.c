/* SPDX-License-Identifier: MIT */
/*
 * What packing and unpacking share; see transfer.h.
 */
#include "transfer.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

int pco_transfer_fail(pco_transfer *t, int rc, const char *why) {
  snprintf(t->why, sizeof t->why, "%s", why ? why : "");
  return rc;
}

const char *pco_transfer_tried(pco_transfer *t, int rc, const char *step) {
  snprintf(t->tried, sizeof t->tried, "%s: %s", step, strerror(-rc));
  return t->tried;
}

/* What concerns all that is still to come. */
static bool is_fatal(int rc) {
  return rc == -ECANCELED || rc == -ENOSPC || rc == -EDQUOT || rc == -ENOMEM ||
         rc == -EPIPE || rc == -EMFILE || rc == -ENFILE || rc == -EROFS;
}

int pco_transfer_skip(pco_transfer *t, int rc, const char *why) {
  if (!t->words->skip || is_fatal(rc))
    return pco_transfer_fail(t, rc, why);
  return t->skipped(t, t->path, -rc, why);
}

int pco_transfer_enter(pco_transfer *t, size_t len, const char *name) {
  size_t n = strlen(name), slash = len > 0;
  if (len + slash + n >= sizeof t->path - sizeof PCO_TRANSFER_ROOT)
    return pco_transfer_fail(t, -ENAMETOOLONG, NULL);
  if (slash)
    t->path[len] = '/';
  memcpy(t->path + len + slash, name, n + 1);
  return (int)(len + slash + n);
}

static size_t depth_of(const char *path) {
  size_t n = 0;
  for (; *path; path++)
    n += *path == '/';
  return n;
}

static bool is_up(const char *s, size_t n) {
  return n == 2 && s[0] == '.' && s[1] == '.';
}

/* A way up behind a name could start from where another link has led to. */
bool pco_transfer_leads_inside(const pco_transfer *t, const char *text) {
  size_t up = depth_of(t->path);
  bool down = false;
  if (*text == '/' || !*t->path)
    return false;
  while (*text) {
    size_t n = strcspn(text, "/");
    bool stays = n == 0 || (n == 1 && text[0] == '.');
    if (is_up(text, n)) {
      if (down || up == 0)
        return false;
      up--;
    } else if (!stays) {
      down = true;
    }
    text += n;
    text += *text == '/';
  }
  return true;
}
