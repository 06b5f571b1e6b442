/* SPDX-License-Identifier: MIT */
/*
 * The bwrap backend: sandboxes that untrusted code cannot leave, made by
 * bubblewrap.  README.md says what is promised.
 *
 *   bwrap.c    the entry, backends, the ends of sandboxes, list
 *   by_id.c    the end of a sandbox that another loop asks for
 *   options.c  what create() is asked for, checked: a bwrap_plan
 *   ids.c      which ids of the host sandboxes may have
 *   profile.c  from a plan to the words of the keeper and of bubblewrap
 *   filter.c   the system calls
 *   limits.c   memory, pids, cpus, open files
 *   image.c    what an image is: a root directory, or a tar
 *   image_tar.c    from a tar to a root directory, image_step.c by step
 *   image_cache.c  where these are kept
 *   create.c   the beginning of a sandbox
 *   attach.c   taking over one that lives, and letting one go
 *   keeper.c   the process outside that a sandbox lives and dies with
 *   failure.c  why it did not work, and what to do about it
 *   probe.c    what works on this machine
 *
 * Everything of a backend is touched on its loop only.  What instances share is
 * the table of sandboxes (common/table.h) and the filters, under locks.
 */
#ifndef BWRAP_BWRAP_H
#define BWRAP_BWRAP_H

#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <uv.h>

#include "../common/children.h"
#include "../common/door.h"
#include "../common/environment.h"
#include "../common/fail.h"
#include "../common/host.h"
#include "../common/path.h"
#include "../common/table.h"
#include "../common/visit.h"
#include "image.h"
#include "image_cache.h"
#include "image_tar.h"
#include "keeper.h"
#include "portico/plugin.h"
#include "portico/plugin_util.h"
#include "words.h"

#define BWRAP_MAX_FDS       16
#define BWRAP_IMAGE_FD      (PCO_KEEPER_FIRST_FD + 1) /* the agent's program */
#define BWRAP_AGENT_PROGRAM "/proc/self/fd/7"
_Static_assert(BWRAP_IMAGE_FD == 7, "it is a part of that name");
#define BWRAP_INPUT_FD PCO_KEEPER_FIRST_FD /* what bwrap_launch() was given */

#define BWRAP_WORKSPACE "/workspace"
#define BWRAP_HOME      "/home/sandbox"
#define BWRAP_USER      "sandbox"

/* Without a `disk` limit a sandbox may write this much, in bytes. */
#define BWRAP_DISK (UINT64_C(1) << 30)

/* Without a `pids` limit commands may have this many processes: of more that
 * all want the processors (a bomb), each in a session of its own, the agent
 * would hardly be scheduled any more; on two processors a turn of 1024 takes
 * two seconds. */
#define BWRAP_PIDS 1024u
/* The agent and its supervisors may have so many of their own. */
#define BWRAP_AGENT_PIDS 4096u

/* Without the setting `image_max` an image may have this many bytes. */
#define BWRAP_IMAGE_MAX (UINT64_C(8) << 30)

#define BWRAP_CONTAINER(ptr, type, member)                                     \
  ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

typedef enum bwrap_uids {
  BWRAP_UIDS_AUTO, /* two as root, else one */
  BWRAP_UIDS_ONE,
  BWRAP_UIDS_TWO
} bwrap_uids;

struct pco_backend {
  const pco_host *host;
  plugin_host services;
  char *program; /* of bubblewrap, absolute; NULL: to be searched for */
  char *cgroup;  /* where cgroups are made, or "auto" */
  char *cache;   /* of images */
  uint64_t image_max;
  char *id_range; /* "FIRST:COUNT", or NULL */
  char *state;    /* where detachable ones are written down; NULL: default */
  bwrap_uids uids;
  pco_sandbox *sandboxes; /* by ->next */
  struct bwrap_unpack *unpacks;
  struct bwrap_attach *attaches; /* that are under way */
  unsigned work;                 /* ends and other processes that run */
  atomic_uint orders;            /* of other loops, that were posted here */
  pco_op *closing;               /* the op of close(), or NULL */
};

/* ---- options.c ---- */

typedef struct bwrap_mount {
  char *source; /* without links */
  char *target;
  bool read_only;
} bwrap_mount;

/* What a sandbox is to be.  It owns what it points to but the backend's. */
typedef struct bwrap_plan {
  const char *program; /* the backend's */
  bool two_ids;
  uint32_t first_uid, first_gid, n_ids;
  const char *const *command; /* the first process, in memory of the caller;
                                 NULL: an agent */
  bool no_agent;              /* nor anything else that needs a second id */
  bwrap_image image;          /* none: this machine's system */
  bwrap_mount *mounts;
  size_t n_mounts;
  char *cwd; /* inside */
  bool host_network;
  uint64_t disk, inodes;
  pco_limits limits; /* zero: none */
  bool strict;
  plugin_environment env;
  const plugin_door *door; /* of one that may be detached; or NULL.  Borrowed */
  double expires;          /* seconds since 1970; 0: never */
  char *weaken;            /* builds for tests only; else NULL */
} bwrap_plan;

struct pco_sandbox {
  plugin_entry entry; /* first; its process is the keeper */
  pco_sandbox *next;  /* of the same backend */
  pco_backend *backend;
  bwrap_plan plan;       /* until its keeper is started */
  bwrap_image_wait wait; /* before that, maybe */
  bool started;          /* its keeper was: */
  bwrap_keeper keeper;
  uint32_t wants;    /* PCO_WANTS_* of limits */
  uint32_t flags;    /* PCO_CREATE_* */
  char *cwd;         /* inside */
  int agent_fd;      /* the host's end, until it is handed over; or -1 */
  bool is_weak;      /* builds for tests: limits are left out */
  plugin_door *door; /* owned; NULL: it ends with this program */
  pco_op *creating;  /* or NULL */
  pco_op *inquest;   /* a cause_of_death() that waits, or NULL */
  pco_op *leaving;   /* detach(), or NULL */
  pco_op *ending;    /* destroy(), or NULL */
  int failed;        /* why create() failed, told once everything has ended */
  char why[PCO_MESSAGE_MAX];
};

