/* SPDX-License-Identifier: MIT */
/*
 * Attaching to a sandbox and leaving it, with a forged agent: what the host
 * makes of the commands that it is told of, what it refuses to believe, and
 * what becomes of the sandbox when either fails or is cancelled at each step.
 *
 * As in forged_agent_test.c a case passes when every op ended once with the
 * right code, a sandbox beside noticed nothing, and nothing is left.
 */
#include "forged_agent.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MORE    PCO_WIRE_MORE
#define MS      UINT64_C(1000000)
#define LAST_OP 50u

static box *other;
static char bytes[64 * 1024];

/* ---- what the agent says of its commands --------------------------------- */

typedef struct told {
  uint64_t target;
  uint64_t flags;
  uint64_t offset[2];
  uint64_t in_credit;
  bool ended;
  uint64_t code;
  const char *argv0; /* NULL: "daemon" */
  size_t arg_bytes;  /* of a second argument */
  int offsets;       /* instead of 2, less 2 */
  bool no_argv, no_pid, twice_target;
} told;

static void put_command(box *b, const told *t) {
  pco_wire_nest_begin(&b->buf, PCO_TAG_COMMAND);
  pco_wire_number(&b->buf, PCO_TAG_TARGET, t->target);
  if (t->twice_target)
    pco_wire_number(&b->buf, PCO_TAG_TARGET, t->target);
  pco_wire_number(&b->buf, PCO_TAG_PID, t->no_pid ? 0 : 100 + t->target);
  if (!t->no_argv)
    pco_wire_string(&b->buf, PCO_TAG_ARGV, t->argv0 ? t->argv0 : "daemon");
  if (t->arg_bytes) {
    char *text = calloc(1, t->arg_bytes + 1);
    memset(text, 'x', t->arg_bytes);
    pco_wire_string(&b->buf, PCO_TAG_ARGV, text);
    free(text);
  }
  pco_wire_number(&b->buf, PCO_TAG_MTIME, UINT64_C(1700000000) * 1000 * MS);
  pco_wire_number(&b->buf, PCO_TAG_FLAGS, t->flags);
  for (int i = 0; i < 2 + t->offsets; i++)
    pco_wire_number(&b->buf, PCO_TAG_OFFSET, t->offset[i % 2]);
  if (t->flags & PCO_COMMAND_IN)
    pco_wire_number(&b->buf, PCO_TAG_LENGTH, t->in_credit);
  if (t->ended) {
    pco_wire_number(&b->buf, PCO_TAG_CODE, t->code);
    pco_wire_number(&b->buf, PCO_TAG_REASON, PCO_REASON_EXITED);
    pco_wire_number(&b->buf, PCO_TAG_DURATION, 5);
  }
  pco_wire_nest_end(&b->buf);
}

static void say_command(box *b, uint64_t op, const told *t) {
  box_begin_frame(b, PCO_WIRE_REPLY, MORE, op);
  put_command(b, t);
  box_send(b);
}

/* An attach whose COMMANDS is asked; gives its number. */
static box *attach_asked(uint64_t *op) {
  box *b = box_begin_attach(-1);
  box_hello_again(b, LAST_OP);
  *op = box_expect(b, PCO_WIRE_COMMANDS, NULL);
  MUST(*op > LAST_OP);
  return b;
}

static box *attach_to(const told *list, size_t n) {
  uint64_t op;
  box *b = attach_asked(&op);
  for (size_t i = 0; i < n; i++)
    say_command(b, op, &list[i]);
  box_say(b, PCO_WIRE_REPLY, 0, op);
  box_take(b);
  return b;
}

/* The handle of a command, which must be there. */
static pco__process *claim(box *b, int64_t pid) {
  pco__op *op = pco__op_new(&pco__process_class, sizeof(pco__look_op), loop);
  pco__look_op *o = PCO_CONTAINER(op, pco__look_op, op);
  pco__sandbox_ref(b->sb);
  o->sandbox = b->sb;
  o->pid = pid;
  submit(op, -1);
  check_op(op, 0);
  pco__process *p = o->process;
  o->process = NULL;
  end_op(op, 0);
  MUST(p != NULL);
  return p;
}

