/* SPDX-License-Identifier: MIT */
/* The agent's program as a sealed memfd. */
#ifndef PCO_AGENT_IMAGE_H
#define PCO_AGENT_IMAGE_H

#include <stddef.h>

/* Writes the path of a file that is installed at `relative` to the directory of
 * libportico itself; 0, -ENAMETOOLONG or -ENOENT. */
int pco__own_path(const char *relative, char *out, size_t size);
/* Copies the file to a memfd that nobody can change any more; gives the
 * descriptor (O_CLOEXEC, the caller's) or a negative errno. */
int pco__agent_image_open(const char *path);

#endif /* PCO_AGENT_IMAGE_H */
