/* SPDX-License-Identifier: MIT */
/*
 * A real agent with a door whose hosts come and go: what the next one finds of
 * commands and their output, what is not for it, and what becomes of files.
 * usage: agent_next_host_test AGENT
 */
#include "door_host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what comes of commands --------------------------------------------- */

static void credit(uint64_t op, uint64_t stream, uint64_t length) {
  pco_wire_begin(&c.buf, PCO_WIRE_CREDIT, 0, op);
  client_number(&c, PCO_TAG_STREAM, stream);
  client_number(&c, PCO_TAG_LENGTH, length);
  client_send(&c, NULL, 0);
}

static void input(uint64_t op, const char *text) {
  pco_wire_begin(&c.buf, PCO_WIRE_INPUT, 0, op);
  pco_wire_bytes(&c.buf, PCO_TAG_DATA, text, strlen(text));
  client_send(&c, NULL, 0);
}

/* What came of a command. */
typedef struct heard {
  char text[128 * 1024];
  size_t len;
  long long offset; /* of the first byte; -1: none came */
  bool eof, exited, in_eof;
  int code;
} heard;

static void take_output(heard *h, const frame *f, uint64_t stream) {
  pco_wire_iter it;
  pco_wire_field field;
  if (frame_number(f, PCO_TAG_STREAM, 0) != stream)
    return;
  h->eof = h->eof || frame_number(f, PCO_TAG_EOF, 0);
  pco_wire_iter_init(&it, f->payload, f->header.size);
  while (pco_wire_next(&it, &field) == 1) {
    if (field.tag != PCO_TAG_DATA || field.len > sizeof h->text - h->len)
      continue;
    if (h->offset < 0)
      h->offset = (long long)frame_number(f, PCO_TAG_OFFSET, 0);
    memcpy(h->text + h->len, field.data, field.len);
    h->len += field.len;
  }
}

/* Hears a command until its stream `stream` and it itself have ended, or
 * `until` bytes came. */
static const heard *hear(uint64_t op, uint64_t stream, size_t until,
                         bool exits) {
  static heard h;
  h = (heard){.offset = -1};
  frame *f;
  while (h.len < until && !(h.eof && (h.exited || !exits)) &&
         (f = client_take(&c, op, MS))) {
    if (f->header.type == PCO_WIRE_OUTPUT)
      take_output(&h, f, stream);
    if (f->header.type == PCO_WIRE_CREDIT)
      h.in_eof = h.in_eof || frame_number(f, PCO_TAG_EOF, 0);
    if (f->header.type == PCO_WIRE_EXIT) {
      h.exited = true;
      h.code = (int)frame_number(f, PCO_TAG_CODE, 999);
    }
    free(f);
  }
  h.text[h.len < sizeof h.text ? h.len : sizeof h.text - 1] = 0;
  return &h;
}

/* Asks until the command is told to have ended: an event cannot be had, since
 * nobody hears of it. */
/* ---- commands ----------------------------------------------------------- */

static void test_lives_on(void) {
  host_begin();
  int control = host_attach();
  IS(c.op, 0, "the first host hears that nobody was there before");
  OK(door_is_held(&d), "the agent holds the lock");
  uint64_t op = host_start_relayed("echo before; read x; echo got $x; exit 7");
  const heard *h = hear(op, 1, 7, false);
  OK(strcmp(h->text, "before\n") == 0, "the first host reads");
  uint64_t last = c.op;
  host_detach(control);
  control = host_attach();
  IS(c.op, last, "the second host hears the last number");
  told t[4];
  IS(door_commands(&c, t, N(t)), 1, "and of one command");
  IS(t[0].op, op, "by its number");
  OK(strcmp(t[0].first, "/bin/sh") == 0 && t[0].n_argv == 3 &&
         strstr(t[0].last, "exit 7"),
     "with its arguments");
  OK(t[0].pid > 0, "its pid");
  IS(t[0].flags,
     PCO_COMMAND_OUT | PCO_COMMAND_ERR | PCO_COMMAND_IN | PCO_COMMAND_LIVES,
     "its streams");
  IS(t[0].out, 7, "how much was passed on");
  IS(t[0].room, PCO_RELAY_CREDIT, "how much it takes");
  IS(t[0].code, -1, "it lives");
  credit(op, 1, 4096);
  input(op, "this\n");
  h = hear(op, 1, SIZE_MAX, true);
  OK(strcmp(h->text, "got this\n") == 0, "it reads and writes on");
  IS(h->offset, 7, "where it had left off");
  IS(h->code, 7, "its end comes as if it were its own");
  t[0] = host_told_of(op, true);
  IS(t[0].code, 7, "it is told again who asks again");
  IS(t[0].reason, PCO_REASON_EXITED, "with the reason");
  host_finish(control);
}