static void let_go(pco__process *p) {
  pco__process_release(p);
  pco__process_unref(p);
}

static size_t count_processes(box *b, bool all) {
  pco__op *op = pco__op_new(&pco__processes_class, sizeof(pco__look_op), loop);
  pco__look_op *o = PCO_CONTAINER(op, pco__look_op, op);
  pco__sandbox_ref(b->sb);
  o->sandbox = b->sb;
  o->all = all;
  submit(op, -1);
  check_op(op, 0);
  size_t n = o->n_seen;
  pco__op_unref(op);
  return n;
}

static void output(box *b, uint64_t target, uint64_t stream, uint64_t offset,
                   size_t len, uint64_t eof) {
  box_begin_frame(b, PCO_WIRE_OUTPUT, 0, target);
  pco_wire_number(&b->buf, PCO_TAG_STREAM, stream);
  pco_wire_number(&b->buf, PCO_TAG_OFFSET, offset);
  if (len)
    pco_wire_bytes(&b->buf, PCO_TAG_DATA, bytes, len);
  if (eof)
    pco_wire_number(&b->buf, PCO_TAG_EOF, eof);
  box_send(b);
}

static uint64_t field(const asked *a, uint16_t tag) {
  pco_wire_iter it;
  pco_wire_field f;
  pco_wire_iter_init(&it, a->payload, a->h.size);
  while (pco_wire_next(&it, &f) == 1)
    if (f.tag == tag)
      return f.number;
  return UINT64_MAX;
}

/* ---- how it should be ---------------------------------------------------- */

static const told some[] = {
    {.target = 3, .flags = PCO_COMMAND_LIVES},
    {.target = 4, .ended = true, .code = 7},
    {.target = 9,
     .flags = PCO_COMMAND_OUT | PCO_COMMAND_ERR | PCO_COMMAND_IN,
     .offset = {1000, 0},
     .in_credit = 10},
};

static void test_list(void) {
  box *b = attach_to(some, 3);
  SAME(count_processes(b, false), 2);
  SAME(count_processes(b, true), 3);
  asked a;
  MUST(!box_peek(b, &a)); /* nobody reads: nothing is credited */
  pco__process *p = claim(b, 104);
  pco__process_op *w = process_op(p, &pco__wait_class);
  submit(&w->op, -1);
  check_op(&w->op, 0);
  MUST(w->result && w->result->exit.code == 7 && w->result->eof);
  pco__op_unref(&w->op);
  let_go(p);
  box_stat(b);
  box_end(b);
  SAME(forged_left, 0);
  case_end("what runs and what has ended is listed");
}

static void test_exit_later(void) {
  box *b = attach_to(some, 3);
  pco__process *p = claim(b, 103);
  pco__process_op *w = process_op(p, &pco__wait_class);
  submit(&w->op, -1);
  for (int i = 0; i < 3; i++)
    turn();
  box_exit(b, 3, 5, 0, PCO_REASON_EXITED);
  check_op(&w->op, 0);
  MUST(w->result && w->result->exit.code == 5);
  pco__op_unref(&w->op);
  let_go(p);
  box_exit(b, 9, 6, 0, PCO_REASON_EXITED); /* nobody waits for this one */
  box_stat(b);
  SAME(count_processes(b, false), 0);
  SAME(count_processes(b, true), 3);
  box_end(b);
  case_end("an exit comes for who waits, and is kept for who does not");
}

