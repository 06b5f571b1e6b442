/* SPDX-License-Identifier: MIT */
/*
 * The host believes no agent about relayed streams: more than was credited,
 * offsets that do not follow, streams that are none, ends that were not asked
 * for, and what comes after the end.
 *
 * As in forged_request.h a case passes when every op ended once with the
 * right code, a sandbox beside noticed nothing, and nothing is left.
 */
#include "forged_agent.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MORE PCO_WIRE_MORE
#define MS   UINT64_C(1000000)

static box *other;
static char bytes[300 * 1024];

/* ---- a command with a terminal ------------------------------------------- */

typedef struct command {
  box *b;
  pco__op *op;           /* the spawn, or the exec */
  uint64_t id;           /* of the SPAWN */
  pco__process *process; /* of a spawn; its reference is the op's */
} command;

static void say_started(box *b, uint64_t id) {
  box_say_number(b, PCO_WIRE_STARTED, MORE, id, PCO_TAG_PID, 7);
}

static void give_terminal(pco__spawn_opts *o) {
  o->terminal = true;
  o->echo = true;
  o->cols = 80;
  o->rows = 24;
}

/* A spawn that nobody reads; with `started` it has. */
static void spawn_one(command *c, bool started) {
  *c = (command){.b = box_new()};
  pco__process_op *o = spawn_op(c->b);
  give_terminal(&o->opts);
  c->op = &o->op;
  submit(c->op, -1);
  asked a;
  c->id = box_expect(c->b, PCO_WIRE_SPAWN, &a);
  MUST(a.fds[0] < 0); /* nothing of the host goes along */
  asked_free(&a);
  if (!started)
    return;
  say_started(c->b, c->id);
  check_op(c->op, 0);
  c->process = o->process;
}

static void exec_one(command *c, uint64_t drain) {
  *c = (command){.b = box_new()};
  pco__exec *e = exec_op(c->b);
  give_terminal(&e->opts);
  e->opts.drain = drain;
  c->op = &e->op;
  submit(c->op, -1);
  c->id = box_expect(c->b, PCO_WIRE_SPAWN, NULL);
  say_started(c->b, c->id);
}

static void end_command(command *c) {
  if (c->op)
    pco__op_unref(c->op);
  box_end(c->b);
  box_stat(other);
}

static void begin_output(command *c, uint64_t stream, uint64_t offset) {
  box_begin_frame(c->b, PCO_WIRE_OUTPUT, 0, c->id);
  pco_wire_number(&c->b->buf, PCO_TAG_STREAM, stream);
  pco_wire_number(&c->b->buf, PCO_TAG_OFFSET, offset);
}

static void output(command *c, uint64_t stream, uint64_t offset, size_t len,
                   uint64_t eof) {
  box_output(c->b, c->id, stream, offset, len, eof);
}

static void say_credit(command *c, uint64_t len, uint64_t eof) {
  box_begin_frame(c->b, PCO_WIRE_CREDIT, 0, c->id);
  if (len)
    pco_wire_number(&c->b->buf, PCO_TAG_LENGTH, len);
  if (eof)
    pco_wire_number(&c->b->buf, PCO_TAG_EOF, eof);
  box_send(c->b);
}

static bool dies(box *b, int code) {
  uint64_t until = uv_hrtime() + 5000 * MS;
  for (int i = 0; b->sb->state != PCO__SANDBOX_DEAD && uv_hrtime() < until; i++)
    wait_turn(i);
  return b->sb->state == PCO__SANDBOX_DEAD && b->sb->death &&
         b->sb->death->code == code;
}

/* ---- forgeries: each must end the sandbox -------------------------------- */

