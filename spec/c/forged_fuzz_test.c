/* SPDX-License-Identifier: MIT */
/*
 * Valid conversations of an agent, broken at random: whatever comes, every op
 * ends once, what it gives out is within its bounds, and nothing is left.
 *
 *   forged_fuzz_test [ROUNDS [SEED]]
 *
 * Round i of seed S is round 0 of seed S + i.
 */
#include "forged_agent.h"
#include "frames.h"
#include "wait_for.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_OPS    17
#define MAX_FRAMES 64
#define MAX_BYTES  8192
#define MORE       PCO_WIRE_MORE
#define OUTPUT_LEN 600
#define PATIENCE   UINT64_C(30000000000)

/* ---- chance -------------------------------------------------------------- */

static uint64_t state;

static uint64_t dice(void) {
  uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

static size_t below(size_t n) {
  return (size_t)(dice() % n);
}

static uint64_t odd_number(void) {
  static const uint64_t odd[] = {0,
                                 1,
                                 64,
                                 65,
                                 255,
                                 999,
                                 4000,
                                 4095,
                                 5000,
                                 UINT32_MAX,
                                 UINT64_C(1) << 30,
                                 UINT64_C(1) << 40,
                                 UINT64_C(1) << 63,
                                 UINT64_MAX};
  size_t i = below(sizeof odd / sizeof *odd + 1);
  return i < sizeof odd / sizeof *odd ? odd[i] : dice();
}

/* ---- a conversation: frames in an order ---------------------------------- */

typedef struct piece {
  uint8_t data[MAX_BYTES];
  size_t len;
} piece;

static piece pieces[MAX_FRAMES];
static size_t n_pieces;

/* Takes the frame that was written, to be sent later. */
static void keep(box *b) {
  if (n_pieces == MAX_FRAMES || pco_wire_end(&b->buf, 0) < 0 ||
      b->buf.len > MAX_BYTES)
    abort();
  piece *p = &pieces[n_pieces++];
  memcpy(p->data, b->buf.data, b->buf.len);
  p->len = b->buf.len;
}

static void begin(box *b, uint16_t type, uint8_t flags, uint64_t op) {
  box_begin_frame(b, type, flags, op);
}

static void say_number(box *b, uint16_t type, uint8_t flags, uint64_t op,
                       uint16_t tag, uint64_t value) {
  begin(b, type, flags, op);
  pco_wire_number(&b->buf, tag, value);
  keep(b);
}

static void say_exit(box *b, uint64_t op) {
  begin(b, PCO_WIRE_EXIT, 0, op);
  pco_wire_number(&b->buf, PCO_TAG_CODE, 137);
  pco_wire_number(&b->buf, PCO_TAG_SIGNAL, 9);
  pco_wire_number(&b->buf, PCO_TAG_REASON,
                  below(2) ? PCO_REASON_KILLED : PCO_REASON_OOM);
  pco_wire_number(&b->buf, PCO_TAG_LIMIT, below(4));
  pco_wire_number(&b->buf, PCO_TAG_DURATION, 5);
  pco_wire_number(&b->buf, PCO_TAG_SURVIVOR, 7);
  keep(b);
}

static void say_data(box *b, uint64_t op) {
  static const char bytes[600];
  for (int i = 0; i < 3; i++) {
    begin(b, PCO_WIRE_DATA, i < 2 ? MORE : 0, op);
    pco_wire_bytes(&b->buf, PCO_TAG_DATA, bytes, sizeof bytes);
    keep(b);
  }
}

static void say_output(box *b, uint64_t op, uint64_t at, size_t len, int eof) {
  static const char bytes[OUTPUT_LEN];
  begin(b, PCO_WIRE_OUTPUT, 0, op);
  pco_wire_number(&b->buf, PCO_TAG_STREAM, 1);
  pco_wire_number(&b->buf, PCO_TAG_OFFSET, at);
  if (len)
    pco_wire_bytes(&b->buf, PCO_TAG_DATA, bytes, len);
  if (eof)
    pco_wire_number(&b->buf, PCO_TAG_EOF, (uint64_t)eof);
  keep(b);
}

/* A command, and what comes of its terminal; without an end it is asked for. */
static void say_command(box *b, const asked *a) {
  uint64_t op = a->h.op;
  bool terminal = asked_number(a, PCO_TAG_STDIO) == PCO_STDIO_TERMINAL;
  say_number(b, PCO_WIRE_STARTED, MORE, op, PCO_TAG_PID, 7);
  if (terminal)
    say_output(b, op, 0, OUTPUT_LEN, below(2) ? PCO_EOF_END : 0);
  if (below(4))
    say_exit(b, op);
}

static void say_usage(box *b, uint64_t op) {
  static const uint16_t tags[] = {PCO_TAG_SIZE, PCO_TAG_ALLOCATED,
                                  PCO_TAG_COUNT, PCO_TAG_DIRECTORIES};
  begin(b, PCO_WIRE_REPLY, 0, op);
  for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
    pco_wire_number(&b->buf, tags[i], 1000 * i);
  keep(b);
}

static void say_path(box *b, uint64_t op) {
  begin(b, PCO_WIRE_REPLY, 0, op);
  pco_wire_string(&b->buf, PCO_TAG_PATH, "/tmp/tmp-1");
  keep(b);
}

static void say_empty(box *b, uint64_t op) {
  begin(b, PCO_WIRE_REPLY, 0, op);
  keep(b);
}

static void say_entries(box *b, uint64_t op, uint8_t flags, int n) {
  begin(b, PCO_WIRE_REPLY, flags, op);
  for (int i = 0; i < n; i++)
    box_entry(b, "entry", 5);
  keep(b);
}

/* Frames that none answers, or one of a stream. */
static bool is_of_stream(box *b, const asked *a) {
  switch (a->h.type) {
  case PCO_WIRE_INPUT:
    say_number(b, PCO_WIRE_CREDIT, 0, a->h.op, PCO_TAG_LENGTH, 1);
    return true;
  case PCO_WIRE_CREDIT:
  case PCO_WIRE_CLOSE_INPUT:
  case PCO_WIRE_DATA:
  case PCO_WIRE_CANCEL:
    return true;
  default:
    return false;
  }
}

/* The answers that an agent would give. */
static void answer(box *b, const asked *a) {
  uint64_t op = a->h.op;
  if (is_of_stream(b, a))
    return;
  if (below(8) == 0) {
    say_number(b, PCO_WIRE_ERROR, 0, op, PCO_TAG_ERRNO, 2);
    return;
  }
  switch (a->h.type) {
  case PCO_WIRE_SPAWN:
    say_command(b, a);
    break;
  case PCO_WIRE_CLOSE_OUTPUT:
    say_output(b, asked_number(a, PCO_TAG_TARGET), OUTPUT_LEN, 0, PCO_EOF_HELD);
    say_empty(b, op);
    break;
  case PCO_WIRE_LISTENS:
    say_number(b, PCO_WIRE_REPLY, 0, op, PCO_TAG_COUNT, below(2));
    break;
  case PCO_WIRE_USAGE:
    say_usage(b, op);
    break;
  case PCO_WIRE_MKTEMP:
    say_path(b, op);
    break;
  case PCO_WIRE_READ:
    say_data(b, op);
    break;
  case PCO_WIRE_LIST:
    say_entries(b, op, MORE, 3);
    say_entries(b, op, 0, 2);
    break;
  case PCO_WIRE_STAT:
    say_entries(b, op, 0, 1);
    break;
  case PCO_WIRE_KILL:
    say_number(b, PCO_WIRE_REPLY, 0, op, PCO_TAG_SURVIVOR, 9);
    break;
  default:
    say_empty(b, op);
  }
}

/* ---- breaking it --------------------------------------------------------- */

static void break_header(piece *p) {
  if (p->len < PCO_WIRE_HEADER)
    return;
  switch (below(5)) {
  case 0:
    p->data[below(4)] = (uint8_t)dice();
    break;
  case 1:
    p->data[4] =
        (uint8_t)(below(8) ? frames_types[below(FRAMES_N_TYPES)] : dice());
    break;
  case 2:
    p->data[6] = (uint8_t)below(5);
    break;
  case 3:
    p->data[7] = (uint8_t)below(3);
    break;
  default:
    p->data[8] = (uint8_t)below(24);
  }
}

static void break_bytes(piece *p) {
  if (p->len <= PCO_WIRE_HEADER)
    return;
  size_t at = PCO_WIRE_HEADER + below(p->len - PCO_WIRE_HEADER);
  uint64_t value = odd_number();
  switch (below(4)) {
  case 0:
    p->data[at] ^= (uint8_t)(1u << below(8));
    break;
  case 1:
    p->data[at] = "./\0\1"[below(4)];
    break;
  case 2:
    p->len = at;
    break;
  default: /* the last number of the frame, or whatever is there */
    if (p->len >= PCO_WIRE_HEADER + 8)
      memcpy(p->data + (below(2) ? p->len - 8 : at - at % 8), &value,
             at + 8 <= p->len ? 8 : p->len - at);
  }
}

static void move_pieces(void) {
  static piece spare;
  size_t i = below(n_pieces);
  size_t j = below(n_pieces);
  switch (below(3)) {
  case 0: /* two change places */
    spare = pieces[i];
    pieces[i] = pieces[j];
    pieces[j] = spare;
    break;
  case 1: /* one comes twice */
    if (n_pieces < MAX_FRAMES)
      pieces[n_pieces++] = pieces[i];
    break;
  default:
    pieces[i] = pieces[--n_pieces];
  }
}

static void break_it(void) {
  for (size_t n = below(4); n > 0 && n_pieces > 0; n--) {
    size_t what = below(6);
    if (what < 2)
      break_header(&pieces[below(n_pieces)]);
    else if (what < 5)
      break_bytes(&pieces[below(n_pieces)]);
    else
      move_pieces();
  }
}

static void send_pieces(box *b) {
  for (size_t i = 0; i < n_pieces; i++)
    for (size_t at = 0; at < pieces[i].len;) {
      size_t n = pieces[i].len - at;
      if (below(4) == 0)
        n = 1 + below(n);
      box_raw(b, pieces[i].data + at, n);
      at += n;
      if (below(3) == 0)
        turn();
    }
  n_pieces = 0;
}

/* ---- a round ------------------------------------------------------------- */

static pco__op *ops[MAX_OPS];
static bool is_of_file[MAX_OPS];
static int n_ops;
static unsigned long died, lived, unborn;

static void add(pco__op *op, bool limited) {
  is_of_file[n_ops] = false;
  ops[n_ops++] = op;
  submit(op, limited && below(6) == 0 ? (int64_t)below(2) : -1);
}

static void perhaps_terminal(pco__spawn_opts *o) {
  o->terminal = below(2);
  o->cols = 80;
  o->rows = 24;
}

static void ask_all(box *b) {
  static const char text[300];
  static const int kinds[] = {PCO__FS_STAT,   PCO__FS_LIST,  PCO__FS_READ,
                              PCO__FS_WRITE,  PCO__FS_MKDIR, PCO__FS_REMOVE,
                              PCO__FS_CHMOD,  PCO__FS_CHOWN, PCO__FS_SYMLINK,
                              PCO__FS_MKTEMP, PCO__FS_USAGE, PCO__FS_COPY};
  pco__exec *e = exec_op(b);
  pco__process_op *s = spawn_op(b);
  perhaps_terminal(&e->opts);
  perhaps_terminal(&s->opts);
  add(&e->op, true);
  add(&s->op, false);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (below(2))
      continue;
    pco__fs_op *o = fs_op(b, kinds[i]);
    o->data = text;
    o->len = sizeof text;
    o->max_size = 1000 + below(2000);
    add(&o->op, true);
    is_of_file[n_ops - 1] = true;
  }
}

