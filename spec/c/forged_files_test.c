/* SPDX-License-Identifier: MIT */
/*
 * The host believes no agent about pipes of contents and about events: less in
 * the pipe than was said, more than was asked for, a pipe that is never read or
 * never written, one that is closed at once, paths that lead out.
 *
 * As in forged_request.h a case passes when every op ended once with the
 * right code, a sandbox beside noticed nothing, and nothing is left.
 */
#include "forged_agent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs_file.h"

#define MORE PCO_WIRE_MORE

static box *other;
static char bytes[512 * 1024];

/* A call whose contents go by a pipe, and the agent's end of that. */
typedef struct transfer {
  box *b;
  pco__fs_op *o;
  uint64_t id;
  asked a;
} transfer;

static void begin(transfer *t, int kind, size_t max_size, int64_t timeout_ms) {
  t->b = box_new();
  t->o = fs_op(t->b, kind);
  t->o->max_size = max_size;
  t->o->data = bytes;
  t->o->len = sizeof bytes;
  submit(&t->o->op, timeout_ms);
  t->id = box_expect(
      t->b, kind == PCO__FS_READ ? PCO_WIRE_READ : PCO_WIRE_WRITE, &t->a);
  SAME(t->a.h.n_fds, 1);
}

static void say_length(transfer *t, uint8_t flags, uint64_t n) {
  box_say_number(t->b, PCO_WIRE_REPLY, flags, t->id, PCO_TAG_LENGTH, n);
}

/* The op ended with that code; the sandbox is dead of `death`, or lives. */
static void end(transfer *t, int code, int death, const char *name) {
  check_op(&t->o->op, code);
  asked_free(&t->a);
  end_op(&t->o->op, code);
  for (int i = 0; death && i < 100 && t->b->sb->state == PCO__SANDBOX_RUNNING;
       i++)
    wait_turn(10);
  SAME(t->b->sb->state == PCO__SANDBOX_RUNNING, death == 0);
  if (death)
    SAME(t->b->sb->death ? t->b->sb->death->code : 0, death);
  box_stat(other);
  box_end(t->b);
  case_end(name);
}

/* Announces, writes n bytes, and says that it were `said`. */
static void test_read(size_t n, uint64_t said, size_t max_size, int code,
                      int death, const char *name) {
  transfer t;
  begin(&t, PCO__FS_READ, max_size, 2000);
  say_length(&t, MORE, 0);
  fcntl(t.a.fds[0], F_SETFL, O_NONBLOCK);
  for (size_t at = 0; at < n;) {
    ssize_t put = write(t.a.fds[0], bytes, n - at);
    at += put > 0 ? (size_t)put : 0;
    if (put <= 0 && errno != EAGAIN)
      break;
    wait_turn(1);
  }
  for (int i = 0; i < 1000 && t.o->n_bytes < n && !t.o->op.completed; i++)
    wait_turn(1);
  say_length(&t, 0, said);
  if (code == 0) {
    check_op(&t.o->op, 0);
    SAME(t.o->n_bytes, n);
  }
  end(&t, code, death, name);
}

/* Closes the pipe, and then says nothing until it is asked to stop. */
static void test_closed_pipe(void) {
  transfer t;
  begin(&t, PCO__FS_READ, sizeof bytes, 300);
  say_length(&t, MORE, 0);
  close(t.a.fds[0]);
  t.a.fds[0] = -1;
  box_expect(t.b, PCO_WIRE_CANCEL, NULL);
  box_say_number(t.b, PCO_WIRE_ERROR, 0, t.id, PCO_TAG_ERRNO, ECANCELED);
  end(&t, PCO_ECALLTIMEOUT, 0, "a pipe that is closed at once");
}

/* Never reads, or never writes. */
static void test_idle_pipe(int kind, const char *name) {
  transfer t;
  begin(&t, kind, 1u << 20, 100);
  if (kind == PCO__FS_READ)
    say_length(&t, MORE, 0);
  box_expect(t.b, PCO_WIRE_CANCEL, NULL);
  box_say_number(t.b, PCO_WIRE_ERROR, 0, t.id, PCO_TAG_ERRNO, ECANCELED);
  end(&t, PCO_ECALLTIMEOUT, 0, name);
}

/* Says that it took what nobody sent by frames. */
static void test_taken(void) {
  transfer t;
  begin(&t, PCO__FS_WRITE, 0, 2000);
  say_length(&t, MORE, UINT64_C(1) << 40);
  end(&t, PCO_EPROTO, PCO_EPROTO, "more taken than was written");
}

/* No process can be had: the same goes by frames. */
static void test_frames_instead(void) {
  transfer t;
  begin(&t, PCO__FS_WRITE, 0, 5000);
  box_say_number(t.b, PCO_WIRE_ERROR, 0, t.id, PCO_TAG_ERRNO, EAGAIN);
  asked_free(&t.a);
  t.id = box_expect(t.b, PCO_WIRE_WRITE, &t.a);
  SAME(t.a.h.n_fds, 0);
  box_expect(t.b, PCO_WIRE_DATA, NULL);
  box_drain(t.b);
  box_say(t.b, PCO_WIRE_REPLY, 0, t.id);
  end(&t, 0, 0, "frames where there can be no pipe");
}

/* Its caller has left, with what was to be written, before it begins. */
static void test_taken_back(void) {
  box *b = box_new();
  pco__fs_op *o = fs_op(b, PCO__FS_WRITE);
  o->kind = PCO__FILE_WRITE;
  o->file = pco__file_new(b->sb, "f", PCO_OPEN_WRITE);
  o->borrowed = true;
  o->data = NULL;
  o->len = PCO_WIRE_MAX_DATA;
  submit(&o->op, 2000);
  check_op(&o->op, UV_ECANCELED);
  end_op(&o->op, UV_ECANCELED);
  box_stat(other);
  box_end(b);
  case_end("data that is taken back");
}

int main(void) {
  world_open();
  int fds = count_fds();
  other = box_new();
  test_read(300000, 300000, 1u << 20, 0, 0, "bytes by a pipe");
  test_read(300000, 300001, 1u << 20, PCO_EPROTO, PCO_EPROTO,
            "less in the pipe than was said");
  test_read(300000, 200000, 1u << 20, PCO_EPROTO, PCO_EPROTO,
            "more in the pipe than was said");
  test_read(300001, 300001, 300000, PCO_ELIMIT, 0, "one byte too much");
  test_closed_pipe();
  test_idle_pipe(PCO__FS_READ, "a pipe that is never written");
  test_idle_pipe(PCO__FS_WRITE, "a pipe that is never read");
  test_taken();
  test_frames_instead();
  test_taken_back();
  box_end(other);
  SAME(count_fds(), fds);
  case_end("no descriptor is left");
  MUST(world_close());
  case_end("nothing is left");
  return tap_done();
}
