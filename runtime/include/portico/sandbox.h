/* SPDX-License-Identifier: MIT */
/*
 * Sandboxes in C: commands, terminals, files, trees and watches, for hosts that
 * want no Lua in between.  The rules of portico.h hold: one runtime, its
 * thread, its codes.  It is what the Lua facades do, by the same code; what
 * they have beside (iterators, callbacks for output, Lua's patterns) a host
 * makes of it, or has a script do (pco_load). The program links liblua all the
 * same: a library that brought its own would be a second Lua in programs that
 * have one.
 *
 * Words
 *   box       a sandbox, as a host in C has it (pco_sandbox is a plugin's)
 *   command   a program that runs in a box and is read and written meanwhile
 *   pending   a call that was made and its outcome
 *
 * Every function that waits makes a pending and returns at once.  Its last
 * three parameters say how the outcome is told:
 *   done, ud  called once, in a tick, when it is there; NULL: not
 *   out       the pending, to ask, to wait, to cancel: the host's, until
 *             pco_pending_release().  NULL: nobody asks; it is released after
 *             `done` returned
 * A negative return means that nothing was begun, done is not called, and *out
 * is NULL: PCO_EINVAL (pco_last_message() says what), PCO_ESIZE, PCO_ECLOSED,
 * UV_ENOMEM, or misuse.  Everything else is the outcome of the pending.
 *
 * A box made with PCO_BOX_PORTAL has a thread of its own, and its calls are
 * waited for by blocking: pco_pending_wait().  `done` must be NULL there, and
 * out is needed.  All other boxes live on the runtime's loop; waiting for their
 * calls ticks, so it is for programs without a loop.
 *
 * What a pending holds (bytes, entries, the error) lives until its release.
 */
#ifndef PORTICO_SANDBOX_H
#define PORTICO_SANDBOX_H

#include "portico.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pco_box pco_box;
typedef struct pco_command pco_command;
typedef struct pco_pending pco_pending;

typedef void (*pco_done_fn)(void *ud, pco_pending *pending);

/* ---- outcomes ------------------------------------------------------------ */

/* Gives 0 or the code that the call failed with; PCO_EBUSY: it goes on. */
PCO_API int pco_pending_code(pco_pending *pending);
/* Gives the error of a call that failed, with its causes; NULL: none.  What it
 * is about, a file or a program, is in `path`, not in `message`. */
PCO_API const pco_error *pco_pending_error(pco_pending *pending);
/* Waits until it is over, or `timeout_ns` is (negative: no limit): 0, whatever
 * the outcome; PCO_ECALLTIMEOUT, and it goes on; UV_EINTR after a signal, the
 * same; PCO_EREENTRANT in a callback. */
PCO_API int pco_pending_wait(pco_pending *pending, int64_t timeout_ns);
/* Asks it to end early, with PCO_ECANCELED, unless its result comes first.
 * Returns 0, also if it was over; or a code of misuse. */
PCO_API int pco_pending_cancel(pco_pending *pending);
/* Gives it back.  A call that goes on does so, and its outcome is dropped: a
 * box that it makes is destroyed, a command that it starts is killed. */
PCO_API void pco_pending_release(pco_pending *pending);

/* ---- boxes --------------------------------------------------------------- */

#define PCO_BOX_PORTAL (1u << 0) /* its own thread; calls block */

typedef struct pco_box_opts {
  size_t size;
  const char *backend; /* a name; NULL: "bwrap" */
  const pco_pair *backend_settings;
  size_t n_backend_settings;
  const pco_create_opts *create; /* NULL: all default; see plugin.h */
  uint32_t flags;                /* PCO_BOX_* */
  uint32_t reserved;             /* 0 */
  int64_t timeout_ns;            /* of the call; 0: none */
} pco_box_opts;

/* Makes a box; whatever fails, nothing stays behind.  opts may be NULL. */
PCO_API int pco_box_create(pco_runtime *rt, const pco_box_opts *opts,
                           pco_done_fn done, void *ud, pco_pending **out);
/* Takes the box out of a pending of pco_box_create(), once: it is the host's,
 * until pco_box_release().  NULL: there is none. */