/* Plans an answer to everything that has been asked until now. */
static void plan(box *b) {
  asked a;
  for (int i = 0; i < 2; i++)
    turn();
  while (n_pieces < MAX_FRAMES - 8 && box_peek(b, &a)) {
    answer(b, &a);
    asked_free(&a);
  }
}

static void check_entries(const pco__fs_op *o) {
  for (const pco__entry *e = o->entries; e; e = e->next) {
    bool stat = o->kind == PCO__FS_STAT;
    MUST(stat || e->name[0]);
    MUST(!strchr(e->name, '/') && strcmp(e->name, ".") &&
         strcmp(e->name, ".."));
    MUST(e->type <= PCO_OTHER && e->mode <= 07777 && e->size <= INT64_MAX);
  }
}

static void check_exit(const pco__result *r) {
  const pco__exit *x = &r->exit;
  MUST(r->gone || r->pid > 0);
  MUST(x->code >= 0 && x->code <= 255 && x->signal >= 0 && x->signal <= 64);
  MUST(x->reason >= 0 && x->reason <= PCO_REASON_OOM);
  MUST(x->reason != PCO_REASON_OOM || x->signal == SIGKILL);
  MUST(x->limit >= 0 && x->limit <= PCO_LIMIT_PIDS);
  MUST(x->n_survivors >= 0 && x->n_survivors <= PCO__MAX_SURVIVORS);
}

