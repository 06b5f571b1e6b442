/* SPDX-License-Identifier: MIT */
/* Listening ports; see ports.h. */
#include "ports.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "procfs.h"

#define TCP_LISTEN 0x0a

bool pco_port_line(const char *line, unsigned port) {
  unsigned local, state;
  /* "  0: 0100007F:1F90 00000000:0000 0A ..."; the first line has no number */
  return sscanf(line, " %*u: %*[0-9A-Fa-f]:%4x %*[0-9A-Fa-f]:%*x %2x", &local,
                &state) == 2 &&
         local == port && state == TCP_LISTEN;
}

/* Looks at the whole lines in a buffer; *len becomes what is left of the last
 * one. */
static bool look(char *buffer, size_t *len, unsigned port) {
  char *line = buffer;
  bool found = false;
  for (char *end; !found && (end = memchr(line, '\n', *len)) != NULL;) {
    *end = 0;
    found = pco_port_line(line, port);
    *len -= (size_t)(end + 1 - line);
    line = end + 1;
  }
  memmove(buffer, line, *len);
  return found;
}

static int search(const char *name, unsigned port) {
  char buffer[4096]; /* the kernel's lines are 150 bytes long */
  size_t len = 0;
  int fd = openat(pco_procfs_fd(), name, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  int rc = 0;
  while (rc == 0 && len < sizeof buffer) {
    ssize_t n = read(fd, buffer + len, sizeof buffer - len);
    if (n < 0 && errno != EINTR)
      rc = -errno;
    if (n == 0)
      break;
    len += n > 0 ? (size_t)n : 0;
    if (look(buffer, &len, port))
      rc = 1;
  }
  close(fd);
  return rc;
}

int pco_port_listens(unsigned port) {
  int rc = search("self/net/tcp", port);
  if (rc != 0)
    return rc;
  rc = search("self/net/tcp6", port);
  return rc == -ENOENT ? 0 : rc; /* a kernel without IPv6 */
}