static void f_over_credit(command *c) {
  output(c, 1, 0, PCO_RELAY_CREDIT, 0);
  output(c, 1, PCO_RELAY_CREDIT, 1, 0);
}
static void f_over_credit_at_once(command *c) {
  begin_output(c, 1, 0);
  pco_wire_bytes(&c->b->buf, PCO_TAG_DATA, bytes, PCO_RELAY_CREDIT + 1);
  box_send(c->b);
}
static void f_stream_0(command *c) {
  output(c, 0, 0, 1, 0);
}
static void f_stream_2(command *c) {
  output(c, 2, 0, 1, 0);
}
static void f_stream_3(command *c) {
  output(c, 3, 0, 1, 0);
}
static void f_stream_none(command *c) {
  box_begin_frame(c->b, PCO_WIRE_OUTPUT, 0, c->id);
  pco_wire_number(&c->b->buf, PCO_TAG_OFFSET, 0);
  pco_wire_bytes(&c->b->buf, PCO_TAG_DATA, bytes, 1);
  box_send(c->b);
}
static void f_offset_none(command *c) {
  box_begin_frame(c->b, PCO_WIRE_OUTPUT, 0, c->id);
  pco_wire_number(&c->b->buf, PCO_TAG_STREAM, 1);
  pco_wire_bytes(&c->b->buf, PCO_TAG_DATA, bytes, 1);
  box_send(c->b);
}
static void f_offset_back(command *c) {
  output(c, 1, 0, 10, 0);
  output(c, 1, 9, 10, 0);
}
static void f_offset_on(command *c) {
  output(c, 1, 0, 10, 0);
  output(c, 1, 11, 10, 0);
}
static void f_offset_huge(command *c) {
  output(c, 1, UINT64_MAX, 10, 0);
}
static void f_empty(command *c) {
  output(c, 1, 0, 0, 0);
}
static void f_data_twice(command *c) {
  begin_output(c, 1, 0);
  pco_wire_bytes(&c->b->buf, PCO_TAG_DATA, bytes, 1);
  pco_wire_bytes(&c->b->buf, PCO_TAG_DATA, bytes, 1);
  box_send(c->b);
}
static void f_eof_3(command *c) {
  output(c, 1, 0, 1, 3);
}
static void f_eof_held(command *c) {
  output(c, 1, 0, 1, PCO_EOF_HELD);
}
static void f_eof_twice(command *c) {
  output(c, 1, 0, 1, PCO_EOF_END);
  output(c, 1, 1, 0, PCO_EOF_END);
}
static void f_after_eof(command *c) {
  output(c, 1, 0, 1, PCO_EOF_END);
  output(c, 1, 1, 1, 0);
}
static void f_credit_after_eof(command *c) {
  output(c, 1, 0, 1, PCO_EOF_END);
  say_credit(c, 1, 0);
}
static void f_unknown(command *c) {
  c->id += 100;
  output(c, 1, 0, 1, 0);
}
static void f_more(command *c) {
  begin_output(c, 1, 0);
  c->b->buf.data[7] = MORE;
  pco_wire_bytes(&c->b->buf, PCO_TAG_DATA, bytes, 1);
  box_send(c->b);
}
static void f_descriptor(command *c) {
  int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  begin_output(c, 1, 0);
  pco_wire_bytes(&c->b->buf, PCO_TAG_DATA, bytes, 1);
  box_send_fds(c->b, 1, &fd, 1);
  close(fd);
}
static void f_credit(command *c) {
  say_credit(c, 1, 0); /* nothing was sent */
}
static void f_credit_huge(command *c) {
  say_credit(c, UINT64_MAX, 0);
}
static void f_credit_empty(command *c) {
  say_credit(c, 0, 0);
}
static void f_credit_eof(command *c) {
  say_credit(c, 0, PCO_EOF_END); /* of a terminal the output says it */
}

static const struct forgery {
  const char *name;
  void (*fn)(command *c);
} forgeries[] = {
    {"more than was credited", f_over_credit},
    {"more than was credited, at once", f_over_credit_at_once},
    {"output of stdin", f_stream_0},
    {"output of a stream that is not relayed", f_stream_2},
    {"output of stream 3", f_stream_3},
    {"output of no stream", f_stream_none},
    {"output without an offset", f_offset_none},
    {"an offset that goes back", f_offset_back},
    {"an offset that leaves bytes out", f_offset_on},
    {"an offset of 2^64-1", f_offset_huge},
    {"output of nothing", f_empty},
    {"data twice in a frame", f_data_twice},
    {"an end of kind 3", f_eof_3},
    {"given up without being asked", f_eof_held},
    {"the end twice", f_eof_twice},
    {"output after the end", f_after_eof},
    {"credit after the end", f_credit_after_eof},
    {"output of an unknown command", f_unknown},
    {"output that says more comes", f_more},
    {"output with a descriptor", f_descriptor},
    {"credit for nothing", f_credit},
    {"credit of 2^64-1", f_credit_huge},
    {"credit of nothing", f_credit_empty},
    {"the end of a terminal's input alone", f_credit_eof},
};

