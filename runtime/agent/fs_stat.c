/* SPDX-License-Identifier: MIT */
/*
 * STAT: what the walk found, from its descriptor.
 *
 * NAME is the last component as the caller gave it, also when a link was
 * followed; a path without one of its own ("/", "a/..") has none.
 */
#include "fs.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* The last component of a path, without slashes behind it; "" if that would
 * not be a name. */
static void last_name(const char *path, char name[NAME_MAX + 1]) {
  size_t end = strlen(path);
  while (end > 0 && path[end - 1] == '/')
    end--;
  size_t start = end;
  while (start > 0 && path[start - 1] != '/')
    start--;
  size_t n = end - start;
  const char *s = path + start;
  bool dots = (n == 1 || (n == 2 && s[1] == '.')) && s[0] == '.';
  if (n > NAME_MAX || dots)
    n = 0;
  memcpy(name, s, n);
  name[n] = 0;
}

void pco_fs_stat(pco_agent *a, const pco_request *r) {
  char path[PCO_PATH_TEXT], name[NAME_MAX + 1], link[PATH_MAX];
  pco_place at;
  if (!pco_fs_path(a, r, PCO_TAG_PATH, path))
    return;
  int rc =
      pco_walk(&a->paths, path, pco_fs_walk_flags(r) & PCO_WALK_NOFOLLOW, &at);
  if (rc != 0) {
    pco_fs_walk_error(a, r->op, rc, path);
    return;
  }
  if (at.fd < 0) {
    pco_answer_error(a, r->op, ENOENT, path, NULL);
  } else {
    ssize_t n = S_ISLNK(at.st.st_mode)
                    ? readlinkat(at.fd, "", link, sizeof link - 1)
                    : -1;
    link[n < 0 ? 0 : n] = 0;
    last_name(path, name);
    pco_wire_begin(&a->buf, PCO_WIRE_REPLY, 0, r->op);
    pco_fs_put_entry(&a->buf, name, &at.st, n < 0 ? NULL : link);
    pco_answer(a);
  }
  pco_place_deinit(&at);
}
