/* SPDX-License-Identifier: MIT */
/*
 * Making files that run with the rights of their owner or group:
 *
 *   setid WAY    makes one in the working directory, with either bit, with and
 *                without bits above the 32 that the kernel reads
 *
 * It has gone through if the file is there with the bit.
 */
#include "attack.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HIGH (UINT64_C(1) << 32)
#define HERE ((uint64_t)AT_FDCWD)
#define MODE 0755u

#ifndef SYS_fchmodat2
#  define SYS_fchmodat2 452
#endif

static const char file[] = "setid-file";
static const char *way_name;

/* Judges what has become of the file, and removes it.  A call that this kernel
 * does not have decides nothing. */
static void look(long rc, mode_t bit) {
  struct stat st;
  int error = errno;
  if (rc < 0 && error == ENOSYS)
    exit(ATTACK_NOT_HERE);
  if (stat(file, &st) == 0 && st.st_mode & bit)
    went_through(way_name);
  else if (rc >= 0 || error != EPERM)
    is_broken(way_name, rc >= 0 ? "the bit is not set" : strerror(error));
  unlink(file);
}

static int make_file(void) {
  int fd = open(file, O_WRONLY | O_CREAT | O_EXCL, 0755);
  if (fd < 0)
    give_up(file);
  return fd;
}

/* Each way with each mode; the bit comes in the mode. */
static const uint64_t modes[] = {S_ISUID | MODE, S_ISGID | MODE,
                                 HIGH | S_ISUID | MODE, HIGH | S_ISGID | MODE};

static mode_t bit_of(uint64_t mode) {
  return (mode_t)mode & (S_ISUID | S_ISGID);
}

/* A change of a file: the arguments before the mode are two or one. */
static void change(long number, bool at, bool by_fd) {
  for (size_t i = 0; i < COUNT(modes); i++) {
    int fd = make_file();
    long rc = at      ? syscall(number, HERE, file, modes[i], 0)
              : by_fd ? syscall(number, (uint64_t)fd, modes[i])
                      : syscall(number, file, modes[i]);
    look(rc, bit_of(modes[i]));
    close(fd);
  }
}

static void by_fchmod(void) {
  change(SYS_fchmod, false, true);
}
static void by_fchmodat(void) {
  change(SYS_fchmodat, true, false);
}
static void by_fchmodat2(void) {
  change(SYS_fchmodat2, true, false);
}

static void by_openat(void) {
  for (size_t i = 0; i < COUNT(modes); i++)
    look(syscall(SYS_openat, HERE, file, O_WRONLY | O_CREAT, modes[i]),
         bit_of(modes[i]));
}

/* A file without a name, which gets one. */
static void by_tmpfile(void) {
  char path[40];
  for (size_t i = 0; i < COUNT(modes); i++) {
    long fd = syscall(SYS_openat, HERE, ".", O_WRONLY | O_TMPFILE, modes[i]);
    int error = errno;
    snprintf(path, sizeof path, "/proc/self/fd/%ld", fd);
    if (fd >= 0 && linkat(AT_FDCWD, path, AT_FDCWD, file, AT_SYMLINK_FOLLOW))
      give_up("linkat");
    errno = error;
    look(fd, bit_of(modes[i]));
  }
}

static void by_mknodat(void) {
  for (size_t i = 0; i < COUNT(modes); i++)
    look(syscall(SYS_mknodat, HERE, file, S_IFREG | modes[i], 0),
         bit_of(modes[i]));
}

/* Garbage in the place of a mode that does not count is let through. */
static void by_nothing(void) {
  close(make_file());
  long fd = syscall(SYS_openat, HERE, file, O_RDONLY, S_ISUID | MODE);
  judge(way_name, fd, EPERM, 0);
  unlink(file);
}

#ifdef SYS_open /* what newer machines do not have any more */
static void by_chmod(void) {
  change(SYS_chmod, false, false);
}

static void by_open(void) {
  for (size_t i = 0; i < COUNT(modes); i++)
    look(syscall(SYS_open, file, O_WRONLY | O_CREAT, modes[i]),
         bit_of(modes[i]));
}

static void by_creat(void) {
  for (size_t i = 0; i < COUNT(modes); i++)
    look(syscall(SYS_creat, file, modes[i]), bit_of(modes[i]));
}

static void by_mknod(void) {
  for (size_t i = 0; i < COUNT(modes); i++)
    look(syscall(SYS_mknod, file, S_IFREG | modes[i], 0), bit_of(modes[i]));
}
#endif

static const way ways[] = {
    {"fchmod", by_fchmod},       {"fchmodat", by_fchmodat},
    {"fchmodat2", by_fchmodat2}, {"openat", by_openat},
    {"tmpfile", by_tmpfile},     {"mknodat", by_mknodat},
    {"nothing", by_nothing},
#ifdef SYS_open
    {"chmod", by_chmod},         {"open", by_open},
    {"creat", by_creat},         {"mknod", by_mknod},
#endif
};

int main(int argc, char **argv) {
  umask(0);
  way_name = argc > 1 ? argv[1] : "";
  if (strcmp(way_name, "list") != 0)
    return take_way(ways, COUNT(ways), way_name);
  for (size_t i = 0; i < COUNT(ways); i++)
    if (ways[i].fn != by_nothing)
      puts(ways[i].name);
  return 0;
}
