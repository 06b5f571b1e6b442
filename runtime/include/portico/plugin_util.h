/* SPDX-License-Identifier: MIT */
/*
 * Helpers for plugin authors, all static inline: nothing here is part of the
 * ABI, nothing needs to be linked, and no plugin has to use it.
 *
 * Nothing allocates but pco_pairs_dup().  A message is formatted into memory of
 * the caller: a buffer on the stack for host->fail, the `room` of an out
 * parameter.  Like plugin.h it compiles as C11 and C++17.
 */
#ifndef PORTICO_PLUGIN_UTIL_H
#define PORTICO_PLUGIN_UTIL_H

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "portico/plugin.h"

#if defined(__GNUC__)
#  define PCO_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#  define PCO_PRINTF(fmt, args)
#endif

#define PCO_MESSAGE_MAX 512 /* a message of one line; longer is cut */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- structs ------------------------------------------------------------ */

/* Defines T_init(): a T that is zero but for its struct_size. */
#define PCO__DEFINE_INIT(T)                                                    \
  static inline T T##_init(void) {                                             \
    T value;                                                                   \
    memset(&value, 0, sizeof value);                                           \
    value.struct_size = (uint32_t)sizeof value;                                \
    return value;                                                              \
  }

PCO__DEFINE_INIT(pco_error)
PCO__DEFINE_INIT(pco_limits)
PCO__DEFINE_INIT(pco_create_opts)
PCO__DEFINE_INIT(pco_sandbox_info)
PCO__DEFINE_INIT(pco_list_result)
PCO__DEFINE_INIT(pco_spawn_opts)
PCO__DEFINE_INIT(pco_process_result)
PCO__DEFINE_INIT(pco_exit_result)
PCO__DEFINE_INIT(pco_probe_result)
PCO__DEFINE_INIT(pco_host_spawn_opts)
PCO__DEFINE_INIT(pco_stat)
PCO__DEFINE_INIT(pco_stat_list)
PCO__DEFINE_INIT(pco_data)

/* Gives a result without an agent; set .sandbox and .id. */
static inline pco_sandbox_result pco_sandbox_result_init(void) {
  pco_sandbox_result value;
  memset(&value, 0, sizeof value);
  value.struct_size = (uint32_t)sizeof value;
  value.agent_fd = -1;
  return value;
}

/* ---- strings ------------------------------------------------------------ */

/* True if both are the same text; NULL equals only NULL. */
static inline bool pco_streq(const char *a, const char *b) {
  return a && b ? strcmp(a, b) == 0 : a == b;
}

/* True if s begins with prefix; NULL begins with nothing. */
static inline bool pco_starts_with(const char *s, const char *prefix) {
  return s && strncmp(s, prefix, strlen(prefix)) == 0;
}

/* True if s may be the id of a sandbox: 1 to 64 of [A-Za-z0-9._-], the first
 * a letter or digit. */
static inline bool pco_id_is_valid(const char *s) {
  static const char alnum[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "abcdefghijklmnopqrstuvwxyz0123456789";
  if (!s || !*s || !strchr(alnum, *s))
    return false;
  size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                       "abcdefghijklmnopqrstuvwxyz0123456789._-");
  return s[n] == '\0' && n <= 64;
}

/* Gives how many letters must be changed, added or dropped to make b of a;
 * 99 if either is longer than 32. */
static inline size_t pco_edit_distance(const char *a, const char *b) {
  size_t n = strlen(a), m = strlen(b), row[33];
  if (n > 32 || m > 32)
    return 99;
  for (size_t j = 0; j <= m; j++)
    row[j] = j;
  for (size_t i = 1; i <= n; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= m; j++) {
      size_t best = diagonal + (a[i - 1] != b[j - 1]);
      if (row[j] + 1 < best)
        best = row[j] + 1;
      if (row[j - 1] + 1 < best)
        best = row[j - 1] + 1;
      diagonal = row[j];
      row[j] = best;
    }
  }
  return row[m];
}

/* Gives the one of a NULL-terminated list that is probably meant by s, or NULL
 * if nothing is near.  Borrowed from the list. */
