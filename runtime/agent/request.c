/* SPDX-License-Identifier: MIT */
/*
 * The rules of every request, as one table, and the check against it.
 */
#include "request.h"

#include "portico/plugin.h"

#include <errno.h>
#include <string.h>

#define FS_FLAGS                                                               \
  (PCO_FS_NOFOLLOW | PCO_FS_PARENTS | PCO_FS_RECURSIVE | PCO_FS_REPLACE |      \
   PCO_FS_APPEND | PCO_FS_IN_PLACE | PCO_FS_SYNC | PCO_FS_DIRECTORY)
#define OPEN_FLAGS                                                             \
  (PCO_FS_NOFOLLOW | PCO_FS_PARENTS | PCO_FS_APPEND | PCO_OPEN_READ |          \
   PCO_OPEN_WRITE | PCO_OPEN_CREATE | PCO_OPEN_TRUNCATE | PCO_OPEN_EXCLUSIVE)
#define MANY UINT32_MAX

/* One field of one type of request.  Fields without a rule are skipped. */
typedef struct rule {
  uint16_t type;
  uint16_t tag;
  uint32_t least, most; /* how often */
  uint64_t min, max;    /* of a number */
} rule;

#define ONE(type, tag, min, max)                                               \
  { type, tag, 1, 1, min, max }
#define MAYBE(type, tag, min, max)                                             \
  { type, tag, 0, 1, min, max }
#define FILE_OP(type)                                                          \
  ONE(type, PCO_TAG_PATH, 0, 0), ONE(type, PCO_TAG_FLAGS, 0, FS_FLAGS)

#define FILE_OF(type) ONE(type, PCO_TAG_TARGET, 1, UINT64_MAX)

