/* SPDX-License-Identifier: MIT */
/*
 * portico-agent: runs inside a sandbox and handles its commands and files.
 *
 * This file is the command line and the order of things at start and end.  Exit
 * status: 0 at the end of the stream, 1 if it could not start or remove, 2 for
 * wrong arguments, 3 if the host broke the protocol.
 */
#include "agent.h"
#include "cgroup.h"
#include "door.h"
#include "harden.h"
#include "identity.h"
#include "keeper.h"
#include "options.h"
#include "procfs.h"
#include "rmtree.h"
#include "seal.h"
#include "unpack.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef PCO_VERSION
#  define PCO_VERSION "0.1.0"
#endif

static const char USAGE[] =
    "usage: portico-agent --fd N [--door N] [--root DIR] [--alias DIR]\n"
    "                     [--remove DIR] [--wait N] [--cwd DIR]\n"
    "                     [--user UID:GID[:NAME]] [--groups all|one]\n"
    "                     [--keeper N]\n"
    "                     [--rlimit LIMITS] [--emulate LIMITS] [--confine]\n"
    "       portico-agent --listen N --state N --info N --name NAME [--ttl "
    "MS]\n"
    "                     and the others, but for --fd and --door\n"
    "       portico-agent --keep\n"
    "       portico-agent --remove-cgroup BASE NAME\n"
    "       portico-agent --remove-only DIR\n"
    "       portico-agent --unpack PROGRAM FD BYTES ENTRIES\n"
    "       portico-agent --seal DIR FIRST-ID LAST-ID BYTES ENTRIES\n"
    "       portico-agent --probe\n"
    "       portico-agent --version\n";

#define MAX_TTL (UINT64_C(1) << 40) /* ms; fits all that counts time */

typedef struct arguments {
  pco_agent_options agent;
  const char *remove;      /* NULL: nothing */
  const char *cwd;         /* NULL: where it is */
  int wait;                /* for a byte before it begins; or -1 */
  const char *remove_only; /* NULL: run */
  const char *cgroup_base; /* NULL: run */
  const char *cgroup_name;
  bool version;
  bool keep;
} arguments;

static bool parse_fd(const char *s, int *out) {
  char *end;
  long v = strtol(s, &end, 10);
  *out = (int)v;
  return *s && *end == 0 && v >= 3 && v <= INT_MAX;
}

/* An option with a value. */
static bool parse_one(const char *name, const char *value, arguments *out) {
  pco_agent_options *a = &out->agent;
  if (strcmp(name, "--fd") == 0)
    return parse_fd(value, &a->fd);
  if (strcmp(name, "--keeper") == 0)
    return parse_fd(value, &a->keeper);
  if (strcmp(name, "--door") == 0)
    return parse_fd(value, &a->entrance.visits);
  if (strcmp(name, "--listen") == 0)
    return parse_fd(value, &a->entrance.listener);
  if (strcmp(name, "--state") == 0)
    return parse_fd(value, &a->entrance.dir);
  if (strcmp(name, "--info") == 0)
    return parse_fd(value, &a->entrance.info);
  if (strcmp(name, "--wait") == 0)
    return parse_fd(value, &out->wait);
  if (strcmp(name, "--ttl") == 0)
    return pco_parse_number(value, &a->entrance.ttl_ms) &&
           a->entrance.ttl_ms > 0 && a->entrance.ttl_ms <= MAX_TTL;
  if (strcmp(name, "--rlimit") == 0)
    return pco_parse_limits(value, &a->limits);
  if (strcmp(name, "--emulate") == 0) {
    a->may_emulate = true;
    return pco_parse_emulated(value, &a->emulated);
  }
  if (strcmp(name, "--root") == 0)
    a->root = value;
  else if (strcmp(name, "--alias") == 0)
    a->alias = value;
  else if (strcmp(name, "--user") == 0)
    a->user = value;
  else if (strcmp(name, "--groups") == 0)
    a->groups = value;
  else if (strcmp(name, "--name") == 0)
    a->entrance.name = value;
  else if (strcmp(name, "--remove") == 0)
    out->remove = value;
  else if (strcmp(name, "--cwd") == 0)
    out->cwd = value;
  else if (strcmp(name, "--remove-only") == 0)
    out->remove_only = value;
  else
    return false;
  return true;
}

/* Hosts come by --fd, and --door later; or all by --listen. */
static bool is_complete(const pco_agent_options *a) {
  const pco_entrance_options *e = &a->entrance;
  bool own = e->dir >= 0 && e->info >= 0 && e->name;
  if (e->listener >= 0)
    return own && a->fd < 0 && e->visits < 0;
  return a->fd >= 0 && e->dir < 0 && e->info < 0 && !e->name && !e->ttl_ms;
}

