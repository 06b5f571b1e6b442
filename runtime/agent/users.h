/* SPDX-License-Identifier: MIT */
/*
 * Users and groups, from the sandbox's own /etc/passwd and /etc/group.
 *
 * There is no NSS in a static program; a user that only a directory service
 * knows can be given by number.  The files may be hostile: they are read only
 * if they are regular, up to a bound, and a line that does not parse is
 * skipped.
 */
#ifndef PCO_USERS_H
#define PCO_USERS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define PCO_MAX_GROUPS 1024

typedef struct pco_user {
  uid_t uid;
  gid_t gid;
  char name[256];
  char home[1024];
  char shell[1024];
  size_t n_groups;
  gid_t groups[PCO_MAX_GROUPS]; /* gid among them */
} pco_user;

/* Finds a user: "USER" or "USER:GROUP", names or numbers.  The groups are those
 * that the user is listed in or, with a GROUP, that one alone.  A number
 * without a line gets gid = uid and the home "/".  0, or -ENOENT, -EINVAL,
 * -E2BIG (more than PCO_MAX_GROUPS), or what reading the files failed with. */
int pco_user_find(const char *spec, pco_user *out);
/* By number; never fails: what is not known is made from it.  No groups. */
void pco_user_of_uid(uid_t uid, pco_user *out);
/* Makes a group the only one. */
void pco_user_set_group(pco_user *u, gid_t gid);
/* Adds those of /etc/group that list the name to the user's own, which is the
 * first.  0, -E2BIG, or what reading the file failed with. */
int pco_user_find_groups(pco_user *u);
/* A whole decimal number that is an id. */
bool pco_id_parse(const char *s, unsigned *out);

/* Finds whom a file is to belong to: "USER", "USER:GROUP" or ":GROUP", names or
 * numbers; what is not named becomes -1.  0, or -ENOENT with the part that
 * nobody has in *missing (within spec). */
int pco_owner_find(const char *spec, uid_t *uid, gid_t *gid,
                   const char **missing);

#endif /* PCO_USERS_H */
