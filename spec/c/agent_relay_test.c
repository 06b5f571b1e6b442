/* SPDX-License-Identifier: MIT */
/*
 * A real agent: relayed pipes and terminals, credits, ends, broken frames.
 * usage: agent_relay_test AGENT
 */
#include "agent_client.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS         20000 /* for what comes at once */
#define CREDIT     ((long long)PCO_RELAY_CREDIT)
#define PACKET     4096
#define MANY       40
#define KIB        1024
#define RELAYED    PCO_STDIO_RELAY, PCO_STDIO_RELAY, PCO_STDIO_RELAY
#define A_TERMINAL PCO_STDIO_TERMINAL, PCO_STDIO_TERMINAL, PCO_STDIO_TERMINAL

static const char *agent;
static client c;

/* ---- helpers ------------------------------------------------------------ */

static void begin(void) {
  client_start(&c, agent, "/", NULL);
  client_simple(&c, PCO_WIRE_PING, MS); /* it has opened all that it needs */
}

static void end(void) {
  IS(client_stop(&c), 0, "the agent ends by itself");
}

/* The agent has as many descriptors as that again, or will. */
static void check_fds(int want, const char *text) {
  int n = client_fds(c.agent);
  if (n < 0) {
    tap_skip(text, "this user may not look into the agent");
    return;
  }
  for (int i = 0; i < 500 && n > want; i++) {
    usleep(10000);
    n = client_fds(c.agent);
  }
  OK(n <= want, "%s (%d descriptors, of %d)", text, n, want);
}

static uint64_t sh(const char *script, const spawn *like) {
  const char *const argv[] = {"/bin/sh", "-c", script, NULL};
  spawn s = *like;
  s.argv = argv;
  return client_spawn(&c, &s);
}

static uint64_t sh_relayed(const char *script) {
  return sh(script, &(spawn){.kind = {RELAYED}});
}

static uint64_t sh_terminal(const char *script) {
  return sh(script, &(spawn){.kind = {A_TERMINAL}, .cols = 80, .rows = 24});
}

static void input(uint64_t op, const void *data, size_t len) {
  pco_wire_begin(&c.buf, PCO_WIRE_INPUT, 0, op);
  pco_wire_bytes(&c.buf, PCO_TAG_DATA, data, len);
  client_send(&c, NULL, 0);
}

static void give(uint64_t op, uint64_t stream, uint64_t len) {
  pco_wire_begin(&c.buf, PCO_WIRE_CREDIT, 0, op);
  pco_wire_number(&c.buf, PCO_TAG_STREAM, stream);
  pco_wire_number(&c.buf, PCO_TAG_LENGTH, len);
  client_send(&c, NULL, 0);
}

static void close_input(uint64_t op) {
  pco_wire_begin(&c.buf, PCO_WIRE_CLOSE_INPUT, 0, op);
  client_send(&c, NULL, 0);
}

static uint64_t close_output(uint64_t op, uint64_t stream, uint64_t flags) {
  uint64_t id = client_begin(&c, PCO_WIRE_CLOSE_OUTPUT);
  client_number(&c, PCO_TAG_TARGET, op);
  client_number(&c, PCO_TAG_STREAM, stream);
  client_number(&c, PCO_TAG_FLAGS, flags);
  client_send(&c, NULL, 0);
  return id;
}

/* The errno of the answer, 0 for a REPLY, -1 for none. */
static int answer(uint64_t op) {
  frame *f = client_take(&c, op, MS);
  int rc = !f ? -1
           : f->header.type == PCO_WIRE_REPLY
               ? 0
               : (int)frame_number(f, PCO_TAG_ERRNO, 9999);
  free(f);
  return rc;
}

static int resize(uint64_t op, uint64_t cols, uint64_t rows) {
  uint64_t id = client_begin(&c, PCO_WIRE_RESIZE);
  client_number(&c, PCO_TAG_TARGET, op);
  client_number(&c, PCO_TAG_COLS, cols);
  client_number(&c, PCO_TAG_ROWS, rows);
  client_send(&c, NULL, 0);
  return answer(id);
}

