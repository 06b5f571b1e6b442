/* SPDX-License-Identifier: MIT */
/*
 * Run on the host, by the test: sockets for reach.c to find.  Prints
 * "TCP4PORT TCP6PORT" (0 where there is no such thing), listens also on the
 * abstract name and the path that it gets, and stays until the end of its
 * standard input.
 *
 *   listener NAME PATH
 */
#include "attack.h"
#include "local_address.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

/* Listens on a port of the kernel's choice, of all addresses. */
static unsigned internet(int family) {
  struct sockaddr_in6 address = {.sin6_family = (sa_family_t)family};
  socklen_t size = family == AF_INET ? sizeof(struct sockaddr_in)
                                     : sizeof(struct sockaddr_in6);
  int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) < 0 ||
      listen(fd, 8) < 0 ||
      getsockname(fd, (struct sockaddr *)&address, &size) < 0)
    return 0;
  return ntohs(address.sin6_port); /* in both families at the same place */
}

static void local(const char *name, bool abstract) {
  struct sockaddr_un address;
  socklen_t size = local_address(&address, name, abstract);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) < 0 ||
      listen(fd, 8) < 0)
    give_up(name);
}

int main(int argc, char **argv) {
  char byte;
  if (argc != 3)
    return ATTACK_BROKEN;
  local(argv[1], true);
  local(argv[2], false);
  printf("%u %u\n", internet(AF_INET), internet(AF_INET6));
  fflush(stdout);
  while (read(0, &byte, 1) > 0)
    ;
  unlink(argv[2]);
  return 0;
}