static void test_output(void) {
  box *b = attach_to(some, 3);
  pco__process *p = claim(b, 109);
  pco__process_op *r = process_op(p, &pco__read_class);
  submit(&r->op, -1);
  asked a;
  uint64_t op = box_expect(b, PCO_WIRE_CREDIT, &a);
  SAME(op, 9);
  MUST(field(&a, PCO_TAG_LENGTH) > 0);
  asked_free(&a);
  box_drain(b);
  output(b, 9, 1, 1500, 10, 0); /* 500 bytes were left out */
  check_op(&r->op, 0);
  SAME(r->chunks.bytes, 10);
  pco__op_unref(&r->op);
  pco__process_op *w = process_op(p, &pco__write_class);
  w->data = bytes;
  w->len = 25;
  submit(&w->op, -1);
  box_expect(b, PCO_WIRE_INPUT, &a);
  SAME(a.h.size, 8 + 10); /* within what it said */
  asked_free(&a);
  box_say_number(b, PCO_WIRE_CREDIT, 0, 9, PCO_TAG_LENGTH, 15);
  box_expect(b, PCO_WIRE_INPUT, NULL);
  end_op(&w->op, 0);
  output(b, 9, 1, 1510, 0, PCO_EOF_END);
  output(b, 9, 2, 0, 0, PCO_EOF_HELD); /* another host had asked for it */
  box_exit(b, 9, 0, 0, PCO_REASON_EXITED);
  pco__process_op *e = process_op(p, &pco__wait_class);
  submit(&e->op, -1);
  check_op(&e->op, 0);
  MUST(e->result && e->result->bytes[0] == 1510);
  pco__op_unref(&e->op);
  let_go(p);
  box_end(b);
  case_end("output goes on where the agent is, and input within its credit");
}

/* The last words of one that has ended stay with the agent until they are
 * read. */
static void test_last_words(void) {
  static const told t = {
      .target = 9, .flags = PCO_COMMAND_OUT, .ended = true, .code = 1};
  box *b = attach_to(&t, 1);
  asked a;
  for (int i = 0; i < 300; i++) /* longer than `drain` */
    wait_turn(i);
  MUST(!box_peek(b, &a));
  pco__process *p = claim(b, 109);
  pco__process_op *w = process_op(p, &pco__wait_class);
  submit(&w->op, -1);
  SAME(box_expect(b, PCO_WIRE_CREDIT, NULL), 9);
  output(b, 9, 1, 0, 20, PCO_EOF_END);
  check_op(&w->op, 0);
  MUST(w->result && w->result->out[0].len == 20 && w->result->exit.code == 1);
  pco__op_unref(&w->op);
  let_go(p);
  box_end(b);
  case_end("the last words of one that has ended are there for who comes");
}

static void test_released_again(void) {
  box *b = attach_to(some, 3);
  let_go(claim(b, 109));
  asked a;
  box_expect(b, PCO_WIRE_ADOPT, &a);
  SAME(field(&a, PCO_TAG_TARGET), 9);
  SAME(field(&a, PCO_TAG_FLAGS), 0);
  SAME(a.h.n_fds, 0);
  box_say(b, PCO_WIRE_REPLY, 0, a.h.op);
  asked_free(&a);
  box_stat(b);
  box_end(b);
  case_end("a handle that is dropped leaves the command to the agent again");
}

/* Its commands are relayed, and no descriptor goes along. */
static void test_relayed_spawn(void) {
  box *b = attach_to(NULL, 0);
  pco__process_op *o = spawn_op(b);
  o->opts.in = PCO__PIPE;
  submit(&o->op, -1);
  asked a;
  uint64_t id = box_expect(b, PCO_WIRE_SPAWN, &a);
  SAME(a.h.n_fds, 0);
  MUST(id > LAST_OP);
  int relayed = 0;
  pco_wire_iter it;
  pco_wire_field f;
  pco_wire_iter_init(&it, a.payload, a.h.size);
  while (pco_wire_next(&it, &f) == 1)
    relayed += f.tag == PCO_TAG_STDIO && f.number == PCO_STDIO_RELAY;
  SAME(relayed, 3);
  asked_free(&a);
  box_say_number(b, PCO_WIRE_STARTED, MORE, id, PCO_TAG_PID, 7);
  check_op(&o->op, 0);
  MUST(!box_peek(b, &a)); /* what nobody reads stays there */
  pco__process_op *r = process_op(o->process, &pco__read_class);
  submit(&r->op, -1);
  SAME(box_expect(b, PCO_WIRE_CREDIT, NULL), id);
  output(b, id, 1, 0, 5, 0);
  check_op(&r->op, 0);
  SAME(r->chunks.bytes, 5);
  pco__op_unref(&r->op);
  pco__op_unref(&o->op);
  box_end(b);
  case_end("commands of one that was attached to are relayed from the start");
}

