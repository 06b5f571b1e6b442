/* SPDX-License-Identifier: MIT */
/* Patterns of file names; see glob.h. */
#include "glob.h"

#include <string.h>

/* ---- matching ------------------------------------------------------------ */

/* The end of the set that begins at p ('['), behind its ']'; NULL: it has no
 * end, and the bracket stands for itself. */
static const char *set_end(const char *p) {
  p++;
  if (*p == '!' || *p == '^')
    p++;
  if (*p == ']')
    p++;
  for (; *p && *p != ']'; p++)
    if (*p == '\\' && p[1])
      p++;
  return *p ? p + 1 : NULL;
}

/* Takes one byte of a set, which a backslash may be before. */
static unsigned char set_byte(const char **p) {
  if (**p == '\\' && (*p)[1])
    (*p)++;
  return (unsigned char)*(*p)++;
}

static bool in_set(const char *p, const char *end, unsigned char c) {
  bool inverted = p[1] == '!' || p[1] == '^';
  bool found = false;
  p += inverted ? 2 : 1;
  while (p < end - 1) {
    unsigned char low = set_byte(&p);
    unsigned char high = low;
    if (*p == '-' && p + 1 < end - 1) {
      p++;
      high = set_byte(&p);
    }
    found |= low <= c && c <= high;
  }
  return found != inverted;
}

/* Matches one byte; *p goes behind what stands for it. */
static bool match_one(const char **p, unsigned char c) {
  const char *end = **p == '[' ? set_end(*p) : NULL;
  if (end) {
    bool found = in_set(*p, end, c);
    *p = end;
    return found;
  }
  if (**p == '?') {
    (*p)++;
    return true;
  }
  if (**p == '\\' && (*p)[1])
    (*p)++;
  return (unsigned char)*(*p)++ == c;
}

/* A star takes as little as it can; only the last one is ever given more, so
 * the time is bounded by the product of both lengths. */
static bool match(const char *p, const char *s) {
  const char *star = NULL;
  const char *from = NULL;
  while (*s) {
    if (*p == '*') {
      star = ++p;
      from = s;
      continue;
    }
    if (*p && match_one(&p, (unsigned char)*s)) {
      s++;
      continue;
    }
    if (!star)
      return false;
    p = star;
    s = ++from;
  }
  while (*p == '*')
    p++;
  return !*p;
}

bool pco__glob_matches(const pco__glob_part *part, const char *name,
                       bool hidden) {
  if (part->kind == PCO__GLOB_LITERAL)
    return strcmp(part->text, name) == 0;
  bool may_be_hidden = hidden || part->text[0] == '.';
  if (name[0] == '.' && !may_be_hidden)
    return false;
  return part->kind == PCO__GLOB_ANY_DEPTH || match(part->text, name);
}

/* ---- taking apart -------------------------------------------------------- */

static void unescape(char *s) {
  char *to = s;
  for (; *s; s++) {
    if (*s == '\\' && s[1])
      s++;
    *to++ = *s;
  }
  *to = 0;
}

static bool is_wild(const char *s) {
  for (; *s; s++) {
    if (*s == '\\' && s[1])
      s++;
    else if (*s == '*' || *s == '?' || (*s == '[' && set_end(s)))
      return true;
  }
  return false;
}

static pco__glob_part part_of(char *text) {
  pco__glob_part part = {.kind = PCO__GLOB_LITERAL, .text = text};
  if (strcmp(text, "**") == 0)
    part.kind = PCO__GLOB_ANY_DEPTH;
  else if (is_wild(text))
    part.kind = PCO__GLOB_WILDCARD;
  else
    unescape(text);
  return part;
}

int pco__glob_split(char *pattern, pco__glob_part *parts, int max) {
  int n = 0;
  char *save = NULL;
  for (char *s = strtok_r(pattern, "/", &save); s;
       s = strtok_r(NULL, "/", &save)) {
    pco__glob_part part = part_of(s);
    bool again = part.kind == PCO__GLOB_ANY_DEPTH && n > 0 &&
                 parts[n - 1].kind == PCO__GLOB_ANY_DEPTH;
    if (again || strcmp(s, ".") == 0)
      continue;
    if (n == max)
      return -1;
    parts[n++] = part;
  }
  return n;
}
