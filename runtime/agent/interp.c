/* SPDX-License-Identifier: MIT */
/*
 * Reading the first bytes of a hostile file; every offset in it is only ever
 * given to pread, which refuses what does not exist.
 */
#include "interp.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* Copies the text up to a blank, a control byte or the end. */
static int take(const char *s, size_t len, char *buf, size_t size) {
  size_t n = 0;
  while (n < len && n + 1 < size && s[n] > ' ' && s[n] < 127) {
    buf[n] = s[n];
    n++;
  }
  buf[n] = 0;
  return n > 0 ? 0 : -ENOENT;
}

static int from_script(int fd, char *buf, size_t size) {
  char line[258];
  ssize_t n = pread(fd, line, sizeof line, 0);
  if (n < 3 || line[0] != '#' || line[1] != '!')
    return -ENOENT;
  size_t at = 2, len = (size_t)n;
  while (at < len && (line[at] == ' ' || line[at] == '\t'))
    at++;
  return take(line + at, len - at, buf, size);
}

#if UINTPTR_MAX > 0xffffffffu
typedef Elf64_Ehdr elf_header;
typedef Elf64_Phdr elf_segment;
#else
typedef Elf32_Ehdr elf_header;
typedef Elf32_Phdr elf_segment;
#endif

static int from_elf(int fd, char *buf, size_t size) {
  elf_header h;
  if (pread(fd, &h, sizeof h, 0) != sizeof h ||
      memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 ||
      h.e_phentsize != sizeof(elf_segment))
    return -ENOENT;
  for (unsigned i = 0; i < h.e_phnum && i < 64; i++) {
    elf_segment s;
    off_t at = (off_t)(h.e_phoff + i * sizeof s);
    if (pread(fd, &s, sizeof s, at) != sizeof s)
      return -ENOENT;
    if (s.p_type != PT_INTERP)
      continue;
    char text[256];
    size_t want = s.p_filesz < sizeof text ? s.p_filesz : sizeof text;
    ssize_t n = pread(fd, text, want, (off_t)s.p_offset);
    return n > 0 ? take(text, (size_t)n, buf, size) : -ENOENT;
  }
  return -ENOENT;
}

int pco_interp_of(const char *path, char *buf, size_t size) {
  buf[0] = 0;
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0)
    return -ENOENT;
  int rc = from_script(fd, buf, size);
  if (rc != 0)
    rc = from_elf(fd, buf, size);
  close(fd);
  return rc;
}
