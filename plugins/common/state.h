/* SPDX-License-Identifier: MIT */
/*
 * The directory of a user's sandboxes that may outlive their programs: what all
 * of this user's programs know of each other.
 *
 * It holds, for each sandbox, BACKEND-ID.info (info.h) and BACKEND-ID.sock, the
 * door by which another program comes in.  It belongs to this user alone; what
 * is there is trusted as far as that goes, so the directory is checked each
 * time it is opened, and everything is done by its descriptor: no link is
 * followed on the way to what is in it.
 *
 * Three bytes of an .info are locks of open file descriptions:
 *
 *   byte 0  held by the keeper as long as the sandbox lives, by nobody after
 *           it, and held already when the file gets its name
 *   byte 1  held by who is attached; by the maker before anybody else
 *   byte 2  held for a moment by who removes what a killed keeper left
 *
 * All [any]: no state but the files'.  A few system calls each, of a directory
 * that is mostly in memory.
 */
#ifndef PLUGIN_STATE_H
#define PLUGIN_STATE_H

#include <limits.h>

#include "info.h"

typedef struct plugin_state {
  const char *backend; /* its id; static */
  int dir;             /* owned; -1: not open */
  char path[PATH_MAX]; /* for people */
} plugin_state;

/* Where it is: `setting`, or the default if that is NULL.  0, or a negative
 * code and *err. */
int plugin_state_path(const char *setting, char out[PATH_MAX], pco_error *err);
/* Opens it.  Without `make` one that is not there is UV_ENOENT.  Else a failure
 * is PCO_EUNAVAILABLE, and *err says what is wrong with the directory. */
int plugin_state_open(plugin_state *st, const char *backend,
                      const char *setting, bool make, pco_error *err);
/* Opens it to look for what is there already.  As above, but if it is where it
 * is by default and another user has made it, which nobody can help who never
 * left a sandbox running, that is UV_ENOENT, too: nothing in it can be this
 * user's.  *err then says what is wrong. */
int plugin_state_open_there(plugin_state *st, const char *backend,
                            const char *setting, pco_error *err);
void plugin_state_close(plugin_state *st);

/* ---- one sandbox, by its maker ------------------------------------------ */

/* Writes down a sandbox that is to be, which makes its id taken; what a killed
 * one of that id left must be gone.  0, *fd, which holds byte 0, and *hold,
 * which holds byte 1; UV_EEXIST, or another code and *err. */
int plugin_state_publish(const plugin_state *st, const plugin_info *i, int *fd,
                         int *hold, pco_error *err);
/* Writes down the process behind pidfd as its keeper. */
void plugin_state_set_keeper(int info, int pidfd);
/* Makes its door, a socket that listens.  The descriptor, or a code. */
int plugin_state_listen(const plugin_state *st, const char *id);
/* Removes its files; only for who holds byte 0, or byte 2. */
void plugin_state_forget(const plugin_state *st, const char *id);

/* ---- by everybody ------------------------------------------------------- */

/* Reads what is known of it, and whether it lives.  UV_ENOENT. */
int plugin_state_look(const plugin_state *st, const char *id, plugin_info *i);
/* Reads all of a backend, none if there is no directory yet, or only another
 * user's (then *err says so), and removes what a program has left that was
 * killed while it wrote one down.  *list is for
 * plugin_state_free_list(). */
int plugin_state_list(const char *backend, const char *setting,
                      plugin_info **list, size_t *n, pco_error *err);
void plugin_state_free_list(plugin_info *list, size_t n);
/* Connects to its door.  The descriptor; UV_EAGAIN: many are waiting there;
 * UV_ECONNREFUSED, UV_ENOENT: there is nobody. */
int plugin_state_knock(const plugin_state *st, const char *id);
/* Opens a pidfd of its keeper, which lives.  PCO_EGONE: it does not; UV_ESRCH:
 * it cannot be seen from here. */
int plugin_state_keeper(const plugin_state *st, const plugin_info *i);

/* Says that this process is attached to it.  The descriptor that holds byte 1,
 * or UV_EBUSY. */
int plugin_state_hold(const plugin_state *st, const char *id);
/* Takes it back; fd may be -1. */
void plugin_state_let_go(int fd);

/* Takes one that is dead, to remove what is left of it: the descriptor that
 * holds byte 2, UV_EBUSY if it lives or another one removes it, UV_ENOENT. */
int plugin_state_claim(const plugin_state *st, const char *id, plugin_info *i);

#endif /* PLUGIN_STATE_H */
