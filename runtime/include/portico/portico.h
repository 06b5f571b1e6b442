/* SPDX-License-Identifier: MIT */
/*
 * Portico in a program: a runtime for scripts and sandboxes that lives in a
 * game, an editor or a tool, beside whatever that has already.
 *
 * This header is the manual.  Read this page once; each function then says
 * what it needs.
 *
 * Event loop
 *   A runtime has a loop of its own, and never blocks, never polls and never
 *   starts a thread by itself.  It runs inside pco_tick(), for as long as the
 *   host allows.  Three ways to know when to call that:
 *     - once a frame.  A tick with nothing to do costs well under 1 us; while
 *       a sandbox is open, a system call more (0.3 to 2 us), since only the
 *       kernel knows whether something came.
 *     - when pco_poll_fd() is readable: it is exactly when a tick has something
 *       to do, timers included, so a host's loop needs no timeout for it.  It
 *       is level-triggered: add it to epoll, GLib, SDL's or sd-event's loop.
 *     - on the host's uv_loop_t: pco_attach_uv() does the ticking.
 *   pco_run() blocks; it is for tools that have no loop.
 *
 * Time of a tick
 *   A script runs until it waits (its "slice"); nothing interrupts it before.
 *   A tick starts slices until its budget is over, so it takes at most the
 *   budget and one slice.  `slice_limit_ns` ends scripts that never wait.
 *
 * Threads
 *   A runtime belongs to the thread that created it.  From any other thread
 *   only pco_post(), pco_wake(), pco_interrupt() and pco_promise_post() may be
 *   called, marked [any]; all others return PCO_ETHREAD there.  Several
 *   runtimes may live in one process, on one thread or on many, and know
 *   nothing of each other.  Threads are started only for the blocking facade
 *   (portico.sync) and for sandboxes made with PCO_BOX_PORTAL; they have every
 *   signal blocked.
 *
 * Callbacks
 *   All run on the runtime's thread, inside pco_tick() or pco_run(), with no
 *   lock held; `wakeup` alone comes from any thread.  They may call everything
 *   but pco_tick(), pco_run(), pco_pending_wait() and pco_runtime_destroy(),
 *   which return PCO_EREENTRANT there.  They must return: neither longjmp nor
 * an uncaught Lua error may pass through Portico, but for what is said to run
 *   under protection.
 *
 * Ownership
 *   What a function gives through an out parameter is the host's until it is
 *   given back by the function named there.  Strings and structs that are
 *   passed in are copied, unless "borrowed" is said.  Strings that are given
 *   out live as long as the object they come from.  NULL may be given back.
 *
 * Errors
 *   A function that can fail returns 0 or more, or a negative code: one of
 *   below, of plugin.h, or libuv's (UV_ENOMEM is -ENOMEM, and so on).
 *   pco_errname() and pco_strerror() describe it, pco_last_message() says more
 *   about the last failure.  Out parameters are NULL or 0 after a failure.
 *   Every function checks, in release builds too: the size of structs, the
 *   thread, a fork, re-entrance, and use after the end, as far as it can be
 *   told (a runtime that was destroyed is known until its memory serves the
 *   next one).
 *
 * What is never touched
 *   Signal dispositions and masks, SIGCHLD and other children, the working
 *   directory, umask, environment, locale, descriptors 0 to 2, other uv loops.
 *   No atexit, no pthread_atfork, nothing read from the environment before a
 *   call that needs it.  Every descriptor is close-on-exec.
 *
 * Forks
 *   After fork() without exec (with it: no care), a runtime is the parent's:
 *   in the child all return PCO_EFORKED, a tick that forked as well, but for
 *   pco_forked_child(), which frees memory and touches nothing else.
 *
 * Lua
 *   The host links liblua 5.4 (libportico.so has no copy and takes these
 *   symbols from the program).  LuaJIT and Lua 5.1 to 5.3 cannot be used:
 *   Portico needs yields across pcall and metamethods, integers, and <close>.
 *   What needs no Lua is in sandbox.h: commands and files, from C.
 *
 * Compatibility
 *   Structs start with `size`, set by the caller to sizeof; they only grow, at
 *   the end, and zero in a field always means "as before".  So a program may
 *   be older or newer than the library: a struct that is passed in is taken as
 *   far as it goes, and refused with PCO_ESIZE if a part that the library does
 *   not know is not zero; one that is filled in is filled as far as it goes,
 *   with zero in what the library does not know.  One that is smaller than it
 *   ever was is refused, too.  Functions and codes are only added.  While the
 *   major version is 0, minor versions may break this.
 */