static void check_ended(pco__op *op, bool of_file) {
  MUST(wait_op(op, 3000));
  SAME(atomic_load(&op->refs), 1);
  if (op->cls == &pco__exec_class) {
    const pco__exec *e = PCO_CONTAINER(op, pco__exec, op);
    if (e->result)
      check_exit(e->result);
  } else if (of_file) {
    const pco__fs_op *o = PCO_CONTAINER(op, pco__fs_op, op);
    MUST(o->kind != PCO__FS_READ || o->n_bytes <= o->max_size);
    check_entries(o);
  }
  if (!case_bad) /* else it may still be in use */
    pco__op_unref(op);
}

static pco__op *wait_port_op(pco__process *p) {
  pco__op *op =
      pco__op_new(&pco__wait_port_class, sizeof(pco__wait_for_op), loop);
  pco__wait_for_op *o = PCO_CONTAINER(op, pco__wait_for_op, base.op);
  pco__process_ref(p);
  o->base.process = p;
  pco__chunks_init(&o->base.chunks);
  pco__chunks_init(&o->arrived);
  o->port = 80;
  return op;
}

static pco__op *resize_op(pco__process *p) {
  pco__process_op *o = process_op(p, &pco__resize_class);
  o->cols = 100;
  o->rows = 30;
  return &o->op;
}

