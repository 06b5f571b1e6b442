/* SPDX-License-Identifier: MIT */
/*
 * A forged agent: the host side of libportico in one thread with a test that
 * plays the agent by hand-written frames.
 *
 * A built-in backend, "forged", gives every sandbox one end of a socketpair;
 * the test holds the other.  Nothing here knows what the host should do with a
 * frame, only how to write one.
 */
#ifndef FORGED_AGENT_H
#define FORGED_AGENT_H

#include "agent_client.h"

#include "exec.h"
#include "fs_ops.h"
#include "process_ops.h"
#include "runtime.h"
#include "sandbox_ops.h"

/* ---- the world: one runtime, its loop, one backend ----------------------- */

extern pco__loop *loop;
extern pco__backend *backend;
/* How many sandboxes of the plugin there are. */
extern atomic_int forged_live;
/* With this set, create() leaves its op open and cannot be cancelled;
 * forged_create_now() completes the last one. */
extern bool forged_holds;
/* What destroy() fails with, or 0. */
extern int forged_leaves;

/* The same of detach(), which has left `forged_left` sandboxes alone; with
 * `forged_detach_holds` it stays open until forged_detach_now(). */
extern int forged_stays;
extern int forged_left;
extern bool forged_detach_holds;
void forged_detach_now(void);

void world_open(void);
/* The same with the loop on a portal's thread. */
void world_open_portal(void);
/* Ends everything; false if something did not end. */
bool world_close(void);
int count_fds(void);
/* Bytes that malloc gave out; 0 where a sanitizer has its own. */
size_t heap_bytes(void);

/* ---- checks: many to a case, one line of TAP a case ---------------------- */

extern bool case_bad;
void case_note(const char *file, int line, const char *what, long long got);
#define MUST(cond)                                                             \
  do {                                                                         \
    if (!(cond))                                                               \
      case_note(__FILE__, __LINE__, #cond, 0);                                 \
  } while (0)
#define SAME(got, want)                                                        \
  do {                                                                         \
    long long g_ = (long long)(got);                                           \
    if (g_ != (long long)(want))                                               \
      case_note(__FILE__, __LINE__, #got " is " #want, g_);                    \
  } while (0)
/* Prints the line of TAP; the next case begins. */
void case_end(const char *name);

/* ---- sandboxes and their agents ------------------------------------------ */

/* A frame from the host, with the descriptors that came along. */
typedef struct asked {
  pco_wire_header h;
  uint8_t *payload; /* owned */
  int fds[3];       /* owned; -1: none */
} asked;

typedef struct box {
  pco__sandbox *sb; /* a reference; NULL before HELLO is answered */
  pco__op *create;
  int fd;      /* the agent's end; -1: closed */
  uint8_t *in; /* owned; what the host has sent and nobody taken */
  size_t len, cap;
  pco_wire_buf buf;
} box;

/* Starts a create; the agent's end is there, HELLO is unanswered. */
box *box_begin(int64_t timeout_ms);
/* The same by an attach. */
box *box_begin_attach(int64_t timeout_ms);
/* Completes the create() or attach() that was held, of this box. */
void forged_create_now(box *b);
/* A sandbox that runs. */
box *box_new(void);
/* Closes the sandbox and both ends, frees all. */
void box_end(box *b);
/* Answers HELLO as an agent should. */
void box_hello(box *b);
/* The same, of one that had other hosts. */
void box_hello_again(box *b, uint64_t last_op);
/* The op is over, and has given the box its sandbox. */
void box_take(box *b);
void box_hang_up(box *b);
/* A stat there and back: it must work. */
void box_stat(box *b);
/* Takes the next frame from the host, within two seconds; false: none. */
bool box_next(box *b, asked *out);
/* Takes one that is there already; false: none. */
bool box_peek(box *b, asked *out);
/* As box_next, and it must have that type; gives its op, 0 if it was not so.
 * out may be NULL.  A PING before it is answered. */
uint64_t box_expect(box *b, uint16_t type, asked *out);
void asked_free(asked *a);
/* The first number of that tag; UINT64_MAX if there is none. */
uint64_t asked_number(const asked *a, uint16_t tag);
/* Throws away what the host has sent until now. */
void box_drain(box *b);

/* Writing a frame: begin, fields by pco_wire_*(&b->buf, ...), send. */
void box_begin_frame(box *b, uint16_t type, uint8_t flags, uint64_t op);
void box_send(box *b);
void box_send_fds(box *b, uint8_t n_fds, const int *fds, int n);
/* Bytes as they are; the loop runs while the socket is full. */
void box_raw(box *b, const void *data, size_t len);
/* Frames without or with one number. */
void box_say(box *b, uint16_t type, uint8_t flags, uint64_t op);
void box_say_number(box *b, uint16_t type, uint8_t flags, uint64_t op,
                    uint16_t tag, uint64_t value);
void box_entry(box *b, const char *name, size_t len);
void box_exit(box *b, uint64_t op, uint64_t code, uint64_t signal,
              uint64_t reason);
/* Zeros that a command has written, PCO_RELAY_CREDIT at most. */
void box_output(box *b, uint64_t op, uint64_t stream, uint64_t offset,
                size_t len, uint64_t eof);

/* ---- ops ----------------------------------------------------------------- */

void turn(void);
/* The i-th turn of a wait: after some it does not spin. */
void wait_turn(int i);
/* Runs the loop until op completed, at most `ms`; false if it did not. */
bool wait_op(pco__op *op, int ms);
/* Waits, and checks that it ended with that code (0: no error). */
void check_op(pco__op *op, int code);
/* The same; nobody else may hold it any more.  Frees it. */
void end_op(pco__op *op, int code);

pco__fs_op *fs_op(box *b, int kind);
pco__exec *exec_op(box *b);
pco__process_op *spawn_op(box *b);
pco__process_op *process_op(pco__process *p, const pco__op_class *cls);
void submit(pco__op *op, int64_t timeout_ms);

#endif /* FORGED_AGENT_H */