static void test_forgery(const struct forgery *f, bool started) {
  char name[128];
  command c;
  spawn_one(&c, started);
  f->fn(&c);
  MUST(dies(c.b, PCO_EPROTO));
  if (!started)
    check_op(c.op, PCO_EPROTO);
  end_command(&c);
  snprintf(name, sizeof name, "%s%s", f->name, started ? "" : ", too early");
  case_end(name);
}

/* A command whose pipes the host has. */
static void test_not_relayed(void) {
  command c = {.b = box_new()};
  c.op = &exec_op(c.b)->op;
  submit(c.op, -1);
  c.id = box_expect(c.b, PCO_WIRE_SPAWN, NULL);
  say_started(c.b, c.id);
  output(&c, 1, 0, 1, 0);
  check_op(c.op, PCO_EPROTO);
  end_command(&c);
  case_end("output of a command that has none relayed");
}

static void test_after_error(void) {
  command c;
  spawn_one(&c, false);
  box_say_number(c.b, PCO_WIRE_ERROR, 0, c.id, PCO_TAG_ERRNO, 2);
  check_op(c.op, -2);
  output(&c, 1, 0, 1, 0);
  MUST(dies(c.b, PCO_EPROTO));
  end_command(&c);
  case_end("output of a command that did not start");
}

/* ---- how it should be ---------------------------------------------------- */

static void test_good(void) {
  command c;
  exec_one(&c, 1000 * MS);
  output(&c, 1, 0, 5, 0);
  box_exit(c.b, c.id, 3, 0, PCO_REASON_EXITED);
  output(&c, 1, 5, 7, 0);
  output(&c, 1, 12, 0, PCO_EOF_END);
  check_op(c.op, 0);
  const pco__result *r = PCO_CONTAINER(c.op, pco__exec, op)->result;
  MUST(r && r->eof && r->exit.code == 3);
  SAME(r->out[0].len, 12);
  end_command(&c);
  case_end("output before and after the exit");
}

static void test_credits(void) {
  command c;
  exec_one(&c, 1000 * MS);
  asked a;
  do { /* the Ctrl-D of an exec without input may come first */
    if (!box_next(c.b, &a))
      break;
    if (a.h.type == PCO_WIRE_CREDIT) {
      uint64_t len = asked_number(&a, PCO_TAG_LENGTH);
      MUST(len > 0 && len <= 256 * 1024);
      output(&c, 1, 0, PCO_RELAY_CREDIT, 0);
      for (size_t i = 0; i < len / 1024; i++)
        output(&c, 1, PCO_RELAY_CREDIT + i * 1024, 1024, 0);
      output(&c, 1, PCO_RELAY_CREDIT + len / 1024 * 1024, 0, PCO_EOF_END);
    }
    asked_free(&a);
  } while (a.h.type != PCO_WIRE_CREDIT);
  SAME(a.h.type, PCO_WIRE_CREDIT);
  box_exit(c.b, c.id, 0, 0, PCO_REASON_EXITED);
  check_op(c.op, 0);
  end_command(&c);
  case_end("all that was credited");
}

/* Input stays within the window, whatever the writer has. */
static void test_input(void) {
  command c;
  spawn_one(&c, true);
  pco__process_op *w = process_op(c.process, &pco__write_class);
  w->data = bytes;
  w->len = sizeof bytes;
  submit(&w->op, -1);
  size_t got = 0;
  size_t credited = PCO_RELAY_CREDIT;
  asked a;
  while (got < sizeof bytes && box_next(c.b, &a)) {
    SAME(a.h.type, PCO_WIRE_INPUT);
    got += a.h.size - 8;
    MUST(got <= credited);
    asked_free(&a);
    if (got == credited) {
      MUST(!box_peek(c.b, &a));
      size_t more = got % 2 ? 4096 : 4097;
      say_credit(&c, more, 0);
      credited += more;
    }
  }
  SAME(got, sizeof bytes);
  end_op(&w->op, 0);
  end_command(&c);
  case_end("input within the agent's credit");
}

