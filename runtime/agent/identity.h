/* SPDX-License-Identifier: MIT */
/*
 * Who the agent is, and who its commands are.
 *
 * With --user UID:GID[:NAME] commands run as that user, and so does the agent's
 * work on files, by its file system ids.  An agent that is somebody else needs
 * CAP_SETUID and CAP_SETGID for it (and CAP_KILL for the signals it sends);
 * commands get no capability.  No command of such an agent can run as another
 * user, whatever the sandbox's /etc/passwd and /etc/group say: they give it a
 * name, a home and a shell, no id and no group.
 *
 * With --groups the agent is no part of a sandbox but of this machine, with
 * rights that commands must not have: it takes that user's effective ids and
 * groups, not only those for files, since some of the kernel's files (sysctls)
 * ask for the former.  It keeps what it needs to start commands and to signal
 * them, and its real and saved ids, so that they cannot signal it.
 */
#ifndef PCO_IDENTITY_H
#define PCO_IDENTITY_H

#include "users.h"

#include <stdbool.h>

/* Takes the user of commands from "UID:GID[:NAME]" (NULL: commands are as the
 * agent is; the string is kept).  `groups` is NULL, "one" (the given one alone)
 * or "all" (those that list the user, too).  0 or a negative errno. */
int pco_identity_init(const char *spec, const char *groups);
/* With groups: becomes that user, for all but starting commands, once what was
 * given is open.  0 or a negative errno. */
int pco_identity_enter(void);
/* Takes that back, to clear up. */
void pco_identity_leave(void);
/* The user of commands that name none; NULL: as the agent. */
const pco_user *pco_identity_default(void);
/* Finds whom a command runs as that names `spec`, as pco_user_find; -EPERM if
 * none may. */
int pco_identity_find(const char *spec, pco_user *out);
/* True if a command without a user has other ids. */
bool pco_identity_differs(const pco_user *u);
/* True if a command of that user is to have nothing of the agent's own. */
bool pco_identity_is_other(const pco_user *u);

#endif /* PCO_IDENTITY_H */
