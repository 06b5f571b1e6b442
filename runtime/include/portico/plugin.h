/* SPDX-License-Identifier: MIT */
/*
 * The plugin ABI: all that a backend plugin and the runtime know of each other.
 *
 * The only header a plugin needs (plugin_util.h beside it saves typing).  It
 * includes nothing but C11 headers, compiles as C11 and C++17, and declares no
 * function to link against: the host comes as a table of functions.
 * plugins/README.md is the walk-through, plugins/template/ the code to copy.
 *
 * Words used in every comment below
 *   borrowed    the callee may use the pointer until the call returns
 *   pinned      the caller keeps the memory valid until the op completes
 *   owned by X  X created it and X destroys it
 * No allocation crosses the boundary: nobody frees the other side's memory.
 * What one side tells the other is copied before the call returns.
 *
 * Thread tags, one per function
 *   [loop]      only on the thread that runs host->loop, never concurrently
 *   [any]       from any thread, concurrently
 *   [serial]    from any thread, but never two at once for this plugin
 *
 * Operations: every function that takes a pco_op
 *   returns 0   accepted; the plugin completes the op exactly once, with
 *               host->complete or host->fail
 *   returns <0  rejected; the plugin must not touch the op again (only for
 *               arguments that break this header; anything else is accepted
 *               and fails with a text)
 * Completing inside the call is allowed: the host defers delivery to its user.
 * Timeouts are the host's: it cancels.  Operations on one object run at the
 * same time unless a comment says otherwise.  Whatever fails leaves nothing
 * behind: a create() that fails or is cancelled has undone what it did.
 *
 * Growth
 *   - Every struct starts with struct_size, set by the side that made it, and
 *     only ever grows at its end.  A field beyond struct_size reads as zero,
 * and zero always means "as before".  PCO_HAS() asks.
 *   - A NULL function means "not implemented"; the mandatory ones are marked.
 *   - An option or flag that the callee does not know is refused, never
 *     ignored: UV_EINVAL for a bit, PCO_EUNSUPPORTED for an option.  Bits of
 *     results (caps, PCO_EXIT_*) that a reader does not know are ignored.
 *   - Bigger things are extensions: a table of functions, struct_size first,
 *     under an id "pco.NAME/REVISION" (ours) or "REVERSE.DOMAIN.NAME/REVISION"
 *     (anyone's: "com.example.gpu/1").  A revision never changes; the next one
 *     is a new id, and a side may answer to both.  An unknown id gives NULL.
 *   - While PCO_ABI_MAJOR is 0 nothing above is promised from one minor to the
 *     next: the minors must be equal.
 *
 * Manners, since a plugin lives in somebody's game or editor: no signal
 * dispositions, no waitpid(-1), chdir, umask, setenv, setlocale or atexit, no
 * fork (pco.host.spawn/1 starts programs), no writes to descriptors 0 to 2,
 * O_CLOEXEC on every descriptor, MSG_NOSIGNAL or a masked SIGPIPE, and no
 * mutable static without a lock: one plugin serves many loops at once.  A host
 * may fork while another thread is in such a lock: plugin_lock.h has one that
 * is open in the child.
 *
 * uv_poll_t: libuv registers the descriptor only when the loop waits next, and
 * calls abort() if the system refuses (EPERM of what cannot be polled, ENOSPC
 * without watchers, fs.epoll.max_user_watches).  So whoever uses one registers
 * the descriptor itself, right after uv_poll_start(): epoll_ctl(uv_backend_fd(
 * loop), EPOLL_CTL_ADD, fd, ...).  If that fails, uv_poll_stop() and fail the
 * operation; if not, libuv finds it there and sets its own events.
 */
#ifndef PORTICO_PLUGIN_H
#define PORTICO_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PCO_ABI_MAJOR    0 /* unstable: host's and plugin's minors are equal */
#define PCO_ABI_MINOR    0
#define PCO_ENTRY_SYMBOL "pco_plugin_entry_v0"

#if defined(__GNUC__)
#  define PCO_EXPORT __attribute__((visibility("default")))
#else
#  define PCO_EXPORT
#endif

/* True if *p is big enough to hold `field` and the field is set. */
#define PCO_HAS(p, field)                                                      \
  ((size_t)((const char *)&(p)->field - (const char *)(p)) +                   \
           sizeof((p)->field) <=                                               \
       (p)->struct_size &&                                                     \
   (p)->field)

