/* SPDX-License-Identifier: MIT */
/*
 * See terminal.h.
 */
#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define OPEN_FLAGS (O_RDWR | O_NOCTTY | O_CLOEXEC)

#ifndef TIOCGPTPEER
#  define TIOCGPTPEER _IO('T', 0x41)
#endif

/* The slave of a master, by the master; kernels before 4.13 know it by its
 * name only. */
static int open_slave(int master) {
  int locked = 0;
  unsigned number;
  char path[32];
  if (ioctl(master, TIOCSPTLCK, &locked) != 0)
    return -errno;
  int fd = ioctl(master, TIOCGPTPEER, OPEN_FLAGS);
  if (fd >= 0 || (errno != EINVAL && errno != ENOTTY))
    return fd >= 0 ? fd : -errno;
  if (ioctl(master, TIOCGPTN, &number) != 0)
    return -errno;
  snprintf(path, sizeof path, "/dev/pts/%u", number);
  fd = open(path, OPEN_FLAGS | O_NOFOLLOW);
  return fd >= 0 ? fd : -errno;
}

int pco_terminal_resize(int master, uint16_t cols, uint16_t rows) {
  struct winsize size = {.ws_col = cols, .ws_row = rows};
  return ioctl(master, TIOCSWINSZ, &size) == 0 ? 0 : -errno;
}

/* Before the start, so that nothing typed early is echoed. */
static int set_echo_off(int slave) {
  struct termios t;
  if (tcgetattr(slave, &t) != 0)
    return -errno;
  t.c_lflag &= ~(tcflag_t)ECHO;
  return tcsetattr(slave, TCSANOW, &t) == 0 ? 0 : -errno;
}

int pco_terminal_open(pco_terminal *t, uint16_t cols, uint16_t rows,
                      bool echo) {
  t->slave = -1;
  t->master = open("/dev/ptmx", OPEN_FLAGS | O_NONBLOCK);
  if (t->master < 0)
    return -errno;
  int rc = t->slave = open_slave(t->master);
  if (rc >= 0)
    rc = pco_terminal_resize(t->master, cols, rows);
  if (rc == 0 && !echo)
    rc = set_echo_off(t->slave);
  if (rc == 0)
    return 0;
  if (t->slave >= 0)
    close(t->slave);
  close(t->master);
  t->master = t->slave = -1;
  return rc;
}