static void test_ring(void) {
  host_begin();
  int control = host_attach();
  uint64_t op =
      host_start_relayed("read x; head -c 300000 /dev/zero | tr '\\0' x; "
                         "echo END; echo oops >&2; exit 3");
  input(op, "go\n");
  host_detach(control);
  control = host_attach();
  told t = host_told_of(op, true);
  IS(t.code, 3, "its end was kept");
  IS(t.flags & (PCO_COMMAND_OUT | PCO_COMMAND_ERR | PCO_COMMAND_IN),
     PCO_COMMAND_OUT | PCO_COMMAND_ERR, "both outputs have something to say");
  IS(t.out, 300004 - (long long)PCO_RELAY_CREDIT, "the oldest is left out");
  host_detach(control);
  control = host_attach();
  t = host_told_of(op, false);
  IS(t.code, 3, "another host hears the same");
  credit(op, 1, PCO_RELAY_CREDIT);
  const heard *h = hear(op, 1, SIZE_MAX, false);
  IS(h->len, PCO_RELAY_CREDIT, "the newest bytes came");
  IS(h->offset, 300004 - (long long)PCO_RELAY_CREDIT, "from that offset");
  OK(h->eof && h->len > 4 && strcmp(h->text + h->len - 4, "END\n") == 0,
     "to the last one");
  credit(op, 2, 100);
  h = hear(op, 2, SIZE_MAX, false);
  OK(strcmp(h->text, "oops\n") == 0 && h->eof, "stderr, too");
  t = host_told_of(op, false);
  IS(t.flags, 0, "then nothing of it is left but its end");
  host_finish(control);
}

static void test_end_of_input(void) {
  host_begin();
  int control = host_attach();
  uint64_t op = host_start_relayed("cat >/dev/null; exit 4");
  input(op, "what was sent before is read");
  host_detach(control);
  control = host_attach();
  told t = host_told_of(op, false);
  OK(t.flags & PCO_COMMAND_IN, "stdin stayed open");
  pco_wire_begin(&c.buf, PCO_WIRE_CLOSE_INPUT, 0, op);
  client_send(&c, NULL, 0);
  IS(hear(op, 1, SIZE_MAX, true)->code, 4, "the next host ends it");
  host_finish(control);
}

/* Of commands that are over nothing is held open. */
static void test_descriptors(void) {
  host_begin();
  int control = host_attach();
  client_end(&c, host_sh_relayed("exit 0"), MS);
  client_simple(&c, PCO_WIRE_PING, MS);
  int before = client_fds(d.agent);
  for (int i = 0; i < 100; i++)
    client_end(&c, host_sh_relayed("exit 0"), MS);
  int after = client_fds(d.agent);
  for (int i = 0; i < MS / 10 && after > before; i++) {
    usleep(10000);
    after = client_fds(d.agent);
  }
  if (before < 0)
    tap_skip("descriptors of ended commands",
             "this user may not look into the agent");
  else
    IS(after > before ? after : before, before, "no descriptor is left");
  host_finish(control);
}

static void test_terminal(void) {
  host_begin();
  int control = host_attach();
  uint64_t op =
      host_start("stty size; read x; echo got $x",
                 &(spawn){.kind = {PCO_STDIO_TERMINAL, PCO_STDIO_TERMINAL,
                                   PCO_STDIO_TERMINAL},
                          .cols = 80,
                          .rows = 24,
                          .flags = PCO_SPAWN_FLAG_NO_ECHO});
  hear(op, 1, 5, false);
  host_detach(control);
  control = host_attach();
  told t = host_told_of(op, false);
  IS(t.flags,
     PCO_COMMAND_OUT | PCO_COMMAND_IN | PCO_COMMAND_TERMINAL |
         PCO_COMMAND_LIVES,
     "a terminal lives on");
  credit(op, 1, 65536);
  input(op, "it\n");
  OK(strstr(hear(op, 1, SIZE_MAX, true)->text, "got it"), "and answers");
  host_finish(control);
}

