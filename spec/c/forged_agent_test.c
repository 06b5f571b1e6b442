/* SPDX-License-Identifier: MIT */
/*
 * The host believes no agent: frames that no agent should send.
 */
#include "forged_request.h"

#include <errno.h>
#include <string.h>

/* ---- one forged answer --------------------------------------------------- */

typedef struct forgery {
  const char *name;
  int kind;
  void (*forge)(box *b, uint64_t id);
} forgery;

#define FORGE(name) static void name(box *b, uint64_t id)

FORGE(unknown_op) {
  box_say(b, PCO_WIRE_REPLY, 0, id + 1000);
}
FORGE(op_zero) {
  (void)id;
  box_say(b, PCO_WIRE_REPLY, 0, 0);
}
FORGE(reply_more) {
  box_say(b, PCO_WIRE_REPLY, MORE, id);
}
FORGE(own_request) {
  box_say(b, PCO_WIRE_PING, 0, id);
}
FORGE(strange_type) {
  box_say(b, 9999, 0, id);
}
FORGE(exit_more) {
  box_say_number(b, PCO_WIRE_EXIT, MORE, id, PCO_TAG_CODE, 0);
}
FORGE(started) {
  say_started(b, id);
}
FORGE(started_last) {
  box_say_number(b, PCO_WIRE_STARTED, 0, id, PCO_TAG_PID, 7);
}
FORGE(started_no_pid) {
  box_say(b, PCO_WIRE_STARTED, MORE, id);
}
FORGE(started_two_pids) {
  box_begin_frame(b, PCO_WIRE_STARTED, MORE, id);
  pco_wire_number(&b->buf, PCO_TAG_PID, 7);
  pco_wire_number(&b->buf, PCO_TAG_PID, 8);
  box_send(b);
}
#define PID(name, value)                                                       \
  FORGE(name) {                                                                \
    box_say_number(b, PCO_WIRE_STARTED, MORE, id, PCO_TAG_PID, value);         \
  }
PID(pid_zero, 0)
PID(pid_minus, UINT64_MAX)
PID(pid_big, UINT64_C(1) << 40)
#define EXIT(name, code, signal, reason)                                       \
  FORGE(name) {                                                                \
    box_exit(b, id, code, signal, reason);                                     \
  }
EXIT(exit_999, 999, 0, 0)
EXIT(exit_signal, 128, 4000, 1)
EXIT(exit_code_of_signal, 0, 9, 1)
EXIT(exit_reason, 0, 0, 9)
EXIT(exit_oom_by_itself, 0, 0, PCO_REASON_OOM)
EXIT(exit_oom_by_term, 143, 15, PCO_REASON_OOM)
FORGE(exit_empty) {
  box_say(b, PCO_WIRE_EXIT, 0, id);
}
FORGE(exit_no_reason) {
  box_say_number(b, PCO_WIRE_EXIT, 0, id, PCO_TAG_CODE, 0);
}

static void say_limits(box *b, uint16_t type, uint64_t id, int n,
                       uint64_t limit) {
  box_begin_frame(b, type, 0, id);
  if (type == PCO_WIRE_ERROR) {
    pco_wire_number(&b->buf, PCO_TAG_ERRNO, ENODEV);
    pco_wire_number(&b->buf, PCO_TAG_STAGE, PCO_STAGE_LIMIT);
  } else {
    pco_wire_number(&b->buf, PCO_TAG_CODE, 137);
    pco_wire_number(&b->buf, PCO_TAG_SIGNAL, 9);
    pco_wire_number(&b->buf, PCO_TAG_REASON, PCO_REASON_OOM);
  }
  for (int i = 0; i < n; i++)
    pco_wire_number(&b->buf, PCO_TAG_LIMIT, limit);
  box_send(b);
}
FORGE(exit_limit) {
  say_limits(b, PCO_WIRE_EXIT, id, 1, PCO_LIMIT_CPUS);
}
FORGE(exit_two_limits) {
  say_limits(b, PCO_WIRE_EXIT, id, 2, PCO_LIMIT_MEMORY);
}
FORGE(error_limit) {
  say_limits(b, PCO_WIRE_ERROR, id, 1, 5);
}

