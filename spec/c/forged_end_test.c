/* SPDX-License-Identifier: MIT */
/*
 * The host believes no agent: streams that end anywhere, and creations whose
 * agent or plugin is late.
 */
#include "forged_request.h"

#include <stdlib.h>
#include <string.h>

/* ---- streams that end ---------------------------------------------------- */

static void test_hang_up(int kind, const char *name) {
  request r;
  int fds = count_fds();
  request_ask(&r, kind, -1);
  box_hang_up(r.b);
  request_finish(&r, kind == HELLO ? PCO_ECONN : PCO_EGONE, PCO_EGONE);
  SAME(count_fds(), fds);
  case_end(name);
}

/* In the middle of a frame, and of an answer of several. */
static void test_hang_up_within(void) {
  request r;
  request_ask(&r, LIST, -1);
  box_begin_frame(r.b, PCO_WIRE_REPLY, MORE, r.id);
  box_entry(r.b, "file", 4);
  box_send(r.b);
  box_header(r.b, 100, PCO_WIRE_REPLY, 0, 0, r.id, "abc", 3);
  turn();
  box_hang_up(r.b);
  request_finish(&r, PCO_EGONE, PCO_EGONE);
  case_end("the stream ends within a frame");
}

/* While more is written than the socket takes. */
static void test_hang_up_write(bool error_first, const char *name) {
  size_t len = 8 * 1024 * 1024;
  char *bytes = calloc(1, len);
  box *b = box_new();
  pco__fs_op *o = fs_op(b, PCO__FS_WRITE);
  o->data = bytes;
  o->len = len;
  submit(&o->op, -1);
  for (int i = 0; i < 4; i++)
    turn();
  uint64_t id = box_expect(b, PCO_WIRE_WRITE, NULL);
  if (error_first)
    box_say_number(b, PCO_WIRE_ERROR, 0, id, PCO_TAG_ERRNO, 28);
  for (int i = 0; i < 4; i++)
    turn();
  box_hang_up(b);
  check_op(&o->op, error_first ? UV_ENOSPC : PCO_EGONE);
  ask_beside();
  box_end(b);
  end_op(&o->op, error_first ? UV_ENOSPC : PCO_EGONE);
  free(bytes);
  case_end(name);
}

static void test_hang_up_closing(void) {
  request r;
  request_ask(&r, RUN, -1);
  pco__op *close =
      pco__op_new(&pco__sandbox_close_class, sizeof(pco__backend_op), loop);
  pco__sandbox_ref(r.b->sb);
  PCO_CONTAINER(close, pco__backend_op, op)->sandbox = r.b->sb;
  submit(close, -1);
  box_hang_up(r.b);
  end_op(close, 0);
  check_op(r.op, PCO_ECLOSED);
  check_partial(r.op);
  box_end(r.b);
  end_op(r.op, PCO_ECLOSED);
  case_end("the stream ends while the sandbox is closed");
}

/* What the plugin could not end is told by the close, once. */
static void test_hang_up_leaving(void) {
  request r;
  request_ask(&r, RUN, -1);
  forged_leaves = PCO_EBACKEND;
  box_hang_up(r.b);
  check_op(r.op, PCO_EGONE);
  forged_leaves = 0;
  for (int i = 0; i < 2; i++) {
    pco__op *close =
        pco__op_new(&pco__sandbox_close_class, sizeof(pco__backend_op), loop);
    pco__sandbox_ref(r.b->sb);
    PCO_CONTAINER(close, pco__backend_op, op)->sandbox = r.b->sb;
    submit(close, -1);
    check_op(close, i == 0 ? PCO_EBACKEND : 0);
    if (i == 0)
      MUST(strcmp(close->error->message, "left over") == 0);
    end_op(close, i == 0 ? PCO_EBACKEND : 0);
  }
  box_end(r.b);
  end_op(r.op, PCO_EGONE);
  case_end("the stream ends, and the plugin leaves something behind");
}

/* ---- creation ------------------------------------------------------------ */

static void test_hello_never(bool cancel, const char *name) {
  int fds = count_fds();
  box *b = box_begin(cancel ? -1 : 20);
  if (cancel)
    pco__op_cancel_now(b->create, PCO_ECANCELED);
  check_op(b->create, cancel ? PCO_ECANCELED : PCO_ECALLTIMEOUT);
  SAME(forged_live, 1);
  box_end(b);
  SAME(count_fds(), fds);
  ask_beside();
  case_end(name);
}

/* The plugin's create() completes after everybody gave up. */
static void test_late_create(void) {
  int fds = count_fds();
  forged_holds = true;
  box *b = box_begin(10);
  MUST(!wait_op(b->create, 50));
  forged_holds = false;
  forged_create_now(b);
  check_op(b->create, PCO_ECALLTIMEOUT);
  SAME(forged_live, 1);
  box_end(b);
  SAME(count_fds(), fds);
  case_end("a creation that completes after its time");
}

/* The same while the backend goes: nobody would end what comes then. */
static void test_create_while_closing(void) {
  forged_holds = true;
  box *b = box_begin(-1);
  pco__backend_close(backend, NULL);
  turn();
  forged_create_now(b);
  check_op(b->create, PCO_ECLOSED);
  SAME(forged_live, 0);
  MUST(backend->closed);
  box_end(b);
  case_end("a creation that completes while its backend is closed");
}

/* A handle that nobody took: closing the sandbox frees the process. */
static void test_untaken_process(void) {
  box *b = box_new();
  pco__process_op *s = spawn_op(b);
  submit(&s->op, -1);
  uint64_t id = box_expect(b, PCO_WIRE_SPAWN, NULL);
  say_started(b, id);
  end_op(&s->op, 0);
  box_end(b);
  case_end("a process that nobody took");
}

int main(void) {
  requests_open();
  test_hang_up(HELLO, "the stream ends before HELLO");
  test_hang_up(STAT, "the stream ends in a stat");
  test_hang_up(LIST, "the stream ends in a list");
  test_hang_up(READ, "the stream ends in a read");
  test_hang_up(WRITE, "the stream ends in a write");
  test_hang_up(SPAWN, "the stream ends in a start");
  test_hang_up(RUN, "the stream ends while a command runs");
  test_hang_up(SIGNAL, "the stream ends in a signal");
  test_hang_up(KILL, "the stream ends in a kill");
  test_hang_up_within();
  test_hang_up_write(false, "the stream ends in a big write");
  test_hang_up_write(true, "a big write is refused, then the stream ends");
  test_hang_up_closing();
  test_hang_up_leaving();
  test_hello_never(true, "HELLO is never answered, the creation is cancelled");
  test_hello_never(false, "HELLO is never answered in the creation's time");
  test_late_create();
  test_untaken_process();
  requests_end_beside();
  test_create_while_closing();
  return requests_close();
}
