/* SPDX-License-Identifier: MIT */
/*
 * A real agent with a door, and many hosts in a row that do things at random
 * and leave at any moment, in any way.  What each hears has to be for it, in
 * order, within its credit, and told once.
 * usage: agent_hosts_test AGENT [SEED [HOSTS]]
 */
#include "door_client.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MS     20000 /* for what comes at once */
#define MOST   20000 /* requests, in all */
#define OLD    200   /* commands that are tried, of those that were last */
#define RELAY3 PCO_STDIO_RELAY, PCO_STDIO_RELAY, PCO_STDIO_RELAY

/* A command, by the op of its SPAWN. */
typedef struct command {
  bool is, started, forget, in_closed;
  unsigned in_sent;
  /* As the host of now knows it. */
  bool ended, eof[2];
  uint64_t credit[2], offset[2];
} command;

static door d;
static client c;
static int control;
static uint64_t base, hello; /* of this host */
static bool listed;
static command commands[MOST];
static bool answered[MOST]; /* requests of this host, finally */
static uint64_t watched;    /* a file that is open, or 0 */

static unsigned seed;

static unsigned any(unsigned n) {
  seed = seed * 1103515245u + 12345u;
  return (seed >> 16) % n;
}

static void wrong(const char *what, const frame *f) {
  OK(false, "%s: type %u, op %llu (last before %llu, last %llu)", what,
     f->header.type, (unsigned long long)f->header.op, (unsigned long long)base,
     (unsigned long long)c.op);
}

/* ---- what is heard ------------------------------------------------------- */

static void check_output(const frame *f, command *m) {
  pco_wire_iter it;
  pco_wire_field field;
  uint64_t stream = frame_number(f, PCO_TAG_STREAM, 0), len = 0;
  if (stream < 1 || stream > 2 || m->eof[stream - 1]) {
    wrong("output of no stream, or after its end", f);
    return;
  }
  uint64_t *credit = &m->credit[stream - 1], *offset = &m->offset[stream - 1];
  pco_wire_iter_init(&it, f->payload, f->header.size);
  while (pco_wire_next(&it, &field) == 1)
    len += field.tag == PCO_TAG_DATA ? field.len : 0;
  uint64_t at = frame_number(f, PCO_TAG_OFFSET, 0);
  if (len > *credit)
    wrong("more output than was credited", f);
  if (at < *offset)
    wrong("output again", f);
  *credit -= len < *credit ? len : *credit;
  *offset = at + len;
  m->eof[stream - 1] = frame_number(f, PCO_TAG_EOF, 0) != 0;
}

static void check_command(const frame *f) {
  command *m = &commands[f->header.op];
  if (!m->is) {
    wrong("a frame of no command", f);
  } else if (f->header.type == PCO_WIRE_OUTPUT) {
    check_output(f, m);
  } else if (f->header.type == PCO_WIRE_STARTED) {
    m->started = true;
  } else if (f->header.type == PCO_WIRE_EXIT) {
    if (m->ended)
      wrong("a second end", f);
    m->ended = true;
  }
}

static void check(const frame *f) {
  uint64_t op = f->header.op;
  bool of_command = f->header.type == PCO_WIRE_OUTPUT ||
                    f->header.type == PCO_WIRE_CREDIT ||
                    f->header.type == PCO_WIRE_EXIT;
  if (op >= MOST || (op > c.op && op != hello)) {
    wrong("a frame of nothing", f);
  } else if (op <= base && op != hello && !(listed && of_command)) {
    wrong("a frame for an earlier host", f);
  } else if (of_command || f->header.type == PCO_WIRE_STARTED) {
    check_command(f);
  } else if (!(f->header.flags & PCO_WIRE_MORE)) {
    if (answered[op])
      wrong("a second answer", f);
    answered[op] = true;
    if (commands[op].is) /* it did not start */
      commands[op].is = false;
  }
}

/* Hears what comes within ms, or until `op` was answered. */
static void hear(uint64_t op, int ms) {
  for (int i = 0; i < ms && !(op && answered[op]); i++) {
    client_take(&c, 0, 1); /* no frame has that number */
    for (frame *f; (f = c.waiting);) {
      c.waiting = f->next;
      check(f);
      free(f);
    }
  }
}

/* ---- what is done -------------------------------------------------------- */

static uint64_t some_command(void) {
  for (int i = 0; i < 20; i++) {
    uint64_t back = any(OLD);
    if (back < c.op && commands[c.op - back].is &&
        (c.op - back > base || listed))
      return c.op - back;
  }
  return 0;
}

