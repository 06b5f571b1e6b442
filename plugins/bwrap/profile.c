/* SPDX-License-Identifier: MIT */
/*
 * From a plan to the words of the keeper and of bubblewrap, and to a running
 * keeper: the whole profile of a sandbox stands in this file.
 *
 * bubblewrap does things in the order of its words: what is read-only in the
 * end is remounted so last.
 */
#include "bwrap.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "etc.h"
#include "filter.h"

#define STAGE PCO_KEEPER_STAGE

/* ---- descriptors -------------------------------------------------------- */

/* What bubblewrap gets; each has its number from the start, so that words can
 * speak of it. */
enum {
  FD_AGENT,
  FD_IMAGE,
  FD_ARGS,
  FD_FILTER,
  FD_ETC = FD_FILTER + BWRAP_N_FILTERS,
  N_PLAIN = FD_ETC + BWRAP_N_ETC,
  FD_DOOR = N_PLAIN, /* of one that may be detached: the agent's, and the */
  FD_KEEPER_END,     /* other end, which is the keeper's, as the rest is */
  FD_LISTENER,
  FD_STATE,
  FD_INFO,
  N_FDS
};
_Static_assert(N_FDS <= BWRAP_MAX_FDS, "BWRAP_MAX_FDS is too small");
_Static_assert(PCO_KEEPER_FIRST_FD + FD_IMAGE == BWRAP_IMAGE_FD, "its name");
_Static_assert(PCO_KEEPER_FIRST_FD + FD_AGENT == BWRAP_INPUT_FD, "its name");

static int number_of(int fd) {
  return PCO_KEEPER_FIRST_FD + fd;
}

/* True if the build is one for tests and `what` is to be left out:
 *
 *   uids      root: the agent and its commands are root of this machine
 *   network   the host's network
 *   readonly  / and /dev may be written
 *   tmpfs     without a bound on bytes; inodes: on files
 *   seccomp   no filters; what else is known leaves out a part of them (see
 *             filter.c)
 *   processes not even the bound that every sandbox has on them
 *   cgroup    no limits of memory and pids, in whatever way; open_files: of
 *             those an ordinary user's commands always have
 *   dumpable  an agent that commands of the same id may look into
 *   image_links  entries of an image that became links are followed
 *   seal      a tar's files are shown as they were unpacked
 *   doors     those of this user's sandboxes may be shown
 */
bool bwrap_is_weak(const bwrap_plan *p, const char *what) {
  size_t len = strlen(what);
  for (const char *at = p->weaken; at && *at; at += strspn(at, ",")) {
    size_t n = strcspn(at, ",");
    if (n == len && strncmp(at, what, n) == 0)
      return true;
    at += n;
  }
  return false;
}

/* ---- the keeper's words ------------------------------------------------- */

static void keeper_ids(bwrap_words *w, const bwrap_plan *p) {
  if (!p->two_ids) {
    bwrap_words_add_all(w, "uids", "one", NULL);
    return;
  }
  bool weak = bwrap_is_weak(p, "uids");
  bwrap_words_add_all(w, "uids", "two", NULL);
  bwrap_words_addf(w, "%u", weak ? 0 : p->first_uid);
  bwrap_words_addf(w, "%u", weak ? 0 : p->first_gid);
  bwrap_words_addf(w, "%u", weak ? 2 : p->n_ids);
}

/* The entries of an image's root, one by one, so that what a sandbox has of its
 * own needs no place in it. */
static void keeper_image(bwrap_words *w, const bwrap_plan *p) {
  const bwrap_image *m = &p->image;
  if (m->path)
    bwrap_words_add_all(w, "dir", "image", "755", "0", NULL);
  for (size_t i = 0; i < m->n_entries; i++) {
    if (m->entries[i].link || bwrap_is_weak(p, "image_links"))
      continue;
    bwrap_words_add_all(w, "entry", m->path, m->entries[i].name, NULL);
    bwrap_words_addf(w, "image/%s", m->entries[i].name);
  }
}

/* One tmpfs holds everything that commands may write. */
static void keeper_stage(bwrap_words *w, const bwrap_plan *p) {
  bwrap_words_add(w, "tmpfs");
  bwrap_words_addf(w, "%llu",
                   bwrap_is_weak(p, "tmpfs") ? 0ull
                                             : (unsigned long long)p->disk);
  bwrap_words_addf(w, "%llu",
                   bwrap_is_weak(p, "inodes") ? 0ull
                                              : (unsigned long long)p->inodes);
  bwrap_words_add_all(w, "dir", "workspace", "755", "1000", NULL);
  bwrap_words_add_all(w, "dir", "home", "755", "1000", NULL);
  bwrap_words_add_all(w, "dir", "tmp", "1777", "0", NULL);
  bwrap_words_add_all(w, "dir", "shm", "1777", "0", NULL);
  keeper_image(w, p);
  for (size_t i = 0; i < p->n_mounts; i++) {
    bwrap_words_add_all(w, "bind", p->mounts[i].source, NULL);
    bwrap_words_addf(w, "mount%zu", i);
  }
}