static inline const char *pco_nearest(const char *s, const char *const *list) {
  const char *best = NULL;
  size_t best_distance = strlen(s) / 3 + 2;
  for (; *list; list++) {
    size_t distance = pco_edit_distance(s, *list);
    if (distance < best_distance) {
      best = *list;
      best_distance = distance;
    }
  }
  return best;
}

/* ---- errors ------------------------------------------------------------- */

/* Fills an out parameter, the message into its room.  Returns code.  err may
 * be NULL; its struct_size and room are the caller's and kept. */
PCO_PRINTF(4, 0)
static inline int pco_error_vset(pco_error *err, int code, uint32_t source,
                                 const char *fmt, va_list args) {
  if (!err)
    return code;
  err->code = code;
  err->source = source;
  err->flags = 0;
  err->message = err->path = NULL;
  err->cause = NULL;
  if (fmt && err->room && err->room_size > 0) {
    vsnprintf(err->room, err->room_size, fmt, args);
    err->message = err->room;
  }
  return code;
}

PCO_PRINTF(4, 5)
static inline int pco_error_set(pco_error *err, int code, uint32_t source,
                                const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  pco_error_vset(err, code, source, fmt, args);
  va_end(args);
  return code;
}

/* Gives an error to fill, with room for its message. */
static inline pco_error pco_error_in(char *room, size_t size) {
  pco_error err = pco_error_init();
  err.room = room;
  err.room_size = size;
  return err;
}

