/* SPDX-License-Identifier: MIT */
/*
 * Files of sandboxes from C: whole, open, watched, found; on the runtime's loop
 * with callbacks and on a portal by blocking; the same on each backend.
 */
#include "embed_boxes.h"

/* ---- attributes, links, names, sums -------------------------------------- */

static bool entry(int rc, pco_pending **p, pco_stat *st) {
  *p = embed_over(rc, p);
  bool good = *p && pco_pending_entry(*p, 0, st) == 1;
  pco_pending_release(*p);
  return good;
}

/* The bytes that a call says, in a static buffer. */
static const char *said(int rc, pco_pending **p) {
  static char text[300];
  const char *data = NULL;
  size_t len = 0;
  *p = embed_over(rc, p);
  text[0] = 0;
  if (*p && pco_pending_bytes(*p, &data, &len) == 0 && len < sizeof text)
    snprintf(text, sizeof text, "%.*s", (int)len, data);
  pco_pending_release(*p);
  return text;
}

static void test_attributes(pco_box *box) {
  pco_pending *p = NULL;
  pco_stat st = {.struct_size = sizeof st};
  pco_file_opts o = {.size = sizeof o, .flags = PCO_FS_PARENTS, .mode = 0640};
  embed_is(
      embed_code(pco_file_write(box, "at/f", "abc", 3, &o, NULL, NULL, &p), &p),
      0, "a file with a mode");
  embed_is(embed_code(pco_file_chmod(box, "at/f", 0, NULL, NULL, NULL, &p), &p),
           0, "no rights at all");
  embed_ok(entry(pco_file_stat(box, "at/f", NULL, NULL, NULL, &p), &p, &st) &&
               st.mode == 0,
           "are set");
  embed_is(
      embed_code(pco_file_chmod(box, "at/f", 0600, NULL, NULL, NULL, &p), &p),
      0, "and others");
  embed_is(pco_file_chmod(box, "at/f", 010000, NULL, NULL, NULL, &p),
           PCO_EINVAL, "no mode");
  char owner[64];
  snprintf(owner, sizeof owner, "%u:%u", st.uid, st.gid);
  embed_is(
      embed_code(pco_file_chown(box, "at/f", owner, NULL, NULL, NULL, &p), &p),
      0, "given to whose it is");
  embed_is(pco_file_chown(box, "at/f", "", NULL, NULL, NULL, &p), PCO_EINVAL,
           "to nobody");
  embed_ok(embed_code(pco_file_chown(box, "at/f", "no-such-user", NULL, NULL,
                                     NULL, &p),
                      &p) < 0,
           "to somebody who is not there");
  o = (pco_file_opts){.size = sizeof o, .owner = owner};
  o.flags = PCO_FILE_FSYNC | PCO_FILE_IN_PLACE;
  embed_is(
      embed_code(pco_file_write(box, "at/f", "ab", 2, &o, NULL, NULL, &p), &p),
      0, "written in place, to the disk, with an owner");
  embed_ok(embed_file_is(box, "at/f", "ab"), "whole");

  embed_is(embed_code(
               pco_file_symlink(box, "f", "at/link", NULL, NULL, NULL, &p), &p),
           0, "a link");
  embed_text(said(pco_file_readlink(box, "at/link", NULL, NULL, NULL, &p), &p),
             "f", "what it says");
  embed_is(embed_code(pco_file_readlink(box, "at/f", NULL, NULL, NULL, &p), &p),
           UV_EINVAL, "a file says nothing");
  embed_is(pco_file_symlink(box, "", "at/no", NULL, NULL, NULL, &p), PCO_EINVAL,
           "a link to nothing");
  p = embed_over(pco_file_list(box, "at", NULL, NULL, NULL, &p), &p);
  embed_text(pco_pending_target(p, 1), "f", "a list has it, too");
  embed_ok(!pco_pending_target(p, 0) && !pco_pending_target(p, 9),
           "of what is a link");
  pco_pending_release(p);

  char path[300];
  snprintf(
      path, sizeof path, "%s",
      said(pco_file_mktemp(box, "at", "a-*.txt", NULL, NULL, NULL, &p), &p));
  embed_ok(strstr(path, "at/a-") && strlen(path) > strlen("at/a-.txt"),
           "a name that nobody has");
  o = (pco_file_opts){.size = sizeof o, .flags = PCO_FILE_DIRECTORY};
  snprintf(path, sizeof path, "%s",
           said(pco_file_mktemp(box, NULL, NULL, &o, NULL, NULL, &p), &p));
  embed_ok(entry(pco_file_stat(box, path, NULL, NULL, NULL, &p), &p, &st) &&
               st.type == PCO_DIRECTORY,
           "a directory where temporary ones are");
  embed_is(pco_file_mktemp(box, "at", "a/b", NULL, NULL, NULL, &p), PCO_EINVAL,
           "two names at once");

  pco_usage u = {.size = sizeof u};
  p = embed_over(pco_file_usage(box, "at", NULL, NULL, NULL, &p), &p);
  embed_ok(p && pco_pending_usage(p, &u) == 0 && u.bytes >= 2 && u.files >= 2 &&
               u.directories >= 1,
           "sums");
  u.size = 4;
  embed_is(pco_pending_usage(p, &u), PCO_ESIZE, "of another size");
  pco_pending_release(p);
}