static void test_input_ends(void) {
  command c;
  spawn_one(&c, true);
  pco__process_op *w = process_op(c.process, &pco__write_class);
  w->data = bytes;
  w->len = sizeof bytes;
  submit(&w->op, -1);
  box_expect(c.b, PCO_WIRE_INPUT, NULL);
  output(&c, 1, 0, 0, PCO_EOF_END);
  end_op(&w->op, UV_EPIPE);
  end_command(&c);
  case_end("the end of a terminal ends a write");
}

static void test_resize(void) {
  command c;
  spawn_one(&c, true);
  for (int i = 0; i < 2; i++) {
    pco__process_op *r = process_op(c.process, &pco__resize_class);
    r->cols = 100;
    r->rows = 30;
    submit(&r->op, -1);
    asked a;
    uint64_t id = box_expect(c.b, PCO_WIRE_RESIZE, &a);
    SAME(asked_number(&a, PCO_TAG_TARGET), c.id);
    SAME(asked_number(&a, PCO_TAG_COLS), 100);
    SAME(asked_number(&a, PCO_TAG_ROWS), 30);
    asked_free(&a);
    if (i == 0)
      box_say(c.b, PCO_WIRE_REPLY, 0, id);
    else
      box_say_number(c.b, PCO_WIRE_ERROR, 0, id, PCO_TAG_ERRNO, 3);
    check_op(&r->op, 0);
    SAME(r->acted, i == 0);
    pco__op_unref(&r->op);
  }
  end_command(&c);
  case_end("a resize, and one too late");
}

/* ---- who holds the terminal ---------------------------------------------- */

/* The command has ended, its terminal not: waits for the CLOSE_OUTPUT. */
static uint64_t held(command *c) {
  exec_one(c, 1 * MS);
  output(c, 1, 0, 5, 0);
  box_exit(c->b, c->id, 0, 0, PCO_REASON_EXITED);
  uint64_t id = 0;
  asked a;
  while (!id && box_next(c->b, &a)) {
    if (a.h.type == PCO_WIRE_CLOSE_OUTPUT) {
      id = a.h.op;
      SAME(asked_number(&a, PCO_TAG_TARGET), c->id);
      SAME(asked_number(&a, PCO_TAG_STREAM), 1);
      SAME(asked_number(&a, PCO_TAG_FLAGS), 0);
    }
    asked_free(&a);
  }
  MUST(id);
  return id;
}

static void test_held(void) {
  command c;
  uint64_t id = held(&c);
  output(&c, 1, 5, 7, 0);
  output(&c, 1, 12, 0, PCO_EOF_HELD);
  box_say(c.b, PCO_WIRE_REPLY, 0, id);
  check_op(c.op, 0);
  const pco__result *r = PCO_CONTAINER(c.op, pco__exec, op)->result;
  MUST(r && !r->eof);
  SAME(r->out[0].len, 12);
  end_command(&c);
  case_end("a terminal that somebody holds");
}

static void test_closed_without_end(void) {
  command c;
  uint64_t id = held(&c);
  box_say(c.b, PCO_WIRE_REPLY, 0, id);
  MUST(dies(c.b, PCO_EPROTO));
  wait_op(c.op, 2000);
  end_command(&c);
  case_end("closed, but the end does not come");
}

static void test_never_closed(void) {
  command c;
  pco__link_patience = 200 * MS;
  held(&c);
  MUST(dies(c.b, PCO_EGONE));
  check_op(c.op, 0); /* the exit was known: it is a result */
  pco__link_patience = 30000 * MS;
  end_command(&c);
  case_end("CLOSE_OUTPUT is never answered");
}

static void test_hang_up(void) {
  command c;
  exec_one(&c, 1 * MS);
  output(&c, 1, 0, 9, 0);
  for (int i = 0; i < 3; i++)
    turn();
  box_hang_up(c.b);
  check_op(c.op, PCO_EGONE);
  const pco__result *r = PCO_CONTAINER(c.op, pco__exec, op)->result;
  MUST(r && r->out[0].len == 9);
  end_command(&c);
  case_end("the stream ends while a terminal is relayed");
}

