/* SPDX-License-Identifier: MIT */
/* A bump allocator; see arena.h. */
#include "arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_SIZE 2048u
#define ALIGNMENT  alignof(max_align_t)

struct pco__arena_block {
  struct pco__arena_block *next;
  size_t used;
  alignas(max_align_t) unsigned char data[];
};

static bool add_block(pco__arena *a, size_t at_least) {
  size_t size = at_least > BLOCK_SIZE ? at_least : BLOCK_SIZE;
  struct pco__arena_block *b = calloc(1, sizeof *b + size);
  if (!b) {
    a->failed = true;
    return false;
  }
  b->next = a->blocks;
  a->blocks = b;
  a->left = size;
  return true;
}

void *pco__arena_alloc(pco__arena *a, size_t size) {
  if (a->failed || size > SIZE_MAX - ALIGNMENT) {
    a->failed = true;
    return NULL;
  }
  size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if ((!a->blocks || a->left < size) && !add_block(a, size))
    return NULL;
  void *p = a->blocks->data + a->blocks->used;
  a->blocks->used += size;
  a->left -= size;
  return p;
}

char *pco__arena_copy(pco__arena *a, const char *s, size_t len) {
  char *p = pco__arena_alloc(a, len + 1);
  if (p && len)
    memcpy(p, s, len);
  return p;
}

char *pco__arena_string(pco__arena *a, const char *s) {
  return pco__arena_copy(a, s, strlen(s));
}

void pco__arena_free(pco__arena *a) {
  while (a->blocks) {
    struct pco__arena_block *next = a->blocks->next;
    free(a->blocks);
    a->blocks = next;
  }
  a->left = 0;
  a->failed = false;
}