PCO_API pco_box *pco_pending_box(pco_pending *pending);
/* Gives its id; valid as long as the box. */
PCO_API const char *pco_box_id(const pco_box *box);
/* Ends everything in it, and it.  Again: nothing. */
PCO_API int pco_box_close(pco_box *box, pco_done_fn done, void *ud,
                          pco_pending **out);
/* Gives it back; one that is not closed is closed in the background. */
PCO_API void pco_box_release(pco_box *box);

typedef void (*pco_backend_fn)(void *ud, const char *name, const char *path);
/* Calls fn for each backend that is installed here and that the config allows,
 * opening none.  Returns 0 or a code. */
PCO_API int pco_list_backends(pco_runtime *rt, pco_backend_fn fn, void *ud);
/* Asks the box's backend what it can enforce on this machine. */
PCO_API int pco_box_probe(pco_box *box, pco_done_fn done, void *ud,
                          pco_pending **out);
/* Gives the i-th capability of a probe, from 0: 1; 0: there are no more.  level
 * is PCO_MISSING, PCO_EMULATED or PCO_NATIVE; reason is NULL where there is
 * nothing to say. */
PCO_API int pco_pending_capability(pco_pending *pending, size_t i,
                                   const char **name, int *level,
                                   const char **reason);

typedef struct pco_box_info {
  size_t size;
  uint32_t state; /* PCO_STATE_RUNNING or _DEAD; in a list each of them */
  uint32_t n_labels;
  const char *id;
  const char *name;    /* that was wished, or NULL */
  const char *image;   /* or NULL */
  const char *backend; /* its name */
  const pco_pair *labels;
  double created; /* seconds since 1970 */
  int64_t pid;    /* of the agent in it, as that says; 0: none */
  double expires; /* the same as created; 0: never */
  /* In a list: "machine:pid" of the program that has it; NULL: none. */
  const char *owner;
} pco_box_info;

/* Looks whether it lives.  That it is dead is no failure. */
PCO_API int pco_box_look(pco_box *box, pco_done_fn done, void *ud,
                         pco_pending **out);
/* Fills *info, whose size is set by the caller, from a pco_box_look(). */
PCO_API int pco_pending_info(pco_pending *pending, pco_box_info *info);

/* ---- boxes that outlive their program ------------------------------------ */

/* With PCO_CREATE_DETACHABLE in the flags of its pco_create_opts a box may be
 * left running, and taken over later: by this program or another one of the
 * same user, one at a time.  `ttl` there, in seconds from its creation, ends it
 * whatever becomes of its programs.  Until its first detach it ends with its
 * program; from then on pco_box_close(), pco_boxes_destroy() and its ttl end
 * it, and pco_box_release() leaves it.  What is kept of its commands meanwhile
 * is told in the manual of the Lua API; pco_box_commands() and
 * pco_box_command() find them.
 *
 * Which boxes the calls below see is a matter of the backend and its settings:
 * they take those of pco_box_opts, and `create` must be NULL.  With
 * PCO_BOX_PORTAL each has a thread for as long as its pending is held. */

/* Leaves the box running.  Once that is the outcome, the box is closed, and its
 * id is what the others take; calls that wait in it end with PCO_ECLOSED.  If
 * it fails (PCO_EUNSUPPORTED: it was not made for it), nothing has changed. */
PCO_API int pco_box_detach(pco_box *box, pco_done_fn done, void *ud,
                           pco_pending **out);
/* Takes over the box with this id, for pco_pending_box(); one that nobody takes
 * from there is left again.  UV_ENOENT: there is none that lives; UV_EBUSY:
 * another program, or this one, has it. */
PCO_API int pco_box_attach(pco_runtime *rt, const pco_box_opts *opts,
                           const char *id, pco_done_fn done, void *ud,
                           pco_pending **out);
/* Lists the boxes of this process, and those of this user that may outlive
 * their program: pco_pending_listed(). */
PCO_API int pco_boxes_list(pco_runtime *rt, const pco_box_opts *opts,
                           pco_done_fn done, void *ud, pco_pending **out);