/* An agent takes a host that sends what a request has not for broken, so what a
 * call does not take must never reach it. */
static void test_not_taken(pco_box *box) {
  const pco_file_opts bad[] = {
      {.size = sizeof *bad, .flags = PCO_FS_APPEND},
      {.size = sizeof *bad, .flags = PCO_FILE_FSYNC},
      {.size = sizeof *bad, .mode = 0600},
      {.size = sizeof *bad, .offset = 1},
      {.size = sizeof *bad, .max_size = 1},
      {.size = sizeof *bad, .owner = "root"},
      {.size = sizeof *bad, .include = (const char *const[]){"a", NULL}},
      {.size = sizeof *bad, .depth = 1},
      {.size = sizeof *bad, .reserved = 1},
  };
  pco_pending *p = NULL;
  bool good = true;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    good &= pco_file_stat(box, ".", &bad[i], NULL, NULL, &p) == PCO_EINVAL;
    good &= pco_file_usage(box, ".", &bad[i], NULL, NULL, &p) == PCO_EINVAL;
    good &= pco_file_glob(box, "*", &bad[i], NULL, NULL, &p) == PCO_EINVAL;
  }
  embed_ok(good, "what a call does not take is refused");
  embed_is(pco_file_stat(box, ".", &bad[2], NULL, NULL, &p), PCO_EINVAL,
           "a mode for a stat");
  embed_ok(strstr(pco_last_message(embed_rt), "fs.stat does not take mode") !=
               NULL,
           "is named");
}

/* ---- finding ------------------------------------------------------------- */

/* The paths that a glob finds, each with a space behind it. */
static const char *found(pco_box *box, const char *pattern, uint32_t flags) {
  static char all[500];
  pco_pending *p = NULL;
  const char *path;
  pco_file_opts o = {.size = sizeof o, .flags = flags};
  all[0] = 0;
  p = embed_over(pco_file_glob(box, pattern, &o, NULL, NULL, &p), &p);
  for (size_t i = 0; p && pco_pending_path(p, i, &path) == 1; i++)
    snprintf(all + strlen(all), sizeof all - strlen(all), "%s ", path);
  pco_pending_release(p);
  return all;
}