/* A command that has ended, of which something lives. */
static void test_descendants(void) {
  host_begin();
  int control = host_attach();
  uint64_t op = host_start_relayed("sleep 1000 & exit 0");
  ending e = client_end(&c, op, MS);
  OK(e.exited, "the first process ends");
  host_detach(control);
  control = host_attach();
  told t = host_told_of(op, false);
  IS(t.code, 0, "it is told with its end");
  OK(t.flags & PCO_COMMAND_LIVES, "and that something of it lives");
  IS(client_kill(&c, op, 0, MS), 0, "which the next host kills");
  t = host_told_of(op, false);
  IS(t.flags & PCO_COMMAND_LIVES, 0, "then nothing does");
  host_finish(control);
}

static void test_many_ended(void) {
  static told t[400];
  const char *const argv[] = {"/bin/true", NULL};
  host_begin();
  int control = host_attach();
  uint64_t first = 0, last = 0;
  for (int i = 0; i < 300; i++) {
    last = client_spawn(&c, &(spawn){.argv = argv});
    client_end(&c, last, MS);
    first = first ? first : last;
  }
  host_detach(control);
  control = host_attach();
  IS(door_commands(&c, t, N(t)), PCO_COMMANDS_KEPT, "the last 256 are known");
  IS(t[0].op, last - PCO_COMMANDS_KEPT + 1, "from the first of these");
  IS(t[PCO_COMMANDS_KEPT - 1].op, last, "to the last");
  host_finish(control);
}

/* What nobody asks for any more does not take the place of others. */
static void test_forgotten(void) {
  static told t[64];
  const spawn forget = {.kind = {RELAYED}, .flags = PCO_SPAWN_FLAG_FORGET};
  host_begin();
  int control = host_attach();
  uint64_t kept = host_sh_relayed("exit 1");
  client_end(&c, kept, MS);
  for (int i = 0; i < 300; i++)
    client_end(&c, host_sh("exit 2", &forget), MS);
  uint64_t unread = host_start("head -c 200000 /dev/zero; exit 3", &forget);
  uint64_t lives = host_start("read x; exit 4", &forget);
  host_detach(control);
  control = host_attach();
  told u = host_told_of(unread, true);
  IS(u.code, 3, "what was not read to its end is told");
  IS(door_commands(&c, t, N(t)), 3, "who was heard out is forgotten");
  IS(t[0].op, kept, "others are not");
  input(lives, "on\n");
  IS(hear(lives, 1, SIZE_MAX, true)->code, 4, "a later host hears of the end");
  credit(unread, 1, PCO_RELAY_CREDIT);
  OK(hear(unread, 1, SIZE_MAX, false)->eof, "and the last output");
  IS(door_commands(&c, t, N(t)), 1, "then they are forgotten, too");
  IS(t[0].op, kept, "others are not");
  host_finish(control);
}

/* A host with more commands that are over than are kept: what it has not read
 * of them is its own still, but for what it gave away. */
static void test_unread(void) {
  const spawn unread = {
      .kind = {PCO_STDIO_NULL, PCO_STDIO_RELAY, PCO_STDIO_NULL},
      .flags = PCO_SPAWN_FLAG_UNREAD};
  uint64_t op[300], last = 0;
  host_begin();
  int control = host_attach();
  for (int i = 0; i < N(op); i++)
    client_end(&c, op[i] = host_sh("echo it is $0", &unread), MS);
  uint64_t adopt = client_begin(&c, PCO_WIRE_ADOPT);
  client_number(&c, PCO_TAG_TARGET, op[1]);
  client_number(&c, PCO_TAG_FLAGS, 0);
  client_send(&c, NULL, 0);
  free(client_take(&c, adopt, MS));
  static told t[400];
  IS(door_commands(&c, t, N(t)), PCO_COMMANDS_KEPT, "some are forgotten");
  credit(op[0], 1, PCO_RELAY_CREDIT);
  const heard *h = hear(op[0], 1, SIZE_MAX, false);
  OK(h->eof && strcmp(h->text, "it is /bin/sh\n") == 0,
     "what such a one said is read");
  IS(t[0].op, op[N(op) - PCO_COMMANDS_KEPT], "the last are known");
  last = t[0].op;
  adopt = client_begin(&c, PCO_WIRE_ADOPT);
  client_number(&c, PCO_TAG_TARGET, last);
  client_number(&c, PCO_TAG_FLAGS, 0);
  client_send(&c, NULL, 0);
  free(client_take(&c, adopt, MS));
  client_end(&c, host_sh("exit 0", &unread), MS);
  OK(hear(last, 1, SIZE_MAX, false)->eof,
     "what it gave away has ended when it is forgotten");
  host_detach(control);
  control = host_attach();
  IS(door_commands(&c, t, N(t)), PCO_COMMANDS_KEPT, "the next host");
  credit(t[0].op, 1, PCO_RELAY_CREDIT);
  h = hear(t[0].op, 1, SIZE_MAX, false);
  OK(h->eof && strcmp(h->text, "it is /bin/sh\n") == 0, "reads of those");
  host_finish(control);
}