/* Ends the box with this id and all that runs in it, whoever has it.  That
 * there is none is no failure: pco_pending_acted(). */
PCO_API int pco_boxes_destroy(pco_runtime *rt, const pco_box_opts *opts,
                              const char *id, pco_done_fn done, void *ud,
                              pco_pending **out);
/* Removes what is left of boxes that were killed; pco_pending_listed() gives
 * their ids. */
PCO_API int pco_boxes_reap(pco_runtime *rt, const pco_box_opts *opts,
                           pco_done_fn done, void *ud, pco_pending **out);
/* Fills *info, whose size is set by the caller, with the i-th box of a list or
 * a reap, from 0: 1; 0: there are no more; or a code. */
PCO_API int pco_pending_listed(pco_pending *pending, size_t i,
                               pco_box_info *info);
/* Of a pco_boxes_destroy(): 1, it has ended something; 0, there was nothing; or
 * the code that it failed with. */
PCO_API int pco_pending_acted(pco_pending *pending);

/* ---- commands ------------------------------------------------------------ */

#define PCO_EXEC_STDIN     (1u << 0) /* start: pco_command_write() comes */
#define PCO_EXEC_CLEAN_ENV (1u << 1) /* without the sandbox's environment */
#define PCO_EXEC_MERGE     (1u << 2) /* stderr goes where stdout goes */
#define PCO_EXEC_NO_STDOUT (1u << 3) /* it is thrown away */
#define PCO_EXEC_NO_STDERR (1u << 4)
#define PCO_EXEC_CHECK     (1u << 5) /* not exiting with 0 is PCO_EEXIT */
#define PCO_EXEC_PTY       (1u << 6) /* a terminal for all three; see cols */
#define PCO_EXEC_NO_ECHO   (1u << 7) /* of what is written to it */

typedef struct pco_exec_opts {
  size_t size;
  const char *const *argv; /* NULL-terminated, no shell; or else */
  const char *shell;       /* a line for /bin/sh -c */
  const char *const *env;  /* NULL-terminated "K=V", added; "K" removes K */
  const char *cwd;         /* NULL: the sandbox's */
  const void *input;       /* exec: the command's stdin; NULL: empty */
  size_t input_len;
  const pco_limits *limits; /* of this command alone; or NULL */
  uint64_t timeout_ns;      /* then it is killed, PCO_ETIMEDOUT; 0: none */
  uint64_t grace_ns;        /* from TERM to KILL; 0: 2 s */
  size_t max_output;        /* kept of each stream; 0: 16 MiB */
  uint32_t flags;           /* PCO_EXEC_* */
  /* Of the terminal; 0: 80 and 24.  Its output is stdout; it can be written to
   * (no PCO_EXEC_STDIN), and no stream can be left out or merged. */
  uint16_t cols, rows;
  /* How long others may hold the output after its exit; 0: 250 ms. */
  uint64_t drain_ns;
  /* Whom it runs as, inside: "USER" or "USER:GROUP", names or numbers; its
   * groups are those of /etc/group there or, with a GROUP, that one alone.
   * HOME, USER, LOGNAME and SHELL follow.  NULL: as all commands of the
   * sandbox. Nobody of that name is UV_ENOENT, a right that is missing
   * UV_EPERM. */
  const char *user;
} pco_exec_opts;

/* Why it ended. */
enum {
  PCO_BY_EXIT,
  PCO_BY_SIGNAL,
  PCO_BY_TIMEOUT,
  PCO_BY_KILL,
  PCO_BY_OOM /* the kernel's own counter says so */
};

typedef struct pco_exec_result {
  size_t size;
  int32_t code;    /* 0..255; 128+n after a signal */
  int32_t signal;  /* or 0 */
  uint32_t reason; /* PCO_BY_* */
  uint32_t eof;    /* 0: somebody still held the output */
  int64_t pid;     /* as seen inside */
  uint64_t duration_ns;
  const char *out; /* what was kept, in the pending; never NULL */
  size_t out_len;
  const char *err;
  size_t err_len;
  uint64_t out_bytes; /* all that there was: more than out_len if the middle
                         was dropped */
  uint64_t err_bytes;
  uint32_t survivors; /* processes that could not be killed */
  uint32_t reserved;
  const char *limit; /* "memory", "pids": the one that was hit; or NULL */
  size_t out_cut;    /* where in `out` the middle is missing; out_len: it is not
                      */
  size_t err_cut;
} pco_exec_result;