static void test_glob(pco_box *box) {
  pco_pending *p = NULL;
  embed_put(box, "g/b.c", "");
  embed_put(box, "g/a.c", "");
  embed_put(box, "g/.hid.c", "");
  embed_put(box, "g/deep/er/c.c", "");
  embed_put(box, "g/deep/d.h", "");
  embed_text(found(box, "g/*.c", 0), "g/a.c g/b.c ", "a pattern, in order");
  embed_text(found(box, "g/*.c", PCO_FILE_HIDDEN), "g/.hid.c g/a.c g/b.c ",
             "with hidden names");
  embed_text(found(box, "g/**/*.c", 0), "g/a.c g/b.c g/deep/er/c.c ",
             "at any depth");
  embed_text(found(box, "g/*/", 0), "g/deep ", "directories only");
  embed_text(found(box, "g/none*", 0), "", "nothing");
  embed_text(found(box, "g/a.c", 0), "g/a.c ", "a name");
  char many[2 * 300];
  for (size_t i = 0; i < sizeof many; i += 2)
    memcpy(many + i, "a/", 2);
  many[sizeof many - 1] = 0;
  embed_is(pco_file_glob(box, many, NULL, NULL, NULL, &p), PCO_EINVAL,
           "too many components");
  embed_is(pco_file_glob(box, "", NULL, NULL, NULL, &p), PCO_EINVAL,
           "no pattern");
  embed_is(pco_file_glob(box, "g/**/*.c", NULL, NULL, NULL, &p), 0, "begun");
  pco_pending_cancel(p);
  int rc = embed_code(0, &p);
  embed_ok(rc == PCO_ECANCELED || rc == 0, "cancelled, unless it was quick");
  embed_is(pco_file_glob(box, "g/**/*.c", NULL, NULL, NULL, &p), 0, "begun");
  pco_pending_release(p); /* while it goes on */
}

static void test_walk(pco_box *box) {
  static const char *const want[] = {"w/a", "w/a/x", "w/a/y", "w/b"};
  pco_pending *p = NULL;
  pco_stat st = {.struct_size = sizeof st};
  pco_file_opts o = {.size = sizeof o, .depth = 1};
  embed_put(box, "w/a/y", "1");
  embed_put(box, "w/a/x", "22");
  embed_put(box, "w/b", "333");
  p = embed_over(pco_file_walk(box, "w", NULL, NULL, NULL, &p), &p);
  bool good = p != NULL;
  for (size_t i = 0; i < 4; i++)
    good = good && pco_pending_entry(p, i, &st) == 1 &&
           strcmp(st.name, want[i]) == 0;
  embed_ok(good && st.size == 3 && pco_pending_entry(p, 4, &st) == 0,
           "a tree, each directory before what is in it");
  pco_pending_release(p);
  p = embed_over(pco_file_walk(box, "w", &o, NULL, NULL, &p), &p);
  embed_ok(p && pco_pending_entry(p, 1, &st) == 1 &&
               strcmp(st.name, "w/b") == 0 && pco_pending_entry(p, 2, &st) == 0,
           "not deeper than asked for");
  pco_pending_release(p);
  o = (pco_file_opts){.size = sizeof o, .max_size = 100};
  embed_is(embed_code(pco_file_walk(box, "w", &o, NULL, NULL, &p), &p),
           PCO_ELIMIT, "more than may be");
  embed_is(embed_code(pco_file_walk(box, "w/none", NULL, NULL, NULL, &p), &p),
           UV_ENOENT, "a tree that is not there");
  embed_is(embed_code(pco_file_walk(box, "w/a/x", NULL, NULL, NULL, &p), &p),
           UV_ENOTDIR, "a file");
}

/* ---- whole files --------------------------------------------------------- */

static void test_files(pco_box *box) {
  pco_pending *p = NULL;
  const char *data;
  size_t len;
  pco_file_opts parents = {.size = sizeof parents, .flags = PCO_FS_PARENTS};
  pco_file_opts append = {.size = sizeof append, .flags = PCO_FS_APPEND};
  pco_file_opts missing = {.size = sizeof missing,
                           .flags = PCO_FILE_MISSING_OK | PCO_FS_RECURSIVE};
  embed_is(embed_code(pco_file_mkdir(box, "d/e", &parents, NULL, NULL, &p), &p),
           0, "directories");
  embed_is(embed_code(
               pco_file_write(box, "d/b", "one", 3, NULL, NULL, NULL, &p), &p),
           0, "a file");
  embed_is(
      embed_code(pco_file_write(box, "d/b", "two", 3, &append, NULL, NULL, &p),
                 &p),
      0, "more of it");
  p = embed_over(pco_file_read(box, "d/b", NULL, NULL, NULL, &p), &p);
  embed_ok(pco_pending_bytes(p, &data, &len) == 0 && len == 6 &&
               memcmp(data, "onetwo", 6) == 0,
           "read");
  pco_pending_release(p);
  embed_is(
      embed_code(pco_file_rename(box, "d/b", "d/a", NULL, NULL, NULL, &p), &p),
      0, "renamed");
  pco_stat st = {.struct_size = sizeof st};
  p = embed_over(pco_file_stat(box, "d/a", NULL, NULL, NULL, &p), &p);
  embed_ok(pco_pending_entry(p, 0, &st) == 1 && st.size == 6 &&
               st.type == PCO_FILE && !pco_pending_entry(p, 1, &st),
           "its attributes");
  pco_pending_release(p);
  p = embed_over(pco_file_list(box, "d", NULL, NULL, NULL, &p), &p);
  bool good = pco_pending_entry(p, 0, &st) == 1 && strcmp(st.name, "a") == 0;
  good = good && pco_pending_entry(p, 1, &st) == 1 && st.type == PCO_DIRECTORY;
  embed_ok(good && pco_pending_entry(p, 2, &st) == 0, "listed in order");
  pco_pending_release(p);
  embed_is(embed_code(pco_file_remove(box, "d", &missing, NULL, NULL, &p), &p),
           0, "removed");
  embed_is(embed_code(pco_file_remove(box, "d", &missing, NULL, NULL, &p), &p),
           0, "again");
  p = embed_over(pco_file_read(box, "d/a", NULL, NULL, NULL, &p), &p);
  const pco_error *err = pco_pending_error(p);
  embed_ok(err && err->code == UV_ENOENT && strcmp(err->path, "d/a") == 0,
           "a file that is gone, with its name");
  pco_pending_release(p);
}

