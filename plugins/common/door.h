/* SPDX-License-Identifier: MIT */
/*
 * What a plugin has of a sandbox that may outlive its program while it is
 * attached to it: its place in the directory of state.h.
 *
 * All [any], one thread at a time for one door.
 */
#ifndef PLUGIN_DOOR_H
#define PLUGIN_DOOR_H

#include "state.h"

typedef struct plugin_door {
  plugin_state state;
  char id[65];
  char name[112]; /* of its files, without an ending */
  int hold;       /* says that this process is attached */
  /* Until the keeper has them; then -1. */
  int info;
  int listener;
} plugin_door;

/* Writes a sandbox down that is to be, and makes its door.  What a killed one
 * of that id has left is removed, but for the directory that went with it:
 * *left, to be freed by the caller, or NULL.  0 and *out, or a negative code
 * and *err. */
int plugin_door_make(plugin_door **out, const char *backend,
                     const char *setting, const plugin_info *i, char **left,
                     pco_error *err);
/* Finds the door of one that lives, to go there.  UV_ENOENT, UV_EBUSY. */
int plugin_door_find(plugin_door **out, const char *backend,
                     const char *setting, const char *id, plugin_info *i,
                     pco_error *err);
/* What is left of its time, in ms, at least 1; `expires` > 0. */
uint64_t plugin_door_ttl(double expires);
/* Fails with UV_EEXIST if a sandbox of that id lives. */
int plugin_door_check_free(const char *backend, const char *setting,
                           const char *id, pco_error *err);
/* Finds one whose keeper was killed: plugin_door_remove() then removes its
 * files, plugin_door_leave() does not.  UV_ENOENT; UV_EBUSY: it lives. */
int plugin_door_claim(plugin_door **out, const char *backend,
                      const char *setting, const char *id, plugin_info *i,
                      pco_error *err);
/* The keeper behind pidfd has its descriptors. */
void plugin_door_is_kept(plugin_door *d, int pidfd);
/* Lets a sandbox live on without this process; frees d. */
void plugin_door_leave(plugin_door *d);
/* After the end of its keeper, or before there was one: removes what that did
 * not.  Frees d, which may be NULL. */
void plugin_door_remove(plugin_door *d);

#endif /* PLUGIN_DOOR_H */
