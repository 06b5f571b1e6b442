/* SPDX-License-Identifier: MIT */
/*
 * A real agent with a door: hosts that come and go, and visitors that are no
 * hosts.
 * usage: agent_door_test AGENT
 */
#include "door_client.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS      20000 /* for what comes at once */
#define RELAYED PCO_STDIO_RELAY, PCO_STDIO_RELAY, PCO_STDIO_RELAY
#define N(a)    ((int)(sizeof(a) / sizeof *(a)))

static const char *agent;
static door d;
static client c;

/* ---- helpers ------------------------------------------------------------ */

static uint64_t sh(const char *script, const spawn *like) {
  const char *const argv[] = {"/bin/sh", "-c", script, NULL};
  spawn s = *like;
  s.argv = argv;
  return client_spawn(&c, &s);
}

static uint64_t sh_relayed(const char *script) {
  return sh(script, &(spawn){.kind = {RELAYED}});
}

/* Spawns and waits for the start; its op. */
static uint64_t start(const char *script, const spawn *like) {
  uint64_t op = sh(script, like);
  frame *f = client_take(&c, op, MS);
  OK(f && f->header.type == PCO_WIRE_STARTED, "started: %.40s", script);
  free(f);
  return op;
}

static uint64_t start_relayed(const char *script) {
  return start(script, &(spawn){.kind = {RELAYED}});
}

static int attach(void) {
  int control = door_attach(&d, &c);
  OK(control >= 0, "a host attaches (%d)", control);
  if (control < 0)
    exit(tap_done()); /* nothing that follows makes sense */
  return control;
}

static void detach(int control) {
  door_detach(control, &c);
}

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
static told told_of(uint64_t op, bool ended) {
  static told all[400];
  for (int i = 0; i < MS / 10; i++) {
    int n = door_commands(&c, all, N(all));
    for (int j = 0; j < n && j < N(all); j++)
      if (all[j].op == op && (!ended || all[j].code >= 0))
        return all[j];
    if (!ended)
      break;
    usleep(10000);
  }
  return (told){.code = -2};
}

static int fds_of_agent(void) {
  char path[64];
  int n = 0;
  snprintf(path, sizeof path, "/proc/%d/fd", (int)d.agent);
  DIR *list = opendir(path);
  while (list && readdir(list))
    n++;
  if (!list)
    return -1;
  closedir(list);
  return n;
}

/* Ends the sandbox by its host: all is gone afterwards. */
static void finish(int control) {
  pco_keeper_report r;
  door_order(control, PCO_KEEPER_END, 0);
  OK(door_hear(control, &r, NULL, MS) && r.type == PCO_KEEPER_ENDED,
     "its host ends it, and is told");
  IS(r.asked, PCO_KEEPER_BY_HOST, "by whom it was ended");
  OK(door_ended(control, MS), "the control socket ends");
  OK(!door_has(&d, "info") && !door_has(&d, "sock"), "both files are gone");
  IS(door_join(&d, MS), 0, "the agent ends by itself");
  close(control);
  door_drop(&c);
  door_remove(&d);
}

static void begin(void) {
  door_start(&d, agent, NULL);
}

/* ---- commands ----------------------------------------------------------- */

static void test_lives_on(void) {
  begin();
  int control = attach();
  IS(c.op, 0, "the first host hears that nobody was there before");
  OK(door_is_held(&d), "the agent holds the lock");
  uint64_t op = start_relayed("echo before; read x; echo got $x; exit 7");
  const heard *h = hear(op, 1, 7, false);
  OK(strcmp(h->text, "before\n") == 0, "the first host reads");
  uint64_t last = c.op;
  detach(control);
  control = attach();
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
  t[0] = told_of(op, true);
  IS(t[0].code, 7, "it is told again who asks again");
  IS(t[0].reason, PCO_REASON_EXITED, "with the reason");
  finish(control);
}