/* Runs a command to its end.  A command that fails is an outcome with code 0
 * and a result, unless PCO_EXEC_CHECK; one that could not be started fails. */
PCO_API int pco_exec(pco_box *box, const pco_exec_opts *opts, pco_done_fn done,
                     void *ud, pco_pending **out);
/* Fills *result, whose size is set by the caller, from a pending of exec, wait
 * or kill: 0; PCO_EBUSY; UV_ENOENT if it has none.  A failed one may have a
 * partial result. */
PCO_API int pco_pending_result(pco_pending *pending, pco_exec_result *result);

/* Starts a command and leaves it running. */
PCO_API int pco_command_start(pco_box *box, const pco_exec_opts *opts,
                              pco_done_fn done, void *ud, pco_pending **out);
/* Takes the command out of a pending of pco_command_start(), once: the host's,
 * until pco_command_release().  NULL: there is none. */
PCO_API pco_command *pco_pending_command(pco_pending *pending);
/* Gives its pid as seen inside, or a code. */
PCO_API int64_t pco_command_pid(const pco_command *command);
/* Reads what comes next of stdout and stderr; at the end the outcome has no
 * chunks.  One read at a time (PCO_EBUSY).  What is not read holds the command
 * back. */
PCO_API int pco_command_read(pco_command *command, pco_done_fn done, void *ud,
                             pco_pending **out);
/* Gives the i-th chunk of a read, from 0: 1 for stdout, 2 for stderr; 0: there
 * are no more. */
PCO_API int pco_pending_chunk(pco_pending *pending, size_t i, const char **data,
                              size_t *len);
/* Writes all of data to its stdin; as slow as it reads. */
PCO_API int pco_command_write(pco_command *command, const void *data,
                              size_t len, pco_done_fn done, void *ud,
                              pco_pending **out);
/* Ends its stdin, behind what was written. */
PCO_API int pco_command_close_stdin(pco_command *command, pco_done_fn done,
                                    void *ud, pco_pending **out);
/* Changes the size of its terminal; SIGWINCH tells the command.  That it has
 * ended is no error; that it has no terminal is PCO_EINVAL. */
PCO_API int pco_command_resize(pco_command *command, uint16_t cols,
                               uint16_t rows, pco_done_fn done, void *ud,
                               pco_pending **out);
/* Waits for its end; keeps what nobody reads.  By many, and again. */
PCO_API int pco_command_wait(pco_command *command, pco_done_fn done, void *ud,
                             pco_pending **out);

#define PCO_WAIT_STDOUT (1u << 0)
#define PCO_WAIT_STDERR (1u << 1)

typedef struct pco_wait_opts {
  size_t size;
  const void *output; /* bytes that its output has; or else */
  size_t output_len;
  uint16_t port; /* a TCP port of the box that is listened on */
  uint16_t reserved;
  uint32_t streams;   /* PCO_WAIT_*: where to look; 0: everywhere */
  int64_t timeout_ns; /* 0: none */
} pco_wait_opts;

/* Waits until the command has said something, or listens.  It looks at what
 * lies unread and at what comes, and takes none of it: to be read still.
 * PCO_EEXIT if the command ends before. */
PCO_API int pco_command_wait_for(pco_command *command,
                                 const pco_wait_opts *opts, pco_done_fn done,
                                 void *ud, pco_pending **out);
/* Sends a signal to its first process; that it has ended is no error. */
PCO_API int pco_command_signal(pco_command *command, int signo,
                               pco_done_fn done, void *ud, pco_pending **out);
/* Kills it and all it started: at once if grace_ns is 0, else TERM first. */
PCO_API int pco_command_kill(pco_command *command, uint64_t grace_ns,
                             pco_done_fn done, void *ud, pco_pending **out);