static void test_uncredited(void) {
  box *b = attach_to(NULL, 0);
  pco__process_op *o = spawn_op(b);
  submit(&o->op, -1);
  uint64_t id = box_expect(b, PCO_WIRE_SPAWN, NULL);
  box_say_number(b, PCO_WIRE_STARTED, MORE, id, PCO_TAG_PID, 7);
  check_op(&o->op, 0);
  output(b, id, 1, 0, 5, 0);
  for (int i = 0; i < 500 && b->sb->state != PCO__SANDBOX_DEAD; i++)
    wait_turn(i);
  SAME(b->sb->state, PCO__SANDBOX_DEAD);
  pco__op_unref(&o->op);
  box_end(b);
  case_end("output of theirs that nobody has credited");
}

/* ---- what is not believed ------------------------------------------------ */

typedef struct forgery {
  const char *name;
  told t;
} forgery;

static const forgery forgeries[] = {
    {"a command of the number 0", {.target = 0}},
    {"a command whose number was never used", {.target = LAST_OP + 1}},
    {"a command without arguments", {.target = 3, .no_argv = true}},
    {"a command with the pid 0", {.target = 3, .no_pid = true}},
    {"a command with two numbers", {.target = 3, .twice_target = true}},
    {"a command with one offset", {.target = 3, .offsets = -1}},
    {"a command with three offsets", {.target = 3, .offsets = 1}},
    {"an offset beyond all bounds", {.target = 3, .offset = {UINT64_MAX, 0}}},
    {"an exit code of 256", {.target = 3, .ended = true, .code = 256}},
    {"more input than may ever come",
     {.target = 3, .flags = PCO_COMMAND_IN, .in_credit = PCO_RELAY_CREDIT + 1}},
    {"arguments longer than the agent keeps",
     {.target = 3, .arg_bytes = PCO_COMMAND_TEXT + 1}},
};

/* The attach fails, and the sandbox is given back as it was. */
static void refused(box *b, const char *name) {
  check_op(b->create, PCO_EPROTO);
  MUST(!PCO_CONTAINER(b->create, pco__create_op, op)->sandbox);
  SAME(forged_left, 1);
  SAME(forged_live, 1);
  forged_left = 0;
  box_end(b);
  box_stat(other);
  case_end(name);
}

static void test_forgery(const forgery *f) {
  uint64_t op;
  box *b = attach_asked(&op);
  say_command(b, op, &f->t);
  refused(b, f->name);
}

static void test_order(void) {
  uint64_t op;
  box *b = attach_asked(&op);
  say_command(b, op, &some[2]);
  say_command(b, op, &some[0]);
  refused(b, "commands out of their order");
  b = attach_asked(&op);
  say_command(b, op, &some[2]);
  say_command(b, op, &some[2]);
  refused(b, "a command twice");
}

static void test_frames(void) {
  uint64_t op;
  box *b = attach_asked(&op);
  box_say(b, PCO_WIRE_REPLY, MORE, op);
  refused(b, "a frame that promises a command and has none");
  b = attach_asked(&op);
  box_begin_frame(b, PCO_WIRE_REPLY, MORE, op);
  put_command(b, &some[0]);
  put_command(b, &some[2]);
  box_send(b);
  refused(b, "two commands in a frame");
  b = attach_asked(&op);
  output(b, 9, 1, 0, 5, 0);
  refused(b, "output of a command before it was told of");
  b = attach_asked(&op);
  say_command(b, op, &some[2]);
  output(b, 9, 1, 1000, 5, 0);
  refused(b, "output that nobody has credited");
  b = attach_asked(&op);
  box_exit(b, 3, 0, 0, PCO_REASON_EXITED);
  refused(b, "an exit of a command before it was told of");
}

static void test_no_last_op(void) {
  box *b = box_begin_attach(-1);
  box_hello(b);
  refused(b, "an agent that had no other host");
}