/* Fills p from what create() was asked for.  0, or a negative code and *err. */
int bwrap_plan_init(bwrap_plan *p, pco_backend *b, const pco_create_opts *o,
                    pco_error *err);
/* The same for a sandbox of the backend's own that runs one command with what
 * every sandbox has. */
int bwrap_plan_init_command(bwrap_plan *p, pco_backend *b,
                            const char *const *command, pco_error *err);
/* Makes a directory of the host the working directory of such a command, and
 * the only one of the host's that it can write.  It runs without capabilities
 * and is not root inside: tar relies on rights that a root would have. */
int bwrap_plan_work_in(bwrap_plan *p, const char *dir);
void bwrap_plan_deinit(bwrap_plan *p);
/* The directory of this plugin, without links: "" if it cannot be told. */
void bwrap_own_dir(char out[PATH_MAX]);

/* ---- ids.c ---- */

/* Chooses whose ids a sandbox gets. */
int bwrap_choose_ids(const pco_backend *b, bwrap_plan *p, pco_error *err);

/* ---- profile.c ---- */

/* True if the build is one for tests and `what` is to be left out. */
bool bwrap_is_weak(const bwrap_plan *p, const char *what);

/* Starts a keeper for p.  `id` is for the name of its cgroup, `agent_fd` is the
 * stream for the agent, or what a command reads (or -1).  0, or a negative code
 * and *err. */
int bwrap_launch(bwrap_keeper *k, pco_backend *b, const bwrap_plan *p,
                 const char *id, int agent_fd,
                 void (*on_report)(bwrap_keeper *k), pco_error *err);

/* ---- limits.c ---- */

/* Makes a name for its cgroup, another one each time; "" for none.  0 or a
 * negative code. */
int bwrap_limits_name(char *out, size_t size, const pco_backend *b,
                      const bwrap_plan *p, const char *id);
/* Adds the keeper's words about the cgroup of that name, and the agent's
 * options. */
void bwrap_limits_keeper(bwrap_words *w, const pco_backend *b,
                         const bwrap_plan *p, const char *name);
void bwrap_limits_agent(bwrap_words *w, const pco_backend *b,
                        const bwrap_plan *p);
/* How many processes each id inside may have, whatever the agent thinks. */
uint64_t bwrap_limits_processes(const bwrap_plan *p);
/* Holds what the keeper could do against what create() was asked for.  0, or
 * PCO_EUNAVAILABLE and *err. */
int bwrap_limits_check(const pco_sandbox *s, const pco_keeper_report *r,
                       pco_error *err);
/* Why the keeper's cgroups do not hold a limit ("memory"). */
void bwrap_limits_reason(const pco_keeper_report *r, const char *what,
                         char *out, size_t size);

/* ---- create.c ---- */

int bwrap_create(pco_backend *b, const pco_create_opts *o, pco_op *op);
/* Frees s; it is in no list and its keeper has ended. */
void bwrap_sandbox_free(pco_sandbox *s);

/* Hands a sandbox that lives, with its keeper and its agent's stream, to the
 * host. */
void bwrap_sandbox_hand_over(pco_sandbox *s, pco_op *op);

/* Ends one by order of another loop: if it is still being made its creation
 * fails, else its owner finds it dead. */
void bwrap_sandbox_doom(pco_sandbox *s);

/* ---- attach.c ---- */

int bwrap_attach(pco_backend *b, const char *id, pco_op *op);
/* Ends all that are under way. */
void bwrap_attach_cancel_all(pco_backend *b);
int bwrap_detach(pco_sandbox *s, pco_op *op);
/* The keeper of one that is to be detached has said something. */
void bwrap_detach_heard(pco_sandbox *s);
int bwrap_reap(pco_backend *b, pco_op *op);
/* Removes what a keeper that was killed has left of a sandbox; false if it
 * lives, or there is none. */
bool bwrap_remove_dead(pco_backend *b, const char *id);

/* ---- by_id.c ---- */

/* As destroy_id() of the ABI. */
int bwrap_destroy_id(pco_backend *b, const char *id, pco_op *op);

/* ---- failure.c ---- */

/* Says why a keeper is over although nobody asked for that: fills err (code 0:
 * it was asked for). */
void bwrap_explain(const bwrap_keeper *k, pco_error *err);
/* The end of every text that says that bwrap does not work here. */
#define BWRAP_OTHERWISE                                                        \
  "; backend = \"local\" works without it, but isolates nothing"

/* ---- probe.c ---- */

int bwrap_probe(pco_backend *b, pco_op *op);

/* ---- bwrap.c ---- */

extern plugin_table bwrap_table;
/* The backend's own id. */
#ifdef PCO_BWRAP_WEAK
#  define BWRAP_ID "weak"
#else
#  define BWRAP_ID "bwrap"
#endif
/* The settings of open(). */
extern const char *const bwrap_settings[];

/* To be called when backend->work has become less: a close() that waits may
 * complete, and the backend be gone. */
void bwrap_settle(pco_backend *b);
/* Takes s from the backend's list. */
void bwrap_sandbox_unlist(pco_sandbox *s);
/* Takes s from the lists and ends its keeper; then completes `creating` with
 * s->failed, or `ending`, and frees s. */
void bwrap_sandbox_end(pco_sandbox *s, uint32_t grace_ms);

#endif /* BWRAP_BWRAP_H */
