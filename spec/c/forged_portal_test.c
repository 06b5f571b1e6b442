/* SPDX-License-Identifier: MIT */
/*
 * A forged agent while the loop runs on a portal's thread: calls that ran out
 * of their time, whose answers come late, broken or never.  For the thread
 * sanitizer above all.
 */
#include "forged_agent.h"

#include <poll.h>

enum { NEVER, LATE, BROKEN, HANG_UP, AT_ONCE, ENDS };

static void reply(box *b, uint64_t id, int how) {
  if (how == HANG_UP)
    box_hang_up(b);
  else if (how == BROKEN)
    box_say(b, PCO_WIRE_STARTED, PCO_WIRE_MORE, id);
  else if (how != NEVER)
    box_say(b, PCO_WIRE_REPLY, 0, id);
}

static int code_of(int how) {
  switch (how) {
  case AT_ONCE:
    return 0;
  case BROKEN:
    return PCO_EPROTO;
  case HANG_UP:
    return PCO_EGONE;
  default:
    return PCO_ECALLTIMEOUT;
  }
}

/* One call; `late`: it is answered after its caller left. */
static void call(int how, bool late) {
  box *b = box_new();
  pco__fs_op *o = fs_op(b, PCO__FS_MKDIR);
  bool limited = late || how == NEVER;
  submit(&o->op, limited ? 1 : -1);
  uint64_t id = box_expect(b, PCO_WIRE_MKDIR, NULL);
  if (late) {
    check_op(&o->op, PCO_ECALLTIMEOUT);
    reply(b, id, how);
    pco__op_unref(&o->op); /* the link may still hold it */
  } else {
    reply(b, id, how);
    check_op(&o->op, code_of(how));
    pco__op_unref(&o->op);
  }
  if (how != HANG_UP)
    poll(NULL, 0, late ? 2 : 0);
  box_end(b);
}

int main(void) {
  static const char *const names[] = {[NEVER] = "no answer",
                                      [LATE] = "an answer",
                                      [BROKEN] = "a broken answer",
                                      [HANG_UP] = "the end of the stream",
                                      [AT_ONCE] = "an answer at once"};
  pco__link_patience = UINT64_C(320000000); /* a moment: 10 ms */
  world_open_portal();
  int fds = count_fds();
  for (int how = 0; how < ENDS; how++) {
    for (int i = 0; i < 10; i++) {
      if (how != LATE)
        call(how, false);
      if (how != AT_ONCE)
        call(how, true);
    }
    case_end(names[how]);
  }
  SAME(count_fds(), fds);
  MUST(world_close());
  case_end("nothing is left");
  return tap_done();
}
