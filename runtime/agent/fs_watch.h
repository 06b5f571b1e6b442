/* SPDX-License-Identifier: MIT */
/*
 * The parts of a watch: which directories (fs_watch_tree.c), what happened
 * (fs_watch_events.c), what becomes of that which is watched itself
 * (fs_watch_top.c), and the requests (fs_watch.c).
 *
 * A worker holds one watch.  It reads what the kernel tells as soon as it can,
 * so that new directories are watched at once, and keeps events, up to a bound,
 * until they are asked for.
 */
#ifndef PCO_FS_WATCH_H
#define PCO_FS_WATCH_H

#include "agent.h"

#include <sys/inotify.h>

/* A directory that is watched; or the one thing that is, if it is none. */
typedef struct pco_spot {
  int wd;
  struct pco_spot *same; /* in its bucket, by wd */
  struct pco_spot *parent, *child, *next;
  struct pco_spot *todo; /* the next one that is to be watched */
  struct pco_told *told; /* names that a look into it has told of; owned */
  char name[];           /* "": it is the root */
} pco_spot;

typedef struct pco_told {
  struct pco_told *next;
  char name[];
} pco_told;

typedef struct pco_event {
  struct pco_event *next;
  unsigned type; /* PCO_EVENT_* */
  char *path;    /* below the root; owned; NULL: the root itself */
  char *from;    /* of a rename; owned; or NULL */
} pco_event;

/* A name that went somewhere: where, the next event may tell. */
typedef struct pco_move {
  uint32_t cookie; /* 0: none */
  int64_t until;
  char *path; /* owned */
  pco_spot *spot;
} pco_move;

#define PCO_SPOT_BUCKETS 1024

typedef struct pco_seen {
  pco_agent *agent;
  uint64_t op; /* of the WATCH */
  bool recursive;
  int walk_flags; /* how the path leads to it */
  int root;       /* what is watched, by O_PATH */
  bool is_directory;
  nlink_t links;  /* of a file */
  char *path;     /* as the caller gave it; owned */
  char *patterns; /* as the WATCH had them, and a NUL; owned */
  size_t patterns_len;
  pco_source source; /* inotify */
  pco_spot *spots[PCO_SPOT_BUCKETS];
  pco_spot *top;
  pco_spot *todo; /* found, not watched yet */
  bool any_told;
  bool check; /* the top may be gone without a word of the kernel's */
  int64_t check_at;
  bool ended; /* the top is gone, and that was told */
  pco_move move;
  pco_event *first, *last;
  size_t n_events;
  size_t bytes;
  bool missed;     /* a rescan is in the queue: nothing else is added */
  int error;       /* why it does not work as it should: a positive errno */
  pco_job *waiter; /* an EVENTS that is not answered; borrowed */
} pco_seen;

/* ---- which directories (fs_watch_tree.c) --------------------------------- */

/* Begins: 0 or a negative errno. */
int pco_seen_start(pco_seen *s);
void pco_seen_stop(pco_seen *s);
pco_spot *pco_spot_find(const pco_seen *s, int wd);
/* The directory of that name below `parent`, or NULL. */
pco_spot *pco_spot_child(const pco_spot *parent, const char *name);
/* Watches a new directory and all below; what is in them already is told of. */
void pco_spot_add(pco_seen *s, pco_spot *parent, const char *name);
/* It is not watched any more, and nothing below is. */
void pco_spot_drop(pco_seen *s, pco_spot *spot);
/* Gives it another parent and name; the old spot is gone.  NULL without
 * memory. */
pco_spot *pco_spot_move(pco_seen *s, pco_spot *spot, pco_spot *parent,
                        const char *name);
/* True, once, if a look has told of that name before the kernel did. */
bool pco_spot_was_told(pco_spot *spot, const char *name);
/* Opens what the path names now: 0 or a negative errno. */
int pco_seen_find(const pco_seen *s, int *fd);
/* Another file is watched from now on; takes fd: 0 or a negative errno. */
int pco_seen_replace(pco_seen *s, int fd);
/* Nothing that the kernel has to say is older than the last look. */
void pco_seen_forget_told(pco_seen *s);
/* The path of a name in it, below the root; "" or NULL: its own.  The caller
 * frees it; NULL for the root itself, or without memory. */
char *pco_spot_path(const pco_spot *spot, const char *name);

/* ---- what happened (fs_watch_events.c) ----------------------------------- */

bool pco_seen_excludes(const pco_seen *s, const char *path, bool directory);
/* Adds an event; takes the paths. */
void pco_seen_tell(pco_seen *s, unsigned type, char *path, char *from);
/* Takes what the kernel tells.  False: all is watched anew, and what it tells
 * after this is of what is not watched any more. */
bool pco_seen_on_event(pco_seen *s, const struct inotify_event *e);
/* Adds the last one: what is watched is gone.  Nothing is watched then. */
void pco_seen_end(pco_seen *s);
/* What went somewhere has left. */
void pco_seen_end_move(pco_seen *s);
/* Forgets events: all, or as many as were given. */
void pco_seen_forget(pco_seen *s, size_t n);

/* ---- what is watched itself (fs_watch_top.c) ----------------------------- */

/* What the kernel says of the top alone. */
void pco_top_on_event(pco_seen *s, const struct inotify_event *e);
/* A name left the top, so that it may be empty. */
void pco_top_lost_name(pco_seen *s);
/* Looks after the top when it is time. */
void pco_top_tick(pco_seen *s);

#endif /* PCO_FS_WATCH_H */
