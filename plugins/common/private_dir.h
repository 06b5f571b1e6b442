/* SPDX-License-Identifier: MIT */
/*
 * Directories of ours alone, which hold what no other user is to reach.
 */
#ifndef PLUGIN_PRIVATE_DIR_H
#define PLUGIN_PRIVATE_DIR_H

/* Makes a directory of ours alone, whatever the umask of the program; path is
 * below at, or AT_FDCWD.  0, or a negative errno: -EEXIST if it is there. */
int plugin_make_private(int at, const char *path);

#endif /* PLUGIN_PRIVATE_DIR_H */