static void survivors(box *b, uint64_t id, uint16_t type, int n, uint64_t pid) {
  box_begin_frame(b, type, 0, id);
  pco_wire_number(&b->buf, PCO_TAG_CODE, 0);
  pco_wire_number(&b->buf, PCO_TAG_REASON, 0);
  for (int i = 0; i < n; i++)
    pco_wire_number(&b->buf, PCO_TAG_SURVIVOR, pid);
  box_send(b);
}
FORGE(exit_survivors) {
  survivors(b, id, PCO_WIRE_EXIT, 65, 7);
}
FORGE(exit_survivor_0) {
  survivors(b, id, PCO_WIRE_EXIT, 1, 0);
}
FORGE(reply_survivors) {
  survivors(b, id, PCO_WIRE_REPLY, 65, 7);
}
FORGE(reply_survivor_big) {
  survivors(b, id, PCO_WIRE_REPLY, 1, UINT64_C(1) << 40);
}

#define ERRNO(name, value)                                                     \
  FORGE(name) {                                                                \
    box_say_number(b, PCO_WIRE_ERROR, 0, id, PCO_TAG_ERRNO, value);            \
  }
ERRNO(errno_0, 0)
ERRNO(errno_2, 2)
ERRNO(errno_5000, 5000)
FORGE(error_empty) {
  box_say(b, PCO_WIRE_ERROR, 0, id);
}
FORGE(error_more) {
  box_say_number(b, PCO_WIRE_ERROR, MORE, id, PCO_TAG_ERRNO, 2);
}
FORGE(error_stage) {
  box_begin_frame(b, PCO_WIRE_ERROR, 0, id);
  pco_wire_number(&b->buf, PCO_TAG_ERRNO, 2);
  pco_wire_number(&b->buf, PCO_TAG_STAGE, 99);
  box_send(b);
}

static void entries(box *b, uint64_t id, const char *name, size_t len, int n) {
  box_begin_frame(b, PCO_WIRE_REPLY, 0, id);
  for (int i = 0; i < n; i++)
    box_entry(b, name, len);
  for (size_t i = 0; name && i + 3 < b->buf.len; i++)
    if (memcmp(b->buf.data + i, "NUL", 3) == 0)
      b->buf.data[i] = 0; /* what the encoder refuses to write */
  box_send(b);
}
#define NAME(function, name)                                                   \
  FORGE(function) {                                                            \
    entries(b, id, name, sizeof name - 1, 1);                                  \
  }
NAME(name_empty, "")
NAME(name_dot, ".")
NAME(name_dots, "..")
NAME(name_slash, "a/b")
NAME(name_nul, "aNULb")
FORGE(name_none) {
  entries(b, id, NULL, 0, 1);
}
FORGE(two_entries) {
  entries(b, id, "file", 4, 2);
}
#define FIELD(name, tag, value)                                                \
  FORGE(name) {                                                                \
    box_begin_frame(b, PCO_WIRE_REPLY, 0, id);                                 \
    pco_wire_nest_begin(&b->buf, PCO_TAG_ENTRY);                               \
    pco_wire_string(&b->buf, PCO_TAG_NAME, "file");                            \
    pco_wire_number(&b->buf, PCO_TAG_TYPE, PCO_FILE);                          \
    pco_wire_number(&b->buf, tag, value);                                      \
    pco_wire_nest_end(&b->buf);                                                \
    box_send(b);                                                               \
  }
FIELD(entry_type, PCO_TAG_TYPE, 9)
FIELD(entry_size, PCO_TAG_SIZE, UINT64_C(1) << 63)
FIELD(entry_mode, PCO_TAG_MODE, 010000)
FIELD(entry_uid, PCO_TAG_UID, UINT64_C(1) << 32)
FIELD(entry_gid, PCO_TAG_GID, UINT64_MAX)
FORGE(entry_nested) {
  box_begin_frame(b, PCO_WIRE_REPLY, 0, id);
  pco_wire_nest_begin(&b->buf, PCO_TAG_ENTRY);
  pco_wire_bytes(&b->buf, PCO_TAG_ENTRY, "", 0);
  pco_wire_nest_end(&b->buf);
  box_send(b);
}
FORGE(entry_two_names) {
  box_begin_frame(b, PCO_WIRE_REPLY, 0, id);
  pco_wire_nest_begin(&b->buf, PCO_TAG_ENTRY);
  pco_wire_string(&b->buf, PCO_TAG_NAME, "file");
  pco_wire_string(&b->buf, PCO_TAG_NAME, "other");
  pco_wire_number(&b->buf, PCO_TAG_TYPE, PCO_FILE);
  pco_wire_nest_end(&b->buf);
  box_send(b);
}
FORGE(entry_no_type) {
  box_begin_frame(b, PCO_WIRE_REPLY, 0, id);
  pco_wire_nest_begin(&b->buf, PCO_TAG_ENTRY);
  pco_wire_string(&b->buf, PCO_TAG_NAME, "file");
  pco_wire_nest_end(&b->buf);
  box_send(b);
}
FORGE(too_much_data) {
  box_begin_frame(b, PCO_WIRE_DATA, 0, id);
  pco_wire_bytes(&b->buf, PCO_TAG_DATA, "text!", 5);
  box_send(b);
}