#ifdef __cplusplus
extern "C" {
#endif

struct uv_loop_s; /* from uv.h; plugins that use libuv include it themselves */

typedef struct pco_host pco_host;       /* owned by the host */
typedef struct pco_op pco_op;           /* owned by the host, opaque */
typedef struct pco_sink pco_sink;       /* owned by the host, opaque */
typedef struct pco_backend pco_backend; /* owned by the plugin, opaque */
typedef struct pco_sandbox pco_sandbox; /* owned by the plugin, opaque */
typedef struct pco_process pco_process; /* owned by the plugin, opaque */

/* Status codes are libuv's (UV_ENOENT, UV_ECANCELED ...: -errno here) and
 * these. */
enum {
  PCO_EUNSUPPORTED = -10001, /* this backend cannot do it, ever */
  PCO_EUNAVAILABLE = -10002, /* it could, but not on this machine now */
  PCO_EGONE = -10003,        /* the sandbox or process no longer exists */
  PCO_ELIMIT = -10004,       /* a quota or limit was hit */
  PCO_EBACKEND = -10005      /* the backend failed; see the message */
};

/* What an opened backend can do. */
#define PCO_CAP_ATTACH        (UINT64_C(1) << 0) /* attach() finds them */
#define PCO_CAP_LIST          (UINT64_C(1) << 1)
#define PCO_CAP_PTY           (UINT64_C(1) << 2)
#define PCO_CAP_SIGNALS       (UINT64_C(1) << 3) /* any signal, not just KILL */
#define PCO_CAP_SHARED_ATTACH (UINT64_C(1) << 4) /* one sandbox, many loops */
#define PCO_CAP_DETACHED      (UINT64_C(1) << 5) /* survives the host process */

/* An error.  Given to host->fail: everything is borrowed.  Filled through an
 * out parameter (open, init, spawn of the host): the caller zeroes it, sets
 * struct_size, and may offer `room`, memory of its own in which the callee
 * formats a message; `message` and `path` then point there or to static text,
 * never to memory of the callee. */
typedef struct pco_error {
  uint32_t struct_size;
  int32_t code;        /* < 0 */
  uint32_t source;     /* PCO_SOURCE_*: who said it */
  uint32_t flags;      /* PCO_ERROR_* */
  const char *message; /* UTF-8, one line; NULL for the code's own text */
  const char *path;    /* what it is about, bytes; or NULL */
  const struct pco_error *cause; /* NULL at the end of the chain */
  char *room;                    /* owned by the caller; or NULL */
  size_t room_size;
} pco_error;
#define PCO_ERROR_RETRYABLE (1u << 0) /* the same again may work */
enum {
  PCO_SOURCE_HOST,
  PCO_SOURCE_PLUGIN,
  PCO_SOURCE_AGENT,
  PCO_SOURCE_REMOTE
};

typedef struct pco_iov {
  const void *base;
  size_t len;
} pco_iov;

/* Key and value, UTF-8, never NULL. */
typedef struct pco_pair {
  const char *key;
  const char *value;
} pco_pair;

/* ---- host side ---------------------------------------------------------- */

/* Asks the operation to stop early.  Called at most once, never after the op
 * completed.  The plugin still completes the op, inside this call or later:
 * with UV_ECANCELED, or with its real result if that came first.  [loop] */
typedef void (*pco_cancel_fn)(void *arg);

struct pco_host {
  uint32_t struct_size;
  uint32_t abi_minor;
  struct uv_loop_s *loop; /* NULL if the plugin does not use the host's libuv:
                             its entry has no uv_identity */
  void *host_data;        /* for the host; plugins never read it */

  /* Finishes op.  `result` is the struct named by the method's comment,
   * borrowed, or NULL where it says "no result".  [loop] */
  void (*complete)(const pco_host *host, pco_op *op, const void *result);
  /* Finishes op with an error; err is borrowed.  [loop] */
  void (*fail)(const pco_host *host, pco_op *op, const pco_error *err);
  /* Makes op cancellable.  Call before returning 0, or later; a NULL fn takes
   * it back.  An op without a cancel function is waited for.  If the op was
   * cancelled already, fn is called from a later turn of the loop.  [loop] */
  void (*set_cancel)(const pco_host *host, pco_op *op, pco_cancel_fn fn,
                     void *arg);

  /* Delivers output bytes, borrowed.  Returns true to go on; false means the
   * reader is full: push nothing more until read_start(), as after
   * read_stop().  The host may call read_start, read_stop, release_process,
   * signal and destroy inside it.  [loop] */
  bool (*push)(const pco_host *host, pco_sink *sink, const void *data,
               size_t len);
  /* No more bytes, ever; status is 0 at a clean end, or a negative code: bytes
   * are missing, and whoever reads is told.  Exactly once for every sink that
   * was not released, after the last push, paused or not.  [loop] */
  void (*eof)(const pco_host *host, pco_sink *sink, int status);

  /* Runs fn(arg) once on the loop's thread, later.  Returns UV_ECANCELED, and
   * does not call fn, once close() was called.  What was accepted before that
   * still runs: a plugin completes close() only after it has.  [any] */
  int (*post)(const pco_host *host, void (*fn)(void *arg), void *arg);
  /* level: 0 error, 1 warning, 2 info, 3 debug.  msg is borrowed.  [any] */
  void (*log)(const pco_host *host, int level, const char *msg);
  /* Table of a host extension, or NULL.  Valid while the backend is open.
   * [any] */
  const void *(*get_extension)(const pco_host *host, const char *id);
};

/* ---- requests and results ----------------------------------------------- */

#define PCO_CREATE_STRICT     (1u << 0) /* fail rather than emulate */
#define PCO_CREATE_DETACHABLE (1u << 1)

/* 0 means "no limit asked for" in every field. */
typedef struct pco_limits {
  uint32_t struct_size;
  uint32_t open_files;
  uint64_t memory_bytes;
  uint64_t disk_bytes;
  uint64_t pids;
  double cpus;
} pco_limits;

typedef struct pco_mount {
  uint32_t struct_size;
  uint32_t flags; /* PCO_MOUNT_* */
  const char *source;
  const char *target;
} pco_mount;
#define PCO_MOUNT_READ_ONLY (1u << 0)

/* What a sandbox is to be.  Borrowed.  A backend refuses with
 * PCO_EUNSUPPORTED, naming the option, what it cannot honour. */
typedef struct pco_create_opts {
  uint32_t struct_size;
  uint32_t flags;         /* PCO_CREATE_* */
  const char *name;       /* wished id, or NULL; taken: UV_EEXIST */
  const char *image;      /* meaning is the backend's, or NULL */
  const char *cwd;        /* or NULL */
  const char *user;       /* or NULL */
  const char *network;    /* "none", "host" ...; NULL: the default */
  const char *const *env; /* NULL-terminated "K=V", or NULL; "K" removes K */
  const pco_pair *labels;
  size_t n_labels;
  const pco_mount *mounts;
  size_t n_mounts;
  const pco_limits *limits; /* or NULL */
  double ttl;               /* seconds, 0: none */
  double idle_ttl;          /* seconds, 0: none */
  const char *snapshot;     /* start from this one, or NULL */
  const pco_pair *settings; /* backend settings; unknown: UV_EINVAL */
  size_t n_settings;
} pco_create_opts;

#define PCO_SANDBOX_HAS_AGENT (1u << 0)
/* Commands run under another id of this machine than the host: the host lets
 * them open their pipes again (/dev/stdout). */
#define PCO_SANDBOX_FOREIGN_ID (1u << 1)

typedef struct pco_sandbox_result {
  uint32_t struct_size;
  uint32_t flags;       /* PCO_SANDBOX_* */
  pco_sandbox *sandbox; /* valid until destroy() or detach() is accepted */
  const char *id;       /* what attach() and destroy_id() take */
  /* With PCO_SANDBOX_HAS_AGENT: a connected stream to a portico-agent inside.
   * The host owns it from entry into complete(), also if the op was cancelled
   * meanwhile, and runs every process and file operation over it; the plugin's
   * process entries are then never called.  Else -1. */
  int32_t agent_fd;
  uint32_t reserved;
  /* Where commands start, absolute; NULL: "/".  The agent's word counts if
   * there is one. */
  const char *cwd;
  /* What attach() finds of what create() was given.  Of create() only the times
   * count. */
  const char *name;  /* or NULL */
  const char *image; /* or NULL */
  const pco_pair *labels;
  size_t n_labels;
  double created; /* seconds since 1970 */
  double expires; /* the same; 0: never */
} pco_sandbox_result;

typedef struct pco_sandbox_info {
  uint32_t struct_size;
  uint32_t state; /* PCO_STATE_* */
  const char *id;
  const char *owner; /* "machine:pid" of who made it, or NULL */
  const pco_pair *labels;
  size_t n_labels;
  double created;    /* seconds since 1970, 0 if unknown */
  double expires;    /* 0: never or unknown */
  const char *name;  /* as wished, or NULL */
  const char *image; /* or NULL */
} pco_sandbox_info;
enum {
  PCO_STATE_UNKNOWN,
  PCO_STATE_RUNNING, /* somebody is attached to it, or made it */
  PCO_STATE_PAUSED,
  PCO_STATE_DEAD,
  PCO_STATE_DETACHED /* it lives, and nobody is attached to it */
};

typedef struct pco_list_result {
  uint32_t struct_size;
  uint32_t reserved;
  const pco_sandbox_info *const *sandboxes;
  size_t n_sandboxes;
} pco_list_result;

#define PCO_SPAWN_PTY       (1u << 0) /* stdin and stdout are one terminal */
#define PCO_SPAWN_STDIN     (1u << 1) /* write() comes; else stdin is empty */
#define PCO_SPAWN_CLEAN_ENV (1u << 2) /* without the sandbox's environment */
#define PCO_SPAWN_MERGE     (1u << 3) /* stderr goes where stdout goes */
#define PCO_SPAWN_NO_ECHO   (1u << 4) /* with PTY: off before the start */

typedef struct pco_spawn_opts {
  uint32_t struct_size;
  uint32_t flags;           /* PCO_SPAWN_* */
  const char *const *argv;  /* NULL-terminated, argv[0] looked up in PATH; a
                               shell line comes as /bin/sh -c TEXT */
  const char *const *env;   /* NULL-terminated "K=V", or NULL; "K" removes K */
  const char *cwd;          /* inside the sandbox, or NULL */
  const char *user;         /* or NULL */
  const pco_limits *limits; /* or NULL */
  uint16_t cols;            /* with PCO_SPAWN_PTY */
  uint16_t rows;
  uint32_t reserved;
  pco_sink *out;  /* stdout or the terminal; starts paused; NULL: discard */
  pco_sink *err;  /* starts paused; NULL: discard, or PTY or MERGE */
} pco_spawn_opts; /* borrowed; a sink lives until its eof() or the release */

/* A spawn that fails says which: UV_ENOENT, UV_EACCES, UV_ENOEXEC, UV_E2BIG for
 * the program, with its name as the error's path; UV_ENOENT or UV_ENOTDIR with
 * the directory as path for cwd. */
typedef struct pco_process_result {
  uint32_t struct_size;
  uint32_t reserved;
  pco_process *process; /* valid until release_process() */
  int64_t pid;          /* as seen inside the sandbox; -1 if unknown */
} pco_process_result;

typedef struct pco_exit_result {
  uint32_t struct_size;
  int32_t exit_code; /* 0..255; -1 if killed by a signal */
  int32_t signal;    /* 0 if it exited */
  uint32_t flags;    /* PCO_EXIT_* */
} pco_exit_result;
#define PCO_EXIT_OOM (1u << 0)
/* The sandbox ended under it: the host makes it a connection error with a
 * partial result, or what its own close() asks for. */
#define PCO_EXIT_GONE (1u << 1)

/* Names: limits.memory limits.pids limits.cpus limits.disk limits.open_files
 * network.none isolation pty signals user image mounts attach list detach pause
 * snapshot forward; unknown names are shown as they are. */
typedef struct pco_capability {
  const char *name;
  const char *reason; /* why it is not native, or how it is; or NULL */
  uint32_t level;     /* PCO_NATIVE, PCO_EMULATED, PCO_MISSING */
  uint32_t reserved;
} pco_capability;
enum { PCO_MISSING, PCO_EMULATED, PCO_NATIVE };

typedef struct pco_probe_result {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t caps; /* PCO_CAP_* */
  const pco_capability *capabilities;
  size_t n_capabilities;
  const char *detail; /* the tool behind it, or why it cannot work; or NULL */
} pco_probe_result;

#define PCO_SIGNAL_TREE (1u << 0) /* the whole tree, not the first process */

/* ---- host extensions (pco_host.get_extension) --------------------------- */

#define PCO_HOST_AGENT_ID "pco.host.agent/1"

typedef struct pco_host_agent_api {
  uint32_t struct_size;
  uint32_t reserved;
  /* Opens the static agent for `machine` (as uname says; NULL: this one) as a
   * sealed memfd, O_CLOEXEC, which becomes the caller's.  Returns it, or < 0
   * with *err (PCO_EUNAVAILABLE: there is none for that machine).  [any] */
  int (*open_image)(const pco_host *host, const char *machine, pco_error *err);
} pco_host_agent_api;

/* Everything is borrowed, the descriptors too: they stay the caller's. */
typedef struct pco_host_spawn_opts {
  uint32_t struct_size;
  int32_t exec_fd; /* the program, executed through /proc/self/fd; -1: argv[0]
                      is its absolute path */
  const char *const *argv; /* NULL-terminated, at least argv[0] */
  const char *const *env;  /* NULL-terminated "K=V": the whole environment */
  const char *cwd;         /* absolute; NULL: as the host's */
  const int32_t *fds;      /* fds[i] becomes descriptor i, blocking or not as it
                              is; the program has no other descriptor */
  size_t n_fds;            /* at least 3: 0, 1 and 2 are never free */
} pco_host_spawn_opts;

#define PCO_HOST_SPAWN_ID "pco.host.spawn/1"

/* Starts a program of the host, with the host's rights, without forking it. */
typedef struct pco_host_spawn_api {
  uint32_t struct_size;
  uint32_t reserved;
  /* Returns 0 and *pidfd, O_CLOEXEC, once the program runs; or < 0, *err and
   * *pidfd = -1 if it could not be executed.  The program leads a session of
   * its own, so that a Ctrl-C at the host's terminal is not its, and has
   * default signal dispositions and an empty signal mask.  The caller waits
   * (waitid P_PIDFD; ECHILD means that somebody else has reaped it) and closes
   * the pidfd.  Takes as long as an exec.  [any] */
  int (*spawn)(const pco_host *host, const pco_host_spawn_opts *opts,
               int32_t *pidfd, pco_error *err);
} pco_host_spawn_api;

/* ---- plugin extension: files of a backend without an agent -------------- */

#define PCO_FS_ID "pco.fs/1"

enum {
  PCO_FS_NOFOLLOW = 1,  /* a link as the last component is refused, UV_ELOOP;
                           stat() shows it */
  PCO_FS_PARENTS = 2,   /* mkdir, write: make missing parents; mkdir: a
                           directory that exists is fine */
  PCO_FS_RECURSIVE = 4, /* remove: what is inside as well */
  PCO_FS_REPLACE = 8,   /* rename: the target may exist */
  PCO_FS_APPEND = 16    /* write: at the end, not atomic */
};
enum { PCO_FILE, PCO_DIRECTORY, PCO_SYMLINK, PCO_OTHER };

typedef struct pco_stat {
  uint32_t struct_size;
  uint32_t type; /* PCO_FILE ... */
  uint32_t mode; /* permission bits */
  uint32_t uid;
  uint32_t gid;
  uint32_t reserved;
  uint64_t size;    /* bytes */
  int64_t mtime_ns; /* since 1970 */
  const char *name; /* one component, bytes; in list() only */
} pco_stat;

typedef struct pco_stat_list {
  uint32_t struct_size;
  uint32_t more; /* 1: ask again after the last name */
  const pco_stat *const *entries;
  size_t n_entries;
} pco_stat_list;

typedef struct pco_data {
  uint32_t struct_size;
  uint32_t eof; /* 1: the end of the file was reached */
  const void *base;
  size_t len;
} pco_data;

/* Paths are absolute, inside the sandbox, bytes; "." and ".." may occur and
 * never lead out of it.  A NULL entry is unsupported.  All are [loop]. */
typedef struct pco_fs_api {
  uint32_t struct_size;
  uint32_t reserved;
  /* pco_stat */
  int (*stat)(pco_sandbox *s, const char *path, uint32_t flags, pco_op *op);
  /* Up to max entries (0: as many as the plugin likes) whose names follow
   * `after` (NULL: from the first), in byte order.  pco_stat_list */
  int (*list)(pco_sandbox *s, const char *path, const char *after, uint32_t max,
              pco_op *op);
  /* Up to max bytes; fewer does not mean the end, eof does.  pco_data */
  int (*read)(pco_sandbox *s, const char *path, uint64_t offset, size_t max,
              uint32_t flags, pco_op *op);
  /* Replaces the file atomically, or appends.  mode 0: keep it, 0644 for a new
   * file.  bufs (the array and the bytes) are pinned.  No result. */
  int (*write)(pco_sandbox *s, const char *path, uint32_t mode, uint32_t flags,
               const pco_iov *bufs, size_t n, pco_op *op);
  /* mode 0: 0755.  No result. */
  int (*mkdir)(pco_sandbox *s, const char *path, uint32_t mode, uint32_t flags,
               pco_op *op);
  /* No result. */
  int (*remove)(pco_sandbox *s, const char *path, uint32_t flags, pco_op *op);
  /* Without PCO_FS_REPLACE a target that exists is UV_EEXIST.  No result. */
  int (*rename)(pco_sandbox *s, const char *source, const char *target,
                uint32_t flags, pco_op *op);
  /* For files that are open: a file is known by its path there.  Writes into
   * the file at that offset; what is missing before it becomes zeros.  bufs are
   * pinned.  No result. */
  int (*write_at)(pco_sandbox *s, const char *path, uint64_t offset,
                  const pco_iov *bufs, size_t n, pco_op *op);
  /* Cuts the file, or fills it up with zeros.  No result. */
  int (*truncate)(pco_sandbox *s, const char *path, uint64_t size, pco_op *op);
} pco_fs_api;

/* ---- plugin side -------------------------------------------------------- */

/* Everything below is [loop] unless tagged otherwise. */
typedef struct pco_backend_api {
  uint32_t struct_size;
  uint32_t reserved;

  /* Makes a backend; one per loop, many may be open at once on different
   * threads.  Must not block or do I/O.  host is valid until close() completes.
   * Mandatory. */
  int (*open)(const pco_host *host, const pco_pair *settings, size_t n_settings,
              pco_backend **out, pco_error *err);
  /* Cancels what runs, destroys sandboxes that were not detached, closes every
   * uv handle, frees b and all its handles, then completes.  Nothing else is
   * called with b or its handles from here on.  Mandatory.  No result. */
  int (*close)(pco_backend *b, pco_op *op);
  /* Finds out what works here and why not.  Mandatory.  pco_probe_result */
  int (*probe)(pco_backend *b, pco_op *op);
  /* Table of a plugin extension, or NULL.  Valid until close(). */
  const void *(*get_extension)(pco_backend *b, const char *id);

  /* Makes a sandbox, all or nothing.  Mandatory.  pco_sandbox_result */
  int (*create)(pco_backend *b, const pco_create_opts *opts, pco_op *op);
  /* Takes over a sandbox that lives and was detached; UV_ENOENT if none has
   * this id, UV_EBUSY (retryable) while somebody else is attached to it.
   * Whatever becomes of the host from here on, the sandbox stays, until
   * destroy().  An attach() that fails or is cancelled leaves it as it was.
   * pco_sandbox_result */
  int (*attach)(pco_backend *b, const char *id, pco_op *op);
  /* Those of all instances and, with PCO_CAP_ATTACH, of all processes.
   * pco_list_result */
  int (*list)(pco_backend *b, pco_op *op);
  /* Ends the sandbox and everything in it, and completes once every op of its
   * processes has completed and every sink saw eof.  Frees s, also when it
   * fails: the error then names what is left over.  With an agent, the host has
   * asked it to shut down and closed the stream before.  Mandatory.  No
   * result. */
  int (*destroy)(pco_sandbox *s, pco_op *op);
  /* The same for any sandbox that list() shows, without an agent's help;
   * UV_ENOENT if there is none of that id (for the caller of the host that is
   * no error, just nothing to do).  A handle of it stays valid and answers
   * PCO_EGONE.  No result. */
  int (*destroy_id)(pco_backend *b, const char *id, pco_op *op);
  /* Frees s, leaves the sandbox running: from here on it survives the host.
   * Only of one that was made with PCO_CREATE_DETACHABLE or is attached.  When
   * it fails nothing has changed: s is valid.  With an agent, the host closes
   * the stream after it.  No result. */
  int (*detach)(pco_sandbox *s, pco_op *op);
  /* Why s ended, after its agent's stream did: out of memory, the launcher's
   * last words.  pco_error, with code 0 if nothing is known */
  int (*cause_of_death)(pco_sandbox *s, pco_op *op);

  /* ---- processes, for a backend without an agent ---- */

  /* pco_process_result */
  int (*spawn)(pco_sandbox *s, const pco_spawn_opts *opts, pco_op *op);
  /* By many at once, and again after the end.  pco_exit_result */
  int (*wait)(pco_process *p, pco_op *op);
  /* flags: PCO_SIGNAL_TREE.  After the end: UV_ESRCH.  No result. */
  int (*signal)(pco_process *p, int signo, uint32_t flags, pco_op *op);
  /* With PCO_CAP_PTY; without it no spawn has PCO_SPAWN_PTY.  No result. */
  int (*resize)(pco_process *p, uint16_t cols, uint16_t rows, pco_op *op);
  /* bufs (the array and the bytes) are pinned.  Completes when the bytes have
   * left the plugin, which is how a slow reader slows the writer; UV_EPIPE when
   * nobody can read them any more.  One write at a time.  No result. */
  int (*write)(pco_process *p, const pco_iov *bufs, size_t n, pco_op *op);
  /* After the write that runs.  Idempotent, but with a terminal: there it types
   * Ctrl-D, and write() goes on.  No result. */
  int (*close_stdin)(pco_process *p, pco_op *op);
  /* Starts or stops pushing into a sink given at spawn.  Pushing inside
   * read_start() is allowed.  After read_stop() returns there is no push until
   * the next read_start(); up to 64 KiB may wait in the plugin. */
  int (*read_start)(pco_process *p, pco_sink *sink);
  void (*read_stop)(pco_process *p, pco_sink *sink);
  /* Forgets the handle; the process runs on, its sinks are dead (no push, no
   * eof), its output is discarded and never holds it back.  Also after the
   * sandbox was destroyed; close() frees what was not released. */
  void (*release_process)(pco_process *p);

  /* Removes what is left of sandboxes that could be detached and whose end
   * nobody has tidied up after; what lives is not touched.  pco_list_result:
   * what was removed, PCO_STATE_DEAD */
  int (*reap)(pco_backend *b, pco_op *op);
} pco_backend_api;

/* All static, all mandatory. */
typedef struct pco_backend_info {
  uint32_t struct_size;
  uint32_t reserved;
  const char *id;      /* "bwrap"; [a-z0-9-]{1,32} */
  const char *summary; /* one line */
  const char *version; /* of the backend, free form */
  const char *license; /* SPDX expression */
  const pco_backend_api *api;
} pco_backend_info;

typedef struct pco_plugin_entry {
  uint32_t struct_size;
  uint16_t abi_major; /* PCO_ABI_MAJOR */
  uint16_t abi_minor; /* PCO_ABI_MINOR the plugin was built against */
  /* NULL-terminated, at least one.  Static data: readable before init(). */
  const pco_backend_info *const *backends;
  /* Both optional.  Called in pairs, init() before the first open().  Must not
   * start threads, fork, or touch signals.  An init() that fails is not
   * followed by deinit(), and may be called again; so may one that a fork of
   * the host has cut off, in the child.  [serial] */
  int (*init)(pco_error *err);
  void (*deinit)(void);
  /* Gives (const void *)uv_version_string(); NULL if the plugin does not use
   * libuv.  The host compares it with its own: a second libuv copy in the
   * process would fight over the loop, so it is refused.  [any] */
  const void *(*uv_identity)(void);
} pco_plugin_entry;

/* The one symbol a plugin exports: readable without running a line of it. */
PCO_EXPORT extern const pco_plugin_entry pco_plugin_entry_v0;

#ifdef __cplusplus
}
#endif
#endif /* PORTICO_PLUGIN_H */