static const rule RULES[] = {
    ONE(PCO_WIRE_HELLO, PCO_TAG_VERSION_MIN, 1, UINT32_MAX),
    ONE(PCO_WIRE_HELLO, PCO_TAG_VERSION_MAX, 1, UINT32_MAX),
    {PCO_WIRE_SPAWN, PCO_TAG_ARGV, 1, MANY, 0, 0},
    {PCO_WIRE_SPAWN, PCO_TAG_ENV, 0, MANY, 0, 0},
    MAYBE(PCO_WIRE_SPAWN, PCO_TAG_CWD, 0, 0),
    MAYBE(PCO_WIRE_SPAWN, PCO_TAG_USER, 0, 0),
    ONE(PCO_WIRE_SPAWN, PCO_TAG_FLAGS, 0,
        PCO_SPAWN_FLAG_CLEAN_ENV | PCO_SPAWN_FLAG_NO_ECHO |
            PCO_SPAWN_FLAG_FORGET | PCO_SPAWN_FLAG_UNREAD),
    MAYBE(PCO_WIRE_SPAWN, PCO_TAG_TIMEOUT, 1, PCO_MAX_TIME),
    MAYBE(PCO_WIRE_SPAWN, PCO_TAG_GRACE, 0, PCO_MAX_TIME),
    {PCO_WIRE_SPAWN, PCO_TAG_STDIO, 3, 3, PCO_STDIO_NULL, PCO_STDIO_CLOSED},
    MAYBE(PCO_WIRE_SPAWN, PCO_TAG_COLS, 1, UINT16_MAX),
    MAYBE(PCO_WIRE_SPAWN, PCO_TAG_ROWS, 1, UINT16_MAX),
    MAYBE(PCO_WIRE_SPAWN, PCO_TAG_LIMIT_MEMORY, 1, INT64_MAX),
    MAYBE(PCO_WIRE_SPAWN, PCO_TAG_LIMIT_PIDS, 1, INT64_MAX),
    MAYBE(PCO_WIRE_SPAWN, PCO_TAG_LIMIT_CPUS, 1, UINT32_MAX),
    MAYBE(PCO_WIRE_SPAWN, PCO_TAG_LIMIT_OPEN_FILES, 1, UINT32_MAX),
    ONE(PCO_WIRE_SIGNAL, PCO_TAG_TARGET, 1, UINT64_MAX),
    ONE(PCO_WIRE_SIGNAL, PCO_TAG_SIGNO, 1, 64),
    ONE(PCO_WIRE_KILL, PCO_TAG_TARGET, 1, UINT64_MAX),
    MAYBE(PCO_WIRE_KILL, PCO_TAG_GRACE, 0, PCO_MAX_TIME),
    MAYBE(PCO_WIRE_KILL, PCO_TAG_REASON, PCO_REASON_TIMEOUT, PCO_REASON_KILLED),
    ONE(PCO_WIRE_LISTENS, PCO_TAG_PORT, 1, UINT16_MAX),
    ONE(PCO_WIRE_RESIZE, PCO_TAG_TARGET, 1, UINT64_MAX),
    ONE(PCO_WIRE_RESIZE, PCO_TAG_COLS, 1, UINT16_MAX),
    ONE(PCO_WIRE_RESIZE, PCO_TAG_ROWS, 1, UINT16_MAX),
    ONE(PCO_WIRE_CLOSE_OUTPUT, PCO_TAG_TARGET, 1, UINT64_MAX),
    ONE(PCO_WIRE_CLOSE_OUTPUT, PCO_TAG_STREAM, 1, 2),
    ONE(PCO_WIRE_CLOSE_OUTPUT, PCO_TAG_FLAGS, 0, PCO_CLOSE_NOW),
    ONE(PCO_WIRE_ADOPT, PCO_TAG_TARGET, 1, UINT64_MAX),
    ONE(PCO_WIRE_ADOPT, PCO_TAG_FLAGS, 0,
        PCO_ADOPT_IN | PCO_ADOPT_OUT | PCO_ADOPT_ERR),
    ONE(PCO_WIRE_CREDIT, PCO_TAG_STREAM, 1, 2),
    ONE(PCO_WIRE_CREDIT, PCO_TAG_LENGTH, 1, PCO_MAX_CREDIT),
    ONE(PCO_WIRE_INPUT, PCO_TAG_DATA, 0, 0),
    FILE_OP(PCO_WIRE_STAT),
    FILE_OP(PCO_WIRE_LIST),
    FILE_OP(PCO_WIRE_READ),
    MAYBE(PCO_WIRE_READ, PCO_TAG_OFFSET, 0, INT64_MAX),
    MAYBE(PCO_WIRE_READ, PCO_TAG_LENGTH, 0, UINT64_MAX),
    FILE_OP(PCO_WIRE_WRITE),
    MAYBE(PCO_WIRE_WRITE, PCO_TAG_MODE, 0, 07777),
    MAYBE(PCO_WIRE_WRITE, PCO_TAG_USER, 0, 0),
    MAYBE(PCO_WIRE_WRITE, PCO_TAG_LENGTH, 0, INT64_MAX),
    FILE_OP(PCO_WIRE_MKDIR),
    MAYBE(PCO_WIRE_MKDIR, PCO_TAG_MODE, 0, 07777),
    FILE_OP(PCO_WIRE_REMOVE),
    FILE_OP(PCO_WIRE_RENAME),
    ONE(PCO_WIRE_RENAME, PCO_TAG_TARGET_PATH, 0, 0),
    FILE_OP(PCO_WIRE_CHMOD),
    ONE(PCO_WIRE_CHMOD, PCO_TAG_MODE, 0, 07777),
    FILE_OP(PCO_WIRE_CHOWN),
    ONE(PCO_WIRE_CHOWN, PCO_TAG_USER, 0, 0),
    FILE_OP(PCO_WIRE_SYMLINK),
    ONE(PCO_WIRE_SYMLINK, PCO_TAG_TARGET_PATH, 0, 0),
    ONE(PCO_WIRE_MKTEMP, PCO_TAG_FLAGS, 0, FS_FLAGS),
    ONE(PCO_WIRE_MKTEMP, PCO_TAG_NAME, 0, 0),
    MAYBE(PCO_WIRE_MKTEMP, PCO_TAG_PATH, 0, 0),
    FILE_OP(PCO_WIRE_USAGE),
    FILE_OP(PCO_WIRE_COPY),
    ONE(PCO_WIRE_COPY, PCO_TAG_TARGET_PATH, 0, 0),
    ONE(PCO_WIRE_OPEN, PCO_TAG_PATH, 0, 0),
    ONE(PCO_WIRE_OPEN, PCO_TAG_FLAGS, 0, OPEN_FLAGS),
    MAYBE(PCO_WIRE_OPEN, PCO_TAG_MODE, 0, 07777),
    FILE_OF(PCO_WIRE_FILE_READ),
    ONE(PCO_WIRE_FILE_READ, PCO_TAG_OFFSET, 0, INT64_MAX),
    ONE(PCO_WIRE_FILE_READ, PCO_TAG_LENGTH, 0, INT64_MAX),
    FILE_OF(PCO_WIRE_FILE_WRITE),
    ONE(PCO_WIRE_FILE_WRITE, PCO_TAG_OFFSET, 0, INT64_MAX),
    MAYBE(PCO_WIRE_FILE_WRITE, PCO_TAG_LENGTH, 0, INT64_MAX),
    MAYBE(PCO_WIRE_FILE_WRITE, PCO_TAG_DATA, 0, 0),
    FILE_OF(PCO_WIRE_FILE_TRUNCATE),
    ONE(PCO_WIRE_FILE_TRUNCATE, PCO_TAG_SIZE, 0, INT64_MAX),
    FILE_OF(PCO_WIRE_FILE_SYNC),
    FILE_OF(PCO_WIRE_FILE_STAT),
    FILE_OF(PCO_WIRE_FILE_CLOSE),
    ONE(PCO_WIRE_WATCH, PCO_TAG_PATH, 0, 0),
    ONE(PCO_WIRE_WATCH, PCO_TAG_FLAGS, 0, PCO_FS_NOFOLLOW | PCO_FS_RECURSIVE),
    MAYBE(PCO_WIRE_WATCH, PCO_TAG_DATA, 0, 0),
    FILE_OF(PCO_WIRE_EVENTS),
    FILE_OP(PCO_WIRE_PACK),
    ONE(PCO_WIRE_PACK, PCO_TAG_DATA, 0, 0),
    FILE_OP(PCO_WIRE_UNPACK),
    ONE(PCO_WIRE_UNPACK, PCO_TAG_DATA, 0, 0),
    FILE_OP(PCO_WIRE_SURVEY),
    ONE(PCO_WIRE_SURVEY, PCO_TAG_DATA, 0, 0),
    ONE(PCO_WIRE_DATA, PCO_TAG_DATA, 0, 0),
};
#define N_RULES (sizeof RULES / sizeof *RULES)
_Static_assert(PCO_TAG_LAST_OP - PCO_TAG_NUMBER <
                   sizeof(((pco_request *)0)->number) / sizeof(uint64_t),
               "every number has its place");