static bool parse(int argc, char **argv, arguments *out) {
  memset(out, 0, sizeof *out);
  out->agent.fd = out->agent.keeper = out->wait = -1;
  pco_entrance_options *e = &out->agent.entrance;
  e->visits = e->listener = e->dir = e->info = -1;
  out->agent.root = "/";
  for (int i = 1; i < argc; i++) {
    const char *name = argv[i];
    if (strcmp(name, "--version") == 0) {
      out->version = true;
      continue;
    }
    if (strcmp(name, "--confine") == 0) {
      out->agent.confine = true;
      continue;
    }
    if (strcmp(name, "--keep") == 0) {
      out->keep = true;
      continue;
    }
    if (strcmp(name, "--remove-cgroup") == 0) {
      if (argc != 4 || i != 1)
        return false;
      out->cgroup_base = argv[2];
      out->cgroup_name = argv[3];
      return true;
    }
    if (++i == argc || !parse_one(name, argv[i], out))
      return false;
  }
  return out->version || out->keep || out->remove_only ||
         is_complete(&out->agent);
}

static int complain(const char *what, int rc) {
  fprintf(stderr, "portico-agent: %s: %s\n", what, strerror(-rc));
  return 1;
}

/* Removes a tree whose directory is held, to the end. */
static int remove_tree(int parent, const char *name) {
  static pco_rmtree tree;
  int rc = pco_rmtree_init(&tree, parent, name, true);
  if (rc == 0)
    while ((rc = pco_rmtree_step(&tree, 4096)) == 1)
      ;
  pco_rmtree_deinit(&tree);
  return rc == -ENOENT ? 0 : rc;
}

static int remove_only(const char *path) {
  char name[NAME_MAX + 1];
  int rc = pco_rmtree_open_parent(path, name);
  if (rc >= 0)
    rc = remove_tree(rc, name);
  return rc == 0 || rc == -ENOENT ? 0 : complain(path, rc);
}

static int remove_cgroup(const char *base, const char *name) {
  int rc = pco_cgroup_remove_stale(base, name);
  return rc == 0 ? 0 : complain(name, rc);
}

/* Whoever started it makes the directories meanwhile; false: he has died. */
static bool may_begin(int fd) {
  char byte;
  ssize_t n;
  if (fd < 0)
    return true;
  do
    n = read(fd, &byte, 1);
  while (n < 0 && errno == EINTR);
  close(fd);
  return n == 1;
}

/* Takes away what is written down of a sandbox that never was. */
static void forget_door(const pco_entrance_options *e) {
  const pco_keeper_report none = {0};
  pco_door d;
  if (e->listener < 0)
    return;
  pco_door_init(&d, e->listener, e->dir, e->info, e->name, 0);
  pco_door_close(&d, &none);
}

/* Its exit status; *begun: it is to be deinited. */
static int serve(pco_agent *agent, const arguments *o, bool *begun) {
  const char *what;
  if (!may_begin(o->wait)) {
    forget_door(&o->agent.entrance);
    return 1;
  }
  if (o->cwd && chdir(o->cwd) != 0)
    return complain(o->cwd, -errno);
  int rc = pco_agent_init(agent, &o->agent, &what);
  if (rc != 0)
    return complain(what, rc);
  *begun = true;
  return pco_agent_run(agent);
}

/* The directory above the tree to remove is opened before anything hostile
 * runs, so that later links on the way to it change nothing. */
static int run(const arguments *o) {
  static _Alignas(4096) pco_agent agent; /* its first page is the busy one */
  char name[NAME_MAX + 1];
  bool begun = false;
  int parent = -1;
  int rc = pco_procfs_open();
  if (rc != 0)
    return complain("/proc of this PID namespace is needed", rc);
  if (o->remove && (parent = pco_rmtree_open_parent(o->remove, name)) < 0)
    return complain(o->remove, parent);
  int status = serve(&agent, o, &begun);
  pco_identity_leave();
  if (parent >= 0 && (rc = remove_tree(parent, name)) != 0) {
    complain(o->remove, rc);
    status = status ? status : 1;
  }
  if (begun)
    pco_agent_deinit(&agent);
  return status;
}

int main(int argc, char **argv) {
  arguments o;
  if (argc == 2 + PCO_UNPACK_WORDS && strcmp(argv[1], "--unpack") == 0)
    return pco_unpack_main(argv + 2);
  if (argc == 2 + PCO_SEAL_WORDS && strcmp(argv[1], "--seal") == 0)
    return pco_seal_main(argv + 2);
  if (argc == 2 && strcmp(argv[1], "--probe") == 0)
    return PCO_KEEPER_PROBED;
  if (!parse(argc, argv, &o)) {
    fputs(USAGE, stderr);
    return 2;
  }
  if (o.version) {
    puts("portico-agent " PCO_VERSION);
    return 0;
  }
  if (o.keep)
    return pco_keeper_main();
  if (o.remove_only)
    return remove_only(o.remove_only);
  if (o.cgroup_base)
    return remove_cgroup(o.cgroup_base, o.cgroup_name);
  pco_harden_signals();
  const pco_entrance_options *e = &o.agent.entrance;
  const int fds[] = {o.agent.fd, o.agent.keeper, e->visits, e->listener,
                     e->dir,     e->info,        o.wait};
  int rc = o.agent.fd >= 0 ? pco_harden_check_stream(o.agent.fd) : 0;
  if (rc == 0)
    rc = pco_harden_fds(fds, sizeof fds / sizeof *fds);
  if (rc != 0)
    return complain("a descriptor", rc);
  pco_harden_process();
  unsetenv("PWD"); /* bubblewrap's: commands may start elsewhere */
  return run(&o);
}
