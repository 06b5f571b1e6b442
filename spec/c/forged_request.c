/* SPDX-License-Identifier: MIT */
/*
 * See forged_request.h.
 */
#include "forged_request.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- the sandbox beside -------------------------------------------------- */

static box *beside;
static int usual_fds;

void ask_beside(void) {
  box_stat(beside);
}

void requests_open(void) {
  world_open();
  usual_fds = count_fds();
  beside = box_new();
}

void requests_end_beside(void) {
  if (beside)
    box_end(beside);
  beside = NULL;
}

int requests_close(void) {
  requests_end_beside();
  SAME(count_fds(), usual_fds);
  case_end("no descriptor is left");
  MUST(world_close());
  case_end("nothing is left");
  return tap_done();
}

/* ---- requests that wait for an answer ------------------------------------ */

static const struct {
  uint16_t type;
  int fs;
} file_kinds[] = {[STAT] = {PCO_WIRE_STAT, PCO__FS_STAT},
                  [LIST] = {PCO_WIRE_LIST, PCO__FS_LIST},
                  [READ] = {PCO_WIRE_READ, PCO__FS_READ},
                  [WRITE] = {PCO_WIRE_WRITE, PCO__FS_WRITE},
                  [MKDIR] = {PCO_WIRE_MKDIR, PCO__FS_MKDIR}};

void say_started(box *b, uint64_t id) {
  box_say_number(b, PCO_WIRE_STARTED, MORE, id, PCO_TAG_PID, 7);
}

void request_ask_file(request *r) {
  pco__fs_op *o = fs_op(r->b, file_kinds[r->kind].fs);
  r->op = &o->op;
  o->data = "text";
  o->len = 4;
  if (r->kind == READ)
    o->length = 4;
}

/* The agent got the SPAWN; with RUN it has started and written something. */
static void take_spawn(request *r) {
  asked a;
  r->spawn = r->id = box_expect(r->b, PCO_WIRE_SPAWN, &a);
  if (r->kind != SPAWN)
    say_started(r->b, r->id);
  if (r->kind == RUN) {
    MUST(write(a.fds[0], PARTIAL, sizeof PARTIAL - 1) > 0);
    for (int i = 0; i < 3; i++)
      turn();
  }
  asked_free(&a);
}

static void ask_process(request *r, int64_t timeout_ms) {
  pco__process_op *s = spawn_op(r->b);
  r->spawned = &s->op;
  submit(r->spawned, -1);
  take_spawn(r);
  check_op(r->spawned, 0);
  bool kill = r->kind == KILL;
  r->op =
      &process_op(s->process, kill ? &pco__kill_class : &pco__signal_class)->op;
  submit(r->op, timeout_ms);
  r->id = box_expect(r->b, kill ? PCO_WIRE_KILL : PCO_WIRE_SIGNAL, NULL);
}

void request_ask(request *r, int kind, int64_t timeout_ms) {
  *r = (request){.kind = kind};
  r->b = kind == HELLO ? box_begin(timeout_ms) : box_new();
  if (kind == HELLO) {
    r->op = r->b->create;
    r->id = box_expect(r->b, PCO_WIRE_HELLO, NULL);
  } else if (kind == SIGNAL || kind == KILL) {
    ask_process(r, timeout_ms);
  } else if (kind == SPAWN || kind == RUN) {
    r->op = &exec_op(r->b)->op;
    submit(r->op, timeout_ms);
    take_spawn(r);
  } else {
    request_ask_file(r);
    submit(r->op, timeout_ms);
    r->id = box_expect(r->b, file_kinds[kind].type, NULL);
  }
}

void check_partial(pco__op *op) {
  const pco__result *res = PCO_CONTAINER(op, pco__exec, op)->result;
  MUST(res && res->out[0].len == sizeof PARTIAL - 1 &&
       memcmp(res->out[0].data, PARTIAL, sizeof PARTIAL - 1) == 0);
}

/* The sandbox is dead for that reason, and says so to whoever asks. */
void check_dead(box *b, int code) {
  uint64_t until = uv_hrtime() + 2000 * MS;
  for (int i = 0; b->sb->state != PCO__SANDBOX_DEAD && uv_hrtime() < until; i++)
    wait_turn(i);
  SAME(b->sb->state, PCO__SANDBOX_DEAD);
  MUST(b->sb->death && b->sb->death->code == code);
  pco__fs_op *o = fs_op(b, PCO__FS_STAT);
  submit(&o->op, -1);
  end_op(&o->op, code);
  pco__exec *e = exec_op(b);
  submit(&e->op, -1);
  end_op(&e->op, code);
}

/* The op ends with `code`; the sandbox has died of `death` (0: it lives), or
 * will. */
void request_finish(request *r, int code, int death) {
  check_op(r->op, code);
  if (r->kind == RUN && code != 0)
    check_partial(r->op);
  ask_beside();
  if (r->kind == HELLO) {
    MUST(!PCO_CONTAINER(r->op, pco__create_op, op)->sandbox);
    SAME(forged_live, 1);
  } else if (death) {
    check_dead(r->b, death);
  } else {
    SAME(r->b->sb->state, PCO__SANDBOX_RUNNING);
  }
  box_end(r->b);
  if (r->kind != HELLO)
    end_op(r->op, code);
  if (r->spawned)
    end_op(r->spawned, 0);
}

/* ---- answers ------------------------------------------------------------- */

void box_reply(box *b, uint64_t id) {
  box_say(b, PCO_WIRE_REPLY, 0, id);
}

void box_data(box *b, uint64_t id) {
  box_say(b, PCO_WIRE_DATA, 0, id);
}

void box_exit_fine(box *b, uint64_t id) {
  box_exit(b, id, 0, 0, 0);
}

/* A header by hand, and bytes behind it. */
void box_header(box *b, uint32_t size, uint16_t type, uint8_t n_fds,
                uint8_t flags, uint64_t op, const void *more, size_t len) {
  uint8_t bytes[256] = {(uint8_t)size,
                        (uint8_t)(size >> 8),
                        (uint8_t)(size >> 16),
                        (uint8_t)(size >> 24),
                        (uint8_t)type,
                        (uint8_t)(type >> 8),
                        n_fds,
                        flags};
  for (int i = 0; i < 8; i++)
    bytes[8 + i] = (uint8_t)(op >> 8 * i);
  if (len)
    memcpy(bytes + 16, more, len);
  box_raw(b, bytes, 16 + len);
}