/* These are the only words that appear in a command line. */
static void keeper_first_process(bwrap_words *w, const pco_backend *b,
                                 const bwrap_plan *p) {
  bwrap_words_add(w, "--");
  for (size_t i = 0; p->command && p->command[i]; i++)
    bwrap_words_add(w, p->command[i]);
  if (p->command)
    return;
  bwrap_words_add_all(w, BWRAP_AGENT_PROGRAM, "--fd", NULL);
  bwrap_words_addf(w, "%d", number_of(FD_AGENT));
  bwrap_words_add_all(w, "--root", "/", NULL);
  if (!bwrap_is_weak(p, "uids"))
    bwrap_words_add_all(w, "--user", "1000:1000:" BWRAP_USER, NULL);
  if (p->door) {
    bwrap_words_add(w, "--door");
    bwrap_words_addf(w, "%d", number_of(FD_DOOR));
  }
  bwrap_limits_agent(w, b, p);
}

static void keeper_door(bwrap_words *w, const bwrap_plan *p) {
  if (!p->door)
    return;
  bwrap_words_add(w, "door");
  bwrap_words_addf(w, "%d", number_of(FD_LISTENER));
  bwrap_words_addf(w, "%d", number_of(FD_STATE));
  bwrap_words_addf(w, "%d", number_of(FD_INFO));
  bwrap_words_addf(w, "%d", number_of(FD_KEEPER_END));
  bwrap_words_add(w, p->door->name);
  if (p->expires > 0) {
    bwrap_words_add(w, "ttl");
    bwrap_words_addf(w, "%llu",
                     (unsigned long long)plugin_door_ttl(p->expires));
  }
}

static void keeper_words(bwrap_words *w, const pco_backend *b,
                         const bwrap_plan *p, const char *cgroup) {
  keeper_ids(w, p);
  if (!bwrap_is_weak(p, "processes")) {
    bwrap_words_add(w, "processes");
    bwrap_words_addf(w, "%llu", (unsigned long long)bwrap_limits_processes(p));
  }
  bwrap_limits_keeper(w, b, p, cgroup);
  keeper_door(w, p);
  keeper_stage(w, p);
  bwrap_words_add_all(w, "--", p->program, "--args", NULL);
  bwrap_words_addf(w, "%d", number_of(FD_ARGS));
  keeper_first_process(w, b, p);
}

/* ---- bubblewrap's words: the system ------------------------------------- */

static void add_entry(bwrap_words *w, const char *source, const char *target) {
  struct stat st;
  char link[PATH_MAX];
  if (lstat(source, &st) < 0)
    return;
  if (S_ISLNK(st.st_mode)) {
    ssize_t n = readlink(source, link, sizeof link - 1);
    if (n > 0) {
      link[n] = '\0';
      bwrap_words_add_all(w, "--symlink", link, target, NULL);
    }
  } else if (S_ISDIR(st.st_mode) || S_ISREG(st.st_mode)) {
    bwrap_words_add_all(w, "--ro-bind", source, target, NULL);
  }
}

/* The programs of this machine, and what of /etc they cannot do without: names
 * of files that are public on every system. */
static void add_system(bwrap_words *w, const bwrap_plan *p) {
  static const char *const dirs[] = {"/usr",   "/bin",   "/sbin",   "/lib",
                                     "/lib32", "/lib64", "/libx32", NULL};
  static const char *const files[] = {"/etc/alternatives", "/etc/ld.so.cache",
                                      "/etc/localtime", NULL};
  static const char *const online[] = {"/etc/resolv.conf", "/etc/ssl/certs",
                                       "/etc/services", "/etc/protocols", NULL};
  for (size_t i = 0; dirs[i]; i++)
    add_entry(w, dirs[i], dirs[i]);
  bwrap_words_add_all(w, "--dir", "/etc", "--dir", "/run", "--dir", "/var",
                      "--symlink", "/tmp", "/var/tmp", NULL);
  for (size_t i = 0; files[i]; i++)
    bwrap_words_add_all(w, "--ro-bind-try", files[i], files[i], NULL);
  for (size_t i = 0; p->host_network && online[i]; i++)
    bwrap_words_add_all(w, "--ro-bind-try", online[i], online[i], NULL);
  glob_t found;
  if (glob("/etc/java-[0-9]*", GLOB_NOSORT, NULL, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc; i++)
      add_entry(w, found.gl_pathv[i], found.gl_pathv[i]);
    globfree(&found);
  }
  for (int i = 0; i < BWRAP_N_ETC; i++) {
    bwrap_words_add_all(w, "--perms", "0644", "--file", NULL);
    bwrap_words_addf(w, "%d", number_of(FD_ETC + i));
    bwrap_words_add(w, bwrap_etc_path(i));
  }
}

