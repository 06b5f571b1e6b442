/* SPDX-License-Identifier: MIT */
/* Directories of ours alone; see private_dir.h. */
#include "private_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>

/* The umask takes rights away, and is not ours to change. */
int plugin_make_private(int at, const char *path) {
  struct stat st;
  if (mkdirat(at, path, 0700) < 0)
    return -errno;
  bool whole = fstatat(at, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
               (st.st_mode & 0700) == 0700;
  return whole || fchmodat(at, path, 0700, 0) == 0 ? 0 : -errno;
}