/* Fails op with a message.  fmt may be NULL: the code's own text.  [loop] */
PCO_PRINTF(5, 6)
static inline void pco_fail(const pco_host *host, pco_op *op, int code,
                            uint32_t source, const char *fmt, ...) {
  char text[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(text, sizeof text);
  va_list args;
  va_start(args, fmt);
  pco_error_vset(&err, code, source, fmt, args);
  va_end(args);
  host->fail(host, op, &err);
}

/* The same, about a path (or a program's name). */
PCO_PRINTF(6, 7)
static inline void pco_fail_path(const pco_host *host, pco_op *op, int code,
                                 uint32_t source, const char *path,
                                 const char *fmt, ...) {
  char text[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(text, sizeof text);
  va_list args;
  va_start(args, fmt);
  pco_error_vset(&err, code, source, fmt, args);
  va_end(args);
  err.path = path;
  host->fail(host, op, &err);
}

/* ---- settings ----------------------------------------------------------- */

/* Gives the value of a setting, borrowed, or NULL.  The last of a name
 * counts. */
static inline const char *pco_setting_get(const pco_pair *settings, size_t n,
                                          const char *key) {
  while (n-- > 0)
    if (pco_streq(settings[n].key, key))
      return settings[n].value;
  return NULL;
}

/* "a, b, c" of a NULL-terminated list, cut where the room ends. */
static inline const char *pco_join(const char *const *list, char *room,
                                   size_t size) {
  size_t n = 0;
  room[0] = 0;
  for (const char *const *s = list; *s && n < size; s++)
    n += (size_t)snprintf(room + n, size - n, s == list ? "%s" : ", %s", *s);
  return room;
}

/* Checks that every setting is in `known` (NULL-terminated).  Returns 0, or
 * -EINVAL with a message that names the first unknown one and the nearest. */
static inline int pco_settings_check(const pco_pair *settings, size_t n,
                                     const char *const *known, pco_error *err) {
  for (size_t i = 0; i < n; i++) {
    const char *key = settings[i].key;
    const char *const *k = known;
    while (*k && !pco_streq(*k, key))
      k++;
    if (*k)
      continue;
    const char *near = pco_nearest(key, known);
    if (near)
      return pco_error_set(err, -EINVAL, PCO_SOURCE_PLUGIN,
                           "unknown setting '%s'; did you mean '%s'?", key,
                           near);
    char all[PCO_MESSAGE_MAX / 2];
    return pco_error_set(err, -EINVAL, PCO_SOURCE_PLUGIN,
                         *known ? "unknown setting '%s'; known: %s"
                                : "unknown setting '%s'; there are none%s",
                         key, pco_join(known, all, sizeof all));
  }
  return 0;
}

/* Copies pairs (labels, settings) into one block, to be freed with one free().
 * NULL without memory; n may be 0. */
static inline pco_pair *pco_pairs_dup(const pco_pair *pairs, size_t n) {
  size_t size = (n ? n : 1) * sizeof *pairs;
  for (size_t i = 0; i < n; i++)
    size += strlen(pairs[i].key) + strlen(pairs[i].value) + 2;
  pco_pair *copy = (pco_pair *)malloc(size);
  char *text = copy ? (char *)(copy + (n ? n : 1)) : NULL;
  for (size_t i = 0; copy && i < n; i++) {
    size_t key = strlen(pairs[i].key) + 1, value = strlen(pairs[i].value) + 1;
    copy[i].key = (const char *)memcpy(text, pairs[i].key, key);
    copy[i].value = (const char *)memcpy(text + key, pairs[i].value, value);
    text += key + value;
  }
  return copy;
}

/* ---- options of create -------------------------------------------------- */

/* What a caller may ask for, a bit each. */
enum {
  PCO_WANTS_IMAGE = 1 << 0,
  PCO_WANTS_CWD = 1 << 1,
  PCO_WANTS_USER = 1 << 2,
  PCO_WANTS_NETWORK = 1 << 3,
  PCO_WANTS_ENV = 1 << 4,
  PCO_WANTS_MOUNTS = 1 << 5,
  PCO_WANTS_TTL = 1 << 6,
  PCO_WANTS_IDLE_TTL = 1 << 7,
  PCO_WANTS_SNAPSHOT = 1 << 8,
  PCO_WANTS_DETACHABLE = 1 << 9,
  PCO_WANTS_MEMORY = 1 << 10,
  PCO_WANTS_PIDS = 1 << 11,
  PCO_WANTS_CPUS = 1 << 12,
  PCO_WANTS_DISK = 1 << 13,
  PCO_WANTS_OPEN_FILES = 1 << 14
};

/* Gives the bits of the limits that are set; limits may be NULL. */
static inline uint32_t pco_limits_wanted(const pco_limits *limits) {
  if (!limits)
    return 0;
  return (limits->memory_bytes ? (uint32_t)PCO_WANTS_MEMORY : 0u) |
         (limits->pids ? (uint32_t)PCO_WANTS_PIDS : 0u) |
         (limits->cpus > 0 ? (uint32_t)PCO_WANTS_CPUS : 0u) |
         (limits->disk_bytes ? (uint32_t)PCO_WANTS_DISK : 0u) |
         (limits->open_files ? (uint32_t)PCO_WANTS_OPEN_FILES : 0u);
}

/* Gives the bits of everything that is asked for. */
static inline uint32_t pco_create_wanted(const pco_create_opts *o) {
  return (o->image ? (uint32_t)PCO_WANTS_IMAGE : 0u) |
         (o->cwd ? (uint32_t)PCO_WANTS_CWD : 0u) |
         (o->user ? (uint32_t)PCO_WANTS_USER : 0u) |
         (o->network ? (uint32_t)PCO_WANTS_NETWORK : 0u) |
         (o->env && *o->env ? (uint32_t)PCO_WANTS_ENV : 0u) |
         (o->n_mounts ? (uint32_t)PCO_WANTS_MOUNTS : 0u) |
         (o->ttl > 0 ? (uint32_t)PCO_WANTS_TTL : 0u) |
         (o->idle_ttl > 0 ? (uint32_t)PCO_WANTS_IDLE_TTL : 0u) |
         (o->snapshot ? (uint32_t)PCO_WANTS_SNAPSHOT : 0u) |
         (o->flags & PCO_CREATE_DETACHABLE ? (uint32_t)PCO_WANTS_DETACHABLE
                                           : 0u) |
         pco_limits_wanted(o->limits);
}

/* Gives the name of the lowest bit of wants: what a user wrote.  Static. */
static inline const char *pco_wants_name(uint32_t wants) {
  static const char *const names[] = {
      "image",       "cwd",           "user",
      "network",     "env",           "mounts",
      "ttl",         "idle_ttl",      "snapshot",
      "detachable",  "limits.memory", "limits.pids",
      "limits.cpus", "limits.disk",   "limits.open_files"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (wants & (1u << i))
      return names[i];
  return "?";
}

#ifdef __cplusplus
}
#endif
#endif /* PORTICO_PLUGIN_UTIL_H */
