/* SPDX-License-Identifier: MIT */
/*
 * Users of this machine, by /etc/passwd and /etc/group as they are: getpwuid
 * may ask the network.  The agent's source reads them, here and there.
 */
#ifndef PLUGIN_USER_H
#define PLUGIN_USER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Gives the name of a user, or the number as text if it has none. */
void plugin_user_name(uid_t uid, char *out, size_t size);

typedef struct plugin_user {
  uid_t uid;
  gid_t gid;
  char name[256];
  bool one_group; /* it was named: the user is to have no other */
} plugin_user;

/* Finds "USER" or "USER:GROUP", names or numbers; a number that nobody has gets
 * the same as group and name.  False: there is none. */
bool plugin_user_find(const char *spec, plugin_user *out);

#endif /* PLUGIN_USER_H */