FORGE(size_huge) {
  box_header(b, UINT32_MAX, PCO_WIRE_REPLY, 0, 0, id, NULL, 0);
}
FORGE(size_over) {
  box_header(b, PCO_WIRE_MAX_PAYLOAD + 1, PCO_WIRE_REPLY, 0, 0, id, NULL, 0);
}
FORGE(flags_unknown) {
  box_header(b, 0, PCO_WIRE_REPLY, 0, 2, id, NULL, 0);
}
FORGE(fds_claimed) {
  box_header(b, 0, PCO_WIRE_REPLY, 3, 0, id, NULL, 0);
}
FORGE(fds_four) {
  box_header(b, 0, PCO_WIRE_REPLY, 4, 0, id, NULL, 0);
}
FORGE(fds_sent) {
  box_begin_frame(b, PCO_WIRE_REPLY, 0, id);
  box_send_fds(b, 3, (int[]){0, 1, 2}, 3);
}
#define PAYLOAD(name, text)                                                    \
  FORGE(name) {                                                                \
    box_header(b, sizeof text - 1, PCO_WIRE_REPLY, 0, 0, id, text,             \
               sizeof text - 1);                                               \
  }
PAYLOAD(field_cut, "\x01\x10\0\0")
PAYLOAD(field_long, "\x01\x20\0\0\xff\xff\xff\xff")
PAYLOAD(field_padding, "\x01\x20\1\0\0\0\0\0")
PAYLOAD(field_kind, "\x01\x90\0\0\0\0\0\0")
PAYLOAD(field_short, "\x01\x10\0\0\4\0\0\0abcd")

static void hello(box *b, uint64_t id, int n_versions, uint64_t version,
                  uint64_t pid) {
  box_begin_frame(b, PCO_WIRE_REPLY, 0, id);
  for (int i = 0; i < n_versions; i++)
    pco_wire_number(&b->buf, PCO_TAG_VERSION, version);
  pco_wire_number(&b->buf, PCO_TAG_PID, pid);
  box_send(b);
}
#define ANSWER(name, n, version, pid)                                          \
  FORGE(name) {                                                                \
    hello(b, id, n, version, pid);                                             \
  }
ANSWER(hello_no_version, 0, 0, 1)
ANSWER(hello_two_versions, 2, 1, 1)
ANSWER(hello_version_0, 1, 0, 1)
ANSWER(hello_version_9, 1, 9, 1)
ANSWER(hello_pid_0, 1, 1, 0)
ANSWER(hello_pid_minus, 1, 1, UINT64_MAX)