#ifndef PORTICO_PORTICO_H
#define PORTICO_PORTICO_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "plugin.h"

#if defined(__GNUC__)
#  define PCO_API __attribute__((visibility("default")))
#else
#  define PCO_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct lua_State; /* from lua.h */
struct uv_loop_s; /* uv_loop_t, from uv.h */

typedef struct pco_runtime pco_runtime;
typedef struct pco_task pco_task;
typedef struct pco_promise pco_promise;

/* ---- codes --------------------------------------------------------------- */

/* Beside those of plugin.h and libuv's.  Lua errors have their names in the
 * field `code`. */
enum {
  PCO_EINVAL = -11001,       /* a bad argument */
  PCO_ECLOSED = -11002,      /* used after its end */
  PCO_ECANCELED = -11003,    /* cancelled */
  PCO_EINTERRUPTED = -11004, /* cancelled by Ctrl-C or pco_interrupt() */
  PCO_EPROTO = -11005,       /* the other side broke the protocol */
  PCO_EPLUGIN = -11006,      /* a plugin was refused or misbehaved */
  PCO_EDEADLOCK = -11007,    /* nothing can ever wake what waits */
  PCO_ENOTASK = -11008,      /* an async wait outside of a task */
  PCO_ENOYIELD = -11009,     /* a wait where Lua cannot be suspended */
  PCO_ECOROUTINE = -11010,   /* a wait in a coroutine of the stock library */
  PCO_ESYNC = -11011,        /* a sync call inside an async task */
  PCO_EBUSY = -11012,        /* in use; or it has not ended yet */
  PCO_EFORKED = -11013,      /* used in a forked child of the host */
  PCO_EFACADE = -11014,      /* an object of the other facade */
  PCO_EDOT = -11015,         /* sb.exec for sb:exec */
  PCO_ETIMEDOUT = -11016,    /* a command ran out of time */
  PCO_ECALLTIMEOUT = -11017, /* a call ran out of time */
  PCO_EEXIT = -11018,        /* a non-zero exit, where that is an error */
  PCO_ECONN = -11019,        /* the connection to the agent broke */
  PCO_ESCOPE = -11020,       /* a scope used after it ended, or over a yield */
  PCO_ESIZE = -11021,        /* a struct of another size than is possible */
  PCO_ETHREAD = -11022,      /* called from another thread than its own */
  PCO_EREENTRANT = -11023,   /* called from inside itself */
  PCO_ELUA = -11024,         /* a Lua that cannot be used, or a Lua error */
  PCO_ELOOP = -11025,        /* the host's loop closed what was attached */
  PCO_ESLICE = -11026        /* a script ran too long without waiting */
};

/* Names a code: "ENOENT", "PCO_EGONE"; "EUNKNOWN" if nobody knows it.  Static.
 * [any] */
PCO_API const char *pco_errname(int code);
/* Describes a code in English, without a full stop.  Static.  [any] */
PCO_API const char *pco_strerror(int code);

#define PCO_VERSION_NUMBER 0x000100u /* 0.1.0, of this header */
/* Gives the version of the library, as PCO_VERSION_NUMBER.  [any] */
PCO_API uint32_t pco_version(void);
/* Gives it as text, "0.1.0".  Static.  [any] */
PCO_API const char *pco_version_string(void);

/* ---- configuration ------------------------------------------------------- */

enum { PCO_LOG_ERROR, PCO_LOG_WARNING, PCO_LOG_INFO, PCO_LOG_DEBUG };

/* Libraries of a state that the runtime makes. */
#define PCO_LIB_BASE      (1u << 0) /* without dofile and loadfile; see FILES */
#define PCO_LIB_COROUTINE (1u << 1)
#define PCO_LIB_TABLE     (1u << 2)
#define PCO_LIB_STRING    (1u << 3)
#define PCO_LIB_UTF8      (1u << 4)
#define PCO_LIB_MATH      (1u << 5)
#define PCO_LIB_IO        (1u << 6) /* the host's files */
#define PCO_LIB_OS        (1u << 7) /* the host's programs, and its exit */
#define PCO_LIB_DEBUG     (1u << 8)
#define PCO_LIB_PACKAGE   (1u << 9)  /* require finds files and C modules */
#define PCO_LIB_FILES     (1u << 10) /* dofile, loadfile, binary chunks */
/* For scripts that are not trusted with the host.  `require` then finds
 * Portico's own modules and those of load_module, nothing else. */