static void test_ring(void) {
  begin();
  int control = attach();
  uint64_t op = start_relayed("read x; head -c 300000 /dev/zero | tr '\\0' x; "
                              "echo END; echo oops >&2; exit 3");
  input(op, "go\n");
  detach(control);
  control = attach();
  told t = told_of(op, true);
  IS(t.code, 3, "its end was kept");
  IS(t.flags & (PCO_COMMAND_OUT | PCO_COMMAND_ERR | PCO_COMMAND_IN),
     PCO_COMMAND_OUT | PCO_COMMAND_ERR, "both outputs have something to say");
  IS(t.out, 300004 - (long long)PCO_RELAY_CREDIT, "the oldest is left out");
  detach(control);
  control = attach();
  t = told_of(op, false);
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
  t = told_of(op, false);
  IS(t.flags, 0, "then nothing of it is left but its end");
  finish(control);
}

static void test_end_of_input(void) {
  begin();
  int control = attach();
  uint64_t op = start_relayed("cat >/dev/null; exit 4");
  input(op, "what was sent before is read");
  detach(control);
  control = attach();
  told t = told_of(op, false);
  OK(t.flags & PCO_COMMAND_IN, "stdin stayed open");
  pco_wire_begin(&c.buf, PCO_WIRE_CLOSE_INPUT, 0, op);
  client_send(&c, NULL, 0);
  IS(hear(op, 1, SIZE_MAX, true)->code, 4, "the next host ends it");
  finish(control);
}

/* Of commands that are over nothing is held open. */
static void test_descriptors(void) {
  begin();
  int control = attach();
  client_end(&c, sh_relayed("exit 0"), MS);
  client_simple(&c, PCO_WIRE_PING, MS);
  int before = fds_of_agent();
  for (int i = 0; i < 100; i++)
    client_end(&c, sh_relayed("exit 0"), MS);
  int after = fds_of_agent();
  for (int i = 0; i < MS / 10 && after > before; i++) {
    usleep(10000);
    after = fds_of_agent();
  }
  if (before < 0)
    tap_skip("descriptors of ended commands",
             "this user may not look into the agent");
  else
    IS(after > before ? after : before, before, "no descriptor is left");
  finish(control);
}

static void test_terminal(void) {
  begin();
  int control = attach();
  uint64_t op = start("stty size; read x; echo got $x",
                      &(spawn){.kind = {PCO_STDIO_TERMINAL, PCO_STDIO_TERMINAL,
                                        PCO_STDIO_TERMINAL},
                               .cols = 80,
                               .rows = 24,
                               .flags = PCO_SPAWN_FLAG_NO_ECHO});
  hear(op, 1, 5, false);
  detach(control);
  control = attach();
  told t = told_of(op, false);
  IS(t.flags,
     PCO_COMMAND_OUT | PCO_COMMAND_IN | PCO_COMMAND_TERMINAL |
         PCO_COMMAND_LIVES,
     "a terminal lives on");
  credit(op, 1, 65536);
  input(op, "it\n");
  OK(strstr(hear(op, 1, SIZE_MAX, true)->text, "got it"), "and answers");
  finish(control);
}

/* A command that has ended, of which something lives. */
static void test_descendants(void) {
  begin();
  int control = attach();
  uint64_t op = start_relayed("sleep 1000 & exit 0");
  ending e = client_end(&c, op, MS);
  OK(e.exited, "the first process ends");
  detach(control);
  control = attach();
  told t = told_of(op, false);
  IS(t.code, 0, "it is told with its end");
  OK(t.flags & PCO_COMMAND_LIVES, "and that something of it lives");
  IS(client_kill(&c, op, 0, MS), 0, "which the next host kills");
  t = told_of(op, false);
  IS(t.flags & PCO_COMMAND_LIVES, 0, "then nothing does");
  finish(control);
}

