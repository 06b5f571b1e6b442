/* SPDX-License-Identifier: MIT */
/*
 * A process: one command in a sandbox, with its output, its input, its end.
 *
 * Its work is done by a driver: process_agent.c over the link to an agent,
 * process_plugin.c by a plugin's vtable.  This file holds what is the same for
 * both: who gets the output, when it is finished, the result, and who waits.
 *
 * Output goes to exactly one place at a time:
 *   a reader     (read, chunks, lines): queued within a bound, then held back
 *   an exec with callbacks: queued for the caller within a bound
 *   the captures (exec, wait): head and tail, never held back
 *   nowhere      (the handle was dropped): never held back.  An agent keeps the
 *                newest of it for the next handle, else it is thrown away
 *   the agent    (it was started by another host, and has no handle yet)
 *   else nobody reads it: the process is held back by its pipe
 *
 * It is finished when the first process has ended and every stream has: by its
 * end, or `drain` after the exit while somebody was willing to read.  Then the
 * result is made, once.  References: the Lua handle, ops, and the loop from
 * spawn until finished and released.  Everything here is for the loop's thread.
 */
#ifndef PCO_PROCESS_H
#define PCO_PROCESS_H

#include "capture.h"
#include "chunk.h"
#include "sandbox.h"
#include "stream.h"

#define PCO__MAX_SURVIVORS 64
#define PCO__QUEUE_BYTES                                                       \
  (1024u * 1024) /* held for a reader; less                                    \
                   starves a sync one */
#define PCO__DEFAULT_MAX_OUTPUT (16u * 1024 * 1024)
#define PCO__DEFAULT_GRACE_NS   (2u * UINT64_C(1000000000))
#define PCO__DEFAULT_DRAIN_NS   UINT64_C(250000000)

/* Closed: a read, or a write, fails as of a closed descriptor. */
enum { PCO__PIPE, PCO__NULL, PCO__CLOSED, PCO__MERGE };

/* How to start a command; strings belong to the op that starts it. */
typedef struct pco__spawn_opts {
  char **argv; /* NULL-terminated */
  char **env;  /* NULL-terminated "K=V", "K" removes K; or NULL */
  const char *cwd;
  const char *user; /* "USER" or "USER:GROUP"; NULL: as the sandbox's */
  bool clean_env;
  bool shell;    /* argv is {"/bin/sh", "-c", text}, made of a string */
  bool terminal; /* instead of stdin, stdout and stderr */
  bool echo;     /* with one */
  uint16_t cols, rows;
  int in, out;      /* PCO__PIPE, PCO__NULL or PCO__CLOSED */
  int err;          /* or PCO__MERGE */
  uint64_t timeout; /* ns; 0: none */
  uint64_t grace;   /* ns */
  uint64_t drain;   /* ns */
  size_t max_output;
  bool check;
  const pco_limits *limits; /* of this command alone; or NULL */
} pco__spawn_opts;

/* How it ended. */
typedef struct pco__exit {
  int code;   /* 0 .. 255 */
  int signal; /* or 0 */
  int reason; /* PCO_REASON_* of wire.h */
  bool oom;
  int limit;         /* PCO_LIMIT_* that was hit, or 0 */
  uint64_t duration; /* ns */
  int64_t survivors[PCO__MAX_SURVIVORS];
  int n_survivors;
} pco__exit;

/* The Result, in C; shared by those who wait. */
typedef struct pco__result {
  atomic_uint refs;
  pco__exit exit;
  bool gone; /* the sandbox died under it: no exit is known */
  int64_t pid;
  bool eof; /* false: somebody still held the output */
  pco__capture out[2];
  uint64_t bytes[2]; /* all that the streams brought */
} pco__result;

struct pco__process;

typedef struct pco__process_driver {
  /* Starts it: pco__process_started or pco__process_failed follows. */
  void (*spawn)(struct pco__process *p, const pco__spawn_opts *opts);
  /* Completes op. */
  void (*signal)(struct pco__process *p, int signo, pco__op *op);
  /* Kills the tree: TERM, grace (0: at once), KILL; then
   * pco__process_killed. */
  void (*kill)(struct pco__process *p, uint64_t grace, int reason);
  /* Goes on with p->input, as far as possible; pco__process_input_done when
   * all of it is gone or cannot go. */
  void (*write)(struct pco__process *p);
  void (*close_stdin)(struct pco__process *p);
  /* With a terminal.  Completes op. */
  void (*resize)(struct pco__process *p, uint16_t cols, uint16_t rows,
                 pco__op *op);
  /* Nobody will read for now: the command must not wait for a reader. */
  void (*hand_over)(struct pco__process *p);
  /* With a terminal: what runs on it is told that it is gone. */
  void (*hang_up)(struct pco__process *p);
  /* Lets go of our end of stdin, which the caller owns then; -1 if it is no
   * pipe.  Optional. */
  int (*take_stdin)(struct pco__process *p);
  /* The end: frees what the driver holds. */
  void (*release)(struct pco__process *p);
} pco__process_driver;

/* Bytes on their way to stdin. */
typedef struct pco__input {
  const char *data; /* borrowed from whoever writes */
  size_t len;
  size_t done;
  bool busy;
  void (*on_done)(struct pco__process *p, pco__error *err); /* takes err */
  pco__op *writer; /* a process:write, or NULL */
} pco__input;

