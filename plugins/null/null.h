/* SPDX-License-Identifier: MIT */
/*
 * The null backend: sandboxes that exist only in memory, for tests of what is
 * above a backend and as the smallest complete example of one.
 *
 *   null.c          the entry, backends and sandboxes
 *   null_process.c  commands: state machines that push into sinks
 *   null_fs.c       files: a tree of nodes
 *
 * Who owns what
 *   - A backend owns its sandboxes and, through them, their processes.  A
 *     process whose sandbox was destroyed before its handle was released is in
 *     backend->orphans.
 *   - Everything of a backend is touched on its loop only.  The one thing that
 *     instances share is the table of sandboxes (null.c), under its lock.
 */
#ifndef PCO_NULL_H
#define PCO_NULL_H

#include <uv.h>

#include "portico/plugin.h"
#include "portico/plugin_lock.h"
#include "portico/plugin_util.h"

#define NULL_FS_LIMIT ((size_t)64 * 1024 * 1024) /* bytes of one sandbox */

typedef struct null_fs null_fs;

/* A list of processes, newest first. */
typedef struct null_processes {
  pco_process *first;
} null_processes;

struct pco_backend {
  const pco_host *host;
  pco_sandbox *sandboxes; /* by ->next */
  null_processes orphans;
  unsigned handles; /* uv handles that are open or closing */
  unsigned posts;   /* accepted and not yet run; under the table's lock */
  pco_op *closing;  /* the op of close(), or NULL */
};

struct pco_sandbox {
  pco_sandbox *next;       /* of the same backend */
  pco_sandbox *table_next; /* of all backends; under the table's lock */
  pco_backend *backend;
  char id[65];
  char *cwd;
  pco_pair *labels; /* one block */
  size_t n_labels;
  double created;
  int listed; /* in the table; under its lock */
  int dead;   /* ended by destroy_id(): a handle answers PCO_EGONE */
  int64_t last_pid;
  null_processes processes;
  null_fs *fs;
};

/* Fails op with PCO_EGONE and returns true if the sandbox has ended. */
bool null_is_gone(pco_sandbox *s, pco_op *op);
/* To be called when backend->handles has become less: a close() that waits may
 * complete, and the backend be gone. */
void null_backend_settle(pco_backend *b);

/* ---- null_process.c: entries of the vtable, as in plugin.h ---- */

int null_spawn(pco_sandbox *s, const pco_spawn_opts *opts, pco_op *op);
int null_wait(pco_process *p, pco_op *op);
int null_signal(pco_process *p, int signo, uint32_t flags, pco_op *op);
int null_write(pco_process *p, const pco_iov *bufs, size_t n, pco_op *op);
int null_close_stdin(pco_process *p, pco_op *op);
int null_read_start(pco_process *p, pco_sink *sink);
void null_read_stop(pco_process *p, pco_sink *sink);
void null_release_process(pco_process *p);
/* Kills every process of s; those with a handle become orphans. */
void null_end_processes(pco_sandbox *s);
/* Frees the orphans that nobody released. */
void null_free_orphans(pco_backend *b);

/* ---- null_fs.c ---- */

extern const pco_fs_api null_fs_api;

/* Makes a tree with /tmp and, with its parents, cwd. */
int null_fs_create(const char *cwd, null_fs **out);
void null_fs_destroy(null_fs *fs);

/* Bytes shared by a file and those who read it; never changed while shared. */
typedef struct null_blob {
  size_t refs;
  size_t len;
  unsigned char data[];
} null_blob;

/* Makes a blob of len bytes, not set; NULL without memory. */
null_blob *null_blob_create(size_t len);
null_blob *null_blob_ref(null_blob *b);
void null_blob_unref(null_blob *b);
/* Gives the content of a file, with a reference, or NULL and *rc.  path may be
 * relative to cwd. */
null_blob *null_fs_content(null_fs *fs, const char *cwd, const char *path,
                           int *rc);
/* Returns 0 if path, maybe relative to cwd, is a directory. */
int null_fs_check_dir(null_fs *fs, const char *cwd, const char *path);

#endif /* PCO_NULL_H */