static void test_many_ended(void) {
  static told t[400];
  const char *const argv[] = {"/bin/true", NULL};
  begin();
  int control = attach();
  uint64_t first = 0, last = 0;
  for (int i = 0; i < 300; i++) {
    last = client_spawn(&c, &(spawn){.argv = argv});
    client_end(&c, last, MS);
    first = first ? first : last;
  }
  detach(control);
  control = attach();
  IS(door_commands(&c, t, N(t)), PCO_COMMANDS_KEPT, "the last 256 are known");
  IS(t[0].op, last - PCO_COMMANDS_KEPT + 1, "from the first of these");
  IS(t[PCO_COMMANDS_KEPT - 1].op, last, "to the last");
  finish(control);
}

/* What nobody asks for any more does not take the place of others. */
static void test_forgotten(void) {
  static told t[64];
  const spawn forget = {.kind = {RELAYED}, .flags = PCO_SPAWN_FLAG_FORGET};
  begin();
  int control = attach();
  uint64_t kept = sh_relayed("exit 1");
  client_end(&c, kept, MS);
  for (int i = 0; i < 300; i++)
    client_end(&c, sh("exit 2", &forget), MS);
  uint64_t unread = start("head -c 200000 /dev/zero; exit 3", &forget);
  uint64_t lives = start("read x; exit 4", &forget);
  detach(control);
  control = attach();
  told u = told_of(unread, true);
  IS(u.code, 3, "what was not read to its end is told");
  IS(door_commands(&c, t, N(t)), 3, "who was heard out is forgotten");
  IS(t[0].op, kept, "others are not");
  input(lives, "on\n");
  IS(hear(lives, 1, SIZE_MAX, true)->code, 4, "a later host hears of the end");
  credit(unread, 1, PCO_RELAY_CREDIT);
  OK(hear(unread, 1, SIZE_MAX, false)->eof, "and the last output");
  IS(door_commands(&c, t, N(t)), 1, "then they are forgotten, too");
  IS(t[0].op, kept, "others are not");
  finish(control);
}

/* A host with more commands that are over than are kept: what it has not read
 * of them is its own still, but for what it gave away. */
static void test_unread(void) {
  const spawn unread = {
      .kind = {PCO_STDIO_NULL, PCO_STDIO_RELAY, PCO_STDIO_NULL},
      .flags = PCO_SPAWN_FLAG_UNREAD};
  uint64_t op[300], last = 0;
  begin();
  int control = attach();
  for (int i = 0; i < N(op); i++)
    client_end(&c, op[i] = sh("echo it is $0", &unread), MS);
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
  client_end(&c, sh("exit 0", &unread), MS);
  OK(hear(last, 1, SIZE_MAX, false)->eof,
     "what it gave away has ended when it is forgotten");
  detach(control);
  control = attach();
  IS(door_commands(&c, t, N(t)), PCO_COMMANDS_KEPT, "the next host");
  credit(t[0].op, 1, PCO_RELAY_CREDIT);
  h = hear(t[0].op, 1, SIZE_MAX, false);
  OK(h->eof && strcmp(h->text, "it is /bin/sh\n") == 0, "reads of those");
  finish(control);
}

static void test_long_arguments(void) {
  static char word[2000];
  memset(word, 'w', sizeof word - 1);
  const char *argv[103] = {"/bin/true"};
  for (int i = 1; i < 102; i++)
    argv[i] = word;
  begin();
  int control = attach();
  for (int i = 0; i < 60; i++)
    client_end(&c, client_spawn(&c, &(spawn){.argv = argv}), MS);
  static told t[64];
  IS(door_commands(&c, t, N(t)), 60, "all are told");
  IS(t[0].n_argv, 18, "with as many arguments as have room");
  IS(t[59].n_argv, 2, "with few where there are many");
  finish(control);
}

/* A start that is under way when the host goes: it ran and is known, or it did
 * not. */
