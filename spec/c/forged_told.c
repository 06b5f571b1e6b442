/* SPDX-License-Identifier: MIT */
/* See forged_told.h. */
#include "forged_told.h"

#include <stdlib.h>
#include <string.h>

const told some[3] = {
    {.target = 3, .flags = PCO_COMMAND_LIVES},
    {.target = 4, .ended = true, .code = 7},
    {.target = 9,
     .flags = PCO_COMMAND_OUT | PCO_COMMAND_ERR | PCO_COMMAND_IN,
     .offset = {1000, 0},
     .in_credit = 10},
};

void put_command(box *b, const told *t) {
  pco_wire_nest_begin(&b->buf, PCO_TAG_COMMAND);
  pco_wire_number(&b->buf, PCO_TAG_TARGET, t->target);
  if (t->twice_target)
    pco_wire_number(&b->buf, PCO_TAG_TARGET, t->target);
  pco_wire_number(&b->buf, PCO_TAG_PID, t->no_pid ? 0 : 100 + t->target);
  if (!t->no_argv)
    pco_wire_string(&b->buf, PCO_TAG_ARGV, "daemon");
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

void say_command(box *b, uint64_t op, const told *t) {
  box_begin_frame(b, PCO_WIRE_REPLY, MORE, op);
  put_command(b, t);
  box_send(b);
}

box *attach_asked(uint64_t *op) {
  box *b = box_begin_attach(-1);
  box_hello_again(b, LAST_OP);
  *op = box_expect(b, PCO_WIRE_COMMANDS, NULL);
  MUST(*op > LAST_OP);
  return b;
}

box *attach_to(const told *list, size_t n) {
  uint64_t op;
  box *b = attach_asked(&op);
  for (size_t i = 0; i < n; i++)
    say_command(b, op, &list[i]);
  box_say(b, PCO_WIRE_REPLY, 0, op);
  box_take(b);
  return b;
}

/* A look, to be submitted. */
static pco__look_op *look_op(box *b, const pco__op_class *cls) {
  pco__op *op = pco__op_new(cls, sizeof(pco__look_op), loop);
  pco__look_op *o = PCO_CONTAINER(op, pco__look_op, op);
  pco__sandbox_ref(b->sb);
  o->sandbox = b->sb;
  return o;
}

pco__process *claim(box *b, int64_t pid) {
  pco__look_op *o = look_op(b, &pco__process_class);
  o->pid = pid;
  submit(&o->op, -1);
  check_op(&o->op, 0);
  pco__process *p = o->process;
  o->process = NULL;
  end_op(&o->op, 0);
  MUST(p != NULL);
  return p;
}

void let_go(pco__process *p) {
  pco__process_release(p);
  pco__process_unref(p);
}

size_t count_commands(box *b, bool all) {
  pco__look_op *o = look_op(b, &pco__processes_class);
  o->all = all;
  submit(&o->op, -1);
  check_op(&o->op, 0);
  size_t n = o->n_seen;
  pco__op_unref(&o->op);
  return n;
}
