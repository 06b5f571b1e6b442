/* SPDX-License-Identifier: MIT */
/*
 * Children of this process that outlive their owners: keepers of sandboxes that
 * were detached.  Nobody waits for them, so they are looked at now and then, or
 * they would be zombies until this program ends.
 */
#ifndef PLUGIN_CHILDREN_H
#define PLUGIN_CHILDREN_H

/* Takes a pidfd, of whatever process.  [any] */
void plugin_children_add(int pidfd);
/* Reaps those that have ended; does not wait.  [any] */
void plugin_children_reap(void);

#endif /* PLUGIN_CHILDREN_H */
