/* SPDX-License-Identifier: MIT */
/*
 * See keeper_stage.h.
 */
#include "keeper_stage.h"

#include "keeper.h"
#include "keeper_shares.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct stage {
  pco_keeper_words *words;
  const pco_keeper_ids *ids;
  int sync;
  bool outside; /* ids are still the host's */
} stage;

/* ---- talking to the keeper ---------------------------------------------- */

static _Noreturn void give_up(const stage *s, int where, int error,
                              const char *text) {
  pco_stage_report r = {.stage = where, .error = error};
  snprintf(r.text, sizeof r.text, "%s", text);
  send(s->sync, &r, sizeof r, MSG_NOSIGNAL);
  _exit(1);
}

static void wait_for_maps(const stage *s) {
  pco_stage_report r = {.stage = -1};
  char done;
  if (send(s->sync, &r, sizeof r, MSG_NOSIGNAL) < 0 ||
      recv(s->sync, &done, 1, 0) != 1)
    _exit(1); /* the keeper knows, or is gone */
}

/* ---- namespaces --------------------------------------------------------- */

static void make_namespaces(const stage *s, int which) {
  if (unshare(which) != 0)
    give_up(s, PCO_KEEPER_STAGE_NAMESPACE, errno, "unshare");
}

/* Nothing that is mounted here may be seen by the host. */
static void make_private(const stage *s) {
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
    give_up(s, PCO_KEEPER_STAGE_NAMESPACE, errno, "mount / private");
}

/* Becomes id 0 of the new user namespace. */
static void become_agent(stage *s) {
  if ((s->words->two_ids && setgroups(0, NULL) != 0) ||
      setresgid(0, 0, 0) != 0 || setresuid(0, 0, 0) != 0)
    give_up(s, PCO_KEEPER_STAGE_IDS, errno, "setresuid");
  s->outside = false;
}

static void map_ids(stage *s, uid_t uid, gid_t gid) {
  if (s->words->two_ids) {
    wait_for_maps(s);
    return;
  }
  int rc = pco_keeper_ids_map_self(uid, gid);
  if (rc < 0)
    give_up(s, PCO_KEEPER_STAGE_IDS, -rc, "uid_map");
}

/* ---- the tmpfs ---------------------------------------------------------- */

static uid_t owner_id(const stage *s, uint32_t inside, uint32_t base) {
  if (!s->words->two_ids)
    return PCO_KEEPER_AGENT_ID;
  if (!s->outside)
    return inside;
  return inside == PCO_KEEPER_AGENT_ID ? base : base + 1;
}

static void mount_tmpfs(const stage *s) {
  char options[128];
  unsigned agent = PCO_KEEPER_AGENT_ID;
  snprintf(options, sizeof options,
           "mode=0755,uid=%u,gid=%u,size=%llu,nr_inodes=%llu",
           owner_id(s, agent, s->ids->uid), owner_id(s, agent, s->ids->gid),
           (unsigned long long)s->words->tmpfs_bytes,
           (unsigned long long)s->words->tmpfs_inodes);
  if (mount("portico", PCO_KEEPER_STAGE, "tmpfs", MS_NOSUID | MS_NODEV,
            options) != 0)
    give_up(s, PCO_KEEPER_STAGE_TMPFS, errno, PCO_KEEPER_STAGE);
}

static void make_dirs(const stage *s) {
  for (size_t i = 0; i < s->words->n_dirs; i++) {
    const pco_keeper_dir *d = &s->words->dirs[i];
    char path[512];
    snprintf(path, sizeof path, PCO_KEEPER_STAGE "/%s", d->name);
    uid_t uid = owner_id(s, d->owner, s->ids->uid);
    gid_t gid = owner_id(s, d->owner, s->ids->gid);
    /* The mode after the owner: a change of that takes set-id bits. */
    if (mkdir(path, 0700) != 0 || chown(path, uid, gid) != 0 ||
        chmod(path, d->mode) != 0)
      give_up(s, PCO_KEEPER_STAGE_TMPFS, errno, path);
  }
}

/* ---- what of the host is bound ------------------------------------------ */

/* The plugin has looked at a path without links; others may have changed it
 * since: it leads to the same place, or it is refused. */
