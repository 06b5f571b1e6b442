/* SPDX-License-Identifier: MIT */
/*
 * Attaching to a sandbox, with a forged agent: what the host makes of the
 * commands that it is told of, and what becomes of the sandbox when the attach
 * fails or is cancelled at each step.
 *
 * As in forged_agent_test.c a case passes when every op ended once with the
 * right code, a sandbox beside noticed nothing, and nothing is left.
 */
#include "forged_told.h"

/* ---- how it should be ---------------------------------------------------- */

static void test_list(void) {
  box *b = attach_to(some, 3);
  SAME(count_commands(b, false), 2);
  SAME(count_commands(b, true), 3);
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
  SAME(count_commands(b, false), 0);
  SAME(count_commands(b, true), 3);
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
  MUST(asked_number(&a, PCO_TAG_LENGTH) > 0);
  asked_free(&a);
  box_drain(b);
  box_output(b, 9, 1, 1500, 10, 0); /* 500 bytes were left out */
  check_op(&r->op, 0);
  SAME(r->chunks.bytes, 10);
  pco__op_unref(&r->op);
  static char bytes[25];
  pco__process_op *w = process_op(p, &pco__write_class);
  w->data = bytes;
  w->len = sizeof bytes;
  submit(&w->op, -1);
  box_expect(b, PCO_WIRE_INPUT, &a);
  SAME(a.h.size, 8 + 10); /* within what it said */
  asked_free(&a);
  box_say_number(b, PCO_WIRE_CREDIT, 0, 9, PCO_TAG_LENGTH, 15);
  box_expect(b, PCO_WIRE_INPUT, NULL);
  end_op(&w->op, 0);
  box_output(b, 9, 1, 1510, 0, PCO_EOF_END);
  box_output(b, 9, 2, 0, 0, PCO_EOF_HELD); /* another host had asked for it */
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
  box_output(b, 9, 1, 0, 20, PCO_EOF_END);
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
  SAME(asked_number(&a, PCO_TAG_TARGET), 9);
  SAME(asked_number(&a, PCO_TAG_FLAGS), 0);
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
  box_output(b, id, 1, 0, 5, 0);
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
  box_output(b, id, 1, 0, 5, 0);
  for (int i = 0; i < 500 && b->sb->state != PCO__SANDBOX_DEAD; i++)
    wait_turn(i);
  SAME(b->sb->state, PCO__SANDBOX_DEAD);
  pco__op_unref(&o->op);
  box_end(b);
  case_end("output of theirs that nobody has credited");
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
  ask_beside();
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
  ask_beside();
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

int main(void) {
  requests_open();
  test_list();
  test_exit_later();
  test_output();
  test_last_words();
  test_released_again();
  test_relayed_spawn();
  test_uncredited();
  test_cancelled();
  test_dies();
  test_unknown();
  return requests_close();
}
