/* SPDX-License-Identifier: MIT */
/*
 * A runtime as a host in C has it: pco_runtime of portico.h, around the Lua
 * binding of one state and its async loop.
 *
 *   embed_slot.c      the memory of runtimes, which outlives them
 *   embed_runtime.c   creation, destruction, what each call checks first
 *   embed_tick.c      ticks, the poll descriptor
 *   embed_post.c      from other threads
 *   embed_state.c     the Lua state: allocator, libraries, modules
 *   embed_task.c      scripts of the host
 *   embed_promise.c   functions of the host that suspend a script
 *   embed_slice.c     scripts that run too long
 *   embed_shutdown.c  the end, asynchronously
 *   embed_uv.c        on a loop of the host's
 *   embed_look.c      statistics, dump, log
 *   embed_call.c      calls of the host on sandboxes; embed_box.c,
 *                     embed_seen.c, embed_command.c, embed_file.c,
 *                     embed_attr.c, embed_find.c, embed_open.c, embed_tree.c:
 *                     which there are
 *
 * Nothing of Lua is called outside of protection but what cannot raise: pushing
 * booleans, light userdata and C functions, and reading the registry.  All else
 * goes through pco__embed_guard().
 */
#ifndef PCO_EMBED_H
#define PCO_EMBED_H

#include <time.h>

#include "lua_state.h"
#include "portico/portico.h"

/* Instructions of Lua between two looks at the clock. */
#define PCO__SLICE_COUNT 10000

enum {
  PCO__SLOT_FREE,
  PCO__SLOT_OPEN,
  PCO__SLOT_DEAD /* a forked child's, or taken by nobody */
};
enum { PCO__LIVES, PCO__CANCELS, PCO__CLOSES, PCO__ENDED };

typedef struct pco__post {
  struct pco__post *next;
  pco_posted_fn fn;
  void *ud;
} pco__post;

/* Memory of an own state. */
typedef struct pco__budget {
  pco_alloc_fn alloc; /* NULL: malloc */
  void *ud;
  size_t used;
  size_t peak;
  size_t limit; /* 0: none */
} pco__budget;

struct pco_runtime {
  /* These outlive it.  A slot is never freed, so that a stale pointer is
   * known. */
  struct pco_runtime *next_slot;
  atomic_int slot;           /* PCO__SLOT_* */
  atomic_uint generation;    /* how often it was used */
  unsigned char *not_forked; /* a page that reads 0 in a forked child */
  pthread_mutex_t lock;      /* guards closed and the posts */
  bool closed;               /* no posts any more */
  pco__post *posts;          /* owned; oldest first */
  pco__post **last_post;
  /* From here on all is zeroed by pco__slot_take. */
  pthread_t thread;
  pco_config config;
  char **backends; /* owned copy of config.backends */
  char *lua_dir;   /* owned */
  lua_State *L;    /* the main thread of the state; NULL: it was closed */
  pco__lua *lua;   /* NULL: the same */
  bool owns_state;
  pco__budget memory;
  int poll_fd;           /* epoll: the loop's, wake_fd, timer_fd */
  int wake_fd;           /* eventfd */
  int timer_fd;          /* timerfd: the loop's next timer */
  atomic_bool signalled; /* wake_fd is readable */
  uint64_t armed_at;     /* ms of the loop's clock; 0: timer_fd is not set */
  bool killing;          /* tasks are ended without being resumed */
  bool inside;           /* a tick or the like is going on */
  atomic_bool interrupt;
  atomic_bool in_slice;
  timer_t slice_timer; /* sends config.slice_signal to this thread */
  bool has_slice_timer;
  volatile unsigned slice_armed_at; /* how many signals had come */
  uint64_t killed_at;       /* of this slice: an error was raised; 0: none */
  struct pco__task *warned; /* only compared: whose slice was told of last */
  pco__node handles;        /* of pco_task.all: all that there are */
  pco__node tasks;          /* of pco_task.node: not ended, or not told of */
  pco__node finished;       /* the same, ended */
  pco__node boxes;          /* of pco_box.node */
  pco__node commands;       /* of pco_command.node */
  pco__node opened;         /* of held.node, in embed_open.c */
  pco__node calls;          /* of pco_pending.node: all that there are */
  unsigned n_calls;
  int phase;         /* PCO__LIVES ... */
  uint64_t phase_at; /* uv_hrtime(), when the phase is over at the latest */
  pco__timer phase_timer;
  struct pco__attached *attached; /* to a loop of the host's, or NULL */
  pco_stats stats;                /* the counters of it */
  char message[512];
};

/* ---- slots --------------------------------------------------------------- */

/* Takes a zeroed slot; NULL without memory.  [any] */
pco_runtime *pco__slot_take(void);
void pco__slot_give(pco_runtime *rt);

/* ---- what a call checks first -------------------------------------------- */

/* 0, PCO_EINVAL, PCO_ECLOSED (freed, or its state was closed), PCO_EFORKED,
 * PCO_ETHREAD. */
int pco__embed_check(pco_runtime *rt);
/* The same for what may not be called from a callback: PCO_EREENTRANT. */
int pco__embed_check_outside(pco_runtime *rt);
/* Where a field of a struct ends. */
#define PCO__END_OF(type, field)                                               \
  (offsetof(type, field) + sizeof(((type *)0)->field))

