/* SPDX-License-Identifier: MIT */
/*
 * See transfer_words.h.
 */
#include "transfer_words.h"

#include "options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- words -------------------------------------------------------------- */

static int keep(const char ***list, size_t *n, const char *value) {
  if (!*value)
    return -EPROTO;
  const char **p = realloc(*list, (*n + 1) * sizeof *p);
  if (!p)
    return -ENOMEM;
  p[(*n)++] = value;
  *list = p;
  return 0;
}

static int read_symlinks(pco_transfer_words *w, const char *value) {
  static const char *const names[] = {"keep", "inside", "follow", "refuse"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(value, names[i]) == 0) {
      w->symlinks = (pco_symlinks)i;
      return 0;
    }
  return -EPROTO;
}

/* What stands for yes, and nothing else. */
static int read_flag(bool *flag, const char *value, const char *yes) {
  *flag = strcmp(value, yes) == 0;
  return *flag ? 0 : -EPROTO;
}

static int read_number(uint64_t *to, const char *value) {
  return pco_parse_number(value, to) ? 0 : -EPROTO;
}

static bool is_key(const char *word, size_t len, const char *key) {
  return strlen(key) == len && memcmp(word, key, len) == 0;
}

static int read_word(pco_transfer_words *w, const char *word) {
  size_t n = strcspn(word, "=");
  const char *value = word + n + 1;
  if (!word[n])
    return -EPROTO;
  if (is_key(word, n, "symlinks"))
    return read_symlinks(w, value);
  if (is_key(word, n, "include"))
    return keep(&w->include, &w->n_include, value);
  if (is_key(word, n, "exclude"))
    return keep(&w->exclude, &w->n_exclude, value);
  if (is_key(word, n, "on_error"))
    return read_flag(&w->skip, value, "skip");
  if (is_key(word, n, "progress"))
    return read_flag(&w->progress, value, "1");
  if (is_key(word, n, "total"))
    return read_flag(&w->total, value, "1");
  if (is_key(word, n, "changed"))
    return read_flag(&w->changed, value, "1");
  if (is_key(word, n, "checksum"))
    return read_flag(&w->checksum, value, "1");
  if (is_key(word, n, "parents"))
    return read_flag(&w->parents, value, "1");
  if (is_key(word, n, "bytes"))
    return read_number(&w->bytes, value);
  if (is_key(word, n, "entries"))
    return read_number(&w->entries, value);
  return is_key(word, n, "umask") ? read_number(&w->mask, value) : -EPROTO;
}

int pco_transfer_words_read(pco_transfer_words *w, const char *text,
                            size_t len) {
  const char *end = text + len;
  int rc = 0;
  size_t n = 0;
  memset(w, 0, sizeof *w);
  w->bytes = w->entries = UINT64_MAX;
  for (const char *word = text; rc == 0 && word < end; word += strlen(word) + 1)
    rc = n++ < PCO_TRANSFER_MAX_WORDS ? read_word(w, word) : -EPROTO;
  return rc == 0 && w->mask > 07777 ? -EPROTO : rc;
}

void pco_transfer_words_free(pco_transfer_words *w) {
  free(w->include);
  free(w->exclude);
  w->include = w->exclude = NULL;
  w->n_include = w->n_exclude = 0;
}

/* ---- patterns ----------------------------------------------------------- */

/* One name against one part of a pattern, each with its length.  Only the last
 * star is ever given more, so the time is bounded by the product. */
static bool name_matches(const char *p, size_t np, const char *s, size_t ns) {
  size_t i = 0, j = 0, star = SIZE_MAX, from = 0;
  while (j < ns) {
    if (i < np && p[i] == '*') {
      star = ++i;
      from = j;
    } else if (i + 1 < np && p[i] == '\\' && p[i + 1] == s[j]) {
      i += 2;
      j++;
    } else if (i < np && p[i] != '\\' && (p[i] == '?' || p[i] == s[j])) {
      i++;
      j++;
    } else if (star != SIZE_MAX) {
      i = star;
      j = ++from;
    } else {
      return false;
    }
  }
  while (i < np && p[i] == '*')
    i++;
  return i == np;
}

static const char *next_part(const char *s, size_t len) {
  s += len;
  while (*s == '/')
    s++;
  return s;
}

static bool is_any_depth(const char *p, size_t len) {
  return len == 2 && p[0] == '*' && p[1] == '*';
}

/* The same for parts: "**" is the star. */
static bool path_matches(const char *p, const char *s) {
  const char *star = NULL, *from = NULL;
  while (*s) {
    size_t np = strcspn(p, "/"), ns = strcspn(s, "/");
    if (is_any_depth(p, np)) {
      star = p = next_part(p, np);
      from = s;
    } else if (np > 0 && name_matches(p, np, s, ns)) {
      p = next_part(p, np);
      s = next_part(s, ns);
    } else if (star) {
      p = star;
      s = from = next_part(from, strcspn(from, "/"));
    } else {
      return false;
    }
  }
  return !*p; /* "x" itself is not below "x": a "**" at the end takes some */
}

bool pco_transfer_matches(const char *pattern, const char *path,
                          bool directory) {
  size_t n = strlen(pattern);
  if (n > 0 && pattern[n - 1] == '/' && !directory)
    return false;
  size_t first = strcspn(pattern, "/");
  const char *slash = strrchr(path, '/');
  const char *name = slash ? slash + 1 : path;
  if (first == n || first == n - 1) /* but for one at its end */
    return name_matches(pattern, first, name, strlen(name));
  while (*pattern == '/')
    pattern++;
  return path_matches(pattern, path);
}

static bool any(const char *const *list, size_t n, const char *path,
                bool directory) {
  for (size_t i = 0; i < n; i++)
    if (pco_transfer_matches(list[i], path, directory))
      return true;
  return false;
}

bool pco_transfer_excluded(const pco_transfer_words *w, const char *path,
                           bool directory) {
  return any(w->exclude, w->n_exclude, path, directory);
}

bool pco_transfer_included(const pco_transfer_words *w, const char *path,
                           bool directory) {
  return w->n_include == 0 || any(w->include, w->n_include, path, directory);
}
