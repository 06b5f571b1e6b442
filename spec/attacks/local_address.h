/* SPDX-License-Identifier: MIT */
/*
 * Addresses of Unix sockets, for both ends of an attack.
 */
#ifndef LOCAL_ADDRESS_H
#define LOCAL_ADDRESS_H

#include "attack.h"

#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Fills address, of a path or an abstract name; returns its size. */
static inline socklen_t local_address(struct sockaddr_un *address,
                                      const char *name, bool abstract) {
  size_t len = strlen(name);
  memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  if (len + 1 >= sizeof address->sun_path)
    exit(ATTACK_BROKEN);
  memcpy(address->sun_path + abstract, name, len);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + 1);
}

#endif /* LOCAL_ADDRESS_H */
