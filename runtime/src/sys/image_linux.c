/* SPDX-License-Identifier: MIT */
/*
 * Files of machine code; see image.h.  Linux, ELF.
 *
 * A file is mapped whole and read through at(), which gives a pointer only if
 * the asked range lies inside: no offset or count of the file is believed.
 */
#include "sys/image.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- our own path ------------------------------------------------------- */

static int copy_path(const char *path, char *out, size_t size) {
  size_t len = strlen(path);
  if (len >= size)
    return -ENAMETOOLONG;
  memcpy(out, path, len + 1);
  return 0;
}

/* Looks the address up in the kernel's list of mappings: always an absolute
 * path, whatever argv[0] was and wherever the process has gone since. */
static int path_from_maps(uintptr_t address, char *out, size_t size) {
  FILE *maps = fopen("/proc/self/maps", "re");
  if (!maps)
    return -errno;
  char line[PATH_MAX + 128];
  int rc = -ENOENT;
  while (rc == -ENOENT && fgets(line, sizeof line, maps)) {
    uintptr_t from, to;
    char *path = strchr(line, '/');
    if (!path || sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &from, &to) != 2 ||
        address < from || address >= to)
      continue;
    path[strcspn(path, "\n")] = '\0';
    rc = copy_path(path, out, size);
  }
  fclose(maps);
  return rc;
}

int pco__image_path(const void *address, char *out, size_t size) {
  Dl_info info;
  char real[PATH_MAX];
  if (!dladdr(address, &info) || !info.dli_fname || *info.dli_fname != '/')
    return path_from_maps((uintptr_t)address, out, size);
  if (!realpath(info.dli_fname, real))
    return -errno;
  return copy_path(real, out, size);
}

/* ---- somebody else's file ----------------------------------------------- */

typedef struct image {
  const char *base;
  size_t size;
} image;

/* Borrows `len` bytes at `offset`, or NULL if they are not in the file or not
 * aligned for what is there. */
static const void *at(const image *im, uint64_t offset, uint64_t len,
                      size_t align) {
  if (offset > im->size || len > im->size - offset || offset % align)
    return NULL;
  return im->base + offset;
}

