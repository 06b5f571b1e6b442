/* SPDX-License-Identifier: MIT */
/*
 * See rights.h.
 */
#include "rights.h"

#include <string.h>

void pco_rights_put(struct msghdr *m, pco_rights *room, const int *fds,
                    unsigned n) {
  size_t size = n * sizeof(int);
  if (n == 0)
    return;
  memset(room, 0, sizeof *room);
  m->msg_control = room->bytes;
  m->msg_controllen = (socklen_t)CMSG_SPACE(size);
  struct cmsghdr *h = CMSG_FIRSTHDR(m);
  h->cmsg_level = SOL_SOCKET;
  h->cmsg_type = SCM_RIGHTS;
  h->cmsg_len = (socklen_t)CMSG_LEN(size);
  memcpy(CMSG_DATA(h), fds, size);
}

void pco_rights_expect(struct msghdr *m, pco_rights *room) {
  m->msg_control = room->bytes;
  m->msg_controllen = sizeof room->bytes;
}

unsigned pco_rights_take(struct msghdr *m, int fds[PCO_RIGHTS_MAX]) {
  struct cmsghdr *h = CMSG_FIRSTHDR(m);
  if (!h || h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
    return 0;
  unsigned n = (unsigned)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int));
  memcpy(fds, CMSG_DATA(h), n * sizeof(int));
  return n;
}