static void do_spawn(void) {
  static const char *const scripts[] = {
      "exit 3",
      "echo out; echo err >&2",
      "cat",
      "head -c 150000 /dev/zero",
      "sleep 1000",
      "sleep 0.02; echo late",
      "sleep 1000 & :",
      "trap '' TERM; echo x; sleep 1000",
      "read x; exit 4",
      "head -c 70000 /dev/zero >&2; exit 5",
      "grep -q sup /proc/$PPID/comm && kill -9 $PPID",
      "exec >&- 2>&-; sleep 0.05",
      "yes | head -c 1000000",
  };
  const char *script = scripts[any(sizeof scripts / sizeof *scripts)];
  const char *const argv[] = {"/bin/sh", "-c", script, NULL};
  spawn s = {.argv = argv, .kind = {RELAY3}};
  s.flags = any(4) ? 0 : PCO_SPAWN_FLAG_FORGET;
  s.flags |= any(2) ? 0u : PCO_SPAWN_FLAG_UNREAD;
  if (any(8) == 0) {
    s.kind[0] = s.kind[1] = s.kind[2] = PCO_STDIO_TERMINAL;
    s.cols = s.rows = 30;
  }
  uint64_t first = s.flags & PCO_SPAWN_FLAG_UNREAD ? 0 : PCO_RELAY_CREDIT;
  bool terminal = s.cols > 0;
  uint64_t op = client_spawn(&c, &s);
  commands[op] = (command){.is = true,
                           .forget = s.flags & PCO_SPAWN_FLAG_FORGET,
                           .eof = {false, terminal},
                           .credit = {first, first}};
}

static void do_credit(uint64_t op) {
  unsigned stream = any(2);
  uint64_t length = 1 + any(100000);
  commands[op].credit[stream] += length;
  pco_wire_begin(&c.buf, PCO_WIRE_CREDIT, 0, op);
  client_number(&c, PCO_TAG_STREAM, stream + 1);
  client_number(&c, PCO_TAG_LENGTH, length);
  client_send(&c, NULL, 0);
}

static void do_input(uint64_t op) {
  command *m = &commands[op];
  if (m->in_closed || m->in_sent > 1000)
    return;
  m->in_sent += 5;
  m->in_closed = any(5) == 0;
  pco_wire_begin(&c.buf, m->in_closed ? PCO_WIRE_CLOSE_INPUT : PCO_WIRE_INPUT,
                 0, op);
  if (!m->in_closed)
    pco_wire_bytes(&c.buf, PCO_TAG_DATA, "some\n", 5);
  client_send(&c, NULL, 0);
}

static void do_adopt(uint64_t op) {
  uint64_t request = client_begin(&c, PCO_WIRE_ADOPT);
  client_number(&c, PCO_TAG_TARGET, op);
  client_number(&c, PCO_TAG_FLAGS, 0);
  client_send(&c, NULL, 0);
  hear(request, MS); /* what was sent comes before */
  commands[op].credit[0] = commands[op].credit[1] = 0;
}

static void do_request(uint64_t op) {
  static const uint16_t types[] = {PCO_WIRE_KILL, PCO_WIRE_SIGNAL,
                                   PCO_WIRE_CLOSE_OUTPUT, PCO_WIRE_RESIZE};
  uint16_t type = types[any(4)];
  client_begin(&c, type);
  client_number(&c, PCO_TAG_TARGET, op);
  switch (type) {
  case PCO_WIRE_KILL:
    client_number(&c, PCO_TAG_GRACE, any(2) * 20000000u);
    break;
  case PCO_WIRE_SIGNAL:
    client_number(&c, PCO_TAG_SIGNO, any(2) ? SIGTERM : SIGKILL);
    break;
  case PCO_WIRE_CLOSE_OUTPUT:
    client_number(&c, PCO_TAG_STREAM, 1 + any(2));
    client_number(&c, PCO_TAG_FLAGS, any(2) ? PCO_CLOSE_NOW : 0);
    break;
  default:
    client_number(&c, PCO_TAG_COLS, 50);
    client_number(&c, PCO_TAG_ROWS, 50);
  }
  client_send(&c, NULL, 0);
}

static void do_file(void) {
  char path[128];
  snprintf(path, sizeof path, "%s/some", d.path);
  if (watched && any(2)) {
    client_begin(&c, PCO_WIRE_FILE_SYNC);
    client_number(&c, PCO_TAG_TARGET, watched);
    client_send(&c, NULL, 0);
    return;
  }
  uint64_t op = client_begin(&c, any(2) ? PCO_WIRE_OPEN : PCO_WIRE_WRITE);
  bool opens = c.buf.data[4] == PCO_WIRE_OPEN;
  client_string(&c, PCO_TAG_PATH, path);
  client_number(&c, PCO_TAG_FLAGS,
                opens ? PCO_OPEN_WRITE | PCO_OPEN_CREATE : 0);
  client_send(&c, NULL, 0);
  watched = opens ? op : watched;
  if (opens)
    return;
  bool more = any(2); /* then the rest never comes */
  pco_wire_begin(&c.buf, PCO_WIRE_DATA, more ? PCO_WIRE_MORE : 0, op);
  pco_wire_bytes(&c.buf, PCO_TAG_DATA, "content", 7);
  client_send(&c, NULL, 0);
}

