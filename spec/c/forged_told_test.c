/* SPDX-License-Identifier: MIT */
/*
 * What a host that attaches does not believe of what a forged agent tells of
 * its commands, and how much of it it keeps.
 *
 * As in forged_agent_test.c a case passes when every op ended once with the
 * right code, a sandbox beside noticed nothing, and nothing is left.
 */
#include "forged_told.h"

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
  ask_beside();
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
  box_output(b, 9, 1, 0, 5, 0);
  refused(b, "output of a command before it was told of");
  b = attach_asked(&op);
  say_command(b, op, &some[2]);
  box_output(b, 9, 1, 1000, 5, 0);
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
  SAME(count_commands(b, false), 4000);
  size_t now = heap_bytes();
  MUST(now == 0 || now - before < 24u * 1024 * 1024);
  box_end(b);
  case_end("long arguments of many commands are kept within a bound");
}

int main(void) {
  requests_open();
  for (size_t i = 0; i < sizeof forgeries / sizeof *forgeries; i++)
    test_forgery(&forgeries[i]);
  test_order();
  test_frames();
  test_no_last_op();
  test_flood();
  test_much();
  return requests_close();
}
