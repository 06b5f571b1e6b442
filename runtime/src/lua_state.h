/* SPDX-License-Identifier: MIT */
/*
 * The Lua binding of one lua_State: what all of its C functions share.
 *
 * One pco__lua lives in the registry, made when portico.core is loaded first;
 * lua_close collects it last and with it every loop.  C functions are closures
 * with two upvalues: this userdata and which facade they serve, so that one
 * function serves both and knows an object of the other facade.
 *
 * Objects are tables with their data fields and, under a private key, a handle:
 * a userdata that holds the C object and whose __gc lets it go without
 * blocking.
 */
#ifndef PCO_LUA_STATE_H
#define PCO_LUA_STATE_H

#include <lauxlib.h>
#include <lua.h>
#include <signal.h>

#include "backend.h"
#include "chunk.h"
#include "portal.h"
#include "process.h"
#include "runtime.h"
#include "sandbox.h"

/* What runs now, for a handler of SIGINT, which may set a hook there.  The
 * portico command finds it in the registry, under "portico.running". */
typedef struct pco__interruptible {
  lua_State *volatile co; /* NULL: nothing but the main thread */
} pco__interruptible;

typedef struct pco__lua {
  pco__runtime runtime;
  struct sigaction on_interrupt; /* the host's, for SIGINT, at our start */
  lua_State *main;               /* the main thread */
  pco__node ready;               /* of pco__task.node: to be resumed */
  pco__node turn;                /* the same: before the loop is served again */
  struct pco__task *current;     /* whose Lua code runs now */
  struct pco__level *level;      /* the coroutine of it that runs; see
                                    lua_coroutine.h */
  pco__interruptible running;
  pco__node tasks;     /* of pco__task.all: not ended */
  int n_tasks;         /* of these */
  int n_outside;       /* waits that something outside of Lua will end */
  int n_cancelled;     /* tasks and scopes that are */
  unsigned n_made;     /* tasks, ever */
  bool suspending;     /* a wait is on its way to the scheduler */
  bool driving;        /* inside run() */
  int n_interrupts;    /* Ctrl-C, since run() began */
  lua_Hook main_hook;  /* of the main thread, that is no news */
  uint64_t give_up_at; /* uv_hrtime(), after the first one */
  uint64_t resumed_at; /* the current task */
  short nested;        /* callbacks around what runs outside of tasks */
  int unclosed;        /* objects that hold more than memory */
  int collect_at;      /* so many of them are looked through for garbage */
  /* Of a host in C: see embed.h. */
  struct pco_runtime *embedder;  /* drives the tasks; NULL: run() does */
  const char *const *backends;   /* that scripts may name; NULL: all */
  lua_Hook slice_hook;           /* of each task; NULL: none */
  int slice_count;               /* instructions between its calls; 0: a
                                    signal sets it */
  volatile uint64_t slice_start; /* pco__thread_ns(), of what runs now; with a
                                    signal from the first one on, before 0 */
  struct pco__task *resuming;    /* its end is not handled yet */
} pco__lua;

/* The binding of a state, where there are no upvalues; NULL: not loaded. */
pco__lua *pco__lua_find(lua_State *L);

/* The binding of the running C function, and its facade. */
pco__lua *pco__lua_of(lua_State *L);
bool pco__is_sync(lua_State *L);

/* ---- objects ------------------------------------------------------------- */

enum {
  PCO__BACKEND,
  PCO__SANDBOX,
  PCO__PROCESS,
  PCO__ITERATOR,
  PCO__PORTAL,
  PCO__FILESYSTEM,
  PCO__RESULT,
  PCO__FILE,
  PCO__WATCH,
  PCO__TASK, /* from here: userdata without a handle, of tasks only */
  PCO__SCOPE,
  PCO__EVENT,
  PCO__SEMAPHORE,
  PCO__PERMIT,
  PCO__CHANNEL,
  PCO__N_CLASSES
};
extern const char *const pco__class_names[PCO__N_CLASSES];

typedef struct pco__handle {
  int kind; /* PCO__BACKEND .. PCO__PORTAL */
  pco__lua *lua;
  pco__loop *loop;
  pco__portal *portal; /* a reference; NULL in the async facade */
  unsigned generation; /* of the runtime that it is of */
  bool sync;
  bool collected; /* its __gc ran: closed, and nothing is left in it */
  bool closed;
  bool allow_in_tasks;   /* sync: may be used in async tasks */
  bool uses_portal;      /* counted in portal->users */
  bool owns_backend;     /* sandbox: closes its backend with it */
  bool shared;           /* backend: that of one sandbox, which closes it */
  pco__backend *backend; /* references, as fits the kind */
  pco__sandbox *sandbox;
  pco__process *process;
  pco__chunks unread; /* process: handed over, not yet taken */
  int format;         /* iterator: PCO__ITERATE_* */
  int64_t timeout;    /* iterator: of each call */
  size_t max_line;
  struct pco__lines *lines;   /* iterator of lines: incomplete ones; owned */
  struct pco__walk *walk;     /* iterator of files: owned */
  int part;                   /* iterator of a file: what it reads */
  struct pco__opened *opened; /* file, watch, iterators of these: owned */
} pco__handle;