static void add_image(bwrap_words *w, const bwrap_plan *p) {
  const bwrap_image *m = &p->image;
  bool weak = bwrap_is_weak(p, "image_links");
  for (size_t i = 0; i < m->n_entries; i++) {
    const bwrap_image_entry *e = &m->entries[i];
    if (e->link) {
      bwrap_words_add_all(w, "--symlink", e->link, NULL);
    } else {
      bwrap_words_add(w, "--ro-bind");
      bwrap_words_addf(w, "%s/%s", weak ? m->path : STAGE "/image", e->name);
    }
    bwrap_words_addf(w, "/%s", e->name);
  }
}

/* ---- bubblewrap's words: the rest --------------------------------------- */

static void add_namespaces(bwrap_words *w, const bwrap_plan *p) {
  bwrap_words_add_all(w, "--unshare-ipc", "--unshare-pid", "--unshare-uts",
                      "--unshare-cgroup-try", "--new-session", "--hostname",
                      BWRAP_USER, NULL);
  if (!p->host_network && !bwrap_is_weak(p, "network"))
    bwrap_words_add(w, "--unshare-net");
  bwrap_words_add(w, "--as-pid-1");
  bwrap_words_add_all(w, "--cap-drop", "ALL", NULL);
  if (!p->two_ids || p->no_agent)
    bwrap_words_add_all(w, "--unshare-user", "--uid", "1000", "--gid", "1000",
                        NULL);
  else
    bwrap_words_add_all(w, "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID",
                        "--cap-add", "CAP_KILL", NULL);
  if (!p->command) /* the agent drops it, and with it the bounding set */
    bwrap_words_add_all(w, "--cap-add", "CAP_SETPCAP", NULL);
}

static void add_env(bwrap_words *w, const bwrap_plan *p) {
  bwrap_words_add(w, "--clearenv");
  for (size_t i = 0; i < p->env.n; i++) {
    const char *item = p->env.items[i];
    bwrap_words_add(w, "--setenv");
    bwrap_words_addf(w, "%.*s", (int)strcspn(item, "="), item);
    bwrap_words_add(w, strchr(item, '=') + 1);
  }
}

/* What bubblewrap makes on the way to a target is for root alone; these are
 * made before, for all. */
static void add_dirs(bwrap_words *w, const char *target) {
  for (const char *at = strchr(target + 1, '/'); at; at = strchr(at + 1, '/')) {
    bwrap_words_add(w, "--dir");
    bwrap_words_addf(w, "%.*s", (int)(at - target), target);
  }
}

/* /proc/sys is read-only, since with one uid the limits of the IPC namespace
 * (shmmni, sem, mqueue) belong to the commands. */
static void add_private(bwrap_words *w) {
  add_dirs(w, BWRAP_HOME);
  bwrap_words_add_all(w, "--proc", "/proc", "--ro-bind", "/proc/sys",
                      "/proc/sys", "--dev", "/dev", "--bind", STAGE "/shm",
                      "/dev/shm", "--bind", STAGE "/workspace", BWRAP_WORKSPACE,
                      "--bind", STAGE "/home", BWRAP_HOME, "--bind",
                      STAGE "/tmp", "/tmp", NULL);
}

static void add_mounts(bwrap_words *w, const bwrap_plan *p) {
  for (size_t i = 0; i < p->n_mounts; i++) {
    add_dirs(w, p->mounts[i].target);
    bwrap_words_add(w, p->mounts[i].read_only ? "--ro-bind" : "--bind");
    bwrap_words_addf(w, STAGE "/mount%zu", i);
    bwrap_words_add(w, p->mounts[i].target);
  }
}

static void bwrap_args(bwrap_words *w, const bwrap_plan *p) {
  add_namespaces(w, p);
  add_env(w, p);
  if (p->image.path)
    add_image(w, p);
  else
    add_system(w, p);
  add_private(w);
  add_mounts(w, p);
  if (!bwrap_is_weak(p, "readonly"))
    bwrap_words_add_all(w, "--remount-ro", "/dev", "--remount-ro", "/", NULL);
  bwrap_words_add_all(w, "--chdir", p->cwd, NULL);
  for (int i = 0; i < BWRAP_N_FILTERS && !bwrap_is_weak(p, "seccomp"); i++) {
    bwrap_words_add(w, "--add-seccomp-fd");
    bwrap_words_addf(w, "%d", number_of(FD_FILTER + i));
  }
}

