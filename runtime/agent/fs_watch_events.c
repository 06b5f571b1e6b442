/* SPDX-License-Identifier: MIT */
/*
 * What happened to the files of a watch: from the kernel's events to those that
 * are told.
 *
 * A rename is two events of the kernel's with one cookie; the first waits a
 * moment for the second, and is a removal if none comes.  When too much waits,
 * or the kernel itself lost events, all of it becomes one event that says so.
 */
#include "fs_watch.h"

#include "clock.h"

#include "../src/glob.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_EVENTS 8192u
#define MAX_BYTES  (4u * 1024 * 1024)
#define MOVE_TIME  (50 * PCO_MS)
#define MAX_PARTS  64

/* ---- patterns ------------------------------------------------------------ */

/* Whether the rest of a path matches the parts; `path` is taken apart. */
static bool match_parts(const pco__glob_part *parts, int n, char *path) {
  if (n == 0)
    return !*path;
  if (parts->kind == PCO__GLOB_ANY_DEPTH) {
    for (char *at = path;;) {
      if (match_parts(parts + 1, n - 1, at))
        return true;
      at = strchr(at, '/');
      if (!at)
        return n == 1;
      at++;
    }
  }
  if (!*path)
    return false;
  char *end = strchr(path, '/');
  if (end)
    *end = 0;
  bool good = pco__glob_matches(parts, path, true);
  if (end)
    *end = '/';
  return good && match_parts(parts + 1, n - 1, end ? end + 1 : strchr(path, 0));
}

/* One without a slash is matched against the last name, one with a slash
 * against the path; a slash at its end asks for a directory. */
static bool matches(const char *pattern, const char *path, bool directory) {
  pco__glob_part parts[MAX_PARTS];
  char *text = strdup(pattern), *copy = strdup(path);
  size_t len = strlen(pattern);
  bool good = text && copy && len > 0;
  if (good && pattern[len - 1] == '/') {
    text[--len] = 0;
    good = directory;
  }
  bool whole = good && strchr(text, '/');
  int n = good ? pco__glob_split(text, parts, MAX_PARTS) : 0;
  char *slash = good ? strrchr(copy, '/') : NULL;
  good = good && n > 0 &&
         match_parts(parts, n, whole || !slash ? copy : slash + 1);
  free(text);
  free(copy);
  return good;
}

/* Whether one of the patterns of that kind ('i' or 'x') matches; *any: there is
 * one. */
static bool matches_any(const pco_seen *s, char kind, const char *path,
                        bool directory, bool *any) {
  *any = false;
  for (size_t at = 0; at < s->patterns_len;) {
    const char *p = s->patterns + at;
    at += strlen(p) + 1;
    if (*p != kind)
      continue;
    *any = true;
    if (matches(p + 1, path, directory))
      return true;
  }
  return false;
}

bool pco_seen_excludes(const pco_seen *s, const char *path, bool directory) {
  bool any;
  return matches_any(s, 'x', path, directory, &any);
}

/* Whether a path, or a directory above it, is included. */
static bool includes(const pco_seen *s, const char *path) {
  bool any;
  if (!path || matches_any(s, 'i', path, true, &any) || !any)
    return true;
  char *copy = strdup(path);
  bool found = false;
  for (char *slash; copy && !found && (slash = strrchr(copy, '/'));) {
    *slash = 0;
    found = matches_any(s, 'i', copy, true, &any);
  }
  free(copy);
  return found;
}

/* ---- the queue ----------------------------------------------------------- */

static size_t weight(const pco_event *e) {
  return sizeof *e + (e->path ? strlen(e->path) : 0) +
         (e->from ? strlen(e->from) : 0);
}

void pco_seen_forget(pco_seen *s, size_t n) {
  while (n-- > 0 && s->first) {
    pco_event *e = s->first;
    s->first = e->next;
    s->n_events--;
    s->bytes -= weight(e);
    s->missed &= e->type != PCO_EVENT_RESCAN;
    free(e->path);
    free(e->from);
    free(e);
  }
  if (!s->first)
    s->last = NULL;
}

static void append(pco_seen *s, unsigned type, char *path, char *from) {
  pco_event *e = calloc(1, sizeof *e);
  if (!e) {
    s->error = ENOMEM;
    free(path);
    free(from);
    return;
  }
  e->type = type;
  e->path = path;
  e->from = from;
  if (s->last)
    s->last->next = e;
  else
    s->first = e;
  s->last = e;
  s->n_events++;
  s->bytes += weight(e);
}

/* All that waits becomes one event. */
static void miss(pco_seen *s) {
  if (s->missed)
    return;
  pco_seen_forget(s, s->n_events);
  append(s, PCO_EVENT_RESCAN, NULL, NULL);
  s->missed = true;
}

