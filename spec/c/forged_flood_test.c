/* SPDX-License-Identifier: MIT */
/*
 * The host believes no agent: more than was asked for, without a bound.
 */
#include "forged_request.h"

#include <stdlib.h>
#include <string.h>

static void test_unsolicited(void) {
  static uint8_t frames[1000 * 16];
  request r;
  request_ask(&r, STAT, -1);
  size_t before = heap_bytes();
  for (size_t i = 0; i < sizeof frames; i += 16) {
    frames[i + 4] = PCO_WIRE_REPLY;
    frames[i + 8] = 99;
  }
  for (int i = 0; i < 1000; i++)
    box_raw(r.b, frames, sizeof frames);
  for (int i = 0; i < 4; i++)
    turn();
  MUST(heap_bytes() < before + 1024 * 1024);
  request_finish(&r, PCO_EPROTO, PCO_EPROTO);
  case_end("a million frames that nobody asked for");
}

/* Valid ones: empty parts of a listing. */
static void test_empty_parts(void) {
  static uint8_t frames[4000 * 16];
  request r;
  request_ask(&r, LIST, -1);
  size_t before = heap_bytes();
  int slow = 0, asks = 0; /* a busy machine is slow now and then */
  for (size_t i = 0; i < sizeof frames; i += 16) {
    frames[i + 4] = PCO_WIRE_REPLY;
    frames[i + 7] = MORE;
    frames[i + 8] = (uint8_t)r.id;
  }
  for (int i = 0; i < 250; i++) {
    box_raw(r.b, frames, sizeof frames);
    uint64_t start = uv_hrtime();
    ask_beside();
    uint64_t took = uv_hrtime() - start;
    slow += took >= 500 * MS;
    asks++;
  }
  MUST(heap_bytes() < before + 1024 * 1024);
  MUST(slow * 2 <= asks);
  box_reply(r.b, r.id);
  request_finish(&r, 0, 0);
  case_end("a million empty parts of a listing");
}

static void test_too_big_read(void) {
  static char bytes[PCO_WIRE_MAX_DATA];
  box *b = box_new();
  pco__fs_op *o = fs_op(b, PCO__FS_READ);
  o->max_size = 1024;
  submit(&o->op, -1);
  uint64_t id = box_expect(b, PCO_WIRE_READ, NULL);
  box_begin_frame(b, PCO_WIRE_DATA, MORE, id);
  pco_wire_bytes(&b->buf, PCO_TAG_DATA, bytes, sizeof bytes);
  size_t before = heap_bytes();
  for (int i = 0; i < 80; i++)
    box_send(b);
  SAME(box_expect(b, PCO_WIRE_CANCEL, NULL), id);
  MUST(heap_bytes() < before + 1024 * 1024);
  MUST(!o->op.completed);
  box_say_number(b, PCO_WIRE_ERROR, 0, id, PCO_TAG_ERRNO, 125);
  end_op(&o->op, PCO_ELIMIT);
  o = fs_op(b, PCO__FS_MKDIR);
  submit(&o->op, -1);
  box_reply(b, box_expect(b, PCO_WIRE_MKDIR, NULL));
  end_op(&o->op, 0);
  box_end(b);
  case_end("10 MiB for a read of 1 KiB");
}

/* A listing that is as big as can be ends at its bound. */
static void test_too_big_list(void) {
  char name[201];
  box *b = box_new();
  pco__fs_op *o = fs_op(b, PCO__FS_LIST);
  memset(name, 'n', sizeof name);
  submit(&o->op, -1);
  uint64_t id = box_expect(b, PCO_WIRE_LIST, NULL);
  size_t before = heap_bytes();
  box_begin_frame(b, PCO_WIRE_REPLY, MORE, id);
  for (int i = 0; i < 12000; i++)
    box_entry(b, name, 200);
  for (int i = 0; i < 40; i++)
    box_send(b);
  SAME(box_expect(b, PCO_WIRE_CANCEL, NULL), id);
  MUST(heap_bytes() < before + 100u * 1024 * 1024);
  box_reply(b, id);
  end_op(&o->op, PCO_ELIMIT);
  box_end(b);
  case_end("a listing without end");
}

int main(void) {
  requests_open();
  test_unsolicited();
  test_empty_parts();
  test_too_big_read();
  test_too_big_list();
  return requests_close();
}