#define PCO_LIBS_SAFE                                                          \
  (PCO_LIB_BASE | PCO_LIB_COROUTINE | PCO_LIB_TABLE | PCO_LIB_STRING |         \
   PCO_LIB_UTF8 | PCO_LIB_MATH)
#define PCO_LIBS_ALL ((1u << 11) - 1)

/* Allocates as lua_Alloc does: osize is the old size, nsize 0 frees, NULL says
 * that there is no memory.  Called on the runtime's thread. */
typedef void *(*pco_alloc_fn)(void *ud, void *ptr, size_t osize, size_t nsize);
/* Wakes the host, so that it ticks: only that.  Called once for all that comes
 * until the next tick.  [any] */
typedef void (*pco_wakeup_fn)(void *ud);
/* Takes a line of the log; text is borrowed. */
typedef void (*pco_log_fn)(void *ud, int level, const char *text);
/* Hears of each task that failed (not of cancelled ones); before its own
 * callback.  pco_task_message() and others say why. */
typedef void (*pco_task_error_fn)(void *ud, pco_runtime *rt, pco_task *task);
/* Finds the source of a Lua module: sets *chunk and *len, which are borrowed
 * until it is called next, and *where (for messages: "@mods/unit.lua"), and
 * returns 0; or UV_ENOENT to let others look; or another code, which fails the
 * require.  Runs under protection of Lua: it must not raise, though. */
typedef int (*pco_load_module_fn)(void *ud, const char *name,
                                  const char **chunk, size_t *len,
                                  const char **where);

typedef struct pco_config {
  size_t size; /* pco_config_init() sets this and lua_version */
  /* The host's lua.h: LUA_VERSION_NUM.  Anything but 504 or 0 is refused. */
  uint32_t lua_version;
  uint32_t libs; /* PCO_LIB_*; 0: PCO_LIBS_ALL.  For an own state */
  /* The host's state, which must outlive the runtime, or be closed before it is
   * destroyed.  NULL: the runtime makes one.  One runtime a state at a time. */
  struct lua_State *state;
  void *ud; /* passed to all functions below */
  /* Of the own state: everything that Lua allocates.  NULL: malloc.  Portico's
   * own memory and libuv's come from malloc. */
  pco_alloc_fn alloc;
  size_t memory_limit; /* bytes, of the own state; 0: none */
  pco_wakeup_fn wakeup;
  pco_log_fn log;
  pco_task_error_fn on_task_error;
  pco_load_module_fn load_module;
  /* How long a script may run without waiting, ns of processor time; 0: for
   * ever.  It is checked every 10,000 instructions of Lua; calls into C are not
   * interrupted, nor are finalizers (__gc), for which Lua has no hooks.  Beyond
   * it an error is raised (PCO_ESLICE); after half of that time more for
   * cleaning up, one at every instruction, which no pcall keeps away. */
  uint64_t slice_limit_ns;
  /* Slices longer than this are told to `log`, with a traceback, once a task;
   * 0: not.  Costs what slice_limit_ns does. */
  uint64_t slice_warn_ns;
  /* Non-zero: pco_interrupt() ends a script in the middle of a slice.  With
   * this or one of the two above Lua counts instructions: code of Lua alone
   * then takes about two and a half times as long, however seldom the clock is
   * looked at, since Lua leaves its fast path for each one.  See slice_signal.
   */
  uint32_t interruptible;
  /* A signal of the host's for the three above; then nothing is counted and
   * scripts run as fast as without.  The host has a handler for it, which calls
   * pco_slice_signal(), with SA_RESTART, for as long as the runtime lives; it
   * is not blocked in the runtime's thread.  It comes to that thread alone,
   * while scripts run, each time that an eighth of the time has passed (1 to
   * 50 ms of processor time), and at most once after they have run.  Only with
   * an own state, where `coroutine` is portico.coroutine then; coroutines that
   * functions of the host resume are not seen.  0: none.  SIGRTMIN + 3, or so.
   */
  uint32_t slice_signal;
  /* Names of backends that scripts may use, NULL-terminated; NULL: all that are
   * installed.  Paths of plugins are never taken from scripts here. */
  const char *const *backends;
  /* The directory with the `portico` folder of its Lua files; NULL: beside the
   * library, where it was installed. */
  const char *lua_dir;
} pco_config;

