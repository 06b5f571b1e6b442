/* SPDX-License-Identifier: MIT */
/*
 * The host believes no agent: frames that no agent should send, answers that
 * do not come, and streams that end anywhere.
 *
 * A case passes when the op ended once with the right code, a sandbox beside
 * it noticed nothing, closing worked, and no descriptor is left (memory is for
 * AddressSanitizer to find).
 */
#include "forged_agent.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MORE    PCO_WIRE_MORE
#define MS      UINT64_C(1000000)
#define PARTIAL "what came before"

/* ---- the sandbox beside -------------------------------------------------- */

static box *other;

static void ask_other(void) {
  box_stat(other);
}

/* ---- requests that wait for an answer ------------------------------------ */

enum { STAT, LIST, READ, WRITE, MKDIR, SPAWN, RUN, SIGNAL, KILL, HELLO };

typedef struct request {
  int kind;
  box *b;
  pco__op *op;
  uint64_t id;    /* of the frame to answer */
  uint64_t spawn; /* SPAWN .. KILL: of the command */
  asked a;        /* the last frame that was asked */
  int out;        /* RUN: the command's stdout */
  pco__op *spawned;
} request;

static const struct {
  uint16_t type;
  int fs;
} file_kinds[] = {[STAT] = {PCO_WIRE_STAT, PCO__FS_STAT},
                  [LIST] = {PCO_WIRE_LIST, PCO__FS_LIST},
                  [READ] = {PCO_WIRE_READ, PCO__FS_READ},
                  [WRITE] = {PCO_WIRE_WRITE, PCO__FS_WRITE},
                  [MKDIR] = {PCO_WIRE_MKDIR, PCO__FS_MKDIR}};

static void say_started(box *b, uint64_t id) {
  box_say_number(b, PCO_WIRE_STARTED, MORE, id, PCO_TAG_PID, 7);
}

static void ask_file(request *r) {
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

static void ask(request *r, int kind, int64_t timeout_ms) {
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
    ask_file(r);
    submit(r->op, timeout_ms);
    r->id = box_expect(r->b, file_kinds[kind].type, NULL);
  }
}

static void check_partial(pco__op *op) {
  const pco__result *res = PCO_CONTAINER(op, pco__exec, op)->result;
  MUST(res && res->out[0].len == sizeof PARTIAL - 1 &&
       memcmp(res->out[0].data, PARTIAL, sizeof PARTIAL - 1) == 0);
}

