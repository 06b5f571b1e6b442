/* SPDX-License-Identifier: MIT */
/* The waiting calls on backends and sandboxes as a whole. */
#ifndef PCO_SANDBOX_OPS_H
#define PCO_SANDBOX_OPS_H

#include "process.h"

/* A backend that an op opens itself. */
typedef struct pco__opening {
  const pco_backend_info *info; /* a use of the plugin, until it is open */
  pco_pair *settings;
  size_t n_settings;
} pco__opening;

/* create, attach, and sandbox(): which opens the backend first. */
typedef struct pco__create_op {
  pco__op op;
  pco__backend *backend; /* a reference; or NULL: open it first */
  pco__opening opening;
  const char *attach_id; /* NULL: create */
  pco_create_opts opts;
  pco_limits limits;
  pco__sandbox *sandbox; /* the result; a reference */
  bool opened;           /* the backend was opened here */
  pco__error *failure;   /* while an opened backend is closed again */
} pco__create_op;

/* open: a backend on its own. */
typedef struct pco__open_op {
  pco__op op;
  pco__opening opening;
  pco__backend *backend; /* the result; a reference */
} pco__open_op;

/* A capability of probe, one sandbox of list: copied from the plugin. */
typedef struct pco__capability {
  struct pco__capability *next;
  char *name;
  char *reason;
  uint32_t level;
} pco__capability;

typedef struct pco__listed {
  struct pco__listed *next;
  char *id;
  char *owner;
  uint32_t state;
  double created;
  double expires;
  char *name;
  char *image;
  pco_pair *labels;
  size_t n_labels;
} pco__listed;

/* probe, list, destroy, reap, close of a backend; close, detach of a sandbox.
 * A list, destroy or reap without a backend opens one, and closes it before it
 * ends. */
typedef struct pco__backend_op {
  pco__op op;
  pco__backend *backend; /* a reference; or NULL: open it first */
  pco__opening opening;
  bool opened;           /* the backend was opened here, and is open */
  pco__sandbox *sandbox; /* close, detach: a reference, or NULL */
  bool with_backend;     /* the same: the sandbox's backend is closed, too */
  pco__error *failure;
  const char *id; /* destroy */
  pco_op call;
  pco__arena results; /* of what follows */
  pco__capability *capabilities;
  char *detail;
  pco__listed *listed;
  bool acted; /* destroy: something was there; detach: the sandbox is left */
} pco__backend_op;

extern const pco__op_class pco__open_class;
extern const pco__op_class pco__create_class;  /* "backend.create" */
extern const pco__op_class pco__attach_class;  /* "backend.attach" */
extern const pco__op_class pco__sandbox_class; /* "sandbox" */
extern const pco__op_class pco__probe_class;
extern const pco__op_class pco__list_class;
extern const pco__op_class pco__destroy_class;
extern const pco__op_class pco__reap_class;
extern const pco__op_class pco__backend_close_class;
extern const pco__op_class pco__sandbox_close_class;
extern const pco__op_class pco__detach_class;

/* A process as it was when it was looked at. */
typedef struct pco__seen_process {
  pco__process *process; /* a reference */
  bool ended;
  int code;   /* once it has */
  int signal; /* or 0 */
} pco__seen_process;

/* processes, process, info: looked up on the loop's thread. */
typedef struct pco__look_op {
  pco__op op;
  pco__sandbox *sandbox; /* a reference */
  int64_t pid;
  pco__process *process;   /* process: a reference */
  pco__seen_process *seen; /* processes; owned */
  size_t n_seen;
  bool all;  /* processes: those that have ended, too */
  int state; /* info */
} pco__look_op;

extern const pco__op_class pco__processes_class;
extern const pco__op_class pco__process_class;
extern const pco__op_class pco__info_class;

#endif /* PCO_SANDBOX_OPS_H */
