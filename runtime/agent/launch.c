/* SPDX-License-Identifier: MIT */
/*
 * See launch.h.  The strings of a frame have no NUL behind them; one copy of
 * the payload is made in which each string's end overwrites the header of the
 * field behind it, after that was read.
 */
#include "launch.h"

#include "env.h"
#include "exec.h"
#include "identity.h"
#include "procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FREE 6 /* for TERM and what the user brings */

/* What a user brings into the environment. */
typedef struct belongings {
  char home[sizeof((pco_user *)0)->home + sizeof "HOME="];
  char name[sizeof((pco_user *)0)->name + sizeof "USER="];
  char logname[sizeof((pco_user *)0)->name + sizeof "LOGNAME="];
  char shell[sizeof((pco_user *)0)->shell + sizeof "SHELL="];
} belongings;

typedef struct strings {
  char *memory;
  char **argv;
  char **changes; /* of the environment; FREE places are kept in front */
  char *cwd;
  char *user;
} strings;

static void strings_deinit(strings *s) {
  free(s->memory);
  free(s->argv);
  free(s->changes);
}

static void keep(strings *s, const pco_wire_field *f, uint32_t *n_argv,
                 uint32_t *n_env) {
  char *text = (char *)f->data; /* inside our own copy */
  switch (f->tag) {
  case PCO_TAG_ARGV:
    s->argv[(*n_argv)++] = text;
    break;
  case PCO_TAG_ENV:
    s->changes[FREE + (*n_env)++] = text;
    break;
  case PCO_TAG_CWD:
    s->cwd = text;
    break;
  case PCO_TAG_USER:
    s->user = text;
    break;
  default:
    break;
  }
}

static int strings_init(strings *s, const pco_frame *f, const pco_request *r) {
  size_t size = f->header.size;
  memset(s, 0, sizeof *s);
  s->memory = malloc(size + 1);
  s->argv = calloc(r->n_argv + 1, sizeof *s->argv);
  s->changes = calloc(r->n_env + FREE + 1, sizeof *s->changes);
  if (!s->memory || !s->argv || !s->changes)
    return -ENOMEM;
  memcpy(s->memory, f->payload, size);
  uint32_t n_argv = 0, n_env = 0;
  char *end = NULL; /* of the field before */
  pco_wire_iter it;
  pco_wire_field field;
  pco_wire_iter_init(&it, s->memory, size);
  while (pco_wire_next(&it, &field) == 1) {
    if (end)
      *end = 0;
    keep(s, &field, &n_argv, &n_env);
    end = (char *)field.data + field.len;
  }
  s->memory[size] = 0;
  return 0;
}

/* ---- limits ------------------------------------------------------------- */

static pco_rlimits always;
static uint64_t others;

void pco_launch_init(const pco_rlimits *limits) {
  always = *limits;
}

void pco_launch_others(uint64_t n) {
  others = n;
}

/* The smaller of two limits, of which 0 is none. */
static uint64_t tighter(uint64_t a, uint64_t b) {
  return a && (!b || a < b) ? a : b;
}

/* What the request limits and no leaf does. */
static uint64_t uncovered(const pco_request *r, uint16_t tag,
                          const pco_placement *command, uint32_t limit) {
  return command->limits & limit ? 0 : pco_request_number(r, tag);
}

static void set_limits(pco_exec *x, const pco_request *r,
                       const pco_placement *own, const pco_placement *command) {
  x->procs = command->procs;
  x->n_procs = command->n_procs;
  x->first_victim = (own->limits | command->limits) & PCO_KEEPER_LIMIT_MEMORY;
  x->max_memory =
      tighter(always.memory, uncovered(r, PCO_TAG_LIMIT_MEMORY, command,
                                       PCO_KEEPER_LIMIT_MEMORY));
  x->max_pids = tighter(always.pids, uncovered(r, PCO_TAG_LIMIT_PIDS, command,
                                               PCO_KEEPER_LIMIT_PIDS));
  if (x->max_pids && (!x->user || x->user->uid == geteuid()))
    x->max_pids += others;
  x->max_files = tighter(always.open_files,
                         pco_request_number(r, PCO_TAG_LIMIT_OPEN_FILES));
}