/* Asks something of the one that was spawned. */
static void ask_spawned(void) {
  static const pco__op_class *const classes[] = {
      &pco__kill_class, &pco__signal_class, &pco__process_close_class};
  pco__op *op = ops[1];
  pco__process *p = PCO_CONTAINER(op, pco__process_op, op)->process;
  if (!op->completed || op->error || !p || below(3) == 0)
    return;
  if (below(2))
    add(p->terminal && below(2) ? resize_op(p) : wait_port_op(p), true);
  add(&process_op(p, classes[below(3)])->op, true);
}

static void converse(box *b) {
  ask_all(b);
  plan(b);
  break_it();
  send_pieces(b);
  for (int i = 0; i < 2; i++)
    turn();
  ask_spawned();
  plan(b);
  if (below(2))
    break_it();
  send_pieces(b);
}

/* HELLO, broken now and then; true if there is a sandbox. */
static bool greet(box *b) {
  uint64_t op = box_expect(b, PCO_WIRE_HELLO, NULL);
  begin(b, PCO_WIRE_REPLY, 0, op);
  pco_wire_number(&b->buf, PCO_TAG_VERSION, PCO_WIRE_VERSION);
  pco_wire_number(&b->buf, PCO_TAG_PID, 1);
  keep(b);
  if (below(10) == 0)
    break_it();
  send_pieces(b);
  for (int i = 0; i < 3; i++)
    turn();
  if (!b->create->completed)
    box_hang_up(b);
  MUST(wait_op(b->create, 3000));
  pco__sandbox *sb = PCO_CONTAINER(b->create, pco__create_op, op)->sandbox;
  if (!sb)
    return false;
  PCO_CONTAINER(b->create, pco__create_op, op)->sandbox = NULL;
  b->sb = sb; /* taken, as a caller would */
  pco__op_unref(b->create);
  b->create = NULL;
  return true;
}

static void fuzz_round(uint64_t seed) {
  state = seed;
  n_ops = 0;
  pco__link_patience = below(8) ? PATIENCE : 1 + below(2000000);
  box *b = box_begin(-1);
  if (greet(b)) {
    converse(b);
    for (size_t i = below(4); i > 0; i--)
      turn();
    if (b->sb->state == PCO__SANDBOX_DEAD)
      died++;
    else
      lived++;
    if (below(4) == 0)
      box_hang_up(b);
  } else {
    unborn++;
  }
  /* box_end() gives up its reference of the sandbox; ops hold others. */
  box_end(b);
  for (int i = 0; i < n_ops; i++)
    check_ended(ops[i], is_of_file[i]);
  if (case_bad)
    printf("# that was seed %llu\n", (unsigned long long)seed);
}

int main(int argc, char **argv) {
  unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 0) : 20000;
  uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 20240607;
  char name[120];
  world_open();
  int fds = count_fds();
  box *other = box_new();
  printf("# %lu rounds from seed %llu\n", rounds, (unsigned long long)seed);
  for (unsigned long i = 0; i < rounds && !case_bad; i++) {
    fuzz_round(seed + i);
    pco__link_patience = PATIENCE; /* the other one may be slow */
    if (i % 64 == 0)
      box_stat(other);
  }
  snprintf(name, sizeof name, "%lu lived, %lu died, %lu were never born", lived,
           died, unborn);
  case_end(name);
  MUST(rounds < 1000 || (lived > rounds / 10 && died > rounds / 10));
  case_end("both ends happen");
  box_end(other);
  SAME(count_fds(), fds);
  SAME(forged_live, 0);
  MUST(world_close());
  case_end("nothing is left");
  return tap_done();
}