/* Frames that were on their way when the process was let go. */
static void test_late_frames(void) {
  command c;
  spawn_one(&c, true);
  pco__process_op *k = process_op(c.process, &pco__process_close_class);
  submit(&k->op, -1);
  uint64_t close = box_expect(c.b, PCO_WIRE_CLOSE_OUTPUT, NULL);
  uint64_t kill = box_expect(c.b, PCO_WIRE_KILL, NULL);
  output(&c, 1, 0, 100, 0);
  output(&c, 1, 100, 0, PCO_EOF_HELD);
  box_say(c.b, PCO_WIRE_REPLY, 0, close);
  box_exit(c.b, c.id, 129, 1, PCO_REASON_KILLED);
  box_say(c.b, PCO_WIRE_REPLY, 0, kill);
  end_op(&k->op, 0);
  box_stat(c.b);
  end_command(&c);
  case_end("close hangs up, late output is let in");
}

/* ---- a command that was dropped ------------------------------------------ */

/* Its pipes are on their way; gives the number of the ADOPT. */
static uint64_t drop_one(command *c) {
  *c = (command){.b = box_new()};
  pco__process_op *o = spawn_op(c->b);
  o->opts.in = PCO__PIPE;
  c->op = &o->op;
  submit(c->op, -1);
  c->id = box_expect(c->b, PCO_WIRE_SPAWN, NULL);
  say_started(c->b, c->id);
  check_op(c->op, 0);
  c->process = o->process;
  pco__process_release(c->process);
  asked a;
  uint64_t id = box_expect(c->b, PCO_WIRE_ADOPT, &a);
  SAME(a.h.n_fds, 3);
  SAME(asked_number(&a, PCO_TAG_TARGET), c->id);
  SAME(asked_number(&a, PCO_TAG_FLAGS),
       PCO_ADOPT_IN | PCO_ADOPT_OUT | PCO_ADOPT_ERR);
  asked_free(&a);
  return id;
}

static void a_output_first(command *c, uint64_t id) {
  (void)id;
  output(c, 1, 0, 1, 0);
}
static void a_output(command *c, uint64_t id) {
  box_say(c->b, PCO_WIRE_REPLY, 0, id);
  output(c, 2, 0, 1, 0);
}
static void a_twice(command *c, uint64_t id) {
  box_say(c->b, PCO_WIRE_REPLY, 0, id);
  box_say(c->b, PCO_WIRE_REPLY, 0, id);
}
static void a_wrong_number(command *c, uint64_t id) {
  box_say(c->b, PCO_WIRE_REPLY, 0, id + 50);
}
static void a_more(command *c, uint64_t id) {
  box_say(c->b, PCO_WIRE_REPLY, MORE, id);
}
static void a_exit(command *c, uint64_t id) {
  box_exit(c->b, id, 0, 0, PCO_REASON_EXITED);
}
static void a_started(command *c, uint64_t id) {
  say_started(c->b, id);
}
static void a_data(command *c, uint64_t id) {
  box_say(c->b, PCO_WIRE_DATA, 0, id);
}
static void a_stream_of_it(command *c, uint64_t id) {
  c->id = id; /* the request is no stream */
  output(c, 1, 0, 1, 0);
}
static void a_refused(command *c, uint64_t id) {
  box_say_number(c->b, PCO_WIRE_ERROR, 0, id, PCO_TAG_ERRNO, 24);
  output(c, 1, 0, 0, PCO_EOF_END);
}
static void a_refused_credit(command *c, uint64_t id) {
  box_say_number(c->b, PCO_WIRE_ERROR, 0, id, PCO_TAG_ERRNO, 3);
  say_credit(c, 0, PCO_EOF_END);
}
static void a_credit(command *c, uint64_t id) {
  box_say(c->b, PCO_WIRE_REPLY, 0, id);
  say_credit(c, 1, 0);
}
static void a_in_eof_twice(command *c, uint64_t id) {
  box_say(c->b, PCO_WIRE_REPLY, 0, id);
  say_credit(c, 0, PCO_EOF_END);
  say_credit(c, 0, PCO_EOF_END);
}
static void a_held(command *c, uint64_t id) {
  box_say(c->b, PCO_WIRE_REPLY, 0, id);
  output(c, 1, 0, 0, PCO_EOF_HELD);
}
static void a_after_end(command *c, uint64_t id) {
  box_say(c->b, PCO_WIRE_REPLY, 0, id);
  output(c, 1, 7, 0, PCO_EOF_END);
  output(c, 1, 7, 0, PCO_EOF_END);
}

