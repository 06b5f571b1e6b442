/* SPDX-License-Identifier: MIT */
/*
 * See info.h.
 */
#include "info.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <uv.h>

#define STR(x)  #x
#define XSTR(x) STR(x)
#define FIXED                                                                  \
  "host=%0" XSTR(PLUGIN_INFO_DIGITS) "u\nkeeper=%0" XSTR(                      \
      PLUGIN_INFO_DIGITS) "u\n"
_Static_assert(PLUGIN_INFO_HOST == sizeof "host=" - 1 &&
                   PLUGIN_INFO_KEEPER == PLUGIN_INFO_HOST + PLUGIN_INFO_DIGITS +
                                             sizeof "\nkeeper=" - 1,
               "the numbers are where they are looked for");

uint64_t plugin_info_namespace(void) {
  struct stat st;
  return stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : 0;
}

/* ---- writing ------------------------------------------------------------ */

typedef struct writer {
  char *text; /* owned */
  size_t len;
  int error;
} writer;

/* Room for n bytes more. */
static bool reserve(writer *w, size_t n) {
  if (w->error)
    return false;
  if (w->len + n > PLUGIN_INFO_MAX)
    w->error = UV_E2BIG;
  else if (!w->text && !(w->text = malloc(PLUGIN_INFO_MAX)))
    w->error = UV_ENOMEM;
  return !w->error;
}

static void add_bytes(writer *w, const char *bytes, size_t n) {
  if (!reserve(w, n))
    return;
  memcpy(w->text + w->len, bytes, n);
  w->len += n;
}

PCO_PRINTF(2, 3)
static void addf(writer *w, const char *fmt, ...) {
  char line[128];
  va_list args;
  va_start(args, fmt);
  int n = vsnprintf(line, sizeof line, fmt, args);
  va_end(args);
  add_bytes(w, line, n < 0 ? 0 : (size_t)n);
}

static bool is_plain(unsigned char c) {
  return c > 32 && c < 127 && c != '%' && c != '=';
}

static void add_escaped(writer *w, const char *s) {
  for (; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (is_plain(c))
      add_bytes(w, s, 1);
    else
      addf(w, "%%%02X", c);
  }
}

static void add_line(writer *w, const char *key, const char *value) {
  if (!value)
    return;
  addf(w, "%s=", key);
  add_escaped(w, value);
  addf(w, "\n");
}

static void add_label(writer *w, const pco_pair *label) {
  addf(w, "label.");
  add_escaped(w, label->key);
  addf(w, "=");
  add_escaped(w, label->value);
  addf(w, "\n");
}

int plugin_info_write(const plugin_info *i, char **text, size_t *len) {
  writer w = {0};
  addf(&w, FIXED, (unsigned)i->host, (unsigned)i->keeper);
  addf(&w, "pidns=%llu\n", (unsigned long long)i->namespace);
  addf(&w, "created=%lld\n", (long long)(i->created * 1e6));
  addf(&w, "expires=%lld\n", (long long)(i->expires * 1e6));
  add_line(&w, "name", i->name);
  add_line(&w, "image", i->image);
  add_line(&w, "cwd", i->cwd);
  add_line(&w, "dir", i->dir);
  for (size_t n = 0; n < i->n_labels; n++)
    add_label(&w, &i->labels[n]);
  if (w.error) {
    free(w.text);
    return w.error;
  }
  *text = w.text;
  *len = w.len;
  return 0;
}

/* ---- reading ------------------------------------------------------------ */

static int digit(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

/* In place; false if it is not what add_escaped() writes. */
static bool unescape(char *s) {
  char *to = s;
  while (*s) {
    bool escaped = *s == '%'; /* `to` may be where s is */
    int high = escaped ? digit(s[1]) : 0;
    int low = escaped && high >= 0 ? digit(s[2]) : 0;
    if (high < 0 || low < 0 || (escaped && high + low == 0))
      return false;
    *to++ = escaped ? (char)(high * 16 + low) : *s;
    s += escaped ? 3 : 1;
  }
  *to = '\0';
  return true;
}

static bool take_text(plugin_info *i, const char *key, const char *value) {
  const struct {
    const char *key;
    const char **to;
  } texts[] = {{"name", &i->name},
               {"image", &i->image},
               {"cwd", &i->cwd},
               {"dir", &i->dir}};
  for (size_t n = 0; n < sizeof texts / sizeof *texts; n++)
    if (pco_streq(texts[n].key, key)) {
      *texts[n].to = value;
      return true;
    }
  return false;
}

static void take_number(plugin_info *i, const char *key, const char *value) {
  if (pco_streq(key, "host"))
    i->host = (pid_t)strtoul(value, NULL, 10);
  else if (pco_streq(key, "keeper"))
    i->keeper = (pid_t)strtoul(value, NULL, 10);
  else if (pco_streq(key, "pidns"))
    i->namespace = strtoull(value, NULL, 10);
  else if (pco_streq(key, "created"))
    i->created = (double)strtoll(value, NULL, 10) / 1e6;
  else if (pco_streq(key, "expires"))
    i->expires = (double)strtoll(value, NULL, 10) / 1e6;
}

static bool take_line(plugin_info *i, char *line) {
  static const char label[] = "label.";
  char *value = strchr(line, '=');
  if (!value)
    return false;
  *value++ = '\0';
  if (!unescape(line) || !unescape(value))
    return false;
  if (pco_starts_with(line, label))
    i->pairs[i->n_labels++] =
        (pco_pair){.key = line + sizeof label - 1, .value = value};
  else if (!take_text(i, line, value))
    take_number(i, line, value);
  return true;
}

static size_t count_lines(const char *text) {
  size_t n = 0;
  for (; *text; text++)
    n += *text == '\n';
  return n;
}

int plugin_info_read(plugin_info *i, char *text, size_t len) {
  i->memory = text;
  if (len == 0 || text[len - 1] != '\n' || memchr(text, 0, len))
    return UV_EINVAL;
  text[len - 1] = '\0'; /* strsep() then ends with the last line */
  i->pairs = calloc(count_lines(text) + 1, sizeof *i->pairs);
  i->labels = i->pairs;
  if (!i->pairs)
    return UV_ENOMEM;
  for (char *line; (line = strsep(&text, "\n")) != NULL;)
    if (!take_line(i, line))
      return UV_EINVAL;
  return 0;
}

void plugin_info_deinit(plugin_info *i) {
  free(i->memory);
  free(i->pairs);
  memset(i, 0, sizeof *i);
}
