/* SPDX-License-Identifier: MIT */
/*
 * All that is in the directory of state.h.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "state.h"

#define OLD_S 60 /* of what somebody may be writing still */

/* The id in BACKEND-ID.info; false if it is another name. */
static bool id_in(const plugin_state *st, const char *name, char id[65]) {
  static const char ending[] = ".info";
  const size_t n_ending = sizeof ending - 1;
  size_t begin = strlen(st->backend) + 1, len = strlen(name);
  if (len <= begin + n_ending || len - begin - n_ending > 64 ||
      name[begin - 1] != '-' || !pco_starts_with(name, st->backend) ||
      !pco_streq(name + len - n_ending, ending))
    return false;
  snprintf(id, 65, "%.*s", (int)(len - begin - n_ending), name + begin);
  return pco_id_is_valid(id);
}

/* One more; what has ended meanwhile, or cannot be read, is left out. */
static int look_also(const plugin_state *st, const char *id, plugin_info **list,
                     size_t *n, size_t *room) {
  if (*n == *room) {
    size_t more = *room ? *room * 2 : 16;
    plugin_info *bigger = realloc(*list, more * sizeof **list);
    if (!bigger)
      return UV_ENOMEM;
    *list = bigger;
    *room = more;
  }
  int rc = plugin_state_look(st, id, &(*list)[*n]);
  *n += rc == 0;
  return rc == UV_ENOMEM ? rc : 0;
}

static void remove_left(const plugin_state *st, const char *name) {
  struct stat s;
  if (pco_starts_with(name, ".new-") &&
      fstatat(st->dir, name, &s, AT_SYMLINK_NOFOLLOW) == 0 &&
      time(NULL) - s.st_mtime > OLD_S)
    unlinkat(st->dir, name, 0);
}

static DIR *open_names(const plugin_state *st) {
  int fd = openat(st->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *d = fd < 0 ? NULL : fdopendir(fd);
  if (!d && fd >= 0)
    close(fd);
  return d;
}

static int look_at_all(const plugin_state *st, plugin_info **list, size_t *n) {
  size_t room = 0;
  char id[65];
  int rc = 0;
  DIR *d = open_names(st);
  if (!d)
    return -errno;
  for (const struct dirent *e; rc == 0 && (e = readdir(d)) != NULL;)
    if (id_in(st, e->d_name, id))
      rc = look_also(st, id, list, n, &room);
    else
      remove_left(st, e->d_name);
  closedir(d);
  return rc;
}

int plugin_state_list(const char *backend, const char *setting,
                      plugin_info **list, size_t *n, pco_error *err) {
  plugin_state st;
  *list = NULL;
  *n = 0;
  int rc = plugin_state_open_there(&st, backend, setting, err);
  if (rc == UV_ENOENT)
    return 0;
  if (rc < 0)
    return rc;
  rc = look_at_all(&st, list, n);
  plugin_state_close(&st);
  if (rc < 0)
    plugin_state_free_list(*list, *n);
  return rc;
}

void plugin_state_free_list(plugin_info *list, size_t n) {
  for (size_t i = 0; i < n; i++)
    plugin_info_deinit(&list[i]);
  free(list);
}
