/* SPDX-License-Identifier: MIT */
/*
 * See environment.h.
 */
#include "environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "portico/plugin_util.h"

#define BASE_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* Where the key of item is, or where a new one goes. */
static size_t find(const plugin_environment *e, const char *item) {
  size_t key = strcspn(item, "="), i = 0;
  while (i < e->n &&
         !(strncmp(e->items[i], item, key) == 0 && e->items[i][key] == '='))
    i++;
  return i;
}

static void remove_item(plugin_environment *e, size_t i) {
  if (i >= e->n)
    return;
  free(e->items[i]);
  e->items[i] = e->items[--e->n];
  e->items[e->n] = NULL;
}

static int reserve(plugin_environment *e) {
  if (e->n + 1 < e->room)
    return 0;
  size_t room = e->room ? e->room * 2 : 16;
  char **items = realloc(e->items, room * sizeof *items);
  if (!items)
    return UV_ENOMEM;
  e->items = items;
  e->room = room;
  return 0;
}

/* Takes item. */
static int put(plugin_environment *e, char *item) {
  if (!item || reserve(e) < 0) {
    free(item);
    return UV_ENOMEM;
  }
  size_t i = find(e, item);
  if (i < e->n)
    free(e->items[i]);
  else
    e->items[++e->n] = NULL;
  e->items[i] = item;
  return 0;
}

int plugin_environment_set(plugin_environment *e, const char *key,
                           const char *value) {
  size_t size = strlen(key) + strlen(value) + 2;
  char *item = malloc(size);
  if (item)
    snprintf(item, size, "%s=%s", key, value);
  return put(e, item);
}

int plugin_environment_apply(plugin_environment *e, const char *const *changes,
                             pco_error *err) {
  int rc = 0;
  for (size_t i = 0; rc == 0 && changes && changes[i]; i++) {
    const char *item = changes[i];
    if (!*item || *item == '=')
      return pco_error_set(err, UV_EINVAL, PCO_SOURCE_PLUGIN,
                           "env: a variable has an empty name");
    if (strchr(item, '='))
      rc = put(e, strdup(item));
    else
      remove_item(e, find(e, item));
  }
  return rc;
}

int plugin_environment_base(plugin_environment *e, const char *home,
                            const char *tmpdir, const char *user) {
  int rc = plugin_environment_set(e, "PATH", BASE_PATH);
  if (rc == 0)
    rc = plugin_environment_set(e, "HOME", home);
  if (rc == 0)
    rc = plugin_environment_set(e, "LANG", "C.UTF-8");
  if (rc == 0)
    rc = plugin_environment_set(e, "TMPDIR", tmpdir);
  return rc == 0 ? plugin_environment_set(e, "USER", user) : rc;
}

void plugin_environment_deinit(plugin_environment *e) {
  for (size_t i = 0; i < e->n; i++)
    free(e->items[i]);
  free(e->items);
  memset(e, 0, sizeof *e);
}