static const forgery forgeries[] = {
    {"a reply that nobody waits for", STAT, unknown_op},
    {"a reply to op 0", STAT, op_zero},
    {"a request from the agent", STAT, own_request},
    {"an unknown type of frame", STAT, strange_type},
    {"a size of 2^32-1", STAT, size_huge},
    {"a size beyond the bound by one", STAT, size_over},
    {"an unknown flag", STAT, flags_unknown},
    {"3 descriptors announced, none sent", MKDIR, fds_claimed},
    {"3 descriptors announced and sent", MKDIR, fds_sent},
    {"4 descriptors announced", MKDIR, fds_four},
    {"half a field", MKDIR, field_cut},
    {"a field of 2^32-1 bytes", MKDIR, field_long},
    {"padding that is not zero", MKDIR, field_padding},
    {"an unknown kind of field", MKDIR, field_kind},
    {"a number of four bytes", MKDIR, field_short},
    {"DATA for a STAT", STAT, box_data},
    {"STARTED for a STAT", STAT, started},
    {"EXIT for a STAT", STAT, box_exit_fine},
    {"REPLY with MORE for a STAT", STAT, reply_more},
    {"a STAT of nothing", STAT, box_reply},
    {"a STAT of two", STAT, two_entries},
    {"DATA for a WRITE", WRITE, box_data},
    {"REPLY with MORE for a WRITE", WRITE, reply_more},
    {"REPLY for a READ", READ, box_reply},
    {"more DATA than was asked for", READ, too_much_data},
    {"ERROR with errno 0", READ, errno_0},
    {"ERROR with errno 5000", LIST, errno_5000},
    {"ERROR without errno", STAT, error_empty},
    {"ERROR with MORE", STAT, error_more},
    {"ERROR with stage 99", STAT, error_stage},
    {"DATA for a LIST", LIST, box_data},
    {"an entry without name", LIST, name_none},
    {"an entry called nothing", LIST, name_empty},
    {"an entry called .", LIST, name_dot},
    {"an entry called ..", LIST, name_dots},
    {"an entry called a/b", LIST, name_slash},
    {"an entry with a NUL", LIST, name_nul},
    {"an entry with two names", LIST, entry_two_names},
    {"an entry in an entry", LIST, entry_nested},
    {"an entry without type", LIST, entry_no_type},
    {"an entry of type 9", LIST, entry_type},
    {"an entry of 2^63 bytes", LIST, entry_size},
    {"an entry with mode 010000", LIST, entry_mode},
    {"an entry of user 2^32", LIST, entry_uid},
    {"an entry of group 2^64-1", LIST, entry_gid},
    {"a stat called ..", STAT, name_dots},
    {"REPLY to a SPAWN", SPAWN, box_reply},
    {"DATA for a SPAWN", SPAWN, box_data},
    {"EXIT before STARTED", SPAWN, box_exit_fine},
    {"STARTED without MORE", SPAWN, started_last},
    {"STARTED without a pid", SPAWN, started_no_pid},
    {"STARTED with two pids", SPAWN, started_two_pids},
    {"STARTED with pid 0", SPAWN, pid_zero},
    {"STARTED with pid -1", SPAWN, pid_minus},
    {"STARTED with pid 2^40", SPAWN, pid_big},
    {"SPAWN refused with errno 0", SPAWN, errno_0},
    {"SPAWN refused at stage 99", SPAWN, error_stage},
    {"SPAWN refused for limit 5", SPAWN, error_limit},
    {"STARTED twice", RUN, started},
    {"ERROR after STARTED", RUN, errno_2},
    {"REPLY after STARTED", RUN, box_reply},
    {"EXIT with MORE", RUN, exit_more},
    {"EXIT without anything", RUN, exit_empty},
    {"EXIT without a reason", RUN, exit_no_reason},
    {"EXIT with code 999", RUN, exit_999},
    {"EXIT with signal 4000", RUN, exit_signal},
    {"EXIT with signal 9 and code 0", RUN, exit_code_of_signal},
    {"EXIT with reason 9", RUN, exit_reason},
    {"EXIT out of memory by itself", RUN, exit_oom_by_itself},
    {"EXIT out of memory by SIGTERM", RUN, exit_oom_by_term},
    {"EXIT with a limit that ends nobody", RUN, exit_limit},
    {"EXIT with two limits", RUN, exit_two_limits},
    {"EXIT with 65 survivors", RUN, exit_survivors},
    {"EXIT with survivor 0", RUN, exit_survivor_0},
    {"a size of 2^32-1 while a command runs", RUN, size_huge},
    {"SIGNAL refused with errno 0", SIGNAL, errno_0},
    {"SIGNAL refused with errno 5000", SIGNAL, errno_5000},
    {"EXIT for a SIGNAL", SIGNAL, box_exit_fine},
    {"REPLY with MORE for a SIGNAL", SIGNAL, reply_more},
    {"KILL with 65 survivors", KILL, reply_survivors},
    {"KILL with survivor 2^40", KILL, reply_survivor_big},
    {"KILL refused with errno 5000", KILL, errno_5000},
    {"DATA for a KILL", KILL, box_data},
    {"HELLO without version", HELLO, hello_no_version},
    {"HELLO with two versions", HELLO, hello_two_versions},
    {"HELLO with version 0", HELLO, hello_version_0},
    {"HELLO with version 9", HELLO, hello_version_9},
    {"HELLO with pid 0", HELLO, hello_pid_0},
    {"HELLO with pid -1", HELLO, hello_pid_minus},
    {"HELLO refused", HELLO, errno_2},
    {"HELLO answered by DATA", HELLO, box_data},
    {"HELLO answered by another op", HELLO, unknown_op},
    {"HELLO with a size of 2^32-1", HELLO, size_huge},
};

static void test_forgery(const forgery *f) {
  request r;
  int fds = count_fds();
  request_ask(&r, f->kind, -1);
  f->forge(r.b, r.id);
  request_finish(&r, PCO_EPROTO, PCO_EPROTO);
  SAME(count_fds(), fds);
  case_end(f->name);
}