static const struct {
  const char *name;
  void (*fn)(command *c, uint64_t id);
} adoptions[] = {
    {"dropped: output before the ADOPT is answered", a_output_first},
    {"dropped: output without credit", a_output},
    {"dropped: the ADOPT answered twice", a_twice},
    {"dropped: a number that was not asked", a_wrong_number},
    {"dropped: an answer to come", a_more},
    {"dropped: an EXIT for the ADOPT", a_exit},
    {"dropped: a STARTED for the ADOPT", a_started},
    {"dropped: DATA for the ADOPT", a_data},
    {"dropped: output of the ADOPT's number", a_stream_of_it},
    {"dropped: refused, and output", a_refused},
    {"dropped: refused, and the end of the input", a_refused_credit},
    {"dropped: credit for nothing", a_credit},
    {"dropped: the end of the input twice", a_in_eof_twice},
    {"dropped: given up without being asked", a_held},
    {"dropped: the end twice", a_after_end},
};

static void test_adoptions(void) {
  for (size_t i = 0; i < sizeof adoptions / sizeof *adoptions; i++) {
    command c;
    uint64_t id = drop_one(&c);
    adoptions[i].fn(&c, id);
    MUST(dies(c.b, PCO_EPROTO));
    end_command(&c);
    case_end(adoptions[i].name);
  }
}

/* What an honest agent may do: the command ends while it is handed over. */
static void test_adopted_late(void) {
  command c;
  uint64_t id = drop_one(&c);
  box_exit(c.b, c.id, 0, 0, PCO_REASON_EXITED);
  box_say_number(c.b, PCO_WIRE_ERROR, 0, id, PCO_TAG_ERRNO, 3);
  box_stat(c.b);
  end_command(&c);
  id = drop_one(&c);
  output(&c, 1, 0, 0, PCO_EOF_END); /* asks for no credit */
  output(&c, 2, 9, 0, PCO_EOF_END); /* nine bytes were dropped */
  box_exit(c.b, c.id, 0, 0, PCO_REASON_EXITED);
  box_say(c.b, PCO_WIRE_REPLY, 0, id);
  box_stat(c.b);
  end_command(&c);
  case_end("dropped: it ends meanwhile");
}

/* Somebody holds it again: then there is credit, and bytes may be left out. */
static void take_again(command *c, pco__op **wait) {
  uint64_t id = drop_one(c);
  box_say(c->b, PCO_WIRE_REPLY, 0, id);
  for (int i = 0; i < 3; i++)
    turn();
  pco__process_reclaim(c->process);
  *wait = &process_op(c->process, &pco__wait_class)->op;
  submit(*wait, -1);
  box_expect(c->b, PCO_WIRE_CREDIT, NULL);
  output(c, 1, 1000, 10, 0);
}

static void test_taken_again(void) {
  command c;
  pco__op *wait;
  take_again(&c, &wait);
  output(&c, 1, 1009, 10, 0);
  MUST(dies(c.b, PCO_EPROTO));
  check_op(wait, PCO_EPROTO);
  pco__op_unref(wait);
  end_command(&c);
  case_end("held again: an offset that goes back");
  take_again(&c, &wait);
  output(&c, 1, 2000, 5, PCO_EOF_END);
  output(&c, 2, 0, 0, PCO_EOF_END);
  box_exit(c.b, c.id, 0, 0, PCO_REASON_EXITED);
  check_op(wait, 0);
  pco__op_unref(wait);
  output(&c, 1, 2005, 5, 0);
  MUST(dies(c.b, PCO_EPROTO));
  end_command(&c);
  case_end("held again: output after the end");
}

int main(void) {
  world_open();
  int fds = count_fds();
  other = box_new();
  for (size_t i = 0; i < sizeof forgeries / sizeof *forgeries; i++)
    test_forgery(&forgeries[i], true);
  for (size_t i = 0; i < sizeof forgeries / sizeof *forgeries; i++)
    test_forgery(&forgeries[i], false);
  test_not_relayed();
  test_after_error();
  test_good();
  test_credits();
  test_input();
  test_input_ends();
  test_resize();
  test_held();
  test_closed_without_end();
  test_never_closed();
  test_hang_up();
  test_late_frames();
  test_adoptions();
  test_adopted_late();
  test_taken_again();
  box_end(other);
  SAME(count_fds(), fds);
  case_end("no descriptor is left");
  MUST(world_close());
  case_end("nothing is left");
  return tap_done();
}
