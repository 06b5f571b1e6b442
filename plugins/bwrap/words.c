/* SPDX-License-Identifier: MIT */
/*
 * See words.h.
 */
#include "words.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <uv.h>

static bool reserve(bwrap_words *w, size_t more) {
  if (w->error)
    return false;
  if (w->len + more <= w->room)
    return true;
  size_t room = w->room ? w->room : 2048;
  while (room < w->len + more)
    room *= 2;
  char *data = realloc(w->data, room);
  if (!data) {
    w->error = UV_ENOMEM;
    return false;
  }
  w->data = data;
  w->room = room;
  return true;
}

void bwrap_words_add(bwrap_words *w, const char *word) {
  size_t size = strlen(word) + 1;
  if (!reserve(w, size))
    return;
  memcpy(w->data + w->len, word, size);
  w->len += size;
}

void bwrap_words_add_all(bwrap_words *w, ...) {
  va_list args;
  va_start(args, w);
  for (const char *word; (word = va_arg(args, const char *)) != NULL;)
    bwrap_words_add(w, word);
  va_end(args);
}

void bwrap_words_addf(bwrap_words *w, const char *fmt, ...) {
  va_list args, again;
  va_start(args, fmt);
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, fmt, args);
  va_end(args);
  if (n >= 0 && reserve(w, (size_t)n + 1)) {
    vsnprintf(w->data + w->len, (size_t)n + 1, fmt, again);
    w->len += (size_t)n + 1;
  }
  va_end(again);
}

int bwrap_words_memfd(const bwrap_words *w, const char *name) {
  return w->error ? w->error : bwrap_text_memfd(name, w->data, w->len);
}

void bwrap_words_deinit(bwrap_words *w) {
  free(w->data);
  memset(w, 0, sizeof *w);
}

int bwrap_text_memfd(const char *name, const char *text, size_t len) {
  int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd < 0)
    return -errno;
  ssize_t n = len ? pwrite(fd, text, len, 0) : 0; /* the offset stays 0 */
  if (n == (ssize_t)len)
    return fd;
  int rc = n < 0 ? -errno : UV_ENOSPC;
  close(fd);
  return rc;
}