static bool known(uint16_t type) {
  switch (type) {
  case PCO_WIRE_PING:
  case PCO_WIRE_INFO:
  case PCO_WIRE_SHUTDOWN:
  case PCO_WIRE_KILL_ALL:
  case PCO_WIRE_CANCEL:
  case PCO_WIRE_CLOSE_INPUT:
  case PCO_WIRE_COMMANDS:
    return true; /* these have no fields */
  default:
    for (size_t i = 0; i < N_RULES; i++)
      if (RULES[i].type == type)
        return true;
    return false;
  }
}

static size_t rule_of(uint16_t type, uint16_t tag) {
  size_t i = 0;
  while (i < N_RULES && (RULES[i].type != type || RULES[i].tag != tag))
    i++;
  return i;
}

static void store(pco_request *r, const pco_wire_field *f, uint32_t nth) {
  pco_text text = {(const char *)f->data, f->len};
  switch (PCO_TAG_KIND(f->tag)) {
  case PCO_TAG_NUMBER:
    r->number[f->tag - PCO_TAG_NUMBER] = f->number;
    r->given |= UINT64_C(1) << (f->tag - PCO_TAG_NUMBER);
    if (f->tag == PCO_TAG_STDIO)
      r->stdio[nth] = (uint8_t)f->number;
    break;
  case PCO_TAG_STRING:
    r->text[f->tag - PCO_TAG_STRING] = text;
    r->n_argv += f->tag == PCO_TAG_ARGV;
    r->n_env += f->tag == PCO_TAG_ENV;
    break;
  default:
    r->data = text;
  }
}