/* ---- open files and watches ---------------------------------------------- */

static pco_file *open_file(pco_box *box, const char *path, const char *mode) {
  pco_pending *p = NULL;
  p = embed_over(pco_file_open(box, path, mode, NULL, NULL, NULL, &p), &p);
  pco_file *f = p ? pco_pending_file(p) : NULL;
  embed_ok(p && !pco_pending_file(p), "a file is taken once");
  pco_pending_release(p);
  return f;
}

static bool reads(pco_file *f, uint64_t at, const char *want) {
  pco_pending *p = NULL;
  const char *data = NULL;
  size_t len = 0;
  p = embed_over(pco_file_read_at(f, at, 100, NULL, NULL, &p), &p);
  bool good = p && pco_pending_bytes(p, &data, &len) == 0 &&
              len == strlen(want) && memcmp(data, want, len) == 0;
  pco_pending_release(p);
  return good;
}

/* Places and lengths that no file has; the box is there afterwards. */
static void test_places(pco_box *box) {
  const uint64_t last = INT64_MAX;
  pco_pending *p = NULL;
  pco_file_opts o = {.size = sizeof o, .offset = last + 1};
  pco_file *f = open_file(box, "places", "w+");
  embed_is(pco_file_read_at(f, last + 1, 1, NULL, NULL, &p), PCO_EINVAL,
           "no place to read at");
  embed_ok(strstr(pco_last_message(embed_rt), "9223372036854775808") != NULL,
           "which is named");
  embed_is(pco_file_write_at(f, UINT64_MAX, "a", 1, NULL, NULL, &p), PCO_EINVAL,
           "none to write at");
  embed_is(pco_file_truncate(f, UINT64_MAX, NULL, NULL, &p), PCO_EINVAL,
           "no size");
  embed_is(pco_file_read(box, "places", &o, NULL, NULL, &p), PCO_EINVAL,
           "nor with the path");
  embed_ok(embed_code(pco_file_write_at(f, last, "a", 1, NULL, NULL, &p), &p) <
               0,
           "beyond the last one nothing is written");
  embed_is(embed_code(pco_file_read_at(f, 0, SIZE_MAX, NULL, NULL, &p), &p), 0,
           "more than there is may be asked for");
  o.offset = 0;
  o.length = UINT64_MAX;
  embed_is(embed_code(pco_file_read(box, "places", &o, NULL, NULL, &p), &p), 0,
           "also with the path");
  pco_file_release(f);
}