static void test_starting(void) {
  begin();
  int control = attach();
  for (int i = 0; i < 40; i++) {
    for (int j = 0; j < 4; j++)
      sh_relayed("sleep 1000");
    detach(control);
    control = attach();
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
      if (t[j].code == -1 && told_of(t[j].op, true).code < 0)
        lives = -1;
    OK(lives >= 0, "who was known to live has an end");
  }
  finish(control);
}

/* ---- what is not for the next host --------------------------------------- */

static void test_old_answers(void) {
  begin();
  int control = attach();
  uint64_t op = start_relayed("trap '' TERM; echo ready; while :; do sleep 1; "
                              "done");
  hear(op, 1, 6, false);
  uint64_t kill = client_begin(&c, PCO_WIRE_KILL);
  client_number(&c, PCO_TAG_TARGET, op);
  client_number(&c, PCO_TAG_GRACE, 1000000000);
  client_send(&c, NULL, 0);
  client_simple(&c, PCO_WIRE_PING, MS); /* it was taken */
  detach(control);
  control = attach();
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
  finish(control);
}

/* Nothing of old commands comes before COMMANDS is asked for. */
static void test_quiet(void) {
  begin();
  int control = attach();
  uint64_t op = start_relayed("read x; echo $x; exit 5");
  detach(control);
  control = attach();
  IS(client_signal(&c, op, SIGKILL), 0, "it can be signalled all the same");
  uint64_t own = sh("exit 6", &(spawn){0});
  IS(client_end(&c, own, MS).code, 6, "its own commands end");
  OK(!client_take(&c, op, 0), "nothing came of the old one");
  told t = told_of(op, true);
  IS(t.code, 137, "COMMANDS says it");
  client_simple(&c, PCO_WIRE_PING, MS);
  OK(!client_take(&c, op, 0), "and no EXIT says it again");
  finish(control);
}

/* A host that breaks the rules of the door is let go; the others come. */
static void test_broken_host(void) {
  begin();
  int control = attach();
  uint64_t op = start_relayed("read x; exit 5");
  detach(control);
  control = attach();
  input(op, "too early\n");
  OK(client_ended(&c, MS), "INPUT before COMMANDS ends the stream");
  detach(control);
  control = attach();
  door_commands(&c, NULL, 0);
  client_raw(&c,
             "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"
             "\xff",
             16);
  OK(client_ended(&c, MS), "and so does a broken frame");
  detach(control);
  pco_keeper_report r;
  control = door_connect(&d);
  door_order(control, PCO_KEEPER_ATTACH, 0);
  OK(door_hear(control, &r, &c.fd, MS) && c.fd >= 0, "a host attaches");
  client_begin(&c, PCO_WIRE_PING);
  client_send(&c, NULL, 0);
  OK(client_ended(&c, MS), "and a first request that is no HELLO");
  detach(control);
  control = attach();
  IS(told_of(op, false).code, -1, "the command lives");
  finish(control);
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
  begin();
  int control = attach();
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
  detach(control);
  check_litter(0, "what was half written is removed");
  struct pollfd p = {.fd = pipes[1], .events = POLLERR};
  OK(poll(&p, 1, MS) == 1 && (p.revents & POLLERR), "the pipe is closed");
  close(pipes[1]);
  OK(faccessat(d.dir, "by-frames", F_OK, 0) != 0 &&
         faccessat(d.dir, "by-a-pipe", F_OK, 0) != 0,
     "nothing was put in place");
  control = attach();
  IS(sync_error(target), EBADF, "what the old host opened is closed");
  IS(sync_error(open_file("opened")), 0, "the new one opens it again");
  unlinkat(d.dir, "opened", 0);
  finish(control);
}

/* ---- who comes by the door ----------------------------------------------- */

