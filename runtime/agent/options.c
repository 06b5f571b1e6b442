/* SPDX-License-Identifier: MIT */
/*
 * See options.h.
 */
#include "options.h"

#include "keeper.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The text behind a word, or NULL if it does not begin with that. */
static const char *skip(const char *text, const char *word) {
  size_t len = strlen(word);
  return strncmp(text, word, len) == 0 ? text + len : NULL;
}

bool pco_parse_number(const char *text, uint64_t *out) {
  char *end;
  errno = 0;
  *out = strtoull(text, &end, 10);
  return *text >= '0' && *text <= '9' && !*end && !errno;
}

bool pco_parse_limits(const char *text, pco_rlimits *out) {
  while (*text) {
    const char *at;
    uint64_t *to;
    if ((at = skip(text, "memory=")))
      to = &out->memory;
    else if ((at = skip(text, "pids=")))
      to = &out->pids;
    else if ((at = skip(text, "open_files=")))
      to = &out->open_files;
    else
      return false;
    char *end;
    errno = 0;
    *to = strtoull(at, &end, 10);
    if (*at < '0' || *at > '9' || errno || *to == 0 || *to > INT64_MAX ||
        (*end && *end != ',') || (*end && !end[1]))
      return false;
    text = *end ? end + 1 : end;
  }
  return true;
}

bool pco_parse_emulated(const char *text, uint32_t *out) {
  *out = 0;
  if (strcmp(text, "none") == 0)
    return true;
  while (*text) {
    const char *at;
    if ((at = skip(text, "memory")))
      *out |= PCO_KEEPER_LIMIT_MEMORY;
    else if ((at = skip(text, "pids")))
      *out |= PCO_KEEPER_LIMIT_PIDS;
    else
      return false;
    if (*at && (*at != ',' || !at[1]))
      return false;
    text = *at ? at + 1 : at;
  }
  return *out != 0;
}
