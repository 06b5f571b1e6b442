/* SPDX-License-Identifier: MIT */
/*
 * Merging environments in linear time (a request may bring 100,000 entries).
 */
#include "env.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Entries by key: open addressing; a slot holds a place in `out` + 1. */
typedef struct table {
  char **out;
  size_t n;
  uint32_t *slots;
  size_t mask;
} table;

static size_t key_len(const char *entry) {
  return strcspn(entry, "=");
}

static uint32_t *slot_of(const table *t, const char *entry) {
  size_t len = key_len(entry);
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; i < len; i++)
    hash = (hash ^ (unsigned char)entry[i]) * 1099511628211u;
  size_t at = (size_t)(hash ^ hash >> 32) & t->mask;
  while (t->slots[at]) {
    const char *other = t->out[t->slots[at] - 1];
    if (key_len(other) == len && memcmp(other, entry, len) == 0)
      break;
    at = (at + 1) & t->mask;
  }
  return &t->slots[at];
}

static void put(table *t, char *entry) {
  if (key_len(entry) == 0)
    return; /* no program can ask for a variable without a name */
  uint32_t *slot = slot_of(t, entry);
  if (!*slot)
    *slot = (uint32_t)++t->n;
  t->out[*slot - 1] = entry;
}

static size_t length(char *const *list) {
  size_t n = 0;
  while (list && list[n])
    n++;
  return n;
}

char **pco_env_merge(char *const *base, char *const *changes) {
  size_t n_base = length(base), n_changes = length(changes);
  size_t size = 16;
  while (size < 2 * (n_base + n_changes))
    size *= 2;
  table t = {.mask = size - 1};
  t.out = calloc(n_base + n_changes + 1, sizeof *t.out);
  t.slots = calloc(size, sizeof *t.slots);
  if (!t.out || !t.slots) {
    free(t.out);
    free(t.slots);
    return NULL;
  }
  for (size_t i = 0; i < n_base; i++)
    put(&t, base[i]);
  for (size_t i = 0; i < n_changes; i++)
    put(&t, changes[i]);
  free(t.slots);
  size_t kept = 0; /* entries without '=' were removals */
  for (size_t i = 0; i < t.n; i++)
    if (strchr(t.out[i], '='))
      t.out[kept++] = t.out[i];
  t.out[kept] = NULL;
  return t.out;
}

const char *pco_env_get(char *const *env, const char *key) {
  size_t len = strlen(key);
  for (; *env; env++)
    if (strncmp(*env, key, len) == 0 && (*env)[len] == '=')
      return *env + len + 1;
  return NULL;
}
