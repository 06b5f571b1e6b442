/* SPDX-License-Identifier: MIT */
/* See test_dir.h. */
#include "test_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char dir[64];

bool dir_make(void) {
  snprintf(dir, sizeof dir, "/tmp/portico-test-XXXXXX");
  if (mkdtemp(dir))
    return true;
  perror(dir);
  return false;
}

bool dir_remove(void) {
  char command[256];
  snprintf(command, sizeof command, "chmod -R u+rwx %s; rm -rf %s", dir, dir);
  return system(command) == 0;
}

const char *in_dir(const char *name) {
  static char path[4][512];
  static int i;
  i = (i + 1) % 4;
  snprintf(path[i], sizeof path[i], "%s/%s", dir, name);
  return path[i];
}

void make_file(const char *name, const char *text, mode_t mode) {
  int fd = open(in_dir(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0 || write(fd, text, strlen(text)) < 0 || fchmod(fd, mode) != 0)
    perror(name);
  close(fd);
}

void make_link(const char *text, const char *name) {
  unlink(in_dir(name));
  if (symlink(text, in_dir(name)) != 0)
    perror(name);
}

bool file_holds(const char *name, const char *text) {
  char buf[4096];
  return read_file(in_dir(name), buf, sizeof buf) >= 0 &&
         strcmp(buf, text) == 0;
}

mode_t file_mode(const char *name) {
  struct stat st;
  return lstat(in_dir(name), &st) == 0 ? st.st_mode & 07777 : 0177777;
}

int count_entries(const char *name) {
  DIR *d = opendir(in_dir(name));
  int n = -2;
  while (d && readdir(d))
    n++;
  if (d)
    closedir(d);
  return n;
}

int read_file(const char *path, char *buf, size_t size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, buf, size - 1);
  buf[n < 0 ? 0 : n] = 0;
  if (fd >= 0)
    close(fd);
  return (int)n;
}
