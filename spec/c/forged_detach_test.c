/* SPDX-License-Identifier: MIT */
/*
 * Leaving a sandbox, with a forged agent: who hears of it, and what becomes of
 * the sandbox when that fails, is cancelled, or the agent dies meanwhile.
 *
 * As in forged_agent_test.c a case passes when every op ended once with the
 * right code, a sandbox beside noticed nothing, and nothing is left.
 */
#include "forged_told.h"

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
  ask_beside();
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
  SAME(count_commands(b, false), 2);
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
  ask_beside();
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
  requests_open();
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
  for (int i = 0; i < 10; i++)
    turn();
  return requests_close();
}