static int open_source(const char *path, int flags) {
  struct open_how how = {.flags = (uint64_t)(O_PATH | O_CLOEXEC | flags),
                         .resolve = RESOLVE_NO_SYMLINKS};
  return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
}

static int open_entry(const pco_keeper_bind *b) {
  int dir = open_source(b->source, O_DIRECTORY);
  if (dir < 0)
    return -1;
  int fd = openat(dir, b->entry, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  int error = errno;
  close(dir);
  errno = error;
  return fd;
}

static void open_sources(const stage *s) {
  for (size_t i = 0; i < s->words->n_binds; i++) {
    pco_keeper_bind *b = &s->words->binds[i];
    struct stat st;
    b->fd = b->entry ? open_entry(b) : open_source(b->source, 0);
    if (b->fd < 0 || fstat(b->fd, &st) != 0)
      give_up(s, PCO_KEEPER_STAGE_SOURCE, errno, b->source);
    b->is_dir = S_ISDIR(st.st_mode);
    if (b->entry && !b->is_dir && !S_ISREG(st.st_mode))
      give_up(s, PCO_KEEPER_STAGE_SOURCE, ELOOP, b->source);
  }
}

static int make_target(const pco_keeper_bind *b, const char *path) {
  if (b->is_dir)
    return mkdir(path, 0755);
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  return fd < 0 ? -1 : close(fd);
}

static void bind_sources(const stage *s) {
  for (size_t i = 0; i < s->words->n_binds; i++) {
    const pco_keeper_bind *b = &s->words->binds[i];
    char path[512], source[64];
    snprintf(path, sizeof path, PCO_KEEPER_STAGE "/%s", b->name);
    snprintf(source, sizeof source, "/proc/self/fd/%d", b->fd);
    if (make_target(b, path) != 0)
      give_up(s, PCO_KEEPER_STAGE_TMPFS, errno, path);
    /* Recursively: an ordinary user may not uncover what lies below a mount. */
    if (mount(source, path, NULL, MS_BIND | MS_REC, NULL) != 0)
      give_up(s, PCO_KEEPER_STAGE_SOURCE, errno, b->source);
    close(b->fd);
  }
}

static void fill(const stage *s) {
  mount_tmpfs(s);
  make_dirs(s);
  bind_sources(s);
}

/* ---- the order of things ------------------------------------------------ */

/* bubblewrap reads the list of mounts a dozen times; what no sandbox sees makes
 * it long.  Where there is nothing to take away, nothing is lost. */
static void forget_sys(void) {
  umount2("/sys", MNT_DETACH);
}

static void prepare_as_root(stage *s) {
  make_namespaces(s, CLONE_NEWNS);
  make_private(s);
  open_sources(s);
  fill(s);
  forget_sys();
  make_namespaces(s, CLONE_NEWUSER);
  pco_shares_take(s->words->processes);
  map_ids(s, 0, 0);
  become_agent(s);
}

/* uid and gid are those from outside of the user namespace. */
static void prepare_as_user(stage *s, uid_t uid, gid_t gid) {
  pco_shares_take(s->words->processes);
  make_namespaces(s, CLONE_NEWNS);
  make_private(s);
  open_sources(s);
  map_ids(s, uid, gid);
  become_agent(s);
  fill(s);
}

/* The keeper has one thread, so its death is the only thing that this can mean.
 * A change of ids takes it back. */
static void die_with_keeper(int sync) {
  struct pollfd p = {.fd = sync};
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (poll(&p, 1, 0) != 0)
    _exit(1); /* it is dead already */
}

_Noreturn void pco_stage_main(pco_keeper_words *w, const pco_keeper_ids *ids,
                              int sync) {
  die_with_keeper(sync);
  /* Its end tells the host that this side is gone. */
  close(PCO_KEEPER_CONTROL_FD);
  stage s = {.words = w, .ids = ids, .sync = sync, .outside = true};
  umask(0);
  /* newuidmap looks at who owns /proc/PID of its target. */
  prctl(PR_SET_DUMPABLE, 1);
  if (ids->keeper_uid == 0)
    prepare_as_root(&s);
  else
    prepare_as_user(&s, ids->keeper_uid, ids->keeper_gid);
  die_with_keeper(sync);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  umask(022);
  execv(w->launcher[0], w->launcher);
  give_up(&s, PCO_KEEPER_STAGE_EXEC, errno, w->launcher[0]);
}
