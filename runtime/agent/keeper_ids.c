/* SPDX-License-Identifier: MIT */
/*
 * See keeper_ids.h.
 */
#include "keeper_ids.h"

#include "keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRIES     64
#define HELPER_MS 10000

/* ---- holding a pair ----------------------------------------------------- */

static int hold(int fd, uint32_t uid) {
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  int n = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "portico-id-%u",
                   uid);
  socklen_t size =
      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
  return bind(fd, (struct sockaddr *)&name, size) == 0 ? 0 : -errno;
}

int pco_keeper_ids_init(pco_keeper_ids *ids, const pco_keeper_words *w) {
  uint32_t pairs = w->n_ids / 2, at = 0;
  ids->lock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (ids->lock < 0)
    return -errno;
  if (pairs == 0)
    return -EINVAL;
  if (getrandom(&at, sizeof at, GRND_NONBLOCK) != sizeof at)
    at = (uint32_t)getpid() * 2654435761u;
  int rc = -EAGAIN;
  for (uint32_t i = 0; i < TRIES && i < pairs; i++) {
    uint32_t offset = (at + i) % pairs * 2;
    ids->uid = w->first_uid + offset;
    ids->gid = w->first_gid + offset;
    rc = hold(ids->lock, ids->uid);
    if (rc != -EADDRINUSE)
      break;
  }
  return rc == -EADDRINUSE ? -EAGAIN : rc;
}

/* ---- writing maps ------------------------------------------------------- */

static int write_file(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  int rc = write(fd, text, strlen(text)) < 0 ? -errno : 0;
  close(fd);
  return rc;
}

static int map_as_root(pid_t child, const char *file, uint32_t id) {
  char path[64], map[96];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)child, file);
  snprintf(map, sizeof map, "%u %u 1\n%u %u 1\n", PCO_KEEPER_AGENT_ID, id,
           PCO_KEEPER_COMMAND_ID, id + 1);
  return write_file(path, map);
}

/* Runs newuidmap or newgidmap, which know what of /etc/sub?id is ours. */
static int map_by_helper(pid_t child, const char *program, uint32_t id) {
  char text[5][16], pid_text[16];
  snprintf(pid_text, sizeof pid_text, "%d", (int)child);
  snprintf(text[0], sizeof text[0], "%u", PCO_KEEPER_AGENT_ID);
  snprintf(text[1], sizeof text[1], "%u", id);
  snprintf(text[2], sizeof text[2], "%u", PCO_KEEPER_COMMAND_ID);
  snprintf(text[3], sizeof text[3], "%u", id + 1);
  snprintf(text[4], sizeof text[4], "1");
  char *argv[] = {(char *)(uintptr_t)program,
                  pid_text,
                  text[0],
                  text[1],
                  text[4],
                  text[2],
                  text[3],
                  text[4],
                  NULL};
  char path[] = "PATH=/usr/bin:/bin", *env[] = {path, NULL};
  pid_t pid;
  int status;
  int rc = -posix_spawn(&pid, program, NULL, NULL, argv, env);
  if (rc < 0)
    return rc;
  /* It asks the account database, which may be far away. */
  int fd = (int)syscall(SYS_pidfd_open, pid, 0);
  struct pollfd p = {.fd = fd, .events = POLLIN};
  if (fd < 0 || poll(&p, 1, HELPER_MS) <= 0)
    kill(pid, SIGKILL);
  if (fd >= 0)
    close(fd);
  if (waitpid(pid, &status, 0) < 0)
    return -errno;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EPERM;
}

int pco_keeper_ids_map(const pco_keeper_ids *ids, pid_t child,
                       const char **what) {
  bool root = geteuid() == 0;
  *what = root ? "uid_map" : "/usr/bin/newuidmap";
  int rc = root ? map_as_root(child, "uid_map", ids->uid)
                : map_by_helper(child, *what, ids->uid);
  if (rc < 0)
    return rc;
  *what = root ? "gid_map" : "/usr/bin/newgidmap";
  return root ? map_as_root(child, "gid_map", ids->gid)
              : map_by_helper(child, *what, ids->gid);
}

int pco_keeper_ids_map_self(uid_t uid, gid_t gid) {
  char map[64];
  int rc = write_file("/proc/self/setgroups", "deny");
  snprintf(map, sizeof map, "%u %u 1", PCO_KEEPER_AGENT_ID, (unsigned)uid);
  if (rc == 0)
    rc = write_file("/proc/self/uid_map", map);
  snprintf(map, sizeof map, "%u %u 1", PCO_KEEPER_AGENT_ID, (unsigned)gid);
  return rc < 0 ? rc : write_file("/proc/self/gid_map", map);
}