/* What has come of a command. */
typedef struct got {
  char text[2][256 * KIB];
  size_t len[2];
  int eof[2]; /* PCO_EOF_*, or 0 */
  bool in_eof;
  size_t credited; /* of input */
  bool started, exited, refused;
  int code;
  bool broken; /* an offset that does not follow, or a frame after the end */
} got;

static got g;

static void take_output(const frame *f) {
  pco_wire_iter it;
  pco_wire_field field;
  size_t i = (size_t)frame_number(f, PCO_TAG_STREAM, 9) - 1;
  if (i > 1 || g.eof[i] ||
      frame_number(f, PCO_TAG_OFFSET, UINT64_MAX) != g.len[i]) {
    g.broken = true;
    return;
  }
  pco_wire_iter_init(&it, f->payload, f->header.size);
  while (pco_wire_next(&it, &field) == 1)
    if (field.tag == PCO_TAG_DATA) {
      if (g.len[i] + field.len < sizeof g.text[i])
        memcpy(g.text[i] + g.len[i], field.data, field.len);
      g.len[i] += field.len;
    }
  g.eof[i] = (int)frame_number(f, PCO_TAG_EOF, 0);
}

/* Takes one frame of a command; false if none comes. */
static bool take(uint64_t op, int ms) {
  frame *f = client_take(&c, op, ms);
  if (!f)
    return false;
  switch (f->header.type) {
  case PCO_WIRE_OUTPUT:
    take_output(f);
    break;
  case PCO_WIRE_CREDIT:
    g.broken = g.broken || g.in_eof;
    g.credited += (size_t)frame_number(f, PCO_TAG_LENGTH, 0);
    g.in_eof = frame_number(f, PCO_TAG_EOF, 0) != 0;
    break;
  case PCO_WIRE_STARTED:
    g.started = true;
    break;
  case PCO_WIRE_EXIT:
    g.exited = true;
    g.code = (int)frame_number(f, PCO_TAG_CODE, 999);
    break;
  default:
    g.refused = true;
  }
  free(f);
  return true;
}

static void forget(void) {
  memset(&g, 0, sizeof g);
}

/* Takes all up to the exit and the ends of the outputs in `mask`. */
static void take_all(uint64_t op, unsigned mask) {
  while ((!g.exited || (mask & 1 && !g.eof[0]) || (mask & 2 && !g.eof[1])) &&
         take(op, MS))
    ;
}

/* Takes until the text has come. */
static bool take_text(uint64_t op, const char *text) {
  while (!strstr(g.text[0], text))
    if (!take(op, MS))
      return false;
  return true;
}

/* ---- pipes -------------------------------------------------------------- */

static void test_pipes(void) {
  begin();
  int fds = client_fds(c.agent);
  forget();
  uint64_t op = sh_relayed("cat; echo err >&2; exit 5");
  input(op, "one\n", 4);
  input(op, "two", 3);
  close_input(op);
  take_all(op, 3);
  OK(strcmp(g.text[0], "one\ntwo") == 0, "stdin to stdout");
  OK(strcmp(g.text[1], "err\n") == 0, "stderr apart");
  IS(g.code, 5, "the exit code");
  OK(g.eof[0] == PCO_EOF_END && g.eof[1] == PCO_EOF_END, "both ends are told");
  OK(g.in_eof && g.credited == 7, "and that of the input");
  OK(!g.broken, "offsets follow");
  check_fds(fds + 2, "nothing but a supervisor is left");
  forget();
  op = sh_relayed("exec <&-; exec sleep 0.01");
  while (!g.in_eof && take(op, MS))
    input(op, "x", 1);
  OK(g.in_eof, "nobody reads: the end of the input");
  take_all(op, 3);
  end();
}

static void test_credit(void) {
  begin();
  forget();
  uint64_t op = sh_relayed("head -c 1000000 /dev/zero; echo end >&2; sleep 9");
  while (take(op, 500))
    ;
  OK(g.len[0] <= PCO_RELAY_CREDIT && g.len[0] > PCO_RELAY_CREDIT - PACKET,
     "output stops at the credit (%zu)", g.len[0]);
  size_t before = g.len[0];
  give(op, 1, 2 * PACKET);
  while (take(op, 500))
    ;
  OK(g.len[0] > before && g.len[0] <= PCO_RELAY_CREDIT + 2 * PACKET,
     "goes on with more (%zu)", g.len[0]);
  give(op, 1, 1000000);
  while (g.len[0] < 1000000 && take(op, MS))
    ;
  IS(g.len[0], 1000000, "and all comes");
  take_text(op, "");
  while (g.len[1] < 4 && take(op, MS))
    ;
  IS(g.len[1], 4, "the other stream has its own");
  IS(client_kill(&c, op, 0, MS), 0, "killed");
  take_all(op, 3);
  OK(g.eof[0] == PCO_EOF_END && !g.broken, "and it ends");
  end();
}