static int refuse(char *why, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static int refuse(char *why, size_t size, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  vsnprintf(why, size, fmt, args);
  va_end(args);
  return -ENOEXEC;
}

/* Gives the ELF header of this very code. */
static const ElfW(Ehdr) * own_header(void) {
  Dl_info info;
  static const char here = 0;
  return dladdr(&here, &info) ? (const ElfW(Ehdr) *)info.dli_fbase : NULL;
}

static int check_header(const image *im, char *why, size_t size) {
  const ElfW(Ehdr) *h = at(im, 0, sizeof *h, 1);
  if (im->size < SELFMAG || memcmp(im->base, ELFMAG, SELFMAG) != 0)
    return refuse(why, size, "it is not a shared library (no ELF header)");
  if (!h)
    return refuse(why, size, "the file is cut short (%zu bytes)", im->size);
  const ElfW(Ehdr) *own = own_header();
  if (own && (h->e_ident[EI_CLASS] != own->e_ident[EI_CLASS] ||
              h->e_ident[EI_DATA] != own->e_ident[EI_DATA] ||
              h->e_machine != own->e_machine))
    return refuse(why, size,
                  "it is built for another machine (ELF class %d, machine %d; "
                  "this process is class %d, machine %d)",
                  h->e_ident[EI_CLASS], h->e_machine, own->e_ident[EI_CLASS],
                  own->e_machine);
  if (h->e_type != ET_DYN)
    return refuse(why, size, "it is ELF, but not a shared library (type %d)",
                  h->e_type);
  return 0;
}

static int check_segments(const image *im, char *why, size_t size) {
  const ElfW(Ehdr) *h = (const void *)im->base;
  const ElfW(Phdr) *p = at(im, h->e_phoff, (uint64_t)h->e_phnum * sizeof *p,
                           _Alignof(ElfW(Phdr)));
  if (!p || h->e_phentsize != sizeof *p)
    return refuse(why, size, "the file is cut short or damaged");
  for (int i = 0; i < h->e_phnum; i++)
    if (p[i].p_type == PT_LOAD && !at(im, p[i].p_offset, p[i].p_filesz, 1))
      return refuse(why, size,
                    "the file is cut short (%zu bytes; segment %d ends at "
                    "%" PRIu64 ")",
                    im->size, i,
                    (uint64_t)p[i].p_offset + (uint64_t)p[i].p_filesz);
  /* The last thing in a file; not needed to run it, but a sign. */
  if (h->e_shoff &&
      !at(im, h->e_shoff, (uint64_t)h->e_shnum * sizeof(ElfW(Shdr)), 1))
    return refuse(why, size, "the file is cut short (%zu bytes)", im->size);
  return 0;
}

/* Walks the defined dynamic symbols; strings must end inside the table. */
static void find_symbols(const image *im, const ElfW(Shdr) * table,
                         const ElfW(Shdr) * strings, const char *symbol,
                         size_t prefix_len, pco__image_facts *out) {
  size_t n = table->sh_size / sizeof(ElfW(Sym));
  const ElfW(Sym) *sym =
      at(im, table->sh_offset, n * sizeof *sym, _Alignof(ElfW(Sym)));
  const char *text = at(im, strings->sh_offset, strings->sh_size, 1);
  if (!sym || !text || !strings->sh_size || text[strings->sh_size - 1])
    return;
  out->has_symbol = 0;
  for (size_t i = 0; i < n; i++) {
    if (sym[i].st_shndx == SHN_UNDEF || sym[i].st_name >= strings->sh_size)
      continue;
    const char *name = text + sym[i].st_name;
    if (strcmp(name, symbol) == 0)
      out->has_symbol = 1;
    else if (strncmp(name, symbol, prefix_len) == 0)
      snprintf(out->other, sizeof out->other, "%s", name);
  }
}

static void look_inside(const image *im, const char *symbol, size_t prefix_len,
                        pco__image_facts *out) {
  const ElfW(Ehdr) *h = (const void *)im->base;
  const ElfW(Shdr) *s = at(im, h->e_shoff, (uint64_t)h->e_shnum * sizeof *s,
                           _Alignof(ElfW(Shdr)));
  if (!s || h->e_shentsize != sizeof *s)
    return;
  for (int i = 0; i < h->e_shnum; i++)
    if (s[i].sh_type == SHT_DYNSYM && s[i].sh_link < h->e_shnum)
      find_symbols(im, &s[i], &s[s[i].sh_link], symbol, prefix_len, out);
}

/* Maps the file; an empty one gives NULL and size 0. */
static int map_file(const char *path, image *out) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0)
    return -errno;
  struct stat st;
  int rc = fstat(fd, &st) < 0 ? -errno : 0;
  *out = (image){NULL, 0};
  if (rc == 0 && st.st_size > 0) {
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
      rc = -errno;
    else
      *out = (image){p, (size_t)st.st_size};
  }
  close(fd);
  return rc;
}

int pco__image_check(const char *path, const char *symbol, size_t prefix_len,
                     pco__image_facts *out, char *why, size_t why_size) {
  *out = (pco__image_facts){.has_symbol = -1};
  image im;
  int rc = map_file(path, &im);
  if (rc < 0) {
    snprintf(why, why_size, "it cannot be read: %s", strerror(-rc));
    return rc;
  }
  rc = check_header(&im, why, why_size);
  if (rc == 0)
    rc = check_segments(&im, why, why_size);
  if (rc == 0)
    look_inside(&im, symbol, prefix_len, out);
  if (im.size)
    munmap((void *)(uintptr_t)im.base, im.size);
  return rc;
}