/* ---- starting it -------------------------------------------------------- */

/* A description of its own, since whoever reads it moves the offset. */
static int reopen(int fd) {
  char path[32];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  int own = open(path, O_RDONLY | O_CLOEXEC);
  return own < 0 ? -errno : own;
}

static int open_filters(const bwrap_plan *p, int32_t *fds, pco_error *err) {
  int filters[BWRAP_N_FILTERS];
  int rc = bwrap_filters(p->weaken, filters, err);
  for (int i = 0; rc == 0 && i < BWRAP_N_FILTERS; i++) {
    fds[FD_FILTER + i] = reopen(filters[i]);
    rc = fds[FD_FILTER + i] < 0 ? fds[FD_FILTER + i] : 0;
  }
  return rc;
}

/* The agent's program; a weak one stands beside the plugins for tests. */
static int open_agent(pco_backend *b, const bwrap_plan *p, pco_error *err) {
  char path[PATH_MAX + 32];
  if (!bwrap_is_weak(p, "dumpable"))
    return b->services.agents->open_image(b->host, NULL, err);
  bwrap_own_dir(path);
  snprintf(path + strlen(path), sizeof path - strlen(path),
           "/../test/portico-agent-weak");
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  return fd < 0 ? -errno : fd;
}

/* Copies of what is the door's, and the socket between keeper and agent. */
static int open_door(const plugin_door *door, int32_t fds[N_FDS]) {
  const int from[] = {door->listener, door->state.dir, door->info};
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
    return -errno;
  fds[FD_DOOR] = pair[0];
  fds[FD_KEEPER_END] = pair[1];
  for (int i = 0; i < 3; i++) {
    fds[FD_LISTENER + i] = fcntl(from[i], F_DUPFD_CLOEXEC, 3);
    if (fds[FD_LISTENER + i] < 0)
      return -errno;
  }
  return 0;
}

/* Opens what bubblewrap gets; on failure what was opened stays in fds. The
 * agent first: it is the largest file, and refused where that would end us. */
static int open_fds(pco_backend *b, const bwrap_plan *p, int agent_fd,
                    int32_t fds[N_FDS], pco_error *err) {
  bwrap_words args = {0};
  int rc = fds[FD_IMAGE] = open_agent(b, p, err);
  if (rc >= 0)
    rc = fds[FD_AGENT] =
        fcntl(agent_fd >= 0 ? agent_fd : fds[FD_IMAGE], F_DUPFD_CLOEXEC, 3);
  if (rc < 0 && errno == EMFILE)
    rc = UV_EMFILE;
  if (rc >= 0)
    rc = open_filters(p, fds, err);
  for (int i = 0; rc >= 0 && i < BWRAP_N_ETC; i++)
    rc = fds[FD_ETC + i] = bwrap_etc_open(i);
  bwrap_args(&args, p);
  if (rc >= 0)
    rc = fds[FD_ARGS] = bwrap_words_memfd(&args, "bwrap-args");
  bwrap_words_deinit(&args);
  if (rc >= 0 && p->door)
    rc = open_door(p->door, fds);
  return rc < 0 ? rc : 0;
}

int bwrap_launch(bwrap_keeper *k, pco_backend *b, const bwrap_plan *p,
                 const char *id, int agent_fd,
                 void (*on_report)(bwrap_keeper *k), pco_error *err) {
  int32_t fds[N_FDS];
  char cgroup[sizeof k->cgroup];
  bwrap_words w = {0};
  int words = -1;
  for (int i = 0; i < N_FDS; i++)
    fds[i] = -1;
  int rc = open_fds(b, p, agent_fd, fds, err);
  if (rc == 0)
    rc = bwrap_limits_name(cgroup, sizeof cgroup, b, p, id);
  if (rc == 0) {
    keeper_words(&w, b, p, cgroup);
    rc = words = bwrap_words_memfd(&w, "keeper-words");
  }
  if (rc >= 0)
    rc = bwrap_keeper_start(k, b, words, fds, p->door ? N_FDS : N_PLAIN,
                            on_report, err);
  if (rc == 0) {
    k->program = p->program;
    memcpy(k->cgroup, cgroup, sizeof k->cgroup);
  }
  for (int i = 0; i < N_FDS; i++)
    if (fds[i] >= 0)
      close(fds[i]);
  if (words >= 0)
    close(words);
  bwrap_words_deinit(&w);
  return rc;
}
