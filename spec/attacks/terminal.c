/* SPDX-License-Identifier: MIT */
/*
 * Typing into a terminal (TIOCSTI) and using a console (TIOCLINUX), with and
 * without bits above the 32 that the kernel reads; and finding the terminal of
 * the host.
 */
#include "attack.h"

#include <dirent.h>
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

/* The terminal of another command of the sandbox, which has the first one. */
static int foreign_terminal(void) {
  int terminal = open("/dev/pts/0", O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0)
    give_up("/dev/pts/0");
  setsid(); /* unless it leads a session already */
  return terminal;
}

static void by_stealing(void) {
  int terminal = foreign_terminal();
  judge("TIOCSCTTY", ioctl(terminal, TIOCSCTTY, 0), EPERM, 0);
  judge("TIOCSCTTY by force", ioctl(terminal, TIOCSCTTY, 1), EPERM, 0);
}

/* What commands of one sandbox may do to each other: they are one user. */
static void by_writing(void) {
  if (write(foreign_terminal(), "boo\n", 4) == 4)
    went_through("writing to another's terminal");
}

static void by_discipline(void) {
  int discipline = 0; /* N_TTY: what it has already */
  judge("TIOCSETD", ioctl(own_terminal(), TIOCSETD, &discipline), EPERM, 0);
}

/* Takes what the kernel prints; its own answer, with or without the filter. */
static void by_taking_console(void) {
  judge("TIOCCONS", ioctl(own_terminal(), TIOCCONS), EPERM, 0);
}

static void look_for_master(const char *pid) {
  char path[300], target[64];
  for (int fd = 0; fd < 64; fd++) {
    snprintf(path, sizeof path, "/proc/%s/fd/%d", pid, fd);
    ssize_t n = readlink(path, target, sizeof target - 1);
    target[n > 0 ? n : 0] = 0;
    if (strstr(target, "ptmx"))
      went_through(path);
  }
}

/* A master that some process has, by /proc. */
static void by_masters(void) {
  DIR *proc = opendir("/proc");
  if (!proc)
    give_up("/proc");
  for (struct dirent *e; (e = readdir(proc));)
    if (*e->d_name >= '1' && *e->d_name <= '9')
      look_for_master(e->d_name);
  closedir(proc);
}

static void by_own_master(void) {
  own_terminal(); /* its master stays open */
  by_masters();
}

int main(int argc, char **argv) {
  static const way ways[] = {
      {"type", by_typing},     {"type-high", by_typing_high},
      {"console", by_console}, {"console-high", by_console_high},
      {"name", by_name},       {"own", by_own},
      {"steal", by_stealing},  {"write", by_writing},
      {"setd", by_discipline}, {"cons", by_taking_console},
      {"masters", by_masters}, {"own-master", by_own_master}};
  return take_way(ways, COUNT(ways), argc > 1 ? argv[1] : NULL);
}