/* Zeroes a config and sets its size and Lua version, as the host's compiler
 * sees them: include lua.h before this header if a state is passed. */
static inline void pco_config_init(pco_config *c) {
  memset(c, 0, sizeof *c);
  c->size = sizeof *c;
#ifdef LUA_VERSION_NUM
  c->lua_version = LUA_VERSION_NUM;
#endif
}

/* ---- a runtime's life ---------------------------------------------------- */

/* Creates a runtime, of the calling thread.  config is borrowed; its strings
 * are copied.  Returns 0, PCO_ESIZE, PCO_EINVAL (a field, or the state has a
 * runtime already), PCO_ELUA (not Lua 5.4), or UV_ENOMEM and the like, with
 * nothing left.  Give it back with pco_runtime_destroy(). */
PCO_API int pco_runtime_create(const pco_config *config, pco_runtime **out);

/* Gives the Lua state: to register functions and set globals between ticks.
 * NULL where nothing may be done with it.  Borrowed. */
PCO_API struct lua_State *pco_state(pco_runtime *rt);

/* Begins to end a runtime: nothing new is accepted (PCO_ECLOSED), all tasks are
 * cancelled, and when they have ended or `grace_ns` is over everything of them
 * is closed.  Go on ticking until pco_shutdown_done().  Again: nothing.
 * Returns 0 or a code of misuse. */
PCO_API int pco_shutdown(pco_runtime *rt, uint64_t grace_ns);
/* Returns 1 once a shutdown has nothing left to do and you were told of every
 * task's end, which is at the latest 20 s after the grace, else 0; or a code of
 * misuse. */
PCO_API int pco_shutdown_done(pco_runtime *rt);

/* Frees a runtime.  What still runs is killed, and waited for: that takes the
 * time of killing it, at most 20 s; nothing if it was shut down.  An own state
 * is closed.  A host's state goes on; Portico's objects in it are closed.
 * Tasks, promises, calls and commands that the host still holds stay its own,
 * to be given back.  Returns 0, or PCO_ETHREAD, PCO_EREENTRANT, PCO_EFORKED,
 * PCO_ECLOSED and has done nothing. */
PCO_API int pco_runtime_destroy(pco_runtime *rt);
/* Frees a runtime in a forked child: memory and descriptors of this process
 * alone.  The parent notices nothing.  A host's state must not be closed in the
 * child before.  Returns 0, or PCO_EINVAL in the parent. */
PCO_API int pco_forked_child(pco_runtime *rt);

/* Gives the text of the last failure that has one, or "": of wrong arguments,
 * configurations and scripts.  Others, as PCO_EBUSY, PCO_EREENTRANT, a time
 * that is over, and functions marked [any], say all by their code and leave the
 * text as it was.  Valid until the next call. */
PCO_API const char *pco_last_message(pco_runtime *rt);

/* ---- who drives ---------------------------------------------------------- */

enum {
  PCO_IDLE,    /* nothing is going on */
  PCO_WAITING, /* for events from outside, or timers */
  PCO_READY    /* the budget was over: there is more to do now */
};

typedef struct pco_tick_info {
  size_t size;
  uint32_t slices;       /* scripts that were resumed */
  uint32_t stuck;        /* 1: tasks wait for each other; only the host can
                            wake them, by a call or a post */
  uint64_t lua_ns;       /* time in scripts */
  uint64_t longest_ns;   /* the longest slice */
  int64_t next_timer_ns; /* until the next timer; -1: none */
} pco_tick_info;

/* Does what there is to do: takes what came, runs posted functions, resumes
 * scripts until `budget_ns` is over (one, if it is 0), calls callbacks.  info
 * may be NULL; its size is set by the caller.  Returns PCO_IDLE, PCO_WAITING or
 * PCO_READY; UV_ENOMEM if a script's end could not be handled for lack of
 * memory (it is tried again); PCO_ELOOP if the attached loop closed what was
 * attached to it (it was detached); or a code of misuse. */