/* Gives it back; it runs on, its output is thrown away. */
PCO_API void pco_command_release(pco_command *command);

#define PCO_LOOK_ENDED (1u << 0) /* those that have ended, too */

/* Looks which commands run in the box: those of pco_exec and of
 * pco_command_start, not what they started themselves. */
PCO_API int pco_box_commands(pco_box *box, uint32_t flags, pco_done_fn done,
                             void *ud, pco_pending **out);

typedef struct pco_command_info {
  size_t size;
  int64_t pid;    /* as seen inside */
  double started; /* seconds since 1970 */
  const char *const *argv;
  uint32_t ended; /* 1: it has, and this was how */
  int32_t code;
  int32_t signal; /* or 0 */
  uint32_t reserved;
} pco_command_info;

/* Gives the i-th of them, from 0: 1; 0: there are no more.  The caller sets
 * info->size. */
PCO_API int pco_pending_command_info(pco_pending *pending, size_t i,
                                     pco_command_info *info);
/* Finds a command of pco_command_start() by its pid, after its handle was given
 * back: pco_pending_command().  UV_ESRCH if there is none. */
PCO_API int pco_box_command(pco_box *box, int64_t pid, pco_done_fn done,
                            void *ud, pco_pending **out);

/* ---- files --------------------------------------------------------------- */

#define PCO_FILE_MISSING_OK (1u << 16) /* remove: nothing there is fine */
#define PCO_FILE_IN_PLACE   (1u << 17) /* write: into the file, not atomic */
#define PCO_FILE_FSYNC      (1u << 18) /* write: on the disk before the outcome */
#define PCO_FILE_DIRECTORY  (1u << 19) /* mktemp: a directory */
#define PCO_FILE_HIDDEN     (1u << 20) /* glob: "*" is ".name", too */
#define PCO_FILE_SKIP       (1u << 21) /* walk: what may not be read is empty */

typedef struct pco_file_opts {
  size_t size;
  uint32_t flags;  /* PCO_FS_* of plugin.h, PCO_FILE_* */
  uint32_t mode;   /* write, mkdir: permission bits; 0: as it is, or default */
  uint64_t offset; /* read */
  uint64_t length; /* read: at most; 0: to the end */
  size_t max_size; /* read: more is PCO_ELIMIT; 0: 64 MiB */
  int64_t timeout_ns; /* 0: none */
  const char *owner;  /* write: whose it becomes, as in pco_file_chown() */
  /* watch: patterns, each with NULL behind the last, as "*.c" or "src/?.c";
   * NULL: of everything. */
  const char *const *include;
  const char *const *exclude; /* of these not; nor is what is below them */
  uint32_t depth;             /* walk: directories below each other; 0: all */
  uint32_t reserved;
} pco_file_opts;

/* Paths are as a program inside sees them; opts may be NULL everywhere.  What a
 * call does not take (a flag, a mode ...) is PCO_EINVAL; all take timeout_ns,
 * and those on a path PCO_FS_NOFOLLOW, but for readlink, symlink and glob. */

/* pco_pending_bytes() */
PCO_API int pco_file_read(pco_box *box, const char *path,
                          const pco_file_opts *opts, pco_done_fn done, void *ud,
                          pco_pending **out);
/* Replaces the file atomically; PCO_FS_APPEND: adds to it.  PCO_FS_PARENTS,
 * PCO_FILE_IN_PLACE, PCO_FILE_FSYNC, mode, owner */
PCO_API int pco_file_write(pco_box *box, const char *path, const void *data,
                           size_t len, const pco_file_opts *opts,
                           pco_done_fn done, void *ud, pco_pending **out);
/* pco_pending_entry(), one */
PCO_API int pco_file_stat(pco_box *box, const char *path,
                          const pco_file_opts *opts, pco_done_fn done, void *ud,
                          pco_pending **out);
/* pco_pending_entry(), in byte order of the names */
PCO_API int pco_file_list(pco_box *box, const char *path,
                          const pco_file_opts *opts, pco_done_fn done, void *ud,
                          pco_pending **out);