static void test_open_files(pco_box *box) {
  pco_pending *p = NULL;
  pco_stat st = {.struct_size = sizeof st};
  pco_file *f = open_file(box, "open", "w+");
  embed_is(embed_code(pco_file_write_at(f, 3, "def", 3, NULL, NULL, &p), &p), 0,
           "written at a place");
  embed_is(embed_code(pco_file_write_at(f, 0, "abc", 3, NULL, NULL, &p), &p), 0,
           "and before it");
  embed_ok(reads(f, 0, "abcdef") && reads(f, 4, "ef") && reads(f, 9, ""),
           "read at places, the end included");
  embed_is(embed_code(pco_file_truncate(f, 4, NULL, NULL, &p), &p), 0,
           "made shorter");
  embed_is(embed_code(pco_file_sync(f, NULL, NULL, &p), &p), 0,
           "put to the disk");
  p = embed_over(pco_file_stat_open(f, NULL, NULL, &p), &p);
  embed_ok(pco_pending_entry(p, 0, &st) == 1 && st.size == 4, "looked at");
  pco_pending_release(p);
  pco_pending *q = NULL;
  embed_is(pco_file_read_at(f, 0, 4, NULL, NULL, &p), 0, "a call that goes on");
  int second = pco_file_read_at(f, 0, 4, NULL, NULL, &q);
  embed_ok(second == PCO_EBUSY || (second == 0 && embed_portal),
           "keeps others away, unless it was quick");
  if (second == 0)
    embed_code(0, &q);
  embed_is(embed_code(0, &p), 0, "and ends");
  embed_is(embed_code(pco_file_close(f, NULL, NULL, &p), &p), 0, "closed");
  embed_is(pco_file_sync(f, NULL, NULL, &p), PCO_ECLOSED, "no more calls");
  pco_file_release(f);

  embed_is(
      embed_code(pco_file_copy(box, "open", "copy", NULL, NULL, NULL, &p), &p),
      0, "copied");
  embed_is(pco_file_copy(box, "open", "", NULL, NULL, NULL, &p), PCO_EINVAL,
           "not to nowhere");
  f = open_file(box, "copy", "r");
  embed_ok(reads(f, 0, "abcd"), "what is in it");
  embed_is(pco_file_write_at(f, 0, "x", 1, NULL, NULL, &p), UV_EBADF,
           "not opened for writing");
  pco_file_release(f); /* unclosed */
  embed_is(pco_file_open(box, "copy", "rw", NULL, NULL, NULL, &p), PCO_EINVAL,
           "a mode that is none");
  embed_ok(strstr(pco_last_message(embed_rt), "\"r\"") != NULL,
           "those that are");
  embed_is(
      embed_code(pco_file_open(box, "copy", "wx", NULL, NULL, NULL, &p), &p),
      UV_EEXIST, "a file that is to be new");
  embed_is(pco_file_sync(NULL, NULL, NULL, &p), PCO_EINVAL, "no file");
  pco_file_release(NULL);
}

/* Whether the events that come include one of these. */
static bool hears(pco_watch *w, uint32_t type, const char *path) {
  bool found = false;
  for (int i = 0; i < 20 && !found; i++) {
    pco_pending *p = NULL;
    pco_watch_event e = {.size = sizeof e};
    p = embed_over(pco_watch_next(w, NULL, NULL, &p), &p);
    for (size_t n = 0; p && pco_pending_event(p, n, &e) == 1; n++)
      found |= e.type == type && strcmp(e.path, path) == 0;
    if (!p || pco_pending_code(p) < 0)
      i = 20;
    pco_pending_release(p);
  }
  return found;
}