typedef struct pco__process {
  atomic_uint refs;
  const pco__process_driver *driver;
  pco__sandbox *sandbox; /* a reference */
  pco__loop *loop;
  pco__node node;          /* in sandbox->processes, while the loop holds it */
  pco__node departed_node; /* in sandbox->departed; see departed.h */
  int64_t pid;
  double started_at; /* seconds since 1970 */
  uint64_t nth_exit; /* of its sandbox's processes, once it has ended */
  char **argv;       /* owned copy, one allocation */
  pco__arena arena;  /* of argv */
  bool started;
  bool failed;      /* could not be started */
  bool has_exit;    /* exit is set */
  bool finished;    /* result is set */
  bool released;    /* no handle is left: output is thrown away */
  unsigned handles; /* of the script; spawn's, and those of sandbox:process */
  bool spawned;     /* by spawn, not run by exec */
  bool check;
  bool had_stdin; /* it was started with a pipe */
  bool terminal;  /* it has one: stream 0 is its output, and stdin its input */
  bool stdin_open;
  uint64_t timeout; /* ns; 0: none */
  uint64_t grace;
  uint64_t drain;
  pco__exit exit;
  pco__error *error; /* why it is lost or failed; owned */
  pco__stream streams[2];
  pco__chunks queue;             /* for readers */
  bool reader_open;              /* an iterator is running */
  struct pco__task *reader_task; /* whose iterator; NULL on a portal */
  bool drain_asked; /* by poll: unclaimed output goes to the captures */
  pco__capture captures[2];
  bool dry; /* after the exit: a reader has found nothing */
  pco__timer drain_timer;
  pco__timer patience; /* an exec that only captures looks at its output when
                          this is over or the command has ended */
  pco__result *result; /* a reference */
  pco__node waiters;   /* wait, and kill after its kill */
  pco__node lookers;   /* wait_for ops; see wait_for.h */
  pco__op *reader;     /* a read, or NULL */
  pco__node writers;   /* process:write ops in line */
  pco__input input;
  pco__node killers; /* kill and close ops until the tree is dead */
  int kills;         /* on their way in the driver */
  bool kill_wished;  /* before it was started */
  uint64_t kill_grace;
  int kill_reason;
  bool iterated; /* an iterator is open; only the caller's thread looks */
  struct pco__exec *exec; /* the exec that runs it, or NULL */
  pco__op *spawn_op;      /* until started */
  /* the driver's */
  struct pco__agent_process *agent;
  struct pco__plugin_process *via_plugin;
} pco__process;

/* Starts a command in a running sandbox.  *out has a reference for the caller;
 * the loop holds another until it is over.  `exec` or `op` hears of the start.
 * NULL without memory. */
pco__process *pco__process_spawn(pco__sandbox *sb, const pco__spawn_opts *opts,
                                 struct pco__exec *exec, pco__op *op);
void pco__process_ref(pco__process *p);
void pco__process_unref(pco__process *p);

/* ---- for drivers --------------------------------------------------------- */

/* Makes one that another host has started: it is in its sandbox's list, and
 * only the loop holds it.  argv is copied; `ended` is NULL while it runs.  NULL
 * without memory. */
pco__process *pco__process_found(pco__sandbox *sb, char **argv, int64_t pid,
                                 double started_at, const pco__exit *ended);

void pco__process_started(pco__process *p, int64_t pid);
/* It could not be started; takes err. */
void pco__process_failed(pco__process *p, pco__error *err);
void pco__process_exited(pco__process *p, const pco__exit *exit);
/* Its sandbox is gone; takes err. */
void pco__process_lost(pco__process *p, pco__error *err);
void pco__process_killed(pco__process *p, const int64_t *survivors, int n);
void pco__process_output(pco__process *p, uint8_t stream, const char *data,
                         size_t len);
/* True if output is queued for a reader now: then whole chunks are welcome. */
bool pco__process_queues(const pco__process *p);
/* As pco__process_output, of a chunk (taken), while pco__process_queues. */
void pco__process_output_chunk(pco__process *p, pco__chunk *c);
/* A stream ended, or what feeds it changed. */
void pco__process_update(pco__process *p);
void pco__process_input_done(pco__process *p, pco__error *err);
/* Its relayed streams are over; the agent's driver may not use them. */
void pco__process_forget_relay(pco__process *p);

/* ---- for ops ------------------------------------------------------------- */

/* Begins to kill the tree (again: nothing). */
void pco__process_kill(pco__process *p, uint64_t grace, int reason);
/* Gives bytes to stdin; on_done says when they are gone.  One at a time. */
void pco__process_write(pco__process *p, const char *data, size_t len,
                        pco__op *writer,
                        void (*on_done)(pco__process *p, pco__error *err));
/* A terminal stays open: there it is a key that says so. */
void pco__process_close_stdin(pco__process *p);
/* A handle is gone; with the last one the process runs on alone. */
void pco__process_release(pco__process *p);
/* It has a handle again. */
void pco__process_reclaim(pco__process *p);
/* True once the first process and its output have ended, or it is lost. */
bool pco__process_ended(const pco__process *p);
/* Makes the result of an ended process out of what nobody took, once; NULL
 * without memory. */
pco__result *pco__process_result(pco__process *p);
/* A fresh error of what the process is lost of, or NULL. */
pco__error *pco__process_error(const pco__process *p);
/* A fresh error if output is missing that could not be read, or NULL. */
pco__error *pco__process_loss(const pco__process *p);

pco__result *pco__result_ref(pco__result *r);
void pco__result_unref(pco__result *r);

extern const pco__process_driver pco__process_agent_driver;
extern const pco__process_driver pco__process_plugin_driver;

#endif /* PCO_PROCESS_H */