/* ---- hosts --------------------------------------------------------------- */

static void take_told(const told *t) {
  command *m = &commands[t->op];
  if (t->op >= MOST || !m->is)
    OK(false, "a command that never was is told");
  if (t->op > base)
    return; /* its own */
  m->ended = t->code >= 0;
  m->eof[0] = !(t->flags & PCO_COMMAND_OUT);
  m->eof[1] = !(t->flags & PCO_COMMAND_ERR);
  m->credit[0] = m->credit[1] = 0;
  m->offset[0] = t->out;
  m->offset[1] = t->err;
  m->in_closed = m->in_closed || !(t->flags & PCO_COMMAND_IN);
}

/* The first time: a later one crosses what comes meanwhile. */
static void list_commands(void) {
  static told t[4000];
  for (uint64_t op = 1; op <= base; op++)
    commands[op].ended = commands[op].eof[0] = commands[op].eof[1] = true;
  int n = door_commands(&c, t, 4000);
  OK(n >= 0, "COMMANDS");
  for (int i = 0; i < n; i++)
    take_told(&t[i]);
  listed = true;
}

static void attach(void) {
  control = door_attach(&d, &c);
  if (control < 0) {
    OK(false, "a host attaches (%d); wait status of the agent: %d", control,
       door_join(&d, 2000));
    exit(tap_done());
  }
  base = c.op;
  hello = 42; /* door_hello()'s */
  listed = false;
  watched = 0;
  memset(answered, 0, sizeof answered);
  for (uint64_t op = 1; op <= base; op++)
    commands[op].eof[0] = commands[op].eof[1] = commands[op].ended = true;
}

static void leave(void) {
  switch (any(4)) {
  case 0: /* as it is to be */
    door_order(control, PCO_KEEPER_DETACH, 0);
    break;
  case 1: /* amid a frame */
    client_raw(&c, "\x10\x00\x00\x00\x10", 5);
    break;
  case 2: /* with a broken one */
    client_raw(&c,
               "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"
               "\xff\xff",
               16);
    break;
  default: /* without reading */
    break;
  }
  door_drop(&c);
  close(control);
}

static void act(void) {
  uint64_t op = some_command();
  switch (any(9)) {
  case 0:
  case 1:
  case 2:
    do_spawn();
    break;
  case 3:
    do_file();
    break;
  case 4:
    hear(0, 1 + (int)any(20));
    break;
  case 5:
    if (op)
      do_input(op);
    break;
  case 6:
    if (op)
      do_request(op);
    break;
  case 7:
    if (op && any(4) == 0)
      do_adopt(op);
    break;
  default:
    if (op)
      do_credit(op);
  }
}

static void be_host(void) {
  attach();
  if (any(4))
    list_commands();
  for (unsigned i = any(40); i > 0 && c.op < MOST - 100; i--)
    act();
  hear(0, 1);
  leave();
}

/* All is as it should be in the end. */
static void check_end(void) {
  attach();
  list_commands();
  uint64_t op = client_begin(&c, PCO_WIRE_KILL_ALL);
  client_send(&c, NULL, 0);
  hear(op, MS);
  OK(answered[op], "the agent kills all");
  int lives = 0;
  for (int i = 0; i < MS / 10; i++) {
    hear(0, 10);
    lives = 0;
    for (uint64_t o = 1; o <= c.op; o++)
      lives += commands[o].is && !commands[o].ended;
    if (lives == 0)
      break;
  }
  IS(lives, 0, "who was told to live is told to have ended");
  pco_keeper_report r;
  door_order(control, PCO_KEEPER_END, 0);
  OK(door_hear(control, &r, NULL, MS) && r.type == PCO_KEEPER_ENDED, "it ends");
  IS(door_join(&d, MS), 0, "by itself");
  door_drop(&c);
  close(control);
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fputs("usage: agent_hosts_test AGENT [SEED [HOSTS]]\n", stderr);
    return 2;
  }
  seed = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
  int hosts = argc > 3 ? atoi(argv[3]) : 80;
  printf("# seed %u\n", seed);
  door_start(&d, argv[1], NULL);
  attach();
  door_order(control, PCO_KEEPER_DETACH, 0);
  pco_keeper_report r;
  OK(door_hear(control, &r, NULL, MS), "detached");
  door_drop(&c);
  close(control);
  for (int i = 0; i < hosts; i++)
    be_host();
  check_end();
  OK(true, "%d hosts", hosts);
  door_remove(&d);
  return tap_done();
}
