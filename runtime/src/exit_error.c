/* SPDX-License-Identifier: MIT */
/* Why a command is an ExitError; see exit_error.h. */
#include "exit_error.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* ---- text from inside ---------------------------------------------------- */

/* Moves the cursor, starts a control sequence, or turns the direction of the
 * text around it; as errors.lua sees it. */
static bool is_control(uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c <= 0x9f) || (c >= 0x200b && c <= 0x200f) ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) ||
         c == 0xfeff;
}

/* Reads one code point of UTF-8; its bytes, or 0 if it is none. */
static size_t decode(const unsigned char *s, size_t len, uint32_t *out) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  size_t n = s[0] < 0x80   ? 1
             : s[0] < 0xc2 ? 0
             : s[0] < 0xe0 ? 2
             : s[0] < 0xf0 ? 3
             : s[0] < 0xf5 ? 4
                           : 0;
  if (n == 0 || n > len)
    return 0;
  uint32_t c = n == 1 ? s[0] : s[0] & (0x7fu >> n);
  for (size_t i = 1; i < n; i++) {
    if ((s[i] & 0xc0) != 0x80)
      return 0;
    c = c << 6 | (s[i] & 0x3fu);
  }
  *out = c;
  return c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff) ? 0 : n;
}

/* Writes what can be shown of the next bytes to out (at most 4, and a NUL) and
 * tells how many they were. */
static size_t show(const unsigned char *s, size_t len, char out[5]) {
  uint32_t c;
  size_t n = decode(s, len, &c);
  if (n > 0 && !is_control(c)) {
    memcpy(out, s, n);
    out[n] = '\0';
    return n;
  }
  if (*s == '\t')
    memcpy(out, "\\t", 3);
  else
    snprintf(out, 5, "\\x%02X", *s);
  return 1;
}

static void escape(const char *text, size_t len, char out[PCO__LAST_LINE + 1]) {
  static const char more[] = "...";
  size_t used = 0, cut = 0; /* where `more` still has room */
  for (size_t at = 0; at < len;) {
    char shown[5];
    at += show((const unsigned char *)text + at, len - at, shown);
    size_t n = strlen(shown);
    if (used + n > PCO__LAST_LINE) {
      memcpy(out + cut, more, sizeof more);
      return;
    }
    memcpy(out + used, shown, n);
    used += n;
    if (used + sizeof more - 1 <= PCO__LAST_LINE)
      cut = used;
  }
  out[used] = '\0';
}

static bool is_blank(char c) {
  return c == '\n' || c == '\r' || c == ' ' || c == '\t';
}

/* The last line with something in it; a carriage return begins one, too. */
static size_t last_line(const char *text, size_t *len) {
  size_t end = *len;
  while (end > 0 && is_blank(text[end - 1]))
    end--;
  size_t at = end;
  while (at > 0 && text[at - 1] != '\n' && text[at - 1] != '\r')
    at--;
  *len = end - at;
  return at;
}

/* ---- the error ----------------------------------------------------------- */

pco__error *pco__exit_error(const pco__exit_words *w) {
  char line[PCO__LAST_LINE + 1] = "", how[128];
  size_t len = w->err ? w->len : 0;
  size_t at = last_line(w->err, &len);
  if (len > 0)
    escape(w->err + at, len, line);
  if (w->oom)
    snprintf(how, sizeof how,
             "the command ran out of memory: the kernel ended it by SIGKILL "
             "(limits.memory)");
  else if (w->signal)
    snprintf(how, sizeof how, "the command was ended by %.32s", w->signal);
  else
    snprintf(how, sizeof how, "the command exited with code %d", w->code);
  return pco__error_new(PCO_EEXIT, PCO_SOURCE_HOST, w->path, "%s%s%s", how,
                        *line ? ": " : "", line);
}