static void test_flood(void) {
  uint64_t op;
  box *b = box_begin_attach(-1);
  box_hello_again(b, 100000);
  op = box_expect(b, PCO_WIRE_COMMANDS, NULL);
  for (uint64_t i = 1; i <= 4100 && b->create; i++) {
    told t = {.target = i, .arg_bytes = 4000};
    say_command(b, op, &t);
    if (i % 64 == 0)
      turn();
  }
  refused(b, "more commands than there can be");
}

static void test_much(void) {
  uint64_t op;
  size_t before = heap_bytes();
  box *b = box_begin_attach(-1);
  box_hello_again(b, 100000);
  op = box_expect(b, PCO_WIRE_COMMANDS, NULL);
  for (uint64_t i = 1; i <= 4000; i++) {
    told t = {.target = i, .arg_bytes = 32000};
    say_command(b, op, &t);
    if (i % 16 == 0)
      turn();
  }
  box_say(b, PCO_WIRE_REPLY, 0, op);
  box_take(b);
  SAME(count_processes(b, false), 4000);
  size_t now = heap_bytes();
  MUST(now == 0 || now - before < 24u * 1024 * 1024);
  box_end(b);
  case_end("long arguments of many commands are kept within a bound");
}

/* ---- attach, cancelled at each step -------------------------------------- */

static void cancelled(box *b, int left, const char *name) {
  pco__op_cancel(b->create, UV_ECANCELED);
  for (int i = 0; i < 3; i++)
    turn();
  if (forged_holds) {
    forged_holds = false;
    forged_create_now(b);
  }
  check_op(b->create, UV_ECANCELED);
  SAME(forged_left, left);
  SAME(forged_live, 1);
  forged_left = 0;
  box_end(b);
  box_stat(other);
  case_end(name);
}

static void test_cancelled(void) {
  uint64_t op;
  forged_holds = true;
  cancelled(box_begin_attach(-1), 1, "cancelled while the plugin looks for it");
  cancelled(box_begin_attach(-1), 1, "cancelled before HELLO is answered");
  cancelled(attach_asked(&op), 1, "cancelled before the commands are told");
  box *b = attach_asked(&op);
  for (size_t i = 0; i < 3; i++)
    say_command(b, op, &some[i]);
  for (int i = 0; i < 3; i++)
    turn();
  cancelled(b, 1, "cancelled amid the commands");
}

/* The agent dies at each step: told, and the plugin's is given back. */
static void test_dies(void) {
  for (int step = 0; step < 3; step++) {
    uint64_t op;
    box *b = step ? attach_asked(&op) : box_begin_attach(-1);
    if (step == 2)
      say_command(b, op, &some[2]);
    box_hang_up(b);
    check_op(b->create, PCO_ECONN);
    SAME(forged_left, 1);
    forged_left = 0;
    box_end(b);
  }
  box_stat(other);
  case_end("the agent dies at each step of an attach");
}

static void test_unknown(void) {
  pco__op *op = pco__op_new(&pco__attach_class, sizeof(pco__create_op), loop);
  pco__create_op *o = PCO_CONTAINER(op, pco__create_op, op);
  pco__backend_ref(backend);
  o->backend = backend;
  o->attach_id = "unheard-of";
  submit(op, -1);
  end_op(op, UV_ENOENT);
  SAME(forged_left, 0);
  case_end("an id that there is not");
}

/* ---- detach -------------------------------------------------------------- */

static pco__op *detach_op(box *b) {
  pco__op *op = pco__op_new(&pco__detach_class, sizeof(pco__backend_op), loop);
  pco__sandbox_ref(b->sb);
  PCO_CONTAINER(op, pco__backend_op, op)->sandbox = b->sb;
  return op;
}

/* Asked, and the agent has the PING, whose number it gives. */
static pco__op *begin_detach(box *b, uint64_t *ping) {
  pco__op *op = detach_op(b);
  submit(op, -1);
  *ping = box_expect(b, PCO_WIRE_PING, NULL);
  return op;
}

static void left(box *b, pco__op *op) {
  check_op(op, 0);
  SAME(forged_left, 1);
  SAME(forged_live, 1);
  forged_left = 0;
  SAME(b->sb->state, PCO__SANDBOX_CLOSED);
  end_op(op, 0);
  box_end(b);
  box_stat(other);
}

