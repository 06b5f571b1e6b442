/* SPDX-License-Identifier: MIT */
/*
 * See user.h.
 */
#include "user.h"

#include "../../runtime/agent/users.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void plugin_user_name(uid_t uid, char *out, size_t size) {
  pco_user user;
  pco_user_of_uid(uid, &user);
  snprintf(out, size, "%s", user.name);
}

bool plugin_user_find(const char *spec, plugin_user *out) {
  pco_user user;
  int rc = pco_user_find(spec, &user);
  if (rc < 0 && rc != -E2BIG) /* too many groups: the agent says so */
    return false;
  out->uid = user.uid;
  out->gid = user.gid;
  out->one_group = strchr(spec, ':') != NULL;
  memcpy(out->name, user.name, sizeof user.name);
  return true;
}