static void test_long_arguments(void) {
  static char word[2000];
  memset(word, 'w', sizeof word - 1);
  const char *argv[103] = {"/bin/true"};
  for (int i = 1; i < 102; i++)
    argv[i] = word;
  host_begin();
  int control = host_attach();
  for (int i = 0; i < 60; i++)
    client_end(&c, client_spawn(&c, &(spawn){.argv = argv}), MS);
  static told t[64];
  IS(door_commands(&c, t, N(t)), 60, "all are told");
  IS(t[0].n_argv, 18, "with as many arguments as have room");
  IS(t[59].n_argv, 2, "with few where there are many");
  host_finish(control);
}

/* A start that is under way when the host goes: it ran and is known, or it did
 * not. */
static void test_starting(void) {
  host_begin();
  int control = host_attach();
  for (int i = 0; i < 40; i++) {
    for (int j = 0; j < 4; j++)
      host_sh_relayed("sleep 1000");
    host_detach(control);
    control = host_attach();
    static told t[200]; /* all that there ever were */
    int n = door_commands(&c, t, N(t)), lives = 0;
    for (int j = 0; j < n; j++)
      lives += (t[j].flags & PCO_COMMAND_LIVES) != 0;
    IS(client_simple(&c, PCO_WIRE_KILL_ALL, MS), 0, "all are killed");
    uint64_t op = client_begin(&c, PCO_WIRE_INFO);
    client_send(&c, NULL, 0);
    frame *f = client_take(&c, op, MS);
    IS(frame_number(f, PCO_TAG_COUNT, 999), 0, "nothing unknown is left");
    free(f);
    for (int j = 0; j < n; j++)
      if (t[j].code == -1 && host_told_of(t[j].op, true).code < 0)
        lives = -1;
    OK(lives >= 0, "who was known to live has an end");
  }
  host_finish(control);
}

/* ---- what is not for the next host --------------------------------------- */

static void test_old_answers(void) {
  host_begin();
  int control = host_attach();
  uint64_t op =
      host_start_relayed("trap '' TERM; echo ready; while :; do sleep 1; "
                         "done");
  hear(op, 1, 6, false);
  uint64_t kill = client_begin(&c, PCO_WIRE_KILL);
  client_number(&c, PCO_TAG_TARGET, op);
  client_number(&c, PCO_TAG_GRACE, 1000000000);
  client_send(&c, NULL, 0);
  client_simple(&c, PCO_WIRE_PING, MS); /* it was taken */
  host_detach(control);
  control = host_attach();
  door_commands(&c, NULL, 0);
  frame *f = NULL;
  do { /* of OUTPUT only the end may come */
    free(f);
    f = client_take(&c, op, MS);
  } while (f && f->header.type == PCO_WIRE_OUTPUT);
  OK(f && f->header.type == PCO_WIRE_EXIT, "the kill goes on to its end");
  free(f);
  IS(client_simple(&c, PCO_WIRE_PING, MS), 0, "the agent answers");
  OK(!client_take(&c, kill, 0), "the next host gets no answer for the old");
  host_finish(control);
}

/* Nothing of old commands comes before COMMANDS is asked for. */
static void test_quiet(void) {
  host_begin();
  int control = host_attach();
  uint64_t op = host_start_relayed("read x; echo $x; exit 5");
  host_detach(control);
  control = host_attach();
  IS(client_signal(&c, op, SIGKILL), 0, "it can be signalled all the same");
  uint64_t own = host_sh("exit 6", &(spawn){0});
  IS(client_end(&c, own, MS).code, 6, "its own commands end");
  OK(!client_take(&c, op, 0), "nothing came of the old one");
  told t = host_told_of(op, true);
  IS(t.code, 137, "COMMANDS says it");
  client_simple(&c, PCO_WIRE_PING, MS);
  OK(!client_take(&c, op, 0), "and no EXIT says it again");
  host_finish(control);
}