/* PCO_FS_PARENTS (then it may be there already), mode */
PCO_API int pco_file_mkdir(pco_box *box, const char *path,
                           const pco_file_opts *opts, pco_done_fn done,
                           void *ud, pco_pending **out);
/* PCO_FS_RECURSIVE, PCO_FILE_MISSING_OK */
PCO_API int pco_file_remove(pco_box *box, const char *path,
                            const pco_file_opts *opts, pco_done_fn done,
                            void *ud, pco_pending **out);
/* With PCO_FS_REPLACE the target may exist. */
PCO_API int pco_file_rename(pco_box *box, const char *source,
                            const char *target, const pco_file_opts *opts,
                            pco_done_fn done, void *ud, pco_pending **out);
/* Copies inside of the box.  PCO_FS_REPLACE: over a file that is there;
 * PCO_FS_RECURSIVE: a directory; PCO_FS_PARENTS: makes those of the target. */
PCO_API int pco_file_copy(pco_box *box, const char *source, const char *target,
                          const pco_file_opts *opts, pco_done_fn done, void *ud,
                          pco_pending **out);
/* mode: permission bits, 0 to 07777 */
PCO_API int pco_file_chmod(pco_box *box, const char *path, uint32_t mode,
                           const pco_file_opts *opts, pco_done_fn done,
                           void *ud, pco_pending **out);
/* owner: "USER", "USER:GROUP" or ":GROUP", names or numbers */
PCO_API int pco_file_chown(pco_box *box, const char *path, const char *owner,
                           const pco_file_opts *opts, pco_done_fn done,
                           void *ud, pco_pending **out);
/* Makes a link that says `target`, as `ln -s` does.  PCO_FS_PARENTS */
PCO_API int pco_file_symlink(pco_box *box, const char *target, const char *path,
                             const pco_file_opts *opts, pco_done_fn done,
                             void *ud, pco_pending **out);
/* What a link says: pco_pending_bytes() */
PCO_API int pco_file_readlink(pco_box *box, const char *path,
                              const pco_file_opts *opts, pco_done_fn done,
                              void *ud, pco_pending **out);
/* Makes an empty file that nobody else has, or with PCO_FILE_DIRECTORY a
 * directory, in `parent` (NULL: where temporary files go).  name is one
 * component whose last '*' becomes random; NULL: "tmp-*".  Its path:
 * pco_pending_bytes() */
PCO_API int pco_file_mktemp(pco_box *box, const char *parent, const char *name,
                            const pco_file_opts *opts, pco_done_fn done,
                            void *ud, pco_pending **out);
/* Sums up a file or all that is below a directory: pco_pending_usage() */
PCO_API int pco_file_usage(pco_box *box, const char *path,
                           const pco_file_opts *opts, pco_done_fn done,
                           void *ud, pco_pending **out);
/* Finds the paths that match a pattern, in byte order: pco_pending_path().
 * "*" and "?" within a name, "[a-z]", "[!a-z]", "**" for any directories
 * between, "\\" before a byte that means itself; with "/" at its end only
 * directories.  What may not be read has no entries.  PCO_FILE_HIDDEN */
PCO_API int pco_file_glob(pco_box *box, const char *pattern,
                          const pco_file_opts *opts, pco_done_fn done, void *ud,
                          pco_pending **out);
/* Lists a directory and all below it, each directory before what is in it, in
 * byte order; links are not entered: pco_pending_entry(), whose name is the
 * path then.  PCO_FILE_SKIP, depth, max_size (of what is found, about) */
PCO_API int pco_file_walk(pco_box *box, const char *path,
                          const pco_file_opts *opts, pco_done_fn done, void *ud,
                          pco_pending **out);

/* Gives the bytes of a read, and what else says so: 0, or a code. */
PCO_API int pco_pending_bytes(pco_pending *pending, const char **data,
                              size_t *len);
/* Gives the i-th entry, from 0: 1; 0: there are no more.  The caller sets
 * entry->struct_size; its name lives with the pending. */