static void test_watch(pco_box *box) {
  pco_pending *p = NULL;
  pco_file_opts below = {.size = sizeof below, .flags = PCO_FS_RECURSIVE};
  pco_file_opts parents = {.size = sizeof parents, .flags = PCO_FS_PARENTS};
  embed_code(pco_file_mkdir(box, "seen/below", &parents, NULL, NULL, &p), &p);
  p = embed_over(pco_watch_open(box, "seen", &below, NULL, NULL, &p), &p);
  pco_watch *w = p ? pco_pending_watch(p) : NULL;
  embed_ok(w && !pco_pending_watch(p), "a watch is taken once");
  pco_pending_release(p);
  embed_code(pco_file_mkdir(box, "seen/below/a", NULL, NULL, NULL, &p), &p);
  embed_ok(hears(w, PCO_WATCH_CREATE, "below/a"),
           "a new directory is heard of");
  embed_code(pco_file_remove(box, "seen/below/a", NULL, NULL, NULL, &p), &p);
  embed_ok(hears(w, PCO_WATCH_REMOVE, "below/a"), "and its end");
  pco_watch_event e = {.size = 1};
  pco_pending *q = NULL;
  embed_is(pco_watch_next(w, NULL, NULL, &p), 0, "one waits");
  embed_is(pco_watch_next(w, NULL, NULL, &q), PCO_EBUSY, "so no other does");
  embed_is(pco_pending_event(p, 0, &e), PCO_EBUSY, "nothing has come yet");
  embed_is(embed_code(pco_watch_close(w, NULL, NULL, &q), &q), 0,
           "closed under it");
  embed_ok(embed_code(0, &p) < 0, "which ends the wait");
  embed_is(pco_watch_next(w, NULL, NULL, &p), PCO_ECLOSED, "no more events");
  pco_watch_release(w);
  embed_is(pco_watch_next(NULL, NULL, NULL, &p), PCO_EINVAL, "no watch");
  p = embed_over(pco_watch_open(box, "seen", NULL, NULL, NULL, &p), &p);
  pco_watch_release(pco_pending_watch(p)); /* unclosed */
  pco_pending_release(p);
  embed_code(pco_file_mkdir(box, "short", NULL, NULL, NULL, &p), &p);
  p = embed_over(pco_watch_open(box, "short", NULL, NULL, NULL, &p), &p);
  w = p ? pco_pending_watch(p) : NULL;
  pco_pending_release(p);
  embed_code(pco_file_remove(box, "short", NULL, NULL, NULL, &p), &p);
  embed_ok(hears(w, PCO_WATCH_REMOVE, ""), "what is watched is gone");
  e.size = sizeof e;
  p = embed_over(pco_watch_next(w, NULL, NULL, &p), &p);
  embed_ok(pco_pending_code(p) == 0 && pco_pending_event(p, 0, &e) == 0,
           "and there are no more events");
  pco_pending_release(p);
  pco_watch_release(w);
  embed_code(pco_watch_open(box, "seen", NULL, NULL, NULL, &p),
             &p); /* not taken */
}

/* Only names that are asked for, and no others. */
static void test_patterns(pco_box *box) {
  pco_pending *p = NULL;
  pco_file_opts o = {.size = sizeof o, .flags = PCO_FS_RECURSIVE};
  o.include = (const char *const[]){"*.c", "*.h", NULL};
  o.exclude = (const char *const[]){"no*", NULL};
  embed_code(pco_file_mkdir(box, "pat", NULL, NULL, NULL, &p), &p);
  p = embed_over(pco_watch_open(box, "pat", &o, NULL, NULL, &p), &p);
  pco_watch *w = p ? pco_pending_watch(p) : NULL;
  pco_pending_release(p);
  embed_put(box, "pat/a.o", "");
  embed_put(box, "pat/no.c", "");
  embed_put(box, "pat/yes.h", "");
  p = embed_over(pco_watch_next(w, NULL, NULL, &p), &p);
  pco_watch_event e = {.size = sizeof e};
  embed_ok(p && pco_pending_event(p, 0, &e) == 1 &&
               strcmp(e.path, "yes.h") == 0,
           "the first event is of the first that is watched");
  e.size = 1;
  embed_is(pco_pending_event(p, 0, &e), PCO_ESIZE, "an event of another size");
  pco_pending_release(p);
  pco_watch_release(w);
  o.include = (const char *const[]){"", NULL};
  embed_is(pco_watch_open(box, "pat", &o, NULL, NULL, &p), PCO_EINVAL,
           "an empty pattern");
  o.include = (const char *const[]){"/abs", NULL};
  embed_is(pco_watch_open(box, "pat", &o, NULL, NULL, &p), PCO_EINVAL,
           "one that begins at the root");
}

static void test_all(pco_box *box) {
  test_files(box);
  test_attributes(box);
  test_not_taken(box);
  test_glob(box);
  test_walk(box);
  test_open_files(box);
  test_places(box);
  test_watch(box);
  test_patterns(box);
}

static void test_backend(void) {
  embed_with_box(test_all);
}

int main(int argc, char **argv) {
  (void)argc;
  embed_begin(argv[0]);
  embed_on_each(test_backend);
  return embed_end();
}