/* Which limit a failed start ran into; PCO_LIMIT_NONE if it was none. */
static int limit_of(const pco_exec *x, const pco_placement *own,
                    const pco_placement *command) {
  uint32_t held = own->limits | command->limits;
  bool in_exec = x->stage == PCO_STAGE_EXEC || x->stage == PCO_STAGE_FORK;
  if (x->error == ENOMEM && (x->max_memory || held & PCO_KEEPER_LIMIT_MEMORY))
    return PCO_LIMIT_MEMORY;
  if (in_exec && x->error == EAGAIN &&
      (x->max_pids || held & PCO_KEEPER_LIMIT_PIDS))
    return PCO_LIMIT_PIDS;
  return PCO_LIMIT_NONE;
}

static void explain_limit(pco_exec *x, int limit) {
  x->stage = PCO_STAGE_LIMIT;
  snprintf(x->message, sizeof x->message,
           limit == PCO_LIMIT_MEMORY
               ? "limits.memory leaves no room to start the program"
               : "as many processes run as limits.pids allows");
}

/* ---- the start ---------------------------------------------------------- */

static size_t bytes_of(char *const *list) {
  size_t n = 0;
  for (; *list; list++)
    n += strlen(*list) + 1;
  return n;
}

static void explain_size(pco_exec *x) {
  snprintf(x->message, sizeof x->message,
           "arguments (%zu bytes) and environment (%zu bytes) are too long: "
           "each of them may have about 128 KiB, all together some MiB",
           bytes_of(x->argv), bytes_of(x->env));
}

/* Says in the frame that the program did not start. */
static int refuse(pco_wire_buf *answer, uint64_t op, const pco_exec *x,
                  int limit) {
  pco_wire_begin(answer, PCO_WIRE_ERROR, 0, op);
  pco_wire_number(answer, PCO_TAG_ERRNO, (uint64_t)x->error);
  pco_wire_number(answer, PCO_TAG_STAGE, (uint64_t)x->stage);
  if (limit)
    pco_wire_number(answer, PCO_TAG_LIMIT, (uint64_t)limit);
  if (x->path[0])
    pco_wire_string(answer, PCO_TAG_PATH, x->path);
  if (x->message[0])
    pco_wire_string(answer, PCO_TAG_MESSAGE, x->message);
  pco_wire_end(answer, 0);
  return -x->error;
}

/* Why nobody was found; `shown` is the name, or its beginning. */
static void explain_user(pco_exec *x, const char *shown, bool with_group) {
  switch (x->error) {
  case ENOENT:
    snprintf(x->message, sizeof x->message,
             "user '%s' is not in /etc/passwd%s of the sandbox", shown,
             with_group ? ", or its group not in /etc/group," : "");
    break;
  case EINVAL:
    snprintf(x->message, sizeof x->message,
             "user '%s' is no \"USER\" or \"USER:GROUP\", of names or numbers",
             shown);
    break;
  case EPERM:
    snprintf(x->message, sizeof x->message,
             "user '%s': commands of this sandbox all run as the user %u",
             shown, (unsigned)pco_identity_default()->uid);
    break;
  default:
    snprintf(x->message, sizeof x->message,
             "user '%s': /etc/passwd and /etc/group of the sandbox: %s", shown,
             strerror(x->error));
  }
}

static int find_user(pco_exec *x, const char *name, pco_user *user) {
  char shown[80];
  int rc = pco_identity_find(name, user);
  if (rc == 0)
    return 0;
  x->error = -rc;
  x->stage = PCO_STAGE_USER;
  snprintf(shown, sizeof shown, "%s", name);
  snprintf(x->path, sizeof x->path, "%s", shown);
  explain_user(x, shown, strchr(name, ':') != NULL);
  return rc;
}

/* What stands for a closed stream: of it a read, or a write, fails as of a
 * closed one, but no file that the command opens gets its number. */
