/* SPDX-License-Identifier: MIT */
/*
 * The host believes no agent: answers that do not come, come late, or never
 * end, and commands that an agent forgets.
 */
#include "forged_request.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* ---- answers ------------------------------------------------------------- */

/* A length, then nothing: the buffer is what arrived, the deadline ends it. */
static void test_half_frame(void) {
  request r;
  pco__link_patience = 100 * MS;
  request_ask(&r, READ, -1);
  size_t before = heap_bytes();
  box_header(r.b, PCO_WIRE_MAX_PAYLOAD, PCO_WIRE_DATA, 0, 0, r.id, "abc", 3);
  for (int i = 0; i < 3; i++)
    turn();
  MUST(heap_bytes() < before + 256 * 1024);
  MUST(!r.op->completed);
  request_finish(&r, PCO_EGONE, PCO_EGONE);
  case_end("a length, then silence: the deadline ends it");
}

static void test_silence(int kind, const char *name) {
  request r;
  int fds = count_fds();
  pco__link_patience = 60 * MS;
  request_ask(&r, kind, -1);
  request_finish(&r, kind == HELLO ? PCO_ECONN : PCO_EGONE, PCO_EGONE);
  SAME(count_fds(), fds);
  case_end(name);
}

/* The caller's own time ends the op, not the agent's, which is over soon after:
 * so no turn is made between the end of the op and this look. */
static void caller_left(request *r) {
  MUST(wait_op(r->op, 60000));
  SAME(r->b->sb->state, PCO__SANDBOX_RUNNING);
  check_op(r->op, PCO_ECALLTIMEOUT);
}

/* The caller's own time ends first, and the agent does not answer CANCEL. */
static void test_silent_cancel(int kind, bool begun, const char *name) {
  request r;
  pco__link_patience = 60 * MS;
  request_ask(&r, kind, 20);
  if (begun)
    box_say(r.b, kind == LIST ? PCO_WIRE_REPLY : PCO_WIRE_DATA, MORE, r.id);
  caller_left(&r);
  request_finish(&r, PCO_ECALLTIMEOUT, PCO_EGONE);
  case_end(name);
}

/* An answer after the call was given up for good. */
static void test_very_late_answer(bool broken, const char *name) {
  request r;
  pco__link_patience = 320 * MS;
  request_ask(&r, READ, 1);
  check_op(r.op, PCO_ECALLTIMEOUT);
  if (broken)
    box_reply(r.b, r.id);
  else
    box_data(r.b, r.id);
  ask_beside();
  poll(NULL, 0, 400);
  request_finish(&r, PCO_ECALLTIMEOUT, broken ? PCO_EPROTO : 0);
  case_end(name);
}

/* Parts that never end cannot outlive the caller's time. */
static void test_endless_parts(void) {
  request r;
  pco__link_patience = 60 * MS;
  request_ask(&r, READ, 100);
  for (int i = 0; i < 2000 && !r.op->completed; i++) {
    box_say(r.b, PCO_WIRE_DATA, MORE, r.id);
    wait_op(r.op, 1);
  }
  request_finish(&r, PCO_ECALLTIMEOUT, PCO_EGONE);
  case_end("DATA without end, after the caller's time");
}