PCO_API int pco_tick(pco_runtime *rt, uint64_t budget_ns, pco_tick_info *info);

/* Gives the descriptor that is readable exactly while a tick has something to
 * do.  Level-triggered; only for waiting, never to be read or closed.  Or a
 * code of misuse. */
PCO_API int pco_poll_fd(pco_runtime *rt);

/* Waits and ticks until `task` has ended (NULL: until nothing is going on), or
 * `timeout_ns` is over (negative: no limit; PCO_ECALLTIMEOUT), or a signal came
 * (UV_EINTR).  For programs without a loop.  Returns 0 or a code. */
PCO_API int pco_run(pco_runtime *rt, pco_task *task, int64_t timeout_ns);

/* Lets a loop of the host's, on this thread, do the ticking, with a budget
 * each.  One handle is added to it, which keeps it alive while something is
 * going on.  A runtime has one loop at most (PCO_EBUSY).  Returns 0 or a
 * code. */
PCO_API int pco_attach_uv(pco_runtime *rt, struct uv_loop_s *loop,
                          uint64_t budget_ns);
/* Takes it back.  Its handle is gone after the loop's next turn, so run the
 * loop once before closing it.  pco_runtime_destroy() does this, too. */
PCO_API int pco_detach_uv(pco_runtime *rt);

/* ---- scripts ------------------------------------------------------------- */

enum {
  PCO_TASK_RUNNING, /* or waiting, or not begun */
  PCO_TASK_DONE,
  PCO_TASK_FAILED,
  PCO_TASK_CANCELLED
};

typedef void (*pco_task_done_fn)(void *ud, pco_task *task);

/* Makes a task of a chunk of Lua source (not of a binary one).  `name` is as in
 * luaL_loadbuffer ("=console", "@file.lua").  It begins in a later tick.
 * out may be NULL; else give the task back with pco_task_release().
 * Returns 0; PCO_ELUA for a syntax error (pco_last_message()); UV_ENOMEM; a
 * code of misuse. */
PCO_API int pco_load(pco_runtime *rt, const char *chunk, size_t len,
                     const char *name, pco_task **out);
/* Makes a task of the function and its n_args arguments on top of the stack of
 * pco_state(), which are popped, whatever happens.  As pco_load(). */
PCO_API int pco_call(pco_runtime *rt, int n_args, pco_task **out);

/* Has fn called when the task has ended, in a later tick; at once is never.
 * NULL takes it back.  Returns 0 or a code. */
PCO_API int pco_task_on_done(pco_task *task, pco_task_done_fn fn, void *ud);
/* Gives PCO_TASK_*, or a code of misuse. */
PCO_API int pco_task_status(const pco_task *task);
/* Pushes the results of a task that is done, at most `max` (negative: all), to
 * a thread of the same state; returns their number, PCO_EBUSY if it has not
 * ended, PCO_ELUA if it failed (then pushes nothing), UV_ENOMEM without stack.
 */
PCO_API int pco_task_results(pco_task *task, struct lua_State *to, int max);
/* Gives why a task failed, in one line, or NULL if it did not. */
PCO_API const char *pco_task_message(const pco_task *task);
/* Gives the error's `code` ("PCO_EGONE", "ENOENT"); NULL: it has none. */
PCO_API const char *pco_task_error_code(const pco_task *task);
/* Gives the traceback of the failure, or NULL. */
PCO_API const char *pco_task_traceback(const pco_task *task);
/* Cancels a task, as task:cancel() does; it ends in later ticks.  Returns 1, 0
 * if it was cancelled or had ended, or a code. */
PCO_API int pco_task_cancel(pco_task *task);
/* Gives the task back.  It runs on, if it has not ended. */
PCO_API void pco_task_release(pco_task *task);

/* ---- functions of the host that suspend a script ------------------------- */
/*
 *   static int take_turn(lua_State *L) {
 *     pco_promise *p = pco_promise_new(L);
 *     game_ask_player(p);                  // who resolves it, frames later
 *     return pco_promise_wait(L, p);
 *   }
 *   void game_player_chose(pco_promise *p, unit *u) {
 *     pco_promise_resolve(p, push_unit, u);
 *   }
 */

/* Pushes the results of a promise for the script and returns their number.
 * Runs on the script's stack, under protection: it may raise.  Called exactly
 * once: with L, or, if nobody waits any more, with NULL, to let go of ud. */