/* What the agent hears until its stream ends: true if nothing but `allowed`. */
static bool says_only(box *b, uint16_t allowed) {
  asked a;
  bool good = true;
  while (box_next(b, &a)) {
    good = good && a.h.type == allowed;
    asked_free(&a);
  }
  return good;
}

static void test_detach(void) {
  uint64_t ping;
  box *b = attach_to(some, 3);
  pco__process *p = claim(b, 109);
  pco__process_op *r = process_op(p, &pco__read_class);
  submit(&r->op, -1);
  pco__process_op *w = process_op(p, &pco__wait_class);
  submit(&w->op, -1);
  pco__fs_op *f = fs_op(b, PCO__FS_READ);
  f->length = 4;
  submit(&f->op, -1);
  pco__exec *e = exec_op(b);
  submit(&e->op, -1);
  for (int i = 0; i < 3; i++)
    turn();
  box_drain(b);
  pco__op *op = begin_detach(b, &ping);
  MUST(!wait_op(op, 20));
  pco__exec *late = exec_op(b);
  submit(&late->op, -1);
  end_op(&late->op, PCO_ECLOSED);
  box_say(b, PCO_WIRE_REPLY, 0, ping);
  check_op(op, 0);
  end_op(&r->op, PCO_ECLOSED);
  end_op(&w->op, PCO_ECLOSED);
  end_op(&f->op, PCO_ECLOSED);
  end_op(&e->op, PCO_ECLOSED);
  MUST(says_only(b, 0)); /* no SHUTDOWN, no KILL, no stream is closed */
  let_go(p);
  left(b, op);
  case_end("detach tells who waits, and the agent nothing");
}

static void test_detach_twice(void) {
  uint64_t ping;
  box *b = attach_to(NULL, 0);
  pco__op *op = begin_detach(b, &ping);
  pco__op *second = detach_op(b);
  submit(second, -1);
  end_op(second, PCO_ECLOSED);
  box_say(b, PCO_WIRE_REPLY, 0, ping);
  left(b, op);
  case_end("a second detach meanwhile");
}

static void test_not_detachable(void) {
  box *b = box_new();
  pco__op *op = detach_op(b);
  submit(op, -1);
  end_op(op, PCO_EUNSUPPORTED);
  box_stat(b);
  box_end(b);
  SAME(forged_left, 0);
  case_end("one that was not made to be detached");
}

static void test_detach_fails(void) {
  uint64_t ping;
  box *b = attach_to(some, 3);
  forged_stays = PCO_EBACKEND;
  pco__op *op = begin_detach(b, &ping);
  box_say(b, PCO_WIRE_REPLY, 0, ping);
  end_op(op, PCO_EBACKEND);
  forged_stays = 0;
  SAME(b->sb->state, PCO__SANDBOX_RUNNING);
  SAME(count_processes(b, false), 2);
  box_stat(b);
  op = begin_detach(b, &ping);
  box_say(b, PCO_WIRE_REPLY, 0, ping);
  left(b, op);
  case_end("a detach that fails has changed nothing, and may be tried again");
}

static void test_detach_cancelled(void) {
  uint64_t ping;
  box *b = attach_to(some, 3);
  pco__op *op = begin_detach(b, &ping);
  pco__op_cancel(op, UV_ECANCELED);
  end_op(op, UV_ECANCELED);
  SAME(b->sb->state, PCO__SANDBOX_RUNNING);
  box_say(b, PCO_WIRE_REPLY, 0, ping); /* it is known, and means nothing */
  box_stat(b);
  SAME(forged_left, 0);
  forged_detach_holds = true;
  op = begin_detach(b, &ping);
  box_say(b, PCO_WIRE_REPLY, 0, ping);
  for (int i = 0; i < 5; i++)
    turn();
  pco__op_cancel(op, UV_ECANCELED);
  MUST(!wait_op(op, 20)); /* the plugin says how it ends */
  forged_detach_holds = false;
  forged_detach_now();
  left(b, op);
  case_end("detach, cancelled before the plugin knows and after");
}