/* Credit comes back only for what the command has taken. */
static void test_input_credit(void) {
  static char block[PCO_RELAY_CREDIT];
  begin();
  forget();
  uint64_t op = sh_relayed("exec sleep 1000");
  size_t sent = 0;
  while (sent < 40 * sizeof block) {
    size_t room = PCO_RELAY_CREDIT - (sent - g.credited);
    if (room > 0) {
      input(op, block, room);
      sent += room;
    } else if (!take(op, 300))
      break;
  }
  OK(sent < 4 * sizeof block && sent - g.credited == PCO_RELAY_CREDIT,
     "a command that does not read holds the writer (%zu)", sent);
  IS(client_simple(&c, PCO_WIRE_PING, MS), 0, "the agent does not wait for it");
  client_kill(&c, op, 0, MS);
  take_all(op, 3);
  OK(g.in_eof, "its input ends with it");
  end();
}

static void test_packets(void) {
  begin();
  forget();
  uint64_t op =
      sh_relayed("exec python3 -c 'import fcntl,os\n"
                 "fcntl.fcntl(1, fcntl.F_SETFL, os.O_DIRECT | os.O_WRONLY)\n"
                 "for i in range(100): os.write(1, b\"x\" * 3000)'");
  for (int i = 0; i < 5000 && (!g.exited || !g.eof[0]); i++)
    if (!take(op, g.started ? 5 : MS))
      give(op, 1, 1000);
  if (g.code != 0)
    tap_skip("packets are whole", "python3 cannot run");
  else
    IS(g.len[0], 300000, "packets are whole, however small the credit");
  end();
}

static void test_close_output(void) {
  begin();
  forget();
  uint64_t op = sh_relayed("(sleep 1000 >&2) & echo x; echo y >&2");
  while ((!g.exited || !g.eof[0]) && take(op, MS))
    ;
  uint64_t id = close_output(op, 2, 0);
  IS(answer(id), 0, "CLOSE_OUTPUT is answered");
  while (take(op, 200))
    ;
  OK(g.eof[1] == PCO_EOF_HELD && strcmp(g.text[1], "y\n") == 0,
     "after what lay there, and the end");
  IS(answer(close_output(op, 2, 0)), 0, "again");
  IS(answer(close_output(op, 1, PCO_CLOSE_NOW)), 0, "of one that has ended");
  client_kill(&c, op, 0, MS);
  forget();
  op = sh_relayed("yes");
  while (g.len[0] < PCO_RELAY_CREDIT - PACKET && take(op, MS))
    ;
  id = close_output(op, 1, PCO_CLOSE_NOW);
  IS(answer(id), 0, "CLOSE_OUTPUT at once");
  take_all(op, 1);
  OK(g.eof[0] == PCO_EOF_HELD && g.code == 128 + SIGPIPE,
     "and the writer hears of it (%d)", g.code);
  end();
}

/* ---- ends that are asked for twice --------------------------------------- */

#define FILLED (256 * KIB)

/* The program with --fill: writes that much to its stdout, a pipe that it makes
 * large enough to hold what nobody reads. */
static int fill(void) {
  static char zeros[KIB];
  if (fcntl(1, F_SETPIPE_SZ, FILLED) < FILLED)
    return 1;
  for (int i = 0; i < FILLED / KIB; i++)
    if (write(1, zeros, sizeof zeros) != (ssize_t)sizeof zeros)
      return 1;
  if (write(2, "filled", 6) != 6)
    return 1;
  return pause();
}

