/* SPDX-License-Identifier: MIT */
/*
 * The waiting calls on files: one op type for all, done by the agent
 * (fs_agent.c) or by a plugin's "pco.fs/1" (fs_plugin.c).
 */
#ifndef PCO_FS_OPS_H
#define PCO_FS_OPS_H

#include "sandbox.h"
#include "watch.h"

#define PCO__FS_DEFAULT_MAX_SIZE (64u * 1024 * 1024)

enum {
  PCO__FS_STAT,
  PCO__FS_LIST,
  PCO__FS_READ,
  PCO__FS_WRITE,
  PCO__FS_MKDIR,
  PCO__FS_REMOVE,
  PCO__FS_RENAME,
  PCO__FS_CHMOD, /* from here on: agents only */
  PCO__FS_CHOWN,
  PCO__FS_SYMLINK,
  PCO__FS_MKTEMP,
  PCO__FS_USAGE,
  PCO__FS_COPY,
  PCO__FS_OPEN,
  PCO__FS_WATCH,
  PCO__FILE_READ, /* from here on: of what is open */
  PCO__FILE_WRITE,
  PCO__FILE_TRUNCATE,
  PCO__FILE_SYNC,
  PCO__FILE_STAT,
  PCO__FILE_CLOSE,
  PCO__WATCH_EVENTS
};

/* A file's attributes; one allocation with its strings. */
typedef struct pco__entry {
  struct pco__entry *next;
  uint32_t type; /* PCO_FILE, ... */
  uint32_t mode;
  uint32_t uid;
  uint32_t gid;
  uint64_t size;
  int64_t mtime_ns;
  const char *name; /* in text */
  const char *link; /* in text; or NULL */
  char text[];
} pco__entry;

struct pco__glob;

/* What is no error on the way through a tree. */
#define PCO__FORGIVES_MISSING 1u /* it vanished, or is no directory */
#define PCO__FORGIVES_DENIED  2u /* it may not be read */

/* What a tree holds. */
typedef struct pco__usage {
  uint64_t size;
  uint64_t allocated;
  uint64_t files;
  uint64_t directories;
} pco__usage;

struct pco__file;

typedef struct pco__fs_op {
  pco__op op;
  pco__sandbox *sandbox;  /* a reference */
  int kind;               /* PCO__FS_* */
  uint32_t flags;         /* PCO_FS_* of plugin.h and wire.h */
  bool exists;            /* stat: NotFound is the answer false */
  bool missing_ok;        /* remove */
  uint32_t forgives;      /* PCO__FORGIVES_*: is then empty; list, stat */
  const char *path;       /* in the arena, as the caller gave it; or NULL */
  const char *target;     /* rename; symlink: its text */
  const char *owner;      /* chown, write: "USER:GROUP"; or NULL */
  const char *name;       /* mktemp */
  int32_t mode;           /* -1: not given */
  struct pco__file *file; /* a reference: what is open, or is to be */
  uint64_t offset;        /* read; of a file also write, truncate */
  uint64_t length;        /* read; UINT64_MAX: to the end */
  size_t max_size;        /* read: more is a LimitError */
  size_t part_max;        /* of a File: the same of one line, or the rest */
  const char *data;       /* write; in the arena, or borrowed */
  size_t len;
  bool borrowed; /* data is the caller's, who may take it back at any time: read
                    it between pco__fs_data and pco__fs_data_end only */
  size_t sent;   /* write: given to the link */
  size_t taken;  /* of these: the agent has said so */
  /* results */
  pco__entry *entries; /* owned */
  size_t n_entries;
  char *bytes; /* owned */
  size_t n_bytes;
  size_t cap_bytes;
  bool found;         /* exists */
  bool succeeded;     /* it was completed without an error */
  uint64_t n_written; /* file.write: how much, also when it failed */
  int format;         /* file.read, lines: for the caller; PCO__FORMAT_* */
  uint64_t count;     /* the same: bytes asked for */
  struct pco__opened *opened; /* the same: borrowed, while results are taken */
  pco__usage usage;
  struct pco__glob *glob; /* a reference */
  /* the doer's */
  pco__link_request request;
  bool piped;       /* contents go by a pipe, or did */
  bool pipe_failed; /* the agent could not: they go by frames */
  bool pipe_open;
  int pipe;         /* our end, if it is open */
  pco__watch watch; /* of that */
  pco__call more;   /* write: the link takes more */
  bool in_line;     /* `more` waits for that */
  bool all_sent;
  bool finished;         /* the final frame came */
  pco__timer unanswered; /* how long a cancelled call waits for it */
  pco_op call;
  int step; /* calls to the plugin that were made before */
  pco_iov iov;
  pco__error *trouble; /* to end with, once the doer has stopped */
} pco__fs_op;

