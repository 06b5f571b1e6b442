/* SPDX-License-Identifier: MIT */
/*
 * Who the agent is, and who its commands are.
 *
 * With --user UID:GID commands run as that user, and so does the agent's work
 * on files, by its file system ids.  An agent that is somebody else needs
 * CAP_SETUID and CAP_SETGID for it (and CAP_KILL for the signals it sends);
 * commands get no capability.  No command of such an agent can run as another
 * user.
 */
#ifndef PCO_IDENTITY_H
#define PCO_IDENTITY_H

#include "users.h"

#include <stdbool.h>

/* Takes the user of commands from "UID:GID" (NULL: commands are as the agent
 * is).  0 or a negative errno. */
int pco_identity_init(const char *spec);
/* The user of commands that name none; NULL: as the agent. */
const pco_user *pco_identity_default(void);
/* True if a command may run as u. */
bool pco_identity_allows(const pco_user *u);

#endif /* PCO_IDENTITY_H */