static uint64_t spawn_full(void) {
  char self[4096];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  self[n > 0 ? n : 0] = 0;
  const char *const argv[] = {self, "--fill", NULL};
  uint64_t op = client_spawn(&c, &(spawn){.argv = argv, .kind = {RELAYED}});
  while ((g.len[0] < PCO_RELAY_CREDIT || g.len[1] < 6) && take(op, MS))
    ;
  return op;
}

/* The place of an answer, or of the end of an output, among the frames that
 * wait to be taken; -1: it is not there. */
static int place_of(uint64_t op) {
  int place = 0;
  for (const frame *f = c.waiting; f; f = f->next, place++)
    if (f->header.op == op && (f->header.type != PCO_WIRE_OUTPUT ||
                               frame_number(f, PCO_TAG_EOF, 0) != 0))
      return place;
  return -1;
}

static void test_close_twice(void) {
  begin();
  forget();
  uint64_t op = spawn_full();
  kill(c.agent, SIGSTOP); /* so that it gets all of this at once */
  give(op, 1, 2 * FILLED);
  uint64_t first = close_output(op, 1, 0);
  uint64_t again = close_output(op, 1, 0);
  uint64_t now = close_output(op, 1, PCO_CLOSE_NOW);
  kill(c.agent, SIGCONT);
  IS(client_simple(&c, PCO_WIRE_PING, MS), 0, "all of it is answered");
  int end_at = place_of(op);
  OK(place_of(again) >= 0 && place_of(again) < end_at, "one waits for the end");
  OK(end_at >= 0 && place_of(first) > end_at && place_of(now) > end_at,
     "two are answered behind it");
  IS(answer(again), EALREADY, "a second one is refused");
  IS(answer(first), 0, "the first is answered");
  IS(answer(now), 0, "so is one that wants it at once");
  client_kill(&c, op, 0, MS);
  end();
}

/* ---- terminals ---------------------------------------------------------- */

static void test_terminal(void) {
  begin();
  int fds = client_fds(c.agent);
  forget();
  uint64_t op = sh_terminal("stty size; read x; stty size; echo got=$x; tty");
  OK(take_text(op, "24 80\r\n"), "a terminal of that size");
  IS(resize(op, 100, 30), 0, "RESIZE");
  input(op, "word\n", 5);
  take_all(op, 1);
  OK(strstr(g.text[0], "word\r\n30 100\r\ngot=word\r\n/dev/pts/"),
     "echo, the new size, the word");
  OK(g.eof[0] == PCO_EOF_END && !g.broken, "its end");
  IS(g.credited, 5, "the input was taken");
  IS(resize(op, 100, 30), 3, "RESIZE after the end is ESRCH");
  IS(resize(op + 1, 100, 30), 3, "and of no command");
  check_fds(fds + 2, "nothing is left");
  forget();
  op = sh_relayed("read x");
  IS(resize(op, 1, 1), 25, "RESIZE of a pipe is ENOTTY");
  close_input(op);
  take_all(op, 3);
  end();
}

static void test_no_echo(void) {
  begin();
  forget();
  uint64_t op =
      sh("read x; echo got=$x", &(spawn){.kind = {A_TERMINAL},
                                         .cols = 80,
                                         .rows = 24,
                                         .flags = PCO_SPAWN_FLAG_NO_ECHO});
  input(op, "secret\n", 7);
  take_all(op, 1);
  OK(strcmp(g.text[0], "got=secret\r\n") == 0, "nothing is echoed");
  end();
}

static void test_hang_up(void) {
  begin();
  forget();
  uint64_t op = sh_terminal("trap '' TERM; echo ready; exec sleep 1000");
  OK(take_text(op, "ready"), "it runs");
  IS(answer(close_output(op, 1, PCO_CLOSE_NOW)), 0, "hung up");
  take_all(op, 1);
  IS(g.code, 128 + SIGHUP, "SIGHUP ends it");
  forget();
  op = sh_terminal("trap '' HUP; setsid sleep 1000 & echo x");
  while (!g.exited && take(op, MS))
    ;
  OK(!g.eof[0], "who else has the terminal keeps it");
  IS(answer(close_output(op, 1, 0)), 0, "until it is given up");
  while (take(op, 200))
    ;
  OK(g.eof[0] == PCO_EOF_HELD && strcmp(g.text[0], "x\r\n") == 0,
     "and all that was written is there");
  client_kill(&c, op, 0, MS);
  end();
}