/* ---- answers after the last ---------------------------------------------- */

static void test_answered_again(void) {
  request r;
  request_ask(&r, MKDIR, -1);
  box_reply(r.b, r.id);
  check_op(r.op, 0);
  pco__fs_op *o = fs_op(r.b, PCO__FS_MKDIR);
  submit(&o->op, -1);
  box_reply(r.b, r.id);
  end_op(&o->op, PCO_EPROTO);
  request_finish(&r, 0, PCO_EPROTO);
  case_end("an op that was answered, answered again");
}

/* What an honest agent tells of limits. */
static void test_limits(void) {
  request r;
  request_ask(&r, RUN, -1);
  say_limits(r.b, PCO_WIRE_EXIT, r.id, 1, PCO_LIMIT_MEMORY);
  check_op(r.op, 0);
  const pco__exec *e = PCO_CONTAINER(r.op, pco__exec, op);
  SAME(e->result->exit.reason, PCO_REASON_OOM);
  SAME(e->result->exit.limit, PCO_LIMIT_MEMORY);
  request_finish(&r, 0, 0);
  static const struct {
    int error, code;
  } refusals[] = {{ENODEV, PCO_EUNAVAILABLE},
                  {EOPNOTSUPP, PCO_EUNSUPPORTED},
                  {EAGAIN, UV_EAGAIN}};
  for (int i = 0; i < 3; i++) {
    request_ask(&r, SPAWN, -1);
    box_begin_frame(r.b, PCO_WIRE_ERROR, 0, r.id);
    pco_wire_number(&r.b->buf, PCO_TAG_ERRNO, (uint64_t)refusals[i].error);
    pco_wire_number(&r.b->buf, PCO_TAG_STAGE, PCO_STAGE_LIMIT);
    pco_wire_number(&r.b->buf, PCO_TAG_LIMIT, PCO_LIMIT_PIDS);
    box_send(r.b);
    check_op(r.op, refusals[i].code);
    MUST(r.op->error && r.op->error->limit &&
         strcmp(r.op->error->limit, "pids") == 0);
    request_finish(&r, refusals[i].code, 0);
  }
  case_end("limits that were hit, and that cannot be had");
}

static void test_exit_twice(void) {
  request r;
  request_ask(&r, RUN, -1);
  box_exit_fine(r.b, r.id);
  check_op(r.op, 0);
  check_partial(r.op);
  box_exit_fine(r.b, r.id);
  request_finish(&r, 0, PCO_EPROTO);
  case_end("EXIT twice");
}

/* An answer to what its caller gave up is none too many; a change that was made
 * is made, but what was not all read is not given out. */
static void test_late_answer(int kind, int code, const char *name) {
  request r;
  request_ask(&r, kind, 10);
  MUST(!wait_op(r.op, 100));
  SAME(box_expect(r.b, PCO_WIRE_CANCEL, NULL), r.id);
  if (kind == MKDIR)
    box_reply(r.b, r.id);
  else if (kind == READ)
    box_data(r.b, r.id);
  else
    box_say_number(r.b, PCO_WIRE_ERROR, 0, r.id, PCO_TAG_ERRNO, 125);
  request_finish(&r, code, 0);
  case_end(name);
}

/* ---- descriptors --------------------------------------------------------- */

static void test_stray_descriptors(void) {
  request r;
  int fds = count_fds();
  request_ask(&r, MKDIR, -1);
  int before = count_fds();
  box_begin_frame(r.b, PCO_WIRE_REPLY, 0, r.id);
  box_send_fds(r.b, 0, (int[]){r.b->fd, 1, 2}, 3);
  check_op(r.op, 0);
  SAME(count_fds(), before);
  request_finish(&r, 0, 0);
  SAME(count_fds(), fds);
  case_end("descriptors that nobody announced are dropped");
}

int main(void) {
  requests_open();
  for (size_t i = 0; i < sizeof forgeries / sizeof *forgeries; i++)
    test_forgery(&forgeries[i]);
  test_answered_again();
  test_limits();
  test_exit_twice();
  test_late_answer(MKDIR, 0, "a change answered after CANCEL");
  test_late_answer(READ, PCO_ECALLTIMEOUT, "data after CANCEL");
  test_late_answer(STAT, PCO_ECALLTIMEOUT, "ECANCELED after CANCEL");
  test_stray_descriptors();
  return requests_close();
}