/* Bytes one by one in two sandboxes. */
static void test_drip(void) {
  request r[2];
  pco__link_patience = 200 * MS;
  request_ask(&r[0], STAT, -1);
  request_ask(&r[1], READ, 30);
  uint8_t header[16] = {255, 255, 1, 0, PCO_WIRE_REPLY};
  int slow = 0, asks = 0; /* a busy machine is slow now and then */
  /* A PING comes after the patience, and has as long to be answered. */
  for (int i = 0; i < 200 && !(r[0].op->completed && r[1].op->completed); i++) {
    for (int j = 0; j < 2; j++)
      if (!r[j].op->completed)
        box_raw(r[j].b, header + (i < 16 ? i : 5), 1);
    if (i == 15)
      header[5] = 0;
    if (i == 7)
      header[8] = (uint8_t)r[0].id;
    uint64_t start = uv_hrtime();
    ask_beside();
    uint64_t took = uv_hrtime() - start;
    slow += took >= 100 * MS;
    asks++;
    poll(NULL, 0, 10);
  }
  MUST(slow * 2 <= asks);
  MUST(r[0].op->completed && r[1].op->completed);
  request_finish(&r[0], PCO_EGONE, PCO_EGONE);
  request_finish(&r[1], PCO_ECALLTIMEOUT, PCO_EGONE);
  case_end("a byte now and then in two sandboxes");
}

/* A host whose loop stood still finds the answer, not the deadline. */
static void test_late_host(void) {
  request r;
  pco__link_patience = 100 * MS;
  request_ask(&r, MKDIR, -1);
  box_reply(r.b, r.id);
  poll(NULL, 0, 300);
  request_finish(&r, 0, 0);
  case_end("an answer that lay there while the host was away");
}

/* An agent that does not read what is written. */
static void test_reads_nothing(void) {
  size_t len = 8 * 1024 * 1024;
  char *bytes = calloc(1, len);
  box *b = box_new();
  size_t before = heap_bytes();
  pco__link_patience = 60 * MS;
  pco__fs_op *o = fs_op(b, PCO__FS_WRITE);
  o->data = bytes;
  o->len = len;
  submit(&o->op, 20);
  MUST(heap_bytes() < before + 1024 * 1024);
  check_op(&o->op, PCO_ECALLTIMEOUT);
  check_dead(b, PCO_EGONE);
  end_op(&o->op, PCO_ECALLTIMEOUT);
  box_end(b);
  free(bytes);
  case_end("an agent that reads nothing");
}

/* ---- commands that do not end -------------------------------------------- */

static void test_kill_never(int64_t timeout_ms, const char *name) {
  request r;
  pco__link_patience = 60 * MS;
  request_ask(&r, KILL, timeout_ms);
  if (timeout_ms >= 0)
    caller_left(&r);
  request_finish(&r, timeout_ms < 0 ? PCO_EGONE : PCO_ECALLTIMEOUT, PCO_EGONE);
  case_end(name);
}

/* exec's caller gave up; the agent answers KILL but sends no EXIT. */
static void test_exit_never(bool answer, const char *name) {
  request r;
  pco__link_patience = 60 * MS;
  request_ask(&r, RUN, 20);
  uint64_t kill = box_expect(r.b, PCO_WIRE_KILL, NULL);
  if (answer)
    box_reply(r.b, kill);
  request_finish(&r, PCO_ECALLTIMEOUT, PCO_EGONE);
  case_end(name);
}

/* A command without a time limit: the agent is asked whether it lives. */
static void test_ping(void) {
  box *b = box_new();
  pco__link_patience = 60 * MS;
  pco__exec *e = exec_op(b);
  submit(&e->op, -1);
  uint64_t id = box_expect(b, PCO_WIRE_SPAWN, NULL);
  say_started(b, id);
  box_reply(b, box_expect(b, PCO_WIRE_PING, NULL));
  uint64_t again = box_expect(b, PCO_WIRE_PING, NULL);
  MUST(again > id && e->op.word != PCO__OP_DONE);
  check_op(&e->op, PCO_EGONE); /* this one is not answered */
  box_end(b);
  end_op(&e->op, PCO_EGONE);
  case_end("an agent that falls silent while a command runs");
}