PCO_API int pco_pending_entry(pco_pending *pending, size_t i, pco_stat *entry);
/* Gives what the i-th entry says, if it is a link; else NULL. */
PCO_API const char *pco_pending_target(pco_pending *pending, size_t i);
/* Gives the i-th path of a glob, from 0: 1; 0: there are no more. */
PCO_API int pco_pending_path(pco_pending *pending, size_t i, const char **path);

typedef struct pco_usage {
  size_t size;
  uint64_t bytes;     /* of the files' contents */
  uint64_t allocated; /* what they take on the disk */
  uint64_t files;
  uint64_t directories;
} pco_usage;

/* Fills *usage, whose size is set by the caller. */
PCO_API int pco_pending_usage(pco_pending *pending, pco_usage *usage);

/* ---- trees --------------------------------------------------------------- */

#define PCO_TREE_SKIP    (1u << 0) /* leave out what fails, and list it */
#define PCO_TREE_PARENTS (1u << 1) /* make the directories of the target */
#define PCO_TREE_ONLY_CHANGED                                                  \
  (1u << 2)                         /* by size and time of change, or by       \
                                     */
#define PCO_TREE_CHECKSUM (1u << 3) /* content */
#define PCO_TREE_PROGRESS (1u << 4) /* for pco_pending_progress() */

/* What becomes of links. */
enum {
  PCO_LINKS_DEFAULT, /* upload: keep; download: inside */
  PCO_LINKS_KEEP,
  PCO_LINKS_INSIDE, /* keep those that stay within the tree, refuse others */
  PCO_LINKS_FOLLOW, /* what they lead to */
  PCO_LINKS_REFUSE
};

typedef struct pco_tree_opts {
  size_t size;
  /* Patterns with NULL behind the last, 500 at most; NULL: everything. */
  const char *const *include;
  const char *const *exclude;
  uint32_t symlinks; /* PCO_LINKS_* */
  uint32_t flags;    /* PCO_TREE_* */
  /* More is PCO_ELIMIT; 0: none of an upload, a million entries and 64 GiB of
   * a download. */
  uint64_t max_entries;
  uint64_t max_bytes;
  int64_t timeout_ns; /* 0: none */
} pco_tree_opts;

/* Copies a file or a tree of this machine into the box, all of it or nothing.
 * The target is its whole new name; a directory that is there is added to.
 * opts may be NULL. */
PCO_API int pco_tree_upload(pco_box *box, const char *source,
                            const char *target, const pco_tree_opts *opts,
                            pco_done_fn done, void *ud, pco_pending **out);
/* The same out of the box, to this machine.  What is unpacked here is a
 * stranger's: a process that can do nothing else does it. */
PCO_API int pco_tree_download(pco_box *box, const char *source,
                              const char *target, const pco_tree_opts *opts,
                              pco_done_fn done, void *ud, pco_pending **out);

typedef struct pco_tree_result {
  size_t size;
  uint64_t files; /* moved, as the others */
  uint64_t directories;
  uint64_t bytes;
  uint64_t skipped; /* left out: pco_pending_skipped() */
} pco_tree_result;

/* Fills *result, whose size is set by the caller: 0, or a code. */
PCO_API int pco_pending_tree(pco_pending *pending, pco_tree_result *result);
/* Gives the i-th that was left out, from 0: 1; 0: there are no more (only so
 * many are listed). */
PCO_API int pco_pending_skipped(pco_pending *pending, size_t i,
                                const char **path, int *code,
                                const char **message);

typedef struct pco_tree_progress {
  size_t size;
  uint64_t bytes; /* so far */
  uint64_t files;
  uint64_t total;   /* bytes in all, once that is known; else 0 */
  const char *path; /* what is moved now; until the next call */
} pco_tree_progress;

/* Tells how far it is, at any time: fills *progress, whose size is set by the
 * caller, and gives 1; 0: nothing new since the last call; or a code. */
PCO_API int pco_pending_progress(pco_pending *pending,
                                 pco_tree_progress *progress);

