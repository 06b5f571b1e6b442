/* SPDX-License-Identifier: MIT */
/*
 * See unpack.h.  One thread and one poll over three pipes: from what
 * decompresses, to tar, and the names from tar.  When the names end, tar has.
 */
#include "unpack.h"

#include "options.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* More than any of these programs needs for a real image. */
#define MAX_MEMORY    (UINT64_C(2) << 30)
#define MAX_PROCESSES 64 /* and threads: one of these programs may use some */

/* What a sandbox has of its own, so the image's is never seen: most of all the
 * devices, which cannot be made here. */
#define EXCLUDED                                                               \
  "--exclude=dev", "--exclude=./dev", "--exclude=proc", "--exclude=./proc",    \
      "--exclude=sys", "--exclude=./sys"

extern char **environ;

typedef struct unpack_options {
  const char *program; /* "none": nothing decompresses */
  uint64_t fd, bytes, entries;
} unpack_options;

typedef struct unpack {
  pid_t source, tar; /* source: 0 if nothing decompresses */
  int in, out, names;
  uint64_t bytes, entries; /* left */
  size_t at, len;          /* of what waits in buf */
  char last[4096];         /* the name before, */
  size_t last_len;
  size_t name_len; /* and how much of this one has come, */
  bool differs;    /* which is another from somewhere on, */
  bool slash;      /* and ends in '/' so far */
  int status;      /* why it was given up, or 0 */
  char buf[64 << 10];
} unpack;

/* ---- the programs ------------------------------------------------------- */

/* Starts one with `in` and `out` as its standard input and output. */
static int start(pid_t *pid, const char *const *argv, int in, int out) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attr;
  sigset_t set;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in, 0);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawnattr_init(&attr);
  sigemptyset(&set);
  posix_spawnattr_setsigmask(&attr, &set);
  sigaddset(&set, SIGPIPE);
  posix_spawnattr_setsigdefault(&attr, &set);
  posix_spawnattr_setflags(&attr,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  int rc = -posix_spawnp(pid, argv[0], &actions, &attr,
                         (char *const *)(uintptr_t)argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attr);
  if (rc < 0)
    fprintf(stderr, "%s\n", argv[0]);
  return rc;
}

/* Ours is non-blocking, theirs is not. */
static int make_pipe(int fds[2], int ours) {
  if (pipe2(fds, O_CLOEXEC) != 0)
    return -errno;
  return fcntl(fds[ours], F_SETFL, O_NONBLOCK) == 0 ? 0 : -errno;
}

static int start_source(unpack *u, const unpack_options *o) {
  const char *argv[] = {o->program, "-dc", NULL};
  int fds[2];
  if (strcmp(o->program, "none") == 0) {
    u->in = (int)o->fd;
    return 0;
  }
  int rc = make_pipe(fds, 0);
  if (rc == 0)
    rc = start(&u->source, argv, (int)o->fd, fds[1]);
  if (rc < 0)
    return rc;
  close(fds[1]);
  u->in = fds[0];
  return 0;
}

/* Without the owners, and without rights for others to write; links are made
 * last, so that no file goes through one that leads away. */
static int start_tar(unpack *u) {
  static const char *const argv[] = {"tar",
                                     "--extract",
                                     "--verbose",
                                     "--file=-",
                                     "--no-same-owner",
                                     "--no-same-permissions",
                                     "--quoting-style=escape",
                                     "--anchored",
                                     EXCLUDED,
                                     NULL};
  int in[2], names[2];
  int rc = make_pipe(in, 1);
  if (rc == 0)
    rc = make_pipe(names, 0);
  if (rc == 0)
    rc = start(&u->tar, argv, in[0], names[1]);
  if (rc < 0)
    return rc;
  close(in[0]);
  close(names[1]);
  u->out = in[1];
  u->names = names[0];
  return 0;
}

/* ---- bytes -------------------------------------------------------------- */

static void stop(int *fd) {
  if (*fd >= 0)
    close(*fd);
  *fd = -1;
}

static void give_up(unpack *u, int status) {
  if (u->status == 0)
    u->status = status;
  kill(u->tar, SIGKILL);
  if (u->source)
    kill(u->source, SIGKILL);
  stop(&u->in);
  stop(&u->out);
}

static void on_in(unpack *u) {
  ssize_t n = read(u->in, u->buf, sizeof u->buf);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (n <= 0) {
    stop(&u->in);
    stop(&u->out);
  } else if ((uint64_t)n > u->bytes) {
    give_up(u, PCO_UNPACK_BYTES);
  } else {
    u->bytes -= (uint64_t)n;
    u->at = 0;
    u->len = (size_t)n;
  }
}