static int open_closed(int null, int i) {
  char path[32];
  snprintf(path, sizeof path, "self/fd/%d", null);
  int fd =
      openat(pco_procfs_fd(), path, (i == 0 ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
  return fd >= 0 ? fd : -errno;
}

/* 0 or a negative errno; close_closed follows either way. */
static int set_stdio(pco_exec *x, const pco_frame *f, const pco_request *r,
                     int null) {
  int rc = 0;
  x->terminal = r->stdio[0] == PCO_STDIO_TERMINAL;
  for (int i = 0, next = 0; i < 3; i++) {
    if (x->terminal)
      x->stdio[i] = f->fds[0];
    else if (r->stdio[i] == PCO_STDIO_FD || r->stdio[i] == PCO_STDIO_RELAY)
      x->stdio[i] = f->fds[next++];
    else if (r->stdio[i] == PCO_STDIO_CLOSED)
      x->stdio[i] = rc == 0 ? open_closed(null, i) : -1;
    else
      x->stdio[i] = r->stdio[i] == PCO_STDIO_MERGE ? x->stdio[1] : null;
    if (x->stdio[i] < 0 && rc == 0)
      rc = x->stdio[i];
  }
  return rc;
}

static void close_closed(const pco_exec *x, const pco_request *r) {
  for (int i = 0; i < 3; i++)
    if (r->stdio[i] == PCO_STDIO_CLOSED && x->stdio[i] >= 0)
      close(x->stdio[i]);
}

/* Puts what the user brings in front of the changes; the directory for
 * temporary files is that of the commands' usual user. */
static char **add_user(char **changes, const pco_user *u, belongings *b) {
  static char no_tmpdir[] = "TMPDIR";
  snprintf(b->home, sizeof b->home, "HOME=%s", u->home);
  snprintf(b->name, sizeof b->name, "USER=%s", u->name);
  snprintf(b->logname, sizeof b->logname, "LOGNAME=%s", u->name);
  snprintf(b->shell, sizeof b->shell, "SHELL=%s", u->shell);
  *--changes = b->home;
  *--changes = b->name;
  *--changes = b->logname;
  *--changes = b->shell;
  if (pco_identity_differs(u))
    *--changes = no_tmpdir;
  return changes;
}

/* The environment; what the user and the terminal bring comes before the
 * changes that the request asks for, so that those win. */
static char **make_env(const pco_request *r, strings *s, const pco_user *user,
                       belongings *b) {
  static char term[] = "TERM=xterm-256color";
  char **changes = s->changes + FREE;
  if (pco_request_number(r, PCO_TAG_FLAGS) & PCO_SPAWN_FLAG_CLEAN_ENV)
    return pco_env_merge(NULL, changes);
  if (r->stdio[0] == PCO_STDIO_TERMINAL && !getenv("TERM"))
    *--changes = term;
  if (user)
    changes = add_user(changes, user, b);
  return pco_env_merge(environ, changes);
}

pid_t pco_launch(const pco_frame *f, const pco_request *r, int null,
                 const pco_placement *own, const pco_placement *command,
                 pco_wire_buf *answer) {
  static pco_exec x; /* large, and there is one launch at a time */
  static pco_user user;
  belongings owned;
  strings s;
  memset(&x, 0, offsetof(pco_exec, path));
  x.path[0] = x.message[0] = 0;
  char **env = NULL;
  pid_t pid = strings_init(&s, f, r);
  if (pid == 0 && s.user)
    pid = find_user(&x, s.user, &user);
  if (pid == 0) {
    env = make_env(r, &s, s.user ? &user : NULL, &owned);
    pid = env ? 0 : -ENOMEM;
  }
  if (pid == 0) {
    x.user = s.user ? &user : pco_identity_default();
    x.other_user = x.user && pco_identity_is_other(x.user);
    x.argv = s.argv;
    x.env = env;
    x.cwd = s.cwd;
    set_limits(&x, r, own, command);
    pid = set_stdio(&x, f, r, null);
    if (pid == 0)
      pid = pco_exec_start(&x);
    close_closed(&x, r);
  }
  if (pid < 0) {
    x.error = -pid;
    x.stage = x.stage ? x.stage : PCO_STAGE_FORK;
    int limit = limit_of(&x, own, command);
    if (limit)
      explain_limit(&x, limit);
    else if (x.error == E2BIG && env)
      explain_size(&x);
    refuse(answer, r->op, &x, limit);
  }
  free(env);
  strings_deinit(&s);
  return pid;
}
