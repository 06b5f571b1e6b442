/* SPDX-License-Identifier: MIT */
/*
 * Coming in by the door of somebody's sandbox (runtime/agent/door.h), to become
 * its host.
 *
 *   visit UID PATH
 *
 * UID is whose process this becomes before, on the host; "-": it stays whose it
 * is.  Refused is who does not reach the socket, and who does and gets no
 * answer but the end of the connection; the last is said on stderr.
 */
#include "attack.h"
#include "local_address.h"

#include "../../runtime/agent/keeper.h"

#include <grp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

static void become(const char *uid) {
  unsigned id = (unsigned)strtoul(uid, NULL, 10);
  if (setgroups(0, NULL) < 0 || setgid(id) < 0 || setuid(id) < 0)
    give_up("setuid");
}

/* Whether the answer has a descriptor. */
static bool has_stream(const struct msghdr *m) {
  const struct cmsghdr *c = CMSG_FIRSTHDR(m);
  return c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS;
}

static void hear(int fd) {
  pco_keeper_report r = {0};
  char control[CMSG_SPACE(sizeof(int))];
  struct iovec v = {&r, sizeof r};
  struct msghdr m = {.msg_iov = &v,
                     .msg_iovlen = 1,
                     .msg_control = control,
                     .msg_controllen = sizeof control};
  struct pollfd p = {fd, POLLIN, 0};
  if (poll(&p, 1, 20000) != 1)
    give_up("no answer");
  ssize_t n = recvmsg(fd, &m, 0);
  if (n == sizeof r && r.type == PCO_KEEPER_ATTACHED && has_stream(&m))
    went_through("attach");
  else if (n > 0)
    is_broken("attach", "it was answered");
  else
    fputs("turned away\n", stderr);
}

int main(int argc, char **argv) {
  const pco_keeper_order order = {.type = PCO_KEEPER_ATTACH};
  struct sockaddr_un address;
  if (argc != 3)
    return ATTACK_BROKEN;
  if (strcmp(argv[1], "-") != 0)
    become(argv[1]);
  socklen_t size = local_address(&address, argv[2], false);
  int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  if (fd < 0)
    give_up("socket");
  if (connect(fd, (const struct sockaddr *)&address, size) < 0) {
    if (errno != EACCES && errno != ENOENT && errno != ECONNREFUSED)
      is_broken("connect", strerror(errno));
    return attack_state;
  }
  /* Who is turned away may be so before this. */
  if (send(fd, &order, sizeof order, MSG_NOSIGNAL) < 0 && errno != EPIPE)
    give_up("send");
  hear(fd);
  return attack_state;
}
