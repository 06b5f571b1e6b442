/* SPDX-License-Identifier: MIT */
/*
 * The words of a transfer; see transfer_ask.h.  They are written twice: first
 * only counted, then into the arena of the op.
 */
#include "transfer_ask.h"

#include <stdio.h>
#include <string.h>

typedef struct words {
  char *to; /* NULL: they are only counted */
  size_t len;
} words;

static void put(words *w, const char *bytes, size_t n) {
  if (w->to)
    memcpy(w->to + w->len, bytes, n);
  w->len += n;
}

/* Adds "KEY=VALUE" and its NUL. */
static void add(words *w, const char *key, const char *value) {
  put(w, key, strlen(key));
  put(w, "=", 1);
  put(w, value, strlen(value) + 1);
}

static void add_number(words *w, const char *key, uint64_t value) {
  char text[24];
  snprintf(text, sizeof text, "%llu", (unsigned long long)value);
  add(w, key, text);
}

/* The umask, which a process can only ask for by changing it. */
static unsigned read_umask(void) {
  char line[128];
  unsigned mask = 022;
  FILE *file = fopen("/proc/self/status", "re");
  if (!file)
    return mask;
  while (fgets(line, sizeof line, file))
    if (sscanf(line, "Umask: %o", &mask) == 1)
      break;
  fclose(file);
  return mask;
}

static void add_all(words *w, const pco__transfer_wish *wish, bool upload,
                    unsigned mask) {
  static const char *const links[] = {"keep", "inside", "follow", "refuse"};
  for (size_t i = 0; i < wish->n_include; i++)
    add(w, "include", wish->include[i]);
  for (size_t i = 0; i < wish->n_exclude; i++)
    add(w, "exclude", wish->exclude[i]);
  add(w, "symlinks", links[wish->symlinks]);
  if (wish->skip)
    add(w, "on_error", "skip");
  if (wish->checksum)
    add(w, "checksum", "1");
  if (wish->parents)
    add(w, "parents", "1");
  add_number(w, "entries", wish->max_entries);
  add_number(w, "bytes", wish->max_bytes);
  if (wish->only_changed)
    add(w, "changed", "1");
  if (!upload)
    add_number(w, "umask", mask);
}

int pco__transfer_ask(pco__transfer *t, const pco__transfer_wish *wish) {
  unsigned mask = t->upload ? 0 : read_umask();
  words w = {0};
  t->only_changed = wish->only_changed;
  add_all(&w, wish, t->upload, mask);
  if (w.len > PCO__MAX_PATTERN_BYTES)
    return PCO_ELIMIT;
  t->words_len = w.len;
  w = (words){.to = pco__arena_alloc(&t->op.arena, w.len)};
  if (!w.to)
    return UV_ENOMEM;
  add_all(&w, wish, t->upload, mask);
  t->words = w.to;
  return 0;
}