static void test_one_host(void) {
  begin();
  int control = attach();
  client other;
  IS(door_attach(&d, &other), -EBUSY, "a second host is refused");
  IS(client_simple(&c, PCO_WIRE_PING, MS), 0,
     "the first is there all the same");
  detach(control);
  /* It says DETACH and goes without waiting: the place is free. */
  for (int i = 0; i < 50; i++) {
    control = door_attach(&d, &c);
    if (control < 0)
      break;
    door_order(control, PCO_KEEPER_DETACH, 0);
    close(control);
    door_drop(&c);
  }
  OK(control >= 0, "who comes after one that left is not refused (%d)",
     control);
  control = attach();
  finish(control);
}

static void test_crash(void) {
  begin();
  int control = attach();
  start_relayed("sleep 1000");
  close(control);
  IS(door_join(&d, MS), 0, "before the first DETACH it ends with its host");
  OK(!door_has(&d, "info") && !door_has(&d, "sock"), "both files are gone");
  OK(client_ended(&c, MS), "the stream ends");
  door_drop(&c);
  door_remove(&d);
  begin();
  control = attach();
  uint64_t op = start_relayed("sleep 1000");
  detach(control);
  control = attach();
  close(control); /* as a crash does */
  door_drop(&c);
  control = attach();
  IS(told_of(op, false).code, -1, "after it a crash does nothing");
  /* Its stream alone is not its end either. */
  door_drop(&c);
  pco_keeper_report r;
  door_order(control, PCO_KEEPER_DETACH, 0);
  OK(door_hear(control, &r, NULL, MS) && r.type == PCO_KEEPER_DETACHED,
     "a host without a stream detaches");
  close(control);
  control = attach();
  finish(control);
}

static void test_end_by_visitor(void) {
  begin();
  int control = attach();
  start_relayed("trap '' TERM; sleep 1000");
  int visit = door_connect(&d);
  door_order(visit, PCO_KEEPER_END, 100);
  pco_keeper_report r;
  OK(door_hear(visit, &r, NULL, MS) && r.type == PCO_KEEPER_ENDED,
     "who asked for the end is told of it");
  IS(r.asked, PCO_KEEPER_BY_DOOR, "by whom");
  OK(!door_has(&d, "info") && !door_has(&d, "sock"), "both files are gone");
  OK(door_ended(visit, MS), "then the connection ends");
  OK(door_hear(control, &r, NULL, MS) && r.asked == PCO_KEEPER_BY_DOOR,
     "the host is told, too");
  IS(door_join(&d, MS), 0, "the agent ends");
  close(visit);
  close(control);
  door_drop(&c);
  door_remove(&d);
}

static void test_ttl(void) {
  const char *const args[] = {"--ttl", "700", NULL};
  door_start(&d, agent, args);
  int control = attach();
  start_relayed("sleep 1000");
  detach(control);
  IS(door_join(&d, MS), 0, "the ttl ends it with nobody there");
  OK(!door_has(&d, "info") && !door_has(&d, "sock"), "both files are gone");
  door_remove(&d);
  door_start(&d, agent, args);
  control = attach();
  pco_keeper_report r;
  OK(door_hear(control, &r, NULL, MS) && r.type == PCO_KEEPER_ENDED,
     "and with a host");
  IS(r.asked, PCO_KEEPER_BY_TTL, "which is told why");
  IS(door_join(&d, MS), 0, "the agent ends");
  close(control);
  door_drop(&c);
  door_remove(&d);
}

