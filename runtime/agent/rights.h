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

/* Makes room for descriptors in a message that is to be received. */
void pco_rights_expect(struct msghdr *m, pco_rights *room);
/* Those that came, at most PCO_RIGHTS_MAX, the caller's from now on; how many.
 */
unsigned pco_rights_take(struct msghdr *m, int fds[PCO_RIGHTS_MAX]);

#endif /* PCO_RIGHTS_H */
