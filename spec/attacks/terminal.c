/* SPDX-License-Identifier: MIT */
/*
 * Typing into a terminal (TIOCSTI) and using a console (TIOCLINUX), with and
 * without bits above the 32 that the kernel reads; and finding the terminal of
 * the host.
 */
#include "attack.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define HIGH (UINT64_C(1) << 32)

/* Gives this process a terminal of its own; returns it. */
static int own_terminal(void) {
  int unlock = 0, n = 0;
  char path[64];
  int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0 ||
      ioctl(master, TIOCGPTN, &n) < 0)
    give_up("/dev/ptmx");
  snprintf(path, sizeof path, "/dev/pts/%d", n);
  int terminal = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0)
    give_up(path);
  setsid(); /* unless it leads a session already */
  if (ioctl(terminal, TIOCSCTTY, 0) < 0)
    give_up("TIOCSCTTY");
  return terminal;
}

/* Types a line and reads it.  With dev.tty.legacy_tiocsti = 0 the kernel says
 * EIO, after the filter. */
static void type(const char *what, uint64_t high) {
  int terminal = own_terminal();
  const char line[] = "x\n";
  long rc = 0;
  for (int i = 0; i < 2 && rc == 0; i++)
    rc = syscall(SYS_ioctl, terminal, high | TIOCSTI, line + i);
  if (rc == 0 && read(terminal, (char[8]){0}, 8) != 2)
    rc = -1;
  judge(what, rc, EPERM, EIO);
}

static void by_typing(void) {
  type("TIOCSTI", 0);
}
static void by_typing_high(void) {
  type("TIOCSTI, high bits", HIGH);
}

/* No console here: ENOTTY is the kernel's answer. */
static void by_console(void) {
  int terminal = own_terminal();
  judge("TIOCLINUX", syscall(SYS_ioctl, terminal, TIOCLINUX, "\x06"), EPERM,
        ENOTTY);
}

static void by_console_high(void) {
  int terminal = own_terminal();
  judge("TIOCLINUX, high bits",
        syscall(SYS_ioctl, terminal, HIGH | TIOCLINUX, "\x06"), EPERM, ENOTTY);
}

/* There is no terminal that a command has by itself. */
static void by_name(void) {
  judge("/dev/tty", open("/dev/tty", O_RDWR | O_NOCTTY), ENXIO, 0);
  for (int fd = 0; fd < 3; fd++)
    if (isatty(fd))
      went_through("a standard descriptor");
  int console = open("/dev/console", O_RDWR | O_NOCTTY);
  judge2("/dev/console", console, ENOENT, EACCES, 0);
  for (int n = 0; n < 64; n++) {
    char path[64];
    snprintf(path, sizeof path, "/dev/pts/%d", n);
    if (open(path, O_RDWR | O_NOCTTY) >= 0)
      went_through(path);
  }
}

/* What the above sees once there is one: its control. */
static void by_own(void) {
  own_terminal();
  by_name();
}

int main(int argc, char **argv) {
  static const way ways[] = {
      {"type", by_typing},     {"type-high", by_typing_high},
      {"console", by_console}, {"console-high", by_console_high},
      {"name", by_name},       {"own", by_own}};
  return take_way(ways, COUNT(ways), argc > 1 ? argv[1] : NULL);
}