/* Walks the fields; `count` is how often each rule was met. */
static int take_fields(const pco_frame *f, pco_request *r,
                       uint32_t count[N_RULES]) {
  pco_wire_iter it;
  pco_wire_field field;
  int rc;
  pco_wire_iter_init(&it, f->payload, f->header.size);
  while ((rc = pco_wire_next(&it, &field)) == 1) {
    size_t i = rule_of(r->type, field.tag);
    if (i == N_RULES)
      continue;
    const rule *u = &RULES[i];
    if (count[i] == u->most ||
        (PCO_TAG_KIND(u->tag) == PCO_TAG_NUMBER &&
         (field.number < u->min || field.number > u->max)))
      return -EPROTO;
    store(r, &field, count[i]++);
  }
  return rc;
}

static bool has_size(const pco_request *r) {
  return pco_request_has(r, PCO_TAG_COLS) && pco_request_has(r, PCO_TAG_ROWS);
}

static unsigned count_stdio(const pco_request *r, uint8_t kind) {
  unsigned n = 0;
  for (int i = 0; i < 3; i++)
    n += r->stdio[i] == kind;
  return n;
}

static bool takes_pipe(uint16_t type) {
  return type == PCO_WIRE_READ || type == PCO_WIRE_WRITE ||
         type == PCO_WIRE_FILE_READ || type == PCO_WIRE_FILE_WRITE;
}

/* What is written through a pipe has a length, and no DATA beside it. */
static bool pipe_fits(const pco_request *r, bool piped) {
  bool length = pco_request_has(r, PCO_TAG_LENGTH);
  if (r->type == PCO_WIRE_WRITE)
    return piped == length;
  return r->type != PCO_WIRE_FILE_WRITE ||
         (piped == length && piped == (r->data.s == NULL));
}

/* Who has descriptors: SPAWN and ADOPT, one for each STDIO, or bit, that says
 * so, and those that move trees, their pipes; a SPAWN that was passed on has
 * one for each that is relayed as well, and one for a terminal.  Contents may
 * go through one. */
static bool fds_fit(const pco_request *r, unsigned n_fds, bool passed) {
  uint64_t bits = pco_request_number(r, PCO_TAG_FLAGS);
  if (r->type == PCO_WIRE_ADOPT)
    return n_fds == (bits & 1) + (bits >> 1 & 1) + (bits >> 2);
  if (takes_pipe(r->type))
    return n_fds <= 1 && pipe_fits(r, n_fds == 1);
  if (r->type == PCO_WIRE_PACK)
    return n_fds == 1 || n_fds == 2;
  if (r->type == PCO_WIRE_UNPACK || r->type == PCO_WIRE_SURVEY)
    return n_fds == 1;
  if (r->type != PCO_WIRE_SPAWN)
    return n_fds == 0;
  unsigned terminal = count_stdio(r, PCO_STDIO_TERMINAL);
  unsigned expected = count_stdio(r, PCO_STDIO_FD);
  if (passed)
    expected += count_stdio(r, PCO_STDIO_RELAY) + (terminal > 0);
  return n_fds == expected && (terminal == 0 || terminal == 3) &&
         (terminal == 0 || has_size(r)) && r->stdio[0] != PCO_STDIO_MERGE &&
         r->stdio[1] != PCO_STDIO_MERGE;
}

static int parse(const pco_frame *f, pco_request *r, bool passed) {
  memset(r, 0, sizeof *r);
  r->type = f->header.type;
  r->op = f->header.op;
  r->more = (f->header.flags & PCO_WIRE_MORE) != 0;
  r->pipe = takes_pipe(r->type) && f->header.n_fds > 0 ? f->fds[0] : -1;
  if (!known(r->type) || (r->more && r->type != PCO_WIRE_DATA) ||
      pco_wire_check(f->payload, f->header.size) != 0)
    return -EPROTO;
  uint32_t count[N_RULES] = {0};
  int rc = take_fields(f, r, count);
  for (size_t i = 0; rc == 0 && i < N_RULES; i++)
    if (RULES[i].type == r->type && count[i] < RULES[i].least)
      rc = -EPROTO;
  if (rc == 0 &&
      (!fds_fit(r, f->header.n_fds, passed) || r->data.len > PCO_WIRE_MAX_DATA))
    rc = -EPROTO;
  return rc;
}

int pco_request_parse(const pco_frame *f, pco_request *r) {
  return parse(f, r, false);
}

int pco_request_parse_passed(const pco_frame *f, pco_request *r) {
  return parse(f, r, true);
}
