/* SPDX-License-Identifier: MIT */
/*
 * Descriptors on their way over a Unix socket (SCM_RIGHTS), for messages that
 * the caller sends and receives.
 */
#ifndef PCO_RIGHTS_H
#define PCO_RIGHTS_H

#include <sys/socket.h>

#define PCO_RIGHTS_MAX 8

/* Room for control data; lives as long as the msghdr that points to it. */
typedef union pco_rights {
  struct cmsghdr align;
  char bytes[CMSG_SPACE(PCO_RIGHTS_MAX * sizeof(int))];
} pco_rights;

/* Adds n descriptors, at most PCO_RIGHTS_MAX, to a message; none is fine. */
void pco_rights_put(struct msghdr *m, pco_rights *room, const int *fds,
                    unsigned n);

#endif /* PCO_RIGHTS_H */
