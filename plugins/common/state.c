/* SPDX-License-Identifier: MIT */
/*
 * See state.h; finding the directory is in state_dir.c.
 */
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "fail.h"
#include "wait.h"

#define NAME_SIZE 128 /* a backend's id, one of a sandbox, an ending */
#define BACKLOG   64

enum { BYTE_LIVES, BYTE_ATTACHED, BYTE_REMOVED };

static void name_of(char out[NAME_SIZE], const plugin_state *st, const char *id,
                    const char *ending) {
  snprintf(out, NAME_SIZE, "%.32s-%.64s%s", st->backend, id, ending);
}

/* ---- locks --------------------------------------------------------------- */

static int lock_call(int fd, int command, short type, int byte, short *found) {
  struct flock l = {
      .l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
  int rc;
  do
    rc = fcntl(fd, command, &l);
  while (rc < 0 && errno == EINTR);
  if (found)
    *found = l.l_type;
  return rc < 0 ? -errno : 0;
}

/* 0, or UV_EBUSY. */
static int take_lock(int fd, int byte) {
  int rc = lock_call(fd, F_OFD_SETLK, F_WRLCK, byte, NULL);
  return rc == -EAGAIN || rc == -EACCES ? UV_EBUSY : rc;
}

/* Whether another description has it. */
static bool is_locked(int fd, int byte) {
  short found = F_UNLCK;
  return lock_call(fd, F_OFD_GETLK, F_WRLCK, byte, &found) == 0 &&
         found != F_UNLCK;
}

/* ---- the fixed lines ----------------------------------------------------- */

static void write_pid(int fd, off_t at, pid_t pid) {
  char digits[PLUGIN_INFO_DIGITS + 1];
  snprintf(digits, sizeof digits, "%0*u", PLUGIN_INFO_DIGITS, (unsigned)pid);
  (void)!pwrite(fd, digits, PLUGIN_INFO_DIGITS, at);
}

/* As /proc says; 0 if it does not. */
static pid_t pid_of(int pidfd) {
  char path[64], line[128];
  unsigned pid = 0;
  snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
  FILE *f = fopen(path, "re");
  while (f && fgets(line, sizeof line, f) && sscanf(line, "Pid: %u", &pid) != 1)
    ;
  if (f)
    fclose(f);
  return (pid_t)pid;
}

void plugin_state_set_keeper(int info, int pidfd) {
  write_pid(info, PLUGIN_INFO_KEEPER, pid_of(pidfd));
}

/* ---- making one ---------------------------------------------------------- */

static int write_all(int fd, const char *text, size_t len) {
  while (len > 0) {
    ssize_t n = write(fd, text, len);
    if (n < 0 && errno != EINTR)
      return -errno;
    text += n > 0 ? n : 0;
    len -= n > 0 ? (size_t)n : 0;
  }
  return 0;
}

/* A name that nobody has, and a new file of it. */
static int open_new(const plugin_state *st, char name[NAME_SIZE]) {
  uint64_t random;
  if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
    random = uv_hrtime();
  snprintf(name, NAME_SIZE, ".new-%016llx", (unsigned long long)random);
  int fd = openat(st->dir, name,
                  O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0)
    return -errno;
  fchmod(fd, 0600); /* whatever the umask */
  return fd;
}

/* Another description of it, which holds another byte. */
static int open_again(const plugin_state *st, const char *name, int byte) {
  int fd = openat(st->dir, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  int rc = take_lock(fd, byte);
  if (rc == 0)
    return fd;
  close(fd);
  return rc;
}

/* It appears whole, alive, and attached to its maker: whoever looks for it
 * comes later. */
static int publish(const plugin_state *st, const char *id, const char *text,
                   size_t len, int *out, int *hold) {
  char temporary[NAME_SIZE], name[NAME_SIZE];
  int fd = open_new(st, temporary), held = -1;
  if (fd < 0)
    return fd;
  name_of(name, st, id, ".info");
  int rc = write_all(fd, text, len);
  if (rc == 0)
    rc = take_lock(fd, BYTE_LIVES);
  if (rc == 0)
    rc = held = open_again(st, temporary, BYTE_ATTACHED);
  if (rc >= 0)
    write_pid(held, PLUGIN_INFO_HOST, getpid());
  if (rc >= 0)
    rc = linkat(st->dir, temporary, st->dir, name, 0) < 0 ? -errno : 0;
  unlinkat(st->dir, temporary, 0);
  if (rc < 0) {
    close(fd);
    plugin_state_let_go(held);
  } else {
    *out = fd;
    *hold = held;
  }
  return rc;
}

int plugin_state_publish(const plugin_state *st, const plugin_info *i, int *fd,
                         int *hold, pco_error *err) {
  char *text;
  size_t len;
  int rc = plugin_info_write(i, &text, &len);
  *fd = *hold = -1;
  if (rc == UV_E2BIG)
    return plugin_fail(err, UV_EINVAL,
                       "labels and paths of a detachable sandbox may have %u "
                       "KiB together",
                       PLUGIN_INFO_MAX / 1024);
  if (rc < 0)
    return rc;
  rc = publish(st, i->id, text, len, fd, hold);
  free(text);
  return rc == 0 || rc == UV_EEXIST
             ? rc
             : plugin_fail(err, rc,
                           "cannot write down the sandbox in %.300s: %s",
                           st->path, uv_strerror(rc));
}

/* By descriptors: a path may be longer than an address, and lead elsewhere. */
PCO_PRINTF(2, 3)
static bool set_address(struct sockaddr_un *a, const char *fmt, ...) {
  va_list args;
  memset(a, 0, sizeof *a);
  a->sun_family = AF_UNIX;
  va_start(args, fmt);
  int n = vsnprintf(a->sun_path, sizeof a->sun_path, fmt, args);
  va_end(args);
  return n > 0 && n < (int)sizeof a->sun_path;
}

static int open_socket(void) {
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  return fd < 0 ? -errno : fd;
}

/* A socket of that name was left by one that is dead. */
int plugin_state_listen(const plugin_state *st, const char *id) {
  struct sockaddr_un a;
  char name[NAME_SIZE];
  name_of(name, st, id, ".sock");
  if (!set_address(&a, "/proc/self/fd/%d/%s", st->dir, name))
    return UV_ENAMETOOLONG;
  int fd = open_socket();
  if (fd < 0)
    return fd;
  unlinkat(st->dir, name, 0);
  int rc = bind(fd, (const struct sockaddr *)&a, sizeof a) < 0 ||
                   fchmodat(st->dir, name, 0600, 0) < 0 || /* and no umask */
                   listen(fd, BACKLOG) < 0
               ? -errno
               : 0;
  if (rc == 0)
    return fd;
  close(fd);
  return rc;
}

void plugin_state_forget(const plugin_state *st, const char *id) {
  char name[NAME_SIZE];
  name_of(name, st, id, ".sock");
  unlinkat(st->dir, name, 0);
  name_of(name, st, id, ".info"); /* last: it is what makes the id taken */
  unlinkat(st->dir, name, 0);
}

/* ---- looking ------------------------------------------------------------- */

static int open_info(const plugin_state *st, const char *id) {
  char name[NAME_SIZE];
  struct stat s;
  if (!pco_id_is_valid(id))
    return UV_ENOENT;
  name_of(name, st, id, ".info");
  int fd = openat(st->dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0)
    return errno == ELOOP ? UV_ENOENT : -errno;
  if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_uid == geteuid())
    return fd;
  close(fd);
  return UV_ENOENT;
}

static int read_info(int fd, plugin_info *i) {
  char *text = malloc(PLUGIN_INFO_MAX);
  if (!text)
    return UV_ENOMEM;
  ssize_t n = pread(fd, text, PLUGIN_INFO_MAX, 0);
  if (n >= 0)
    return plugin_info_read(i, text, (size_t)n);
  free(text);
  return -errno;
}

/* Reads what is open. */
static int look(int fd, const char *id, plugin_info *i) {
  memset(i, 0, sizeof *i);
  int rc = read_info(fd, i);
  if (rc < 0) {
    plugin_info_deinit(i);
    return rc;
  }
  snprintf(i->id, sizeof i->id, "%s", id);
  i->lives = is_locked(fd, BYTE_LIVES);
  i->attached = is_locked(fd, BYTE_ATTACHED);
  return 0;
}

int plugin_state_look(const plugin_state *st, const char *id, plugin_info *i) {
  int fd = open_info(st, id);
  if (fd < 0)
    return fd;
  int rc = look(fd, id, i);
  close(fd);
  return rc;
}

/* The socket of that name itself, not what a link there leads to. */
static int open_door(const plugin_state *st, const char *id) {
  char name[NAME_SIZE];
  struct stat s;
  name_of(name, st, id, ".sock");
  int fd = openat(st->dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  if (fstat(fd, &s) == 0 && S_ISSOCK(s.st_mode))
    return fd;
  close(fd);
  return UV_ENOENT;
}

int plugin_state_knock(const plugin_state *st, const char *id) {
  struct sockaddr_un a;
  int door = open_door(st, id);
  if (door < 0)
    return door;
  int fd = open_socket();
  int rc = fd < 0 ? fd : 0;
  if (rc == 0 && (!set_address(&a, "/proc/self/fd/%d", door) ||
                  connect(fd, (const struct sockaddr *)&a, sizeof a) < 0))
    rc = -errno;
  close(door);
  if (rc == 0)
    return fd;
  if (fd >= 0)
    close(fd);
  return rc;
}

/* ---- its keeper ---------------------------------------------------------- */

/* The pid is that of the keeper if the keeper lives after the pidfd was made:
 * as long as it lives nobody else has the number. */
int plugin_state_keeper(const plugin_state *st, const plugin_info *i) {
  int info = open_info(st, i->id);
  if (info < 0)
    return PCO_EGONE;
  bool seen = i->keeper > 0 && i->namespace == plugin_info_namespace();
  int pidfd = seen ? (int)syscall(SYS_pidfd_open, i->keeper, 0) : -1;
  int rc = pidfd < 0 ? UV_ESRCH : pidfd;
  if (!is_locked(info, BYTE_LIVES))
    rc = PCO_EGONE;
  close(info);
  if (rc < 0 && pidfd >= 0)
    close(pidfd);
  return rc;
}

/* ---- who is attached ----------------------------------------------------- */

int plugin_state_hold(const plugin_state *st, const char *id) {
  int fd = open_info(st, id);
  if (fd < 0)
    return fd;
  int rc = take_lock(fd, BYTE_ATTACHED);
  if (rc == 0) {
    write_pid(fd, PLUGIN_INFO_HOST, getpid());
    return fd;
  }
  close(fd);
  return rc;
}

/* A child that the host has forked may have the description still. */
void plugin_state_let_go(int fd) {
  if (fd < 0)
    return;
  lock_call(fd, F_OFD_SETLK, F_UNLCK, BYTE_ATTACHED, NULL);
  close(fd);
}

/* ---- what is left -------------------------------------------------------- */

/* Whether it is still the file of that name, and not one that came later. */
static bool is_current(const plugin_state *st, const char *id, int fd) {
  char name[NAME_SIZE];
  struct stat held, named;
  name_of(name, st, id, ".info");
  return fstat(fd, &held) == 0 &&
         fstatat(st->dir, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

int plugin_state_claim(const plugin_state *st, const char *id, plugin_info *i) {
  int fd = open_info(st, id);
  if (fd < 0)
    return fd;
  int rc = take_lock(fd, BYTE_REMOVED);
  if (rc == 0 && is_locked(fd, BYTE_LIVES))
    rc = UV_EBUSY;
  if (rc == 0 && !is_current(st, id, fd))
    rc = UV_ENOENT;
  if (rc == 0)
    rc = look(fd, id, i);
  if (rc == 0)
    return fd;
  close(fd);
  return rc;
}
