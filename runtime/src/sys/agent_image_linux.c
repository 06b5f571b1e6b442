/* SPDX-License-Identifier: MIT */
/*
 * The agent's program as a sealed memfd; see agent_image.h.  Executed from
 * there, it needs no path inside the sandbox, and nothing inside can rewrite
 * it.
 */
#include "agent_image.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

int pco__own_path(const char *relative, char *out, size_t size) {
  Dl_info info;
  if (!dladdr((const void *)(uintptr_t)pco__own_path, &info) || !info.dli_fname)
    return -ENOENT;
  char *real = realpath(info.dli_fname, NULL);
  if (!real)
    return -errno;
  char *slash = strrchr(real, '/');
  size_t dir = slash ? (size_t)(slash - real) : 0;
  int n = snprintf(out, size, "%.*s/%s", (int)dir, real, relative);
  free(real);
  return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

/* The kernel counts a memfd as a file, and ends a program that makes a longer
 * one than it may by SIGXFSZ. */
static bool may_be_as_long(off_t size) {
  struct rlimit most;
  return getrlimit(RLIMIT_FSIZE, &most) < 0 || most.rlim_cur == RLIM_INFINITY ||
         (rlim_t)size <= most.rlim_cur;
}

static int copy_all(int from, int to) {
  struct stat st;
  if (fstat(from, &st) < 0)
    return -errno;
  if (!may_be_as_long(st.st_size))
    return -EFBIG;
  off_t at = 0;
  while (at < st.st_size) {
    ssize_t n = sendfile(to, from, &at, (size_t)(st.st_size - at));
    if (n < 0 && errno != EINTR)
      return -errno;
    if (n == 0)
      return -EIO;
  }
  return 0;
}

int pco__agent_image_open(const char *path) {
  int from = open(path, O_RDONLY | O_CLOEXEC);
  if (from < 0)
    return -errno;
  int to = memfd_create("portico-agent", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  int rc = to < 0 ? -errno : copy_all(from, to);
  if (rc == 0 &&
      fcntl(to, F_ADD_SEALS,
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
    rc = -errno;
  close(from);
  if (rc < 0 && to >= 0)
    close(to);
  return rc < 0 ? rc : to;
}