/* Of another user, who got as far as to the socket. */
static void test_foreign(void) {
  if (geteuid() != 0) {
    tap_skip("a visitor of another user", "only root can be one");
    return;
  }
  begin();
  int control = attach();
  fchmod(d.dir, 0755);
  fchmodat(d.dir, DOOR_NAME ".sock", 0777, 0);
  pid_t pid = fork();
  if (pid == 0) {
    if (setgid(65534) != 0 || setuid(65534) != 0)
      _exit(2);
    int visit = door_connect(&d);
    if (visit < 0)
      _exit(3);
    door_order(visit, PCO_KEEPER_END, 0);
    _exit(door_ended(visit, MS) ? 0 : 4);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  IS(status, 0, "another user is sent away");
  IS(client_simple(&c, PCO_WIRE_PING, MS), 0, "and has ended nothing");
  finish(control);
}

/* Those who say nothing: the next ones wait, and they are sent away. */
static void test_silent(void) {
  int silent[8], late;
  begin();
  int control = attach();
  for (int i = 0; i < N(silent); i++)
    silent[i] = door_connect(&d);
  late = door_connect(&d);
  door_order(late, PCO_KEEPER_ATTACH, 0);
  pco_keeper_report r;
  struct pollfd p = {.fd = late, .events = POLLIN};
  client_simple(&c, PCO_WIRE_PING, MS);
  IS(poll(&p, 1, 100), 0, "the ninth is not let in");
  close(silent[0]);
  OK(door_hear(late, &r, NULL, MS) && r.type == PCO_KEEPER_REFUSED &&
         r.error == EBUSY,
     "it is when one has left");
  int ended = 0;
  for (int i = 1; i < N(silent); i++) {
    ended += door_ended(silent[i], MS);
    close(silent[i]);
  }
  IS(ended, N(silent) - 1, "who says nothing is sent away");
  close(late);
  finish(control);
}

/* A message with a descriptor, which nobody takes. */
static void send_descriptor(int visit) {
  char control[CMSG_SPACE(sizeof(int))] = {0};
  pco_keeper_order o = {.type = 99};
  struct iovec v = {&o, sizeof o};
  struct msghdr m = {.msg_iov = &v,
                     .msg_iovlen = 1,
                     .msg_control = control,
                     .msg_controllen = sizeof control};
  struct cmsghdr *h = CMSG_FIRSTHDR(&m);
  h->cmsg_level = SOL_SOCKET;
  h->cmsg_type = SCM_RIGHTS;
  h->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(h), &visit, sizeof visit);
  sendmsg(visit, &m, MSG_NOSIGNAL);
}

static void test_hostile(void) {
  static char large[70000];
  begin();
  int control = attach();
  for (int i = 0; i < 6; i++) {
    int visit = door_connect(&d);
    switch (i) {
    case 0:
      send(visit, "x", 1, MSG_NOSIGNAL);
      break;
    case 1:
      send(visit, large, sizeof large, MSG_NOSIGNAL);
      break;
    case 2:
      door_order(visit, 99, 0);
      break;
    case 3:
      door_order(visit, PCO_KEEPER_DETACH, 0); /* it is not the host */
      break;
    case 4:
      send_descriptor(visit);
      break;
    default:
      send(visit, "", 0, MSG_NOSIGNAL);
    }
    OK(door_ended(visit, MS), "what is no order ends the visit (%d)", i);
    close(visit);
  }
  for (int i = 0; i < 500; i++)
    close(door_connect(&d));
  IS(client_simple(&c, PCO_WIRE_PING, MS), 0, "the agent works on");
  int visit = door_connect(&d);
  door_order(visit, PCO_KEEPER_ATTACH, 0);
  pco_keeper_report r;
  OK(door_hear(visit, &r, NULL, MS) && r.error == EBUSY,
     "and the door is served");
  close(visit);
  finish(control);
}

/* Its files are somebody else's by now. */
static void test_replaced_files(void) {
  begin();
  int control = attach();
  unlinkat(d.dir, DOOR_NAME ".info", 0);
  int fd =
      openat(d.dir, DOOR_NAME ".info", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  close(fd);
  close(control);
  IS(door_join(&d, MS), 0, "the agent ends");
  OK(door_has(&d, "info"), "and leaves what is not its own");
  door_drop(&c);
  door_remove(&d);
}

/* ---- an agent whose keeper has the door ---------------------------------- */

static void give(int visits, int stream) {
  char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
  struct iovec v = {&byte, 1};
  struct msghdr m = {.msg_iov = &v,
                     .msg_iovlen = 1,
                     .msg_control = control,
                     .msg_controllen = sizeof control};
  struct cmsghdr *h = CMSG_FIRSTHDR(&m);
  h->cmsg_level = SOL_SOCKET;
  h->cmsg_type = SCM_RIGHTS;
  h->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(h), &stream, sizeof stream);
  OK(sendmsg(visits, &m, MSG_NOSIGNAL) == 1, "a stream is passed on");
  close(stream);
}