static void test_many(void) {
  uint64_t ops[MANY];
  begin();
  int fds = client_fds(c.agent);
  for (int i = 0; i < MANY; i++)
    ops[i] = sh_terminal("read x; echo got=$x");
  int good = 0;
  for (int i = 0; i < MANY; i++)
    input(ops[i], "y\n", 2);
  for (int i = 0; i < MANY; i++) {
    forget();
    take_all(ops[i], 1);
    good += strcmp(g.text[0], "y\r\ngot=y\r\n") == 0 && g.code == 0 &&
            g.eof[0] == PCO_EOF_END && !g.broken;
  }
  IS(good, MANY, "many terminals at once");
  /* idle supervisors have two each, and four stay */
  check_fds(fds + 8, "and none is left");
  for (int i = 0; i < MANY; i++)
    ops[i] = sh_terminal("yes");
  for (int i = 0; i < MANY; i++) {
    forget();
    while (!g.started && take(ops[i], MS))
      ;
  }
  IS(client_simple(&c, PCO_WIRE_KILL_ALL, MS), 0, "KILL_ALL under a flood");
  for (int i = 0; i < MANY; i++) {
    forget();
    give(ops[i], 1, 1 << 20);
    while (!g.eof[0] && take(ops[i], MS))
      ;
  }
  check_fds(fds + 8, "none is left of these");
  end();
}

/* The host goes while terminals are open. */
static void test_end_of_stream(void) {
  begin();
  forget();
  uint64_t op = sh_terminal("trap '' HUP; while :; do echo x; done");
  OK(take_text(op, "x"), "it floods");
  end();
}

static void test_no_start(void) {
  begin();
  int fds = client_fds(c.agent);
  const char *const argv[] = {"/no/such/program", NULL};
  spawn s = {.argv = argv, .kind = {A_TERMINAL}, .cols = 80, .rows = 24};
  forget();
  uint64_t op = client_spawn(&c, &s);
  input(op, "x", 1);
  give(op, 1, 1);
  while (!g.refused && take(op, MS))
    ;
  while (take(op, 200))
    ;
  OK(g.refused && !g.started && !g.eof[0] && !g.credited,
     "a command that does not start has no streams");
  IS(answer(close_output(op, 1, 0)), 0, "CLOSE_OUTPUT of it");
  check_fds(fds + 2, "and leaves nothing");
  end();
}

/* ---- broken frames ------------------------------------------------------ */

static void expect_broken(const char *text) {
  OK(client_ended(&c, 5000), "%s ends the connection", text);
  int status = client_join(&c, 5000);
  OK(WIFEXITED(status) && WEXITSTATUS(status) == 3, "%s: exit status 3", text);
  close(c.fd);
  c.fd = -1;
  client_stop(&c);
}

static uint64_t waiting(void) {
  uint64_t op;
  begin();
  forget();
  op = sh_terminal("stty raw; echo ready; exec sleep 1000");
  take_text(op, "ready");
  return op;
}

static void test_too_much(void) {
  static char block[PCO_RELAY_CREDIT + 1];
  uint64_t op = waiting();
  input(op, block, sizeof block);
  expect_broken("INPUT beyond the credit");
  op = waiting();
  give(op, 1, UINT64_C(1) << 30);
  expect_broken("more credit than there may be");
  waiting();
  give(c.op + 5, 1, 5);
  expect_broken("CREDIT for a command to come");
  waiting();
  input(c.op + 5, "x", 1);
  expect_broken("INPUT for a command to come");
  op = waiting();
  give(op, 3, 5);
  expect_broken("CREDIT for stream 3");
  op = waiting();
  give(op, 1, 0);
  expect_broken("CREDIT of nothing");
  op = waiting();
  resize(op, 0, 5);
  expect_broken("a size of 0");
  op = waiting();
  resize(op, 5, 65536);
  expect_broken("a size of 65536");
}

static uint64_t adopt(uint64_t target, uint64_t bits, const int *fds, int n) {
  uint64_t id = client_begin(&c, PCO_WIRE_ADOPT);
  client_number(&c, PCO_TAG_TARGET, target);
  client_number(&c, PCO_TAG_FLAGS, bits);
  client_send(&c, fds, n);
  return id;
}