typedef int (*pco_push_fn)(struct lua_State *L, void *ud);
typedef void (*pco_abandoned_fn)(void *ud, pco_promise *promise);

/* Makes a promise, in a C function that a script called in a task; raises a Lua
 * error (UsageError) elsewhere.  It is the host's until it is resolved,
 * rejected or posted, exactly one of these, exactly once, whatever became of
 * the script. */
PCO_API pco_promise *pco_promise_new(struct lua_State *L);
/* Suspends the script until then: `return pco_promise_wait(L, p)`.  Returns to
 * the script what was pushed; raises what it was rejected with, or the
 * cancellation of the task. */
PCO_API int pco_promise_wait(struct lua_State *L, pco_promise *promise);
/* Has fn called when nobody waits for the promise any more (its task was
 * cancelled, or ended), at most once, so that the work can be stopped.  The
 * promise must still be resolved or rejected. */
PCO_API void pco_promise_on_abandoned(pco_promise *promise, pco_abandoned_fn fn,
                                      void *ud);
/* Fulfils it; push may be NULL: no results.  The script is resumed in a later
 * tick.  Returns 0; or PCO_ETHREAD, PCO_EFORKED and has done nothing. */
PCO_API int pco_promise_resolve(pco_promise *promise, pco_push_fn push,
                                void *ud);
/* Makes it raise an error with this code (negative) and text in the script.
 * Returns as pco_promise_resolve(). */
PCO_API int pco_promise_reject(pco_promise *promise, int code,
                               const char *message);
/* The same as pco_promise_resolve() from any thread; push runs on the
 * runtime's.  Returns 0, or UV_ENOMEM and has done nothing.  [any] */
PCO_API int pco_promise_post(pco_promise *promise, pco_push_fn push, void *ud);

/* ---- from other threads -------------------------------------------------- */

/* rt is NULL if the runtime ended before fn had its turn. */
typedef void (*pco_posted_fn)(pco_runtime *rt, void *ud);

/* Has fn called in the next tick, in the order of the posts, and wakes the
 * host.  fn is called exactly once.  Returns 0; or UV_ENOMEM, PCO_ECLOSED after
 * the end, PCO_EFORKED, and fn is not called.  [any] */
PCO_API int pco_post(pco_runtime *rt, pco_posted_fn fn, void *ud);
/* Makes the poll descriptor readable, and calls `wakeup`.  [any] */
PCO_API int pco_wake(pco_runtime *rt);
/* Ends the script that is running at this moment with a CancelledError
 * (PCO_EINTERRUPTED), which is raised again until it waits or ends; nothing if
 * none runs.  Needs `interruptible` or one of the slice times in the config,
 * else PCO_EINVAL.  May be called in a signal handler.  [any] */
PCO_API int pco_interrupt(pco_runtime *rt);

/* What the host's handler of `slice_signal` calls.  Does nothing when no script
 * runs on this thread.  [signal handlers] */
PCO_API void pco_slice_signal(void);

/* ---- looking ------------------------------------------------------------- */

typedef struct pco_stats {
  size_t size;
  uint32_t tasks;       /* that have not ended */
  uint32_t tasks_ready; /* of these: to be resumed */
  uint32_t backends;    /* open on the runtime's loop */
  uint32_t sandboxes;   /* living there */
  uint32_t portals;     /* threads of blocking sandboxes */
  uint32_t calls;       /* of the host, pending */
  uint64_t ticks;
  uint64_t slices;
  uint64_t lua_ns;
  uint64_t longest_slice_ns;
  uint64_t posts;          /* functions that were posted and ran */
  uint64_t lua_bytes;      /* memory of Lua, now */
  uint64_t lua_peak_bytes; /* of the own state; else 0 */
} pco_stats;

/* Fills *stats, whose size is set by the caller.  Returns 0 or a code. */
PCO_API int pco_get_stats(pco_runtime *rt, pco_stats *stats);

typedef void (*pco_dump_fn)(void *ud, const char *line);
/* Calls fn with a line for each task: who it is, what it waits for, where and
 * how long.  Returns how many, or a code.  fn must not raise. */
PCO_API int pco_dump_tasks(pco_runtime *rt, pco_dump_fn fn, void *ud);

#ifdef __cplusplus
}
#endif
#endif /* PORTICO_PORTICO_H */