/* The agent has to end a command that has a time limit. */
static void test_limit_never(void) {
  box *b = box_new();
  pco__link_patience = 60 * MS;
  pco__exec *e = exec_op(b);
  e->opts.timeout = 20 * MS;
  submit(&e->op, -1);
  uint64_t id = box_expect(b, PCO_WIRE_SPAWN, NULL);
  say_started(b, id);
  for (int i = 0; i < 3 && !(e->process && e->process->started); i++)
    turn();
  MUST(e->process && e->process->started);
  MUST(loop->n_timers > 0);
  check_op(&e->op, PCO_EGONE);
  box_end(b);
  end_op(&e->op, PCO_EGONE);
  case_end("a time limit that the agent forgets");
}

/* ---- an agent that is busy ----------------------------------------------- */

/* Answers what the host asks until the op has ended; how often. */
static int answer_all(box *b, pco__op *op) {
  asked a;
  int n = 0;
  for (int i = 0; !op->completed; i++) {
    if (box_peek(b, &a)) {
      box_reply(b, a.h.op);
      asked_free(&a);
      n++;
    }
    wait_turn(i);
  }
  return n;
}

/* The agent answers other requests, now and then, but not this one; at most for
 * `most` ns.  False once it was given up. */
static bool is_busy(request *r, uint64_t most) {
  for (uint64_t end = uv_hrtime() + most; uv_hrtime() < end;) {
    pco__fs_op *o = fs_op(r->b, PCO__FS_MKDIR);
    submit(&o->op, -1);
    answer_all(r->b, &o->op);
    bool good = !o->op.error;
    end_op(&o->op, good ? 0 : PCO_EGONE);
    if (!good)
      return false;
    wait_op(r->op, (int)(pco__link_patience / 4 / MS));
  }
  return true;
}

/* An agent with much to do has time, while it gets on. */
static void test_busy(void) {
  request r;
  pco__link_patience = 400 * MS; /* a busy machine is no silent agent */
  request_ask(&r, SPAWN, -1);
  MUST(is_busy(&r, 3 * pco__link_patience));
  say_started(r.b, r.id);
  box_exit_fine(r.b, r.id);
  request_finish(&r, 0, 0);
  case_end("an agent that is busy with others for three times its patience");
}

static void test_busy_for_ever(void) {
  request r;
  pco__link_patience = 60 * MS;
  request_ask(&r, SPAWN, -1);
  MUST(!is_busy(&r, 60000 * MS));
  request_finish(&r, PCO_EGONE, PCO_EGONE);
  case_end("an agent that answers everything but this");
}

/* That it lives is no answer, nor that it gets on. */
static void test_only_pings(void) {
  request r;
  pco__link_patience = 100 * MS;
  request_ask(&r, SPAWN, -1);
  MUST(answer_all(r.b, r.op) < 6); /* one is sent in 50 ms */
  request_finish(&r, PCO_EGONE, PCO_EGONE);
  case_end("an agent that answers nothing but PING");
}

int main(void) {
  requests_open();
  test_half_frame();
  test_silence(HELLO, "HELLO is never answered");
  test_silence(STAT, "STAT is never answered");
  test_silence(SPAWN, "SPAWN is never answered");
  test_silence(SIGNAL, "SIGNAL is never answered");
  test_silent_cancel(STAT, false, "STAT and its CANCEL are never answered");
  test_silent_cancel(WRITE, false, "WRITE and its CANCEL are never answered");
  test_silent_cancel(READ, true, "DATA stops, CANCEL is never answered");
  test_silent_cancel(LIST, true, "a listing stops, CANCEL too");
  test_very_late_answer(false, "an answer after its caller left");
  test_very_late_answer(true, "a broken answer after its caller left");
  test_endless_parts();
  test_drip();
  test_late_host();
  test_kill_never(-1, "KILL is never answered");
  test_kill_never(20, "KILL is never answered within the caller's time");
  test_exit_never(false, "exec ran out of its call's time, KILL unanswered");
  test_exit_never(true, "KILL is answered, EXIT never comes");
  test_limit_never();
  test_ping();
  test_busy();
  test_busy_for_ever();
  test_only_pings();
  test_reads_nothing();
  return requests_close();
}