/* A host that breaks the rules of the door is let go; the others come. */
static void test_broken_host(void) {
  host_begin();
  int control = host_attach();
  uint64_t op = host_start_relayed("read x; exit 5");
  host_detach(control);
  control = host_attach();
  input(op, "too early\n");
  OK(client_ended(&c, MS), "INPUT before COMMANDS ends the stream");
  host_detach(control);
  control = host_attach();
  door_commands(&c, NULL, 0);
  client_raw(&c,
             "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"
             "\xff",
             16);
  OK(client_ended(&c, MS), "and so does a broken frame");
  host_detach(control);
  pco_keeper_report r;
  control = door_connect(&d);
  door_order(control, PCO_KEEPER_ATTACH, 0);
  OK(door_hear(control, &r, &c.fd, MS) && c.fd >= 0, "a host attaches");
  client_begin(&c, PCO_WIRE_PING);
  client_send(&c, NULL, 0);
  OK(client_ended(&c, MS), "and a first request that is no HELLO");
  host_detach(control);
  control = host_attach();
  IS(host_told_of(op, false).code, -1, "the command lives");
  host_finish(control);
}

/* ---- files --------------------------------------------------------------- */

static int count_litter(void) {
  int n = 0;
  DIR *list = opendir(d.path);
  for (struct dirent *e; list && (e = readdir(list));)
    n += strncmp(e->d_name, ".portico-", 9) == 0;
  if (list)
    closedir(list);
  return n;
}

static void check_litter(int want, const char *text) {
  int n = count_litter();
  for (int i = 0; i < MS / 10 && n != want; i++) {
    usleep(10000);
    n = count_litter();
  }
  IS(n, want, text);
}

static uint64_t file_request(uint16_t type, const char *name) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s", d.path, name);
  uint64_t op = client_begin(&c, type);
  client_string(&c, PCO_TAG_PATH, path);
  return op;
}

static uint64_t open_file(const char *name) {
  uint64_t op = file_request(PCO_WIRE_OPEN, name);
  client_number(&c, PCO_TAG_FLAGS,
                PCO_OPEN_READ | PCO_OPEN_WRITE | PCO_OPEN_CREATE);
  client_send(&c, NULL, 0);
  frame *f = client_take(&c, op, MS);
  OK(f && f->header.type == PCO_WIRE_REPLY, "a file is open");
  free(f);
  return op;
}

static int sync_error(uint64_t target) {
  uint64_t op = client_begin(&c, PCO_WIRE_FILE_SYNC);
  client_number(&c, PCO_TAG_TARGET, target);
  client_send(&c, NULL, 0);
  frame *f = client_take(&c, op, MS);
  int error = (int)frame_number(f, PCO_TAG_ERRNO, 0);
  free(f);
  return error;
}

static void test_files(void) {
  int pipes[2];
  host_begin();
  int control = host_attach();
  uint64_t target = open_file("opened");
  uint64_t op = file_request(PCO_WIRE_WRITE, "by-frames");
  client_number(&c, PCO_TAG_FLAGS, 0);
  client_send(&c, NULL, 0);
  pco_wire_begin(&c.buf, PCO_WIRE_DATA, PCO_WIRE_MORE, op);
  pco_wire_bytes(&c.buf, PCO_TAG_DATA, "half", 4);
  client_send(&c, NULL, 0);
  if (pipe2(pipes, O_CLOEXEC) != 0)
    exit(1);
  file_request(PCO_WIRE_WRITE, "by-a-pipe");
  client_number(&c, PCO_TAG_FLAGS, 0);
  client_number(&c, PCO_TAG_LENGTH, 100000);
  client_send(&c, &pipes[0], 1);
  close(pipes[0]);
  OK(write(pipes[1], "half", 4) == 4, "a part is written");
  check_litter(2, "two files are half written");
  host_detach(control);
  check_litter(0, "what was half written is removed");
  struct pollfd p = {.fd = pipes[1], .events = POLLERR};
  OK(poll(&p, 1, MS) == 1 && (p.revents & POLLERR), "the pipe is closed");
  close(pipes[1]);
  OK(faccessat(d.dir, "by-frames", F_OK, 0) != 0 &&
         faccessat(d.dir, "by-a-pipe", F_OK, 0) != 0,
     "nothing was put in place");
  control = host_attach();
  IS(sync_error(target), EBADF, "what the old host opened is closed");
  IS(sync_error(open_file("opened")), 0, "the new one opens it again");
  unlinkat(d.dir, "opened", 0);
  host_finish(control);
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fputs("usage: agent_next_host_test AGENT\n", stderr);
    return 2;
  }
  door_host_init(argv[1]);
  test_lives_on();
  test_ring();
  test_end_of_input();
  test_descriptors();
  test_terminal();
  test_descendants();
  test_many_ended();
  test_forgotten();
  test_unread();
  test_long_arguments();
  test_starting();
  test_old_answers();
  test_quiet();
  test_broken_host();
  test_files();
  return tap_done();
}