/* A tar that wants no more has ended, or is about to. */
static void on_out(unpack *u) {
  ssize_t n = write(u->out, u->buf + u->at, u->len - u->at);
  if (n > 0) {
    u->at += (size_t)n;
  } else if (errno != EAGAIN && errno != EINTR) {
    stop(&u->in);
    stop(&u->out);
  }
}

/* ---- names -------------------------------------------------------------- */

static void count(unpack *u) {
  if (u->entries == 0)
    give_up(u, PCO_UNPACK_ENTRIES);
  else
    u->entries--;
}

/* A name counts for itself and for every directory on the way to it that the
 * name before had not: tar makes those that are missing. */
static void take_char(unpack *u, char c) {
  bool end = c == '\n';
  if (u->slash && !end && u->differs)
    count(u);
  u->slash = c == '/';
  if (end) {
    count(u);
    u->last_len = u->name_len;
    u->name_len = 0;
    u->differs = false;
    return;
  }
  if (u->name_len >= u->last_len || u->last[u->name_len] != c)
    u->differs = true;
  if (u->name_len < sizeof u->last)
    u->last[u->name_len++] = c;
}

static void on_names(unpack *u) {
  char buf[4096];
  ssize_t n = read(u->names, buf, sizeof buf);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (n <= 0)
    stop(&u->names);
  for (ssize_t i = 0; i < n; i++)
    take_char(u, buf[i]);
}

/* ---- the whole ---------------------------------------------------------- */

/* In a poll a negative descriptor is skipped. */
static void turn(unpack *u) {
  bool full = u->at < u->len;
  struct pollfd p[] = {{.fd = full ? -1 : u->in, .events = POLLIN},
                       {.fd = full ? u->out : -1, .events = POLLOUT},
                       {.fd = u->names, .events = POLLIN}};
  if (poll(p, 3, -1) < 0)
    return;
  if (p[2].revents)
    on_names(u);
  if (p[0].revents && u->in >= 0)
    on_in(u);
  if (p[1].revents && u->out >= 0)
    on_out(u);
}

static int wait_for(pid_t pid) {
  int status;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR)
      return -1;
  return status;
}

/* What decompresses may have been left alone by a tar that had enough, and
 * status 2 is a warning of gzip's. */
static bool was_good(int status, const char *program) {
  if (WIFSIGNALED(status))
    return WTERMSIG(status) == SIGPIPE;
  return WEXITSTATUS(status) == 0 ||
         (WEXITSTATUS(status) == 2 && strcmp(program, "gzip") == 0);
}

static int judge(unpack *u, const unpack_options *o) {
  int tar = wait_for(u->tar);
  int source = u->source ? wait_for(u->source) : 0;
  if (u->status)
    return u->status;
  if (WIFSIGNALED(tar) && WTERMSIG(tar) == SIGXFSZ)
    return PCO_UNPACK_BYTES;
  if (WIFSIGNALED(tar))
    fprintf(stderr, "tar was killed by signal %d\n", WTERMSIG(tar));
  return tar == 0 && was_good(source, o->program) ? 0 : PCO_UNPACK_BAD;
}

static void set_limits(const unpack_options *o) {
  struct rlimit memory = {MAX_MEMORY, MAX_MEMORY};
  struct rlimit file = {o->bytes, o->bytes};
  struct rlimit core = {0, 0};
  struct rlimit processes = {MAX_PROCESSES, MAX_PROCESSES};
  setrlimit(RLIMIT_NPROC, &processes);
  setrlimit(RLIMIT_AS, &memory);
  setrlimit(RLIMIT_FSIZE, &file);
  setrlimit(RLIMIT_CORE, &core);
}

static int run(const unpack_options *o) {
  static unpack u;
  u.in = u.out = u.names = -1;
  u.bytes = o->bytes;
  u.entries = o->entries;
  set_limits(o);
  signal(SIGPIPE, SIG_IGN);
  umask(022);
  fcntl((int)o->fd, F_SETFD, FD_CLOEXEC);
  int rc = mkdir(PCO_UNPACK_TREE, 0755) == 0 && chdir(PCO_UNPACK_TREE) == 0
               ? start_source(&u, o)
               : -EIO;
  if (rc == 0)
    rc = start_tar(&u);
  if (rc == -ENOENT || rc == -EACCES)
    return PCO_UNPACK_MISSING; /* start() has named it */
  if (rc < 0)
    return 1;
  while (u.names >= 0)
    turn(&u);
  stop(&u.in);
  stop(&u.out);
  return judge(&u, o);
}

int pco_unpack_main(char *const words[PCO_UNPACK_WORDS]) {
  unpack_options o = {.program = words[0]};
  if (!pco_parse_number(words[1], &o.fd) || o.fd > INT_MAX ||
      !pco_parse_number(words[2], &o.bytes) ||
      !pco_parse_number(words[3], &o.entries))
    return 2;
  return run(&o);
}