static bool same(const char *a, const char *b) {
  return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Writing in many pieces is one event, as long as nobody has asked. */
static bool is_repeated(const pco_seen *s, unsigned type, const char *path) {
  return (type == PCO_EVENT_MODIFY || type == PCO_EVENT_ATTRIBUTE) && s->last &&
         s->last->type == type && same(s->last->path, path);
}

void pco_seen_tell(pco_seen *s, unsigned type, char *path, char *from) {
  bool wanted = includes(s, path) || (from && includes(s, from));
  if (!wanted || s->missed || is_repeated(s, type, path)) {
    free(path);
    free(from);
    return;
  }
  append(s, type, path, from);
  if (s->n_events > MAX_EVENTS || s->bytes > MAX_BYTES)
    miss(s);
}

/* ---- the kernel's events ------------------------------------------------- */

static void forget_move(pco_seen *s) {
  s->move = (pco_move){0};
}

void pco_seen_end_move(pco_seen *s) {
  pco_move m = s->move;
  if (!m.cookie)
    return;
  forget_move(s);
  if (m.spot)
    pco_spot_drop(s, m.spot);
  if (m.path)
    pco_seen_tell(s, PCO_EVENT_REMOVE, m.path, NULL);
}

static void on_moved_from(pco_seen *s, pco_spot *spot, const char *name,
                          uint32_t cookie, bool excluded) {
  pco_seen_end_move(s);
  s->move = (pco_move){.cookie = cookie,
                       .until = pco_now() + MOVE_TIME,
                       .path = excluded ? NULL : pco_spot_path(spot, name),
                       .spot = pco_spot_child(spot, name)};
}

/* Of what left by that name before, nothing stays. */
static void on_created(pco_seen *s, pco_spot *spot, const char *name,
                       bool directory) {
  if (s->move.spot && s->move.spot == pco_spot_child(spot, name))
    pco_seen_end_move(s);
  if (!pco_spot_was_told(spot, name))
    pco_seen_tell(s, PCO_EVENT_CREATE, pco_spot_path(spot, name), NULL);
  if (directory)
    pco_spot_add(s, spot, name);
}

/* The old name is told only if it was of the watch; so is the new one. */
static void on_moved_to(pco_seen *s, pco_spot *spot, const char *name,
                        const struct inotify_event *e, bool excluded) {
  pco_move m = s->move;
  if (!m.cookie || m.cookie != e->cookie) {
    pco_seen_end_move(s);
    if (!excluded)
      on_created(s, spot, name, e->mask & IN_ISDIR);
    return;
  }
  if (excluded) {
    pco_seen_end_move(s);
    return;
  }
  forget_move(s);
  /* What stood under that name was replaced. */
  pco_spot *old = pco_spot_child(spot, name);
  if (old && old != m.spot)
    pco_spot_drop(s, old);
  if (m.spot && !pco_spot_move(s, m.spot, spot, name))
    s->error = ENOMEM;
  pco_spot_was_told(spot, name);
  pco_seen_tell(s, m.path ? PCO_EVENT_RENAME : PCO_EVENT_CREATE,
                pco_spot_path(spot, name), m.path);
  if (!m.spot && e->mask & IN_ISDIR)
    pco_spot_add(s, spot, name);
}

static void on_name(pco_seen *s, pco_spot *spot, const char *name,
                    const struct inotify_event *e) {
  char *path = pco_spot_path(spot, name);
  bool excluded = !path || pco_seen_excludes(s, path, e->mask & IN_ISDIR);
  if (e->mask & IN_MOVED_FROM) {
    on_moved_from(s, spot, name, e->cookie, excluded);
  } else if (e->mask & IN_MOVED_TO) {
    on_moved_to(s, spot, name, e, excluded);
  } else if (excluded) {
    ;
  } else if (e->mask & IN_CREATE) {
    on_created(s, spot, name, e->mask & IN_ISDIR);
  } else {
    unsigned type = e->mask & IN_DELETE   ? PCO_EVENT_REMOVE
                    : e->mask & IN_MODIFY ? PCO_EVENT_MODIFY
                                          : PCO_EVENT_ATTRIBUTE;
    pco_seen_tell(s, type, path, NULL);
    path = NULL;
  }
  free(path);
}

static void stop(pco_seen *s) {
  if (s->source.fn)
    pco_source_remove(s->agent->epoll, &s->source);
  pco_seen_stop(s);
}

/* It is told whatever else was missed, and nothing after it. */
void pco_seen_end(pco_seen *s) {
  if (s->ended)
    return;
  pco_seen_end_move(s);
  append(s, PCO_EVENT_REMOVE, NULL, NULL);
  s->ended = true;
  s->check = false;
  stop(s);
}

/* Directories may have come and gone without a word. */
static void begin_anew(pco_seen *s) {
  free(s->move.path);
  forget_move(s);
  miss(s);
  stop(s); /* a tick adds the new one */
  int rc = pco_seen_start(s);
  if (rc < 0)
    s->error = -rc;
}

/* A name that comes or goes in what went somewhere, or below: that would end
 * the move, and with it the spot that is told of. */
static bool has_left(const pco_seen *s, const pco_spot *spot,
                     const struct inotify_event *e) {
  if (!s->move.spot || !(e->mask & (IN_MOVED_FROM | IN_MOVED_TO)))
    return false;
  while (spot && spot != s->move.spot)
    spot = spot->parent;
  return spot != NULL;
}

bool pco_seen_on_event(pco_seen *s, const struct inotify_event *e) {
  pco_spot *spot = pco_spot_find(s, e->wd);
  /* With a file system that was mounted below all is gone that was in it, and
   * what it has covered is seen again. */
  bool uncovered = spot && spot != s->top && e->mask & IN_UNMOUNT;
  if (e->mask & IN_Q_OVERFLOW || uncovered) {
    begin_anew(s);
    return false;
  }
  if (!spot)
    return true;
  if (has_left(s, spot, e)) {
    pco_seen_end_move(s);
  } else if (e->len > 0) {
    on_name(s, spot, e->name, e);
    if (spot == s->top && e->mask & (IN_DELETE | IN_MOVED_FROM))
      pco_top_lost_name(s);
  } else if (spot == s->top) { /* others are told of by the one above */
    pco_top_on_event(s, e);
  } else if (e->mask & IN_IGNORED) { /* it was removed */
    pco_spot_drop(s, spot);
  }
  return true;
}