/* A close that was asked for after it. */
static void test_detach_and_close(bool fails) {
  uint64_t ping;
  box *b = attach_to(some, 3);
  forged_stays = fails ? PCO_EBACKEND : 0;
  pco__op *op = begin_detach(b, &ping);
  pco__op *close =
      pco__op_new(&pco__sandbox_close_class, sizeof(pco__backend_op), loop);
  pco__sandbox_ref(b->sb);
  PCO_CONTAINER(close, pco__backend_op, op)->sandbox = b->sb;
  submit(close, -1);
  MUST(!wait_op(close, 20));
  box_say(b, PCO_WIRE_REPLY, 0, ping);
  end_op(op, fails ? PCO_EBACKEND : 0);
  end_op(close, 0);
  SAME(forged_left, !fails);
  forged_left = forged_stays = 0;
  SAME(forged_live, 1);
  box_end(b);
  case_end(fails ? "a close behind a detach that fails"
                 : "a close behind a detach");
}

static void test_dies_meanwhile(bool late) {
  uint64_t ping;
  box *b = attach_to(some, 3);
  forged_detach_holds = late;
  forged_stays = late ? PCO_EGONE : 0;
  pco__op *op = begin_detach(b, &ping);
  if (late)
    box_say(b, PCO_WIRE_REPLY, 0, ping);
  for (int i = 0; i < 5; i++)
    turn();
  box_hang_up(b);
  if (late) {
    MUST(!wait_op(op, 20)); /* the plugin has the word */
    forged_detach_holds = false;
    forged_detach_now();
  }
  end_op(op, PCO_EGONE);
  for (int i = 0; i < 500 && b->sb->state != PCO__SANDBOX_DEAD; i++)
    wait_turn(i);
  SAME(b->sb->state, PCO__SANDBOX_DEAD);
  forged_stays = 0;
  SAME(forged_left, 0);
  box_end(b);
  box_stat(other);
  case_end(late ? "the agent dies while the plugin detaches"
                : "the agent dies before the plugin detaches");
}

static void test_silent(void) {
  uint64_t ping;
  box *b = attach_to(NULL, 0);
  pco__link_patience = 200 * MS;
  pco__op *op = begin_detach(b, &ping);
  end_op(op, PCO_EGONE);
  pco__link_patience = 30000 * MS;
  SAME(b->sb->state, PCO__SANDBOX_DEAD);
  box_end(b);
  case_end("an agent that does not answer the PING of a detach");
}

/* Nobody holds it any more: it is left, and not closed. */
static void test_abandoned(void) {
  box *b = attach_to(some, 3);
  pco__sandbox_ref(b->sb);
  pco__sandbox_abandon(b->sb);
  uint64_t ping = box_expect(b, PCO_WIRE_PING, NULL);
  box_say(b, PCO_WIRE_REPLY, 0, ping);
  for (int i = 0; i < 500 && b->sb->state != PCO__SANDBOX_CLOSED; i++)
    wait_turn(i);
  SAME(b->sb->state, PCO__SANDBOX_CLOSED);
  SAME(forged_left, 1);
  forged_left = 0;
  MUST(says_only(b, 0));
  pco__sandbox_unref(b->sb);
  box_end(b);
  case_end("one that nobody holds any more is left");
}

int main(void) {
  world_open();
  int fds = count_fds();
  other = box_new();
  test_list();
  test_exit_later();
  test_output();
  test_last_words();
  test_released_again();
  test_relayed_spawn();
  test_uncredited();
  for (size_t i = 0; i < sizeof forgeries / sizeof *forgeries; i++)
    test_forgery(&forgeries[i]);
  test_order();
  test_frames();
  test_no_last_op();
  test_flood();
  test_much();
  test_cancelled();
  test_dies();
  test_unknown();
  test_detach();
  test_detach_twice();
  test_not_detachable();
  test_detach_fails();
  test_detach_cancelled();
  test_detach_and_close(false);
  test_detach_and_close(true);
  test_dies_meanwhile(false);
  test_dies_meanwhile(true);
  test_silent();
  test_abandoned();
  box_end(other);
  for (int i = 0; i < 10; i++)
    turn();
  SAME(count_fds(), fds);
  MUST(world_close());
  case_end("nothing is left");
  return tap_done();
}
