/* SPDX-License-Identifier: MIT */
/*
 * The two ids of the host that a sandbox runs under.
 *
 * No account and no other live sandbox may have them: they come from a range
 * that the plugin chose, and a keeper holds a pair as long as it lives, by an
 * abstract Unix socket that bears the number (one holder each; the kernel gives
 * it back when the keeper dies).  Somebody who squats numbers can make a keeper
 * take another pair, or find none: nothing worse.
 */
#ifndef PCO_KEEPER_IDS_H
#define PCO_KEEPER_IDS_H

#include "keeper_words.h"

#include <sys/types.h>

typedef struct pco_keeper_ids {
  int lock; /* the socket that holds them, or -1 */
  uid_t keeper_uid;
  gid_t keeper_gid;
  uint32_t uid, gid; /* of the agent; those of commands are one more */
} pco_keeper_ids;

/* Takes a pair: 0, or -EAGAIN when all that were tried are taken. */
int pco_keeper_ids_init(pco_keeper_ids *ids, const pco_keeper_words *w);
/* Writes the maps of the user namespace of a child that has made one: itself
 * as root, else by newuidmap and newgidmap.  0 or a negative errno; *what then
 * names what failed. */
int pco_keeper_ids_map(const pco_keeper_ids *ids, pid_t child,
                       const char **what);
/* Writes the maps of the caller's own new user namespace: 0 to its ids from
 * before. */
int pco_keeper_ids_map_self(uid_t uid, gid_t gid);

#endif /* PCO_KEEPER_IDS_H */