/* Pushes a new object of a class: a table with the class's metatable and a
 * fresh handle; gives the handle. */
pco__handle *pco__push_object(lua_State *L, int kind, pco__lua *lua,
                              pco__loop *loop, bool sync);
/* Pushes the metatable of a class of a facade, making it the first time. */
void pco__push_metatable(lua_State *L, int kind, bool sync);
/* Before one is made that holds more than memory: Lua's garbage collector does
 * not know the weight of a thread or a process, so it is told when there are
 * twice as many as it left the last time. */
void pco__collect_unclosed(lua_State *L, pco__lua *lua);
/* Gives the userdata on top the metatable of a class of tasks. */
void pco__set_class(lua_State *L, int kind);
/* The userdata of that class at idx, or NULL. */
void *pco__userdata_at(lua_State *L, int idx, int kind);
/* The same for the self at 1; raises UsageError for a call with a dot. */
void *pco__check_userdata(lua_State *L, int kind, const char *operation);
/* The handle of the object at idx, or NULL. */
pco__handle *pco__handle_at(lua_State *L, int idx);
/* Checks argument 1 of `operation` (a method of class `kind`): raises
 * UsageError (called with a dot, other facade, forked, sync in a task). */
pco__handle *pco__self(lua_State *L, int kind, const char *operation);
/* The same, and raises ClosedError if it is closed. */
pco__handle *pco__open_self(lua_State *L, int kind, const char *operation);
/* pco__self for a method that closes.  In a child that the host forked it marks
 * the object closed and does no more: what it stands for is the parent's. */
pco__handle *pco__self_to_close(lua_State *L, int kind, const char *operation);
/* True for what was made before the host forked this process. */
bool pco__is_parents(const pco__lua *lua, unsigned generation);
/* What of the object at 1 is closed, as a word: itself or its sandbox; NULL: it
 * is open. */
const char *pco__closed_part(lua_State *L, const pco__handle *h, int kind);
/* Marks the object at idx closed, its `closed` field too. */
void pco__mark_closed(lua_State *L, int idx);
/* Notes the Sandbox on top as one of the Backend at `parent`, weakly. */
void pco__add_child(lua_State *L, int parent);
/* Before the Backend at `parent` closes: its Sandboxes on other portals are
 * closed, those on its own loop are marked. */
void pco__close_children(lua_State *L, int parent);
/* Before the one with this id is destroyed: the same for it alone; true if it
 * was on another portal, and so is closed now. */
bool pco__close_child(lua_State *L, int parent, const char *id);
/* Refuses a sync call inside an async task.  After a fork the runtime is
 * renewed here, or the call refused in what still runs of the parent's tasks.
 */
void pco__check_caller(lua_State *L, const char *operation, bool allow);

/* Closures for the tables of core functions. */
typedef struct pco__core_function {
  const char *name;
  lua_CFunction fn;
} pco__core_function;
extern const pco__core_function pco__create_functions[];
extern const pco__core_function pco__backend_functions[];
extern const pco__core_function pco__sandbox_functions[];
extern const pco__core_function pco__transfer_functions[];
extern const pco__core_function pco__process_functions[];
extern const pco__core_function pco__fs_functions[];
extern const pco__core_function pco__file_functions[];
extern const pco__core_function pco__task_functions[];    /* async only */
extern const pco__core_function pco__turn_functions[];    /* async only */
extern const pco__core_function pco__scope_functions[];   /* async only */
extern const pco__core_function pco__event_functions[];   /* async only */
extern const pco__core_function pco__channel_functions[]; /* async only */
extern const pco__core_function pco__dump_functions[];    /* async only */
extern const pco__core_function pco__portal_functions[];  /* sync only */
extern const pco__core_function pco__object_functions[];
extern const pco__core_function pco__wait_functions[];
extern const pco__core_function pco__run_functions[];
extern const pco__core_function pco__sleep_functions[];
extern const pco__core_function pco__iterator_functions[];

#endif /* PCO_LUA_STATE_H */