/* Pipes are handed over that the agent does not know what to do with. */
static void test_adopt(void) {
  int p[2];
  if (pipe2(p, O_CLOEXEC) != 0)
    return;
  begin();
  forget();
  uint64_t op = sh("read x", &(spawn){.kind = {PCO_STDIO_RELAY}});
  while (!g.started && take(op, MS))
    ;
  IS(answer(adopt(op + 500, PCO_ADOPT_OUT, p, 1)), ESRCH, "no such command");
  forget();
  uint64_t brief = sh("true", &(spawn){0});
  take_all(brief, 0);
  IS(client_kill(&c, brief, 0, MS), 0, "one is over");
  IS(answer(adopt(brief, PCO_ADOPT_OUT, p, 1)), ESRCH, "and is not adopted");
  IS(answer(adopt(op, 0, NULL, 0)), 0, "what is relayed already");
  adopt(op, PCO_ADOPT_OUT, p, 1);
  expect_broken("ADOPT of what is relayed already, with a descriptor");
  op = waiting();
  adopt(op, PCO_ADOPT_OUT, p, 1);
  expect_broken("ADOPT of a terminal, with a descriptor");
  op = waiting();
  adopt(op, PCO_ADOPT_OUT | PCO_ADOPT_ERR, p, 1);
  expect_broken("ADOPT with a descriptor too few");
  op = waiting();
  adopt(op, PCO_ADOPT_OUT, p, 2);
  expect_broken("ADOPT with one too many");
  op = waiting();
  adopt(op, 8, p, 1);
  expect_broken("ADOPT of stream 3");
  int odd[3] = {open("/dev/null", O_RDWR | O_CLOEXEC),
                open("/etc/passwd", O_RDONLY | O_CLOEXEC),
                open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  begin();
  forget();
  op = sh("sleep 1000", &(spawn){0});
  while (!g.started && take(op, MS))
    ;
  adopt(op, 7, odd, 3);
  IS(client_simple(&c, PCO_WIRE_PING, MS), 0, "what is no pipe does no harm");
  IS(client_kill(&c, op, 0, MS), 0, "to nothing");
  end();
  for (int i = 0; i < 3; i++)
    close(odd[i]);
  close(p[0]);
  close(p[1]);
}

static void broken_spawn(const char *text, const spawn *s) {
  begin();
  sh("true", s);
  expect_broken(text);
}

static void test_broken_spawn(void) {
  broken_spawn("a terminal without a size", &(spawn){.kind = {A_TERMINAL}});
  broken_spawn("a terminal without rows",
               &(spawn){.kind = {A_TERMINAL}, .cols = 80});
  broken_spawn("a terminal with 65536 rows",
               &(spawn){.kind = {A_TERMINAL}, .cols = 80, .rows = 65536});
  broken_spawn("half a terminal",
               &(spawn){.kind = {0, PCO_STDIO_TERMINAL, PCO_STDIO_TERMINAL},
                        .cols = 80,
                        .rows = 24});
  begin();
  client_begin(&c, PCO_WIRE_SPAWN);
  client_string(&c, PCO_TAG_ARGV, "true");
  client_number(&c, PCO_TAG_FLAGS, 0);
  client_number(&c, PCO_TAG_COLS, 80);
  client_number(&c, PCO_TAG_ROWS, 24);
  for (int i = 0; i < 3; i++)
    client_number(&c, PCO_TAG_STDIO, PCO_STDIO_TERMINAL);
  client_send(&c, &(int){1}, 1);
  expect_broken("a terminal of the host's");
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--fill") == 0)
    return fill();
  if (argc != 2) {
    fputs("usage: agent_relay_test AGENT\n", stderr);
    return 2;
  }
  agent = argv[1];
  test_pipes();
  test_credit();
  test_input_credit();
  test_packets();
  test_close_output();
  test_close_twice();
  test_terminal();
  test_no_echo();
  test_hang_up();
  test_many();
  test_end_of_stream();
  test_no_start();
  test_too_much();
  test_adopt();
  test_broken_spawn();
  return tap_done();
}