/* ---- open files and watches ---------------------------------------------- */
/*
 * One read, write, truncate or next at a time on each (PCO_EBUSY); a close ends
 * it.  They end with their box: calls then fail with PCO_ECLOSED, and they are
 * still to be given back.
 */

typedef struct pco_file pco_file;
typedef struct pco_watch pco_watch;

/* Opens a file.  mode is Lua's: "r", "w", "a", with "+" for both ways, "wx" for
 * a new file.  Of opts count PCO_FS_PARENTS, PCO_FS_NOFOLLOW, mode and
 * timeout_ns. */
PCO_API int pco_file_open(pco_box *box, const char *path, const char *mode,
                          const pco_file_opts *opts, pco_done_fn done, void *ud,
                          pco_pending **out);
/* Takes the file out of a pending of pco_file_open(), once: the host's, until
 * pco_file_release().  NULL: there is none. */
PCO_API pco_file *pco_pending_file(pco_pending *pending);
/* Reads at most `len` bytes at a place: pco_pending_bytes(), fewer only at the
 * end of the file. */
PCO_API int pco_file_read_at(pco_file *file, uint64_t offset, size_t len,
                             pco_done_fn done, void *ud, pco_pending **out);
/* Writes all of data at a place; with mode "a" at the end, wherever. */
PCO_API int pco_file_write_at(pco_file *file, uint64_t offset, const void *data,
                              size_t len, pco_done_fn done, void *ud,
                              pco_pending **out);
/* Makes it shorter, or longer with zeros. */
PCO_API int pco_file_truncate(pco_file *file, uint64_t size, pco_done_fn done,
                              void *ud, pco_pending **out);
/* Has what was written put to the disk. */
PCO_API int pco_file_sync(pco_file *file, pco_done_fn done, void *ud,
                          pco_pending **out);
/* pco_pending_entry(), one */
PCO_API int pco_file_stat_open(pco_file *file, pco_done_fn done, void *ud,
                               pco_pending **out);
/* Closes it; no other calls come after that. */
PCO_API int pco_file_close(pco_file *file, pco_done_fn done, void *ud,
                           pco_pending **out);
/* Gives it back; one that is not closed is closed in the background. */
PCO_API void pco_file_release(pco_file *file);

enum {
  PCO_WATCH_CREATE,
  PCO_WATCH_MODIFY,
  PCO_WATCH_REMOVE,
  PCO_WATCH_RENAME, /* from `from` to `path` */
  PCO_WATCH_ATTRIBUTE,
  PCO_WATCH_RESCAN /* something was missed: look at everything again */
};

typedef struct pco_watch_event {
  size_t size;
  uint32_t type; /* PCO_WATCH_* */
  uint32_t reserved;
  const char *path; /* below what is watched; "": that itself */
  const char *from; /* or NULL */
} pco_watch_event;

/* Watches a file, or a directory; with PCO_FS_RECURSIVE all that is below it.
 * It has begun when the outcome is there.  include, exclude */
PCO_API int pco_watch_open(pco_box *box, const char *path,
                           const pco_file_opts *opts, pco_done_fn done,
                           void *ud, pco_pending **out);
/* As pco_pending_file(); pco_watch_release() takes it. */
PCO_API pco_watch *pco_pending_watch(pco_pending *pending);
/* Waits for the next events; between two calls they are kept.  An outcome with
 * none: what is watched is gone, which PCO_WATCH_REMOVE of "" has told. */
PCO_API int pco_watch_next(pco_watch *watch, pco_done_fn done, void *ud,
                           pco_pending **out);
/* Gives the i-th event of a pco_watch_next(), from 0: 1; 0: there are no more.
 * The caller sets event->size; strings live with the pending. */
PCO_API int pco_pending_event(pco_pending *pending, size_t i,
                              pco_watch_event *event);
/* Ends it, and a pco_watch_next() that waits. */
PCO_API int pco_watch_close(pco_watch *watch, pco_done_fn done, void *ud,
                            pco_pending **out);
/* Gives it back; one that is not closed is closed in the background. */
PCO_API void pco_watch_release(pco_watch *watch);

#ifdef __cplusplus
}
#endif
#endif /* PORTICO_SANDBOX_H */