static void next_host(int visits) {
  int pair[2];
  door_drop(&c);
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    exit(1);
  give(visits, pair[0]);
  c.fd = pair[1];
  OK(door_hello(&c) != UINT64_MAX, "the next host is greeted");
}

static void test_keeper(void) {
  int visits[2], pair[2];
  char number[16];
  client first;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, visits) != 0)
    exit(1);
  fcntl(visits[0], F_SETFD, FD_CLOEXEC);
  snprintf(number, sizeof number, "%d", visits[1]);
  const char *const args[] = {"--door", number, NULL};
  client_start(&c, agent, "/", args);
  close(visits[1]);
  pid_t pid = c.agent;
  IS(door_hello(&c), 0, "the first host comes as ever");
  uint64_t op = start_relayed("read x; exit 9");
  next_host(visits[0]);
  IS(told_of(op, false).code, -1, "its command lives");
  /* Another one comes while this one is there. */
  first = c;
  memset(&c, 0, sizeof c);
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    exit(1);
  give(visits[0], pair[0]);
  c.fd = pair[1];
  OK(door_hello(&c) != UINT64_MAX, "a host comes while another is there");
  OK(client_ended(&first, MS), "the other one is let go");
  door_drop(&first);
  IS(told_of(op, false).code, -1, "the command lives");
  close(visits[0]);
  OK(client_ended(&c, MS), "without its keeper it ends");
  c.agent = pid;
  IS(client_join(&c, MS), 0, "by itself");
  door_drop(&c);
}

static void test_no_door(void) {
  client_start(&c, agent, "/", NULL);
  IS(door_hello(&c), UINT64_MAX, "without a door there is no LAST_OP");
  c.op = 100;
  IS(client_simple(&c, PCO_WIRE_COMMANDS, MS), EOPNOTSUPP, "nor COMMANDS");
  IS(client_stop(&c), 0, "and it ends with its stream");
}

static void test_arguments(void) {
  const char *const wrong[][8] = {
      {"--listen", "5", NULL},
      {"--listen", "5", "--state", "6", "--info", "7", NULL},
      {"--fd", "5", "--ttl", "1000", NULL},
      {"--fd", "5", "--name", "x", NULL},
      {"--door", "5", NULL},
      {"--fd", "5", "--door", "2", NULL},
  };
  for (int i = 0; i < N(wrong); i++) {
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
      const char *argv[10] = {agent};
      for (int j = 0; wrong[i][j]; j++)
        argv[j + 1] = wrong[i][j];
      union {
        const char **in;
        char **out;
      } v = {argv};
      close(2);
      execv(agent, v.out);
      _exit(127);
    }
    waitpid(pid, &status, 0);
    IS(WEXITSTATUS(status), 2, "wrong arguments are refused");
  }
}

/* Nobody comes: it waits while the other tests run. */
static door lonely;

static void check_lonely(void) {
  IS(door_join(&lonely, 60000), 0, "an agent to whom nobody comes ends");
  OK(!door_has(&lonely, "info"), "and its files are gone");
  door_remove(&lonely);
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fputs("usage: agent_door_test AGENT\n", stderr);
    return 2;
  }
  agent = argv[1];
  door_start(&lonely, agent, NULL);
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
  test_one_host();
  test_crash();
  test_end_by_visitor();
  test_ttl();
  test_foreign();
  test_silent();
  test_hostile();
  test_replaced_files();
  test_keeper();
  test_no_door();
  test_arguments();
  check_lonely();
  return tap_done();
}