/* The sandbox is dead for that reason, and says so to whoever asks. */
static void check_dead(box *b, int code) {
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
static void finish(request *r, int code, int death) {
  check_op(r->op, code);
  if (r->kind == RUN && code != 0)
    check_partial(r->op);
  ask_other();
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
FORGE(reply) {
  box_say(b, PCO_WIRE_REPLY, 0, id);
}
FORGE(reply_more) {
  box_say(b, PCO_WIRE_REPLY, MORE, id);
}
FORGE(data) {
  box_say(b, PCO_WIRE_DATA, 0, id);
}
FORGE(own_request) {
  box_say(b, PCO_WIRE_PING, 0, id);
}
FORGE(strange_type) {
  box_say(b, 9999, 0, id);
}
FORGE(exit_fine) {
  box_exit(b, id, 0, 0, 0);
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

/* A header by hand, and bytes behind it. */
static void raw(box *b, uint32_t size, uint16_t type, uint8_t n_fds,
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
FORGE(size_huge) {
  raw(b, UINT32_MAX, PCO_WIRE_REPLY, 0, 0, id, NULL, 0);
}
FORGE(size_over) {
  raw(b, PCO_WIRE_MAX_PAYLOAD + 1, PCO_WIRE_REPLY, 0, 0, id, NULL, 0);
}
FORGE(flags_unknown) {
  raw(b, 0, PCO_WIRE_REPLY, 0, 2, id, NULL, 0);
}
FORGE(fds_claimed) {
  raw(b, 0, PCO_WIRE_REPLY, 3, 0, id, NULL, 0);
}
FORGE(fds_four) {
  raw(b, 0, PCO_WIRE_REPLY, 4, 0, id, NULL, 0);
}
FORGE(fds_sent) {
  box_begin_frame(b, PCO_WIRE_REPLY, 0, id);
  box_send_fds(b, 3, (int[]){0, 1, 2}, 3);
}
#define PAYLOAD(name, text)                                                    \
  FORGE(name) {                                                                \
    raw(b, sizeof text - 1, PCO_WIRE_REPLY, 0, 0, id, text, sizeof text - 1);  \
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
    {"DATA for a STAT", STAT, data},
    {"STARTED for a STAT", STAT, started},
    {"EXIT for a STAT", STAT, exit_fine},
    {"REPLY with MORE for a STAT", STAT, reply_more},
    {"a STAT of nothing", STAT, reply},
    {"a STAT of two", STAT, two_entries},
    {"DATA for a WRITE", WRITE, data},
    {"REPLY with MORE for a WRITE", WRITE, reply_more},
    {"REPLY for a READ", READ, reply},
    {"more DATA than was asked for", READ, too_much_data},
    {"ERROR with errno 0", READ, errno_0},
    {"ERROR with errno 5000", LIST, errno_5000},
    {"ERROR without errno", STAT, error_empty},
    {"ERROR with MORE", STAT, error_more},
    {"ERROR with stage 99", STAT, error_stage},
    {"DATA for a LIST", LIST, data},
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
    {"REPLY to a SPAWN", SPAWN, reply},
    {"DATA for a SPAWN", SPAWN, data},
    {"EXIT before STARTED", SPAWN, exit_fine},
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
    {"REPLY after STARTED", RUN, reply},
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
    {"EXIT for a SIGNAL", SIGNAL, exit_fine},
    {"REPLY with MORE for a SIGNAL", SIGNAL, reply_more},
    {"KILL with 65 survivors", KILL, reply_survivors},
    {"KILL with survivor 2^40", KILL, reply_survivor_big},
    {"KILL refused with errno 5000", KILL, errno_5000},
    {"DATA for a KILL", KILL, data},
    {"HELLO without version", HELLO, hello_no_version},
    {"HELLO with two versions", HELLO, hello_two_versions},
    {"HELLO with version 0", HELLO, hello_version_0},
    {"HELLO with version 9", HELLO, hello_version_9},
    {"HELLO with pid 0", HELLO, hello_pid_0},
    {"HELLO with pid -1", HELLO, hello_pid_minus},
    {"HELLO refused", HELLO, errno_2},
    {"HELLO answered by DATA", HELLO, data},
    {"HELLO answered by another op", HELLO, unknown_op},
    {"HELLO with a size of 2^32-1", HELLO, size_huge},
};

static void test_forgery(const forgery *f) {
  request r;
  int fds = count_fds();
  ask(&r, f->kind, -1);
  f->forge(r.b, r.id);
  finish(&r, PCO_EPROTO, PCO_EPROTO);
  SAME(count_fds(), fds);
  case_end(f->name);
}

/* ---- answers after the last ---------------------------------------------- */

static void test_answered_again(void) {
  request r;
  ask(&r, MKDIR, -1);
  reply(r.b, r.id);
  check_op(r.op, 0);
  pco__fs_op *o = fs_op(r.b, PCO__FS_MKDIR);
  submit(&o->op, -1);
  reply(r.b, r.id);
  end_op(&o->op, PCO_EPROTO);
  finish(&r, 0, PCO_EPROTO);
  case_end("an op that was answered, answered again");
}

/* What an honest agent tells of limits. */
static void test_limits(void) {
  request r;
  ask(&r, RUN, -1);
  say_limits(r.b, PCO_WIRE_EXIT, r.id, 1, PCO_LIMIT_MEMORY);
  check_op(r.op, 0);
  const pco__exec *e = PCO_CONTAINER(r.op, pco__exec, op);
  SAME(e->result->exit.reason, PCO_REASON_OOM);
  SAME(e->result->exit.limit, PCO_LIMIT_MEMORY);
  finish(&r, 0, 0);
  static const struct {
    int error, code;
  } refusals[] = {{ENODEV, PCO_EUNAVAILABLE},
                  {EOPNOTSUPP, PCO_EUNSUPPORTED},
                  {EAGAIN, UV_EAGAIN}};
  for (int i = 0; i < 3; i++) {
    ask(&r, SPAWN, -1);
    box_begin_frame(r.b, PCO_WIRE_ERROR, 0, r.id);
    pco_wire_number(&r.b->buf, PCO_TAG_ERRNO, (uint64_t)refusals[i].error);
    pco_wire_number(&r.b->buf, PCO_TAG_STAGE, PCO_STAGE_LIMIT);
    pco_wire_number(&r.b->buf, PCO_TAG_LIMIT, PCO_LIMIT_PIDS);
    box_send(r.b);
    check_op(r.op, refusals[i].code);
    MUST(r.op->error && r.op->error->limit &&
         strcmp(r.op->error->limit, "pids") == 0);
    finish(&r, refusals[i].code, 0);
  }
  case_end("limits that were hit, and that cannot be had");
}

static void test_exit_twice(void) {
  request r;
  ask(&r, RUN, -1);
  exit_fine(r.b, r.id);
  check_op(r.op, 0);
  check_partial(r.op);
  exit_fine(r.b, r.id);
  finish(&r, 0, PCO_EPROTO);
  case_end("EXIT twice");
}

/* An answer to what its caller gave up is none too many; a change that was made
 * is made, but what was not all read is not given out. */
static void test_late_answer(int kind, int code, const char *name) {
  request r;
  ask(&r, kind, 10);
  MUST(!wait_op(r.op, 100));
  SAME(box_expect(r.b, PCO_WIRE_CANCEL, NULL), r.id);
  if (kind == MKDIR)
    reply(r.b, r.id);
  else if (kind == READ)
    data(r.b, r.id);
  else
    box_say_number(r.b, PCO_WIRE_ERROR, 0, r.id, PCO_TAG_ERRNO, 125);
  finish(&r, code, 0);
  case_end(name);
}

/* ---- descriptors --------------------------------------------------------- */

static void test_stray_descriptors(void) {
  request r;
  int fds = count_fds();
  ask(&r, MKDIR, -1);
  int before = count_fds();
  box_begin_frame(r.b, PCO_WIRE_REPLY, 0, r.id);
  box_send_fds(r.b, 0, (int[]){r.b->fd, 1, 2}, 3);
  check_op(r.op, 0);
  SAME(count_fds(), before);
  finish(&r, 0, 0);
  SAME(count_fds(), fds);
  case_end("descriptors that nobody announced are dropped");
}

/* ---- silence ------------------------------------------------------------- */

/* A length, then nothing: the buffer is what arrived, the deadline ends it. */
static void test_half_frame(void) {
  request r;
  pco__link_patience = 100 * MS;
  ask(&r, READ, -1);
  size_t before = heap_bytes();
  raw(r.b, PCO_WIRE_MAX_PAYLOAD, PCO_WIRE_DATA, 0, 0, r.id, "abc", 3);
  for (int i = 0; i < 3; i++)
    turn();
  MUST(heap_bytes() < before + 256 * 1024);
  MUST(!r.op->completed);
  finish(&r, PCO_EGONE, PCO_EGONE);
  case_end("a length, then silence: the deadline ends it");
}

static void test_silence(int kind, const char *name) {
  request r;
  int fds = count_fds();
  pco__link_patience = 60 * MS;
  ask(&r, kind, -1);
  finish(&r, kind == HELLO ? PCO_ECONN : PCO_EGONE, PCO_EGONE);
  SAME(count_fds(), fds);
  case_end(name);
}

/* The caller's own time ends first, and the agent does not answer CANCEL. */
static void test_silent_cancel(int kind, bool begun, const char *name) {
  request r;
  pco__link_patience = 60 * MS;
  ask(&r, kind, 20);
  if (begun)
    box_say(r.b, kind == LIST ? PCO_WIRE_REPLY : PCO_WIRE_DATA, MORE, r.id);
  check_op(r.op, PCO_ECALLTIMEOUT);
  SAME(r.b->sb->state, PCO__SANDBOX_RUNNING);
  finish(&r, PCO_ECALLTIMEOUT, PCO_EGONE);
  case_end(name);
}

/* An answer after the call was given up for good. */
static void test_very_late_answer(bool broken, const char *name) {
  request r;
  pco__link_patience = 320 * MS;
  ask(&r, READ, 1);
  check_op(r.op, PCO_ECALLTIMEOUT);
  if (broken)
    reply(r.b, r.id);
  else
    data(r.b, r.id);
  ask_other();
  poll(NULL, 0, 400);
  finish(&r, PCO_ECALLTIMEOUT, broken ? PCO_EPROTO : 0);
  case_end(name);
}

/* Parts that never end cannot outlive the caller's time. */
static void test_endless_parts(void) {
  request r;
  pco__link_patience = 60 * MS;
  ask(&r, READ, 100);
  for (int i = 0; i < 2000 && !r.op->completed; i++) {
    box_say(r.b, PCO_WIRE_DATA, MORE, r.id);
    wait_op(r.op, 1);
  }
  finish(&r, PCO_ECALLTIMEOUT, PCO_EGONE);
  case_end("DATA without end, after the caller's time");
}

/* Bytes one by one in two sandboxes. */
static void test_drip(void) {
  request r[2];
  pco__link_patience = 200 * MS;
  ask(&r[0], STAT, -1);
  ask(&r[1], READ, 30);
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
    ask_other();
    uint64_t took = uv_hrtime() - start;
    slow += took >= 100 * MS;
    asks++;
    poll(NULL, 0, 10);
  }
  MUST(slow * 2 <= asks);
  MUST(r[0].op->completed && r[1].op->completed);
  finish(&r[0], PCO_EGONE, PCO_EGONE);
  finish(&r[1], PCO_ECALLTIMEOUT, PCO_EGONE);
  case_end("a byte now and then in two sandboxes");
}

/* A host whose loop stood still finds the answer, not the deadline. */
static void test_late_host(void) {
  request r;
  pco__link_patience = 100 * MS;
  ask(&r, MKDIR, -1);
  reply(r.b, r.id);
  poll(NULL, 0, 300);
  finish(&r, 0, 0);
  case_end("an answer that lay there while the host was away");
}

/* ---- floods -------------------------------------------------------------- */

static void test_unsolicited(void) {
  static uint8_t frames[1000 * 16];
  request r;
  ask(&r, STAT, -1);
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
  finish(&r, PCO_EPROTO, PCO_EPROTO);
  case_end("a million frames that nobody asked for");
}

/* Valid ones: empty parts of a listing. */
static void test_empty_parts(void) {
  static uint8_t frames[4000 * 16];
  request r;
  ask(&r, LIST, -1);
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
    ask_other();
    uint64_t took = uv_hrtime() - start;
    slow += took >= 500 * MS;
    asks++;
  }
  MUST(heap_bytes() < before + 1024 * 1024);
  MUST(slow * 2 <= asks);
  reply(r.b, r.id);
  finish(&r, 0, 0);
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
  reply(b, box_expect(b, PCO_WIRE_MKDIR, NULL));
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
  reply(b, id);
  end_op(&o->op, PCO_ELIMIT);
  box_end(b);
  case_end("a listing without end");
}

/* ---- commands that do not end -------------------------------------------- */

static void test_kill_never(int64_t timeout_ms, const char *name) {
  request r;
  pco__link_patience = 60 * MS;
  ask(&r, KILL, timeout_ms);
  finish(&r, timeout_ms < 0 ? PCO_EGONE : PCO_ECALLTIMEOUT,
         timeout_ms < 0 ? PCO_EGONE : 0);
  case_end(name);
}

/* exec's caller gave up; the agent answers KILL but sends no EXIT. */
static void test_exit_never(bool answer, const char *name) {
  request r;
  pco__link_patience = 60 * MS;
  ask(&r, RUN, 20);
  uint64_t kill = box_expect(r.b, PCO_WIRE_KILL, NULL);
  if (answer)
    reply(r.b, kill);
  finish(&r, PCO_ECALLTIMEOUT, PCO_EGONE);
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
  reply(b, box_expect(b, PCO_WIRE_PING, NULL));
  uint64_t again = box_expect(b, PCO_WIRE_PING, NULL);
  MUST(again > id && e->op.word != PCO__OP_DONE);
  check_op(&e->op, PCO_EGONE); /* this one is not answered */
  box_end(b);
  end_op(&e->op, PCO_EGONE);
  case_end("an agent that falls silent while a command runs");
}

/* Answers what the host asks until the op has ended; how often. */
static int answer_all(box *b, pco__op *op) {
  asked a;
  int n = 0;
  for (int i = 0; !op->completed; i++) {
    if (box_peek(b, &a)) {
      reply(b, a.h.op);
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
  ask(&r, SPAWN, -1);
  MUST(is_busy(&r, 3 * pco__link_patience));
  say_started(r.b, r.id);
  exit_fine(r.b, r.id);
  finish(&r, 0, 0);
  case_end("an agent that is busy with others for three times its patience");
}

static void test_busy_for_ever(void) {
  request r;
  pco__link_patience = 60 * MS;
  ask(&r, SPAWN, -1);
  MUST(!is_busy(&r, 60000 * MS));
  finish(&r, PCO_EGONE, PCO_EGONE);
  case_end("an agent that answers everything but this");
}

/* That it lives is no answer, nor that it gets on. */
static void test_only_pings(void) {
  request r;
  pco__link_patience = 100 * MS;
  ask(&r, SPAWN, -1);
  MUST(answer_all(r.b, r.op) < 6); /* one is sent in 50 ms */
  finish(&r, PCO_EGONE, PCO_EGONE);
  case_end("an agent that answers nothing but PING");
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
  for (int i = 0; i < 3; i++)
    turn();
  MUST(e->process && e->process->started);
  MUST(loop->n_timers > 0);
  check_op(&e->op, PCO_EGONE);
  box_end(b);
  end_op(&e->op, PCO_EGONE);
  case_end("a time limit that the agent forgets");
}

/* ---- streams that end ---------------------------------------------------- */

static void test_hang_up(int kind, const char *name) {
  request r;
  int fds = count_fds();
  ask(&r, kind, -1);
  box_hang_up(r.b);
  finish(&r, kind == HELLO ? PCO_ECONN : PCO_EGONE, PCO_EGONE);
  SAME(count_fds(), fds);
  case_end(name);
}

/* In the middle of a frame, and of an answer of several. */
static void test_hang_up_within(void) {
  request r;
  ask(&r, LIST, -1);
  box_begin_frame(r.b, PCO_WIRE_REPLY, MORE, r.id);
  box_entry(r.b, "file", 4);
  box_send(r.b);
  raw(r.b, 100, PCO_WIRE_REPLY, 0, 0, r.id, "abc", 3);
  turn();
  box_hang_up(r.b);
  finish(&r, PCO_EGONE, PCO_EGONE);
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
  ask_other();
  box_end(b);
  end_op(&o->op, error_first ? UV_ENOSPC : PCO_EGONE);
  free(bytes);
  case_end(name);
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

static void test_hang_up_closing(void) {
  request r;
  ask(&r, RUN, -1);
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
  ask(&r, RUN, -1);
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
  ask_other();
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

/* ---- all ----------------------------------------------------------------- */

static void test_silences(void) {
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
  pco__link_patience = 30000 * MS;
}

static void test_ends(void) {
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
}

int main(void) {
  world_open();
  int fds = count_fds();
  other = box_new();
  for (size_t i = 0; i < sizeof forgeries / sizeof *forgeries; i++)
    test_forgery(&forgeries[i]);
  test_answered_again();
  test_limits();
  test_exit_twice();
  test_late_answer(MKDIR, 0, "a change answered after CANCEL");
  test_late_answer(READ, PCO_ECALLTIMEOUT, "data after CANCEL");
  test_late_answer(STAT, PCO_ECALLTIMEOUT, "ECANCELED after CANCEL");
  test_stray_descriptors();
  test_silences();
  test_unsolicited();
  test_empty_parts();
  test_too_big_read();
  test_too_big_list();
  test_ends();
  test_hello_never(true, "HELLO is never answered, the creation is cancelled");
  test_hello_never(false, "HELLO is never answered in the creation's time");
  test_late_create();
  test_untaken_process();
  box_end(other);
  test_create_while_closing();
  SAME(count_fds(), fds);
  case_end("no descriptor is left");
  MUST(world_close());
  case_end("nothing is left");
  return tap_done();
}