/* Copies a struct that the host gave, of `size` bytes, into one of ours, of
 * `known`, with zero in what a program built earlier does not have yet.
 * PCO_ESIZE if it is smaller than any ever was (`least`), or has something in
 * what is not known here; or 0. */
int pco__embed_take(void *ours, size_t known, size_t least, const void *given,
                    size_t size);
/* The same of the limits of plugin.h. */
int pco__embed_take_limits(pco_limits *ours, const pco_limits *given);
/* The other way, for a struct that the host has filled in for it: `ours` is
 * copied as far as theirs, of `size` bytes, reaches; what is not known here is
 * zeroed.  `ours` has their size in it.  PCO_ESIZE, and nothing is written, if
 * theirs is smaller than any ever was; or 0. */
int pco__embed_give(void *theirs, size_t size, const void *ours, size_t known,
                    size_t least);
/* Notes the text of a failure; returns code. */
int pco__embed_fail(pco_runtime *rt, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Something was started on the loop: the host is to tick. */
void pco__embed_touch(pco_runtime *rt);
/* Tells the poll descriptor what is next; PCO_IDLE ... */
int pco__embed_settle(pco_runtime *rt);

/* ---- Lua under protection ------------------------------------------------ */

/* A call to make under protection; embedded in its arguments. */
typedef struct pco__guarded {
  void (*fn)(lua_State *L, pco_runtime *rt, struct pco__guarded *g);
  pco_runtime *rt;
} pco__guarded;

/* Calls g->fn with the n_args values on top of the main thread's stack, which
 * are popped, above one of ours.  Returns 0, or UV_ENOMEM or PCO_ELUA with the
 * text noted. */
int pco__embed_guard(pco_runtime *rt, pco__guarded *g, int n_args);
/* Makes what pco__embed_guard needs, once; may raise. */
void pco__embed_open_guard(lua_State *L, pco_runtime *rt);

/* Makes an own state, or prepares the host's; 0 or a code. */
int pco__embed_open_state(pco_runtime *rt);
/* The state is being closed: everything of it is let go. */
void pco__embed_state_closes(pco_runtime *rt);
/* Before the loop goes: what the host waits for there is ended and told. */
void pco__embed_end(pco_runtime *rt);

/* ---- tasks --------------------------------------------------------------- */

/* A task of the host, which is in the list pco_task.root by its `sibling`, has
 * ended. */
void pco__embed_task_ended(struct pco__task *task);
/* Tells the host of those that ended; true if there were some. */
bool pco__embed_tell_tasks(pco_runtime *rt);
/* All tasks of the host are cancelled. */
void pco__embed_cancel_tasks(pco_runtime *rt);
/* What did not end by itself ends without being resumed. */
void pco__embed_kill_tasks(pco_runtime *rt);
/* The runtime goes: the host's tasks are its own from now on. */
void pco__embed_orphan_tasks(pco_runtime *rt);

/* ---- the rest ------------------------------------------------------------ */

/* Runs what was posted; true if something was. */
bool pco__embed_run_posts(pco_runtime *rt);
/* Posts to a generation of rt; else as pco_post. */
int pco__embed_post(pco_runtime *rt, unsigned generation, pco_posted_fn fn,
                    void *ud);
/* Makes a generation of rt tick; nothing if it has ended, or is NULL.  [any] */
void pco__embed_wake(pco_runtime *rt, unsigned generation);
/* No posts any more; those that wait are told so. */
void pco__embed_close_posts(pco_runtime *rt);

/* True in a child that the host forked: all is the parent's.  [any] */
bool pco__embed_forked(const pco_runtime *rt);

/* The processor time of this thread: a script is not to blame for a busy
 * machine. */
uint64_t pco__thread_ns(void);
/* Sets up the hook, if the config wants one; 0 or a code. */
int pco__embed_start_slices(pco_runtime *rt);
void pco__embed_stop_slices(pco_runtime *rt);
/* Around what runs scripts: the signal looks there.  Gives what leave takes. */
pco_runtime *pco__slices_enter(pco_runtime *rt);
void pco__slices_leave(pco_runtime *outer);

/* Goes on with a shutdown; true if something was done. */
bool pco__embed_shutdown_step(pco_runtime *rt);

/* Keeps the host's loop alive until the next tick. */
void pco__embed_hold_loop(pco_runtime *rt);
/* Adapts the reference on the host's loop; PCO_ELOOP if that is gone. */
int pco__embed_attached(pco_runtime *rt, bool busy);

/* Calls done() of what has completed; true if there was something. */
bool pco__embed_tell_calls(pco_runtime *rt);
void pco__embed_cancel_calls(pco_runtime *rt);
/* The runtime goes: what the host holds is its own, and closed. */
void pco__embed_orphan_calls(pco_runtime *rt);
/* Boxes are closed in the background. */
void pco__embed_close_boxes(pco_runtime *rt);
void pco__embed_orphan_boxes(pco_runtime *rt);
void pco__embed_orphan_commands(pco_runtime *rt);
void pco__embed_orphan_opened(pco_runtime *rt);

/* rt may be NULL: no host in C. */
void pco__embed_log(pco_runtime *rt, int level, const char *text);
bool pco__embed_logs(const pco_runtime *rt);
/* What scripts of this state may open. */
bool pco__may_use_backend(const pco__lua *lua, const char *name);

#endif /* PCO_EMBED_H */