extern const pco__op_class pco__fs_read_class;
extern const pco__op_class pco__fs_write_class;
extern const pco__op_class pco__fs_append_class;
extern const pco__op_class pco__fs_stat_class;
extern const pco__op_class pco__fs_exists_class;
extern const pco__op_class pco__fs_list_class;
extern const pco__op_class pco__fs_mkdir_class;
extern const pco__op_class pco__fs_remove_class;
extern const pco__op_class pco__fs_rename_class;
extern const pco__op_class pco__fs_chmod_class;
extern const pco__op_class pco__fs_chown_class;
extern const pco__op_class pco__fs_symlink_class;
extern const pco__op_class pco__fs_readlink_class;
extern const pco__op_class pco__fs_mktemp_class;
extern const pco__op_class pco__fs_usage_class;
extern const pco__op_class pco__fs_copy_class;
extern const pco__op_class pco__fs_walk_class; /* one directory of it */
extern const pco__op_class pco__fs_glob_class; /* the same */
extern const pco__op_class pco__fs_open_class;
extern const pco__op_class pco__fs_watch_class;
extern const pco__op_class pco__file_read_class;
extern const pco__op_class pco__file_lines_class;
extern const pco__op_class pco__file_write_class;
extern const pco__op_class pco__file_seek_class; /* to the end */
extern const pco__op_class pco__file_truncate_class;
extern const pco__op_class pco__file_sync_class;
extern const pco__op_class pco__file_stat_class;
extern const pco__op_class pco__file_close_class;
extern const pco__op_class pco__watch_next_class;
extern const pco__op_class pco__watch_events_class; /* the same in a loop */
extern const pco__op_class pco__watch_close_class;

/* For qsort, of pointers to entries: in byte order. */
int pco__by_name(const void *a, const void *b);
/* Puts a name behind the path of its directory; NULL without memory.  The
 * caller frees it. */
char *pco__join_path(const char *directory, const char *name);

/* The doers: start and cancel. */
void pco__fs_agent_start(pco__fs_op *o);
void pco__fs_agent_cancel(pco__fs_op *o);
void pco__fs_plugin_start(pco__fs_op *o);
void pco__fs_plugin_cancel(pco__fs_op *o);

/* For the doers. */
/* What is to be written; NULL: the caller has taken it back, and the op is or
 * will be cancelled.  Each call is followed by the other. */
const char *pco__fs_data(pco__fs_op *o);
void pco__fs_data_end(pco__fs_op *o);
/* Completes the op with what its kind makes of err (taken). */
void pco__fs_end(pco__fs_op *o, pco__error *err);
/* Adds an entry; 0 or UV_ENOMEM. */
int pco__fs_add_entry(pco__fs_op *o, const pco__entry *e, size_t name_len,
                      size_t link_len);
/* Room for len bytes more behind those that were read; NULL without memory. */
char *pco__fs_room(pco__fs_op *o, size_t len);
/* Adds bytes that were read: 0, UV_ENOMEM, or PCO_ELIMIT beyond max_size. */
int pco__fs_add_bytes(pco__fs_op *o, const void *data, size_t len);
pco__error *pco__fs_limit_error(const pco__fs_op *o);

#endif /* PCO_FS_OPS_H */
