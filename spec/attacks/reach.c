/* SPDX-License-Identifier: MIT */
/*
 * Connecting to sockets of the host (listener.c).
 *
 *   reach tcp ADDRESS PORT
 *   reach abstract NAME
 *   reach path PATH
 */
#include "attack.h"
#include "local_address.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

/* Any of these means that nobody was there. */
static bool is_unreachable(int error) {
  return error == ENETUNREACH || error == EHOSTUNREACH ||
         error == ECONNREFUSED || error == EADDRNOTAVAIL || error == ENOENT ||
         error == EACCES || error == ETIMEDOUT;
}

static void try(const char *what, const struct sockaddr *address,
                socklen_t size) {
  int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (fd < 0)
    give_up("socket");
  int error = connect(fd, address, size) < 0 ? errno : 0;
  if (error == EINPROGRESS) {
    struct pollfd p = {fd, POLLOUT, 0};
    socklen_t len = sizeof error;
    if (poll(&p, 1, 2000) != 1)
      error = ETIMEDOUT;
    else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
      give_up("SO_ERROR");
  }
  close(fd);
  if (error == 0)
    went_through(what);
  else if (!is_unreachable(error))
    is_broken(what, strerror(error));
}

static void internet(const char *host, const char *port) {
  struct sockaddr_in four = {.sin_family = AF_INET};
  struct sockaddr_in6 six = {.sin6_family = AF_INET6};
  four.sin_port = six.sin6_port = htons((uint16_t)atoi(port));
  if (inet_pton(AF_INET, host, &four.sin_addr) == 1)
    try(host, (struct sockaddr *)&four, sizeof four);
  else if (inet_pton(AF_INET6, host, &six.sin6_addr) == 1)
    try(host, (struct sockaddr *)&six, sizeof six);
  else
    is_broken(host, "no address");
}

static void local(const char *name, bool abstract) {
  struct sockaddr_un address;
  socklen_t size = local_address(&address, name, abstract);
  try(name, (struct sockaddr *)&address, size);
}

int main(int argc, char **argv) {
  if (argc == 4 && strcmp(argv[1], "tcp") == 0)
    internet(argv[2], argv[3]);
  else if (argc == 3 && strcmp(argv[1], "abstract") == 0)
    local(argv[2], true);
  else if (argc == 3 && strcmp(argv[1], "path") == 0)
    local(argv[2], false);
  else
    return ATTACK_BROKEN;
  return attack_state;
}
