/* SPDX-License-Identifier: MIT */
/*
 * A small blocking client of portico-agent, for tests and measurements, and
 * the TAP lines that the tests print.
 *
 * It is written against wire.h alone and shares no code with libportico, so
 * that the two cannot agree on the same mistake.  Everything in it ends the
 * test program when it fails.
 */
#ifndef AGENT_CLIENT_H
#define AGENT_CLIENT_H

#include "../../runtime/agent/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- TAP ---------------------------------------------------------------- */

extern int tap_failed;
void tap_ok(bool good, const char *file, int line, const char *text, ...)
    __attribute__((format(printf, 4, 5)));
void tap_skip(const char *what, const char *why);
/* Prints the plan; the exit status. */
int tap_done(void);
#define OK(good, ...) tap_ok((good), __FILE__, __LINE__, __VA_ARGS__)
#define IS(got, want, text)                                                    \
  do {                                                                         \
    long long g_ = (long long)(got), w_ = (long long)(want);                   \
    tap_ok(g_ == w_, __FILE__, __LINE__, "%s (got %lld, want %lld)", text, g_, \
           w_);                                                                \
  } while (0)

/* ---- frames ------------------------------------------------------------- */

typedef struct frame {
  struct frame *next;
  pco_wire_header header;
  uint8_t payload[];
} frame;

typedef struct client {
  int fd;
  pid_t agent;
  uint64_t op;    /* the last one used */
  frame *waiting; /* received, not yet taken */
  uint8_t *in;
  size_t len, cap;
  pco_wire_buf buf;
} client;

/* Starts an agent in `cwd`, with the NULL-terminated further arguments. */
void client_start(client *c, const char *agent, const char *cwd,
                  const char *const *args);
/* Closes the stream, waits up to ten seconds, returns the wait status; -1 if
 * the agent had to be killed. */
int client_stop(client *c);
/* Waits for the agent without closing the stream. */
int client_join(client *c, int ms);

/* Begins a request with the next number. */
uint64_t client_begin(client *c, uint16_t type);
void client_number(client *c, uint16_t tag, uint64_t v);
void client_string(client *c, uint16_t tag, const char *s);
/* Sends what was begun. */
void client_send(client *c, const int *fds, int n);
/* Sends bytes as they are. */
void client_raw(client *c, const void *p, size_t len);
/* The next frame of that op, within ms; NULL if none came or the stream ended.
 * The caller frees it. */
frame *client_take(client *c, uint64_t op, int ms);
/* True if the stream ended within ms. */
bool client_ended(client *c, int ms);

/* The first field with that tag: a number (or `none`), or a copy of a text
 * (NULL; free it). */
uint64_t frame_number(const frame *f, uint16_t tag, uint64_t none);
char *frame_text(const frame *f, uint16_t tag);
size_t frame_count(const frame *f, uint16_t tag);

/* ---- requests ----------------------------------------------------------- */

typedef struct spawn {
  const char *const *argv;
  const char *const *env; /* or NULL */
  const char *cwd, *user; /* or NULL */
  unsigned flags;
  uint64_t timeout, grace; /* ns, 0: not given */
  uint64_t limit[4];       /* memory, pids, cpus, open files; 0: not given */
  int kind[3];             /* PCO_STDIO_* */
  int fd[3];               /* of PCO_STDIO_FD */
  unsigned cols, rows;     /* 0: not given */
} spawn;

uint64_t client_spawn(client *c, const spawn *s);
/* How a command ended. */
typedef struct ending {
  bool started, exited;
  int pid, code, signal, reason;
  int error, stage; /* of an ERROR */
  int limit;        /* PCO_LIMIT_* */
  size_t survivors;
  uint64_t duration;
  char message[512], path[512];
} ending;
/* Waits for the final frame of a SPAWN. */
ending client_end(client *c, uint64_t op, int ms);
/* Spawns argv with everything null and waits. */
ending client_run(client *c, const char *const *argv);
/* Spawns argv and collects stdout (merged with stderr if asked). */
ending client_output(client *c, const spawn *s, bool merge, char *out,
                     size_t size);
/* Sends KILL and waits for the answer; the survivors, or -errno. */
int client_kill(client *c, uint64_t target, uint64_t grace, int ms);
int client_signal(client *c, uint64_t target, int signo);
/* A request without fields: 0 or the errno of an ERROR; -1 without answer. */
int client_simple(client *c, uint16_t type, int ms);

/* How many descriptors an agent has, or -1: this user may not look. */
int client_fds(pid_t agent);

#endif /* AGENT_CLIENT_H */
