/* SPDX-License-Identifier: MIT */
/*
 * Users of this machine, by /etc/passwd as it is: getpwuid may ask the network.
 */
#ifndef PLUGIN_USER_H
#define PLUGIN_USER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Gives the name of a user: false, and the number as text, if it has none. */
bool plugin_user_name(uid_t uid, char *out, size_t size);

#endif /* PLUGIN_USER_H */
