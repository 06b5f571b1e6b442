/* SPDX-License-Identifier: MIT */
/*
 * A command with a terminal inside, on our terminal outside.
 *
 * Ours is raw then, so that every key, Ctrl-C too, goes to the terminal inside
 * and means there what it means.  It is put back on every way out that a
 * program can see.  The main thread reads the command's output and writes it
 * here; a thread reads stdin, one bufferful until that was taken, and wakes the
 * main thread by a SIGURG (stop.c).
 */
#include "terminal.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <lauxlib.h>

#include "cli.h"
#include "pump.h"
#include "stop.h"

/* ---- modes --------------------------------------------------------------- */

static volatile sig_atomic_t is_raw;
static struct termios cooked;
static struct termios raw;

void terminal_restore(void) {
  if (!is_raw)
    return;
  is_raw = 0;
  tcsetattr(STDIN_FILENO, TCSADRAIN, &cooked);
}

int terminal_end(lua_State *L) {
  (void)L;
  terminal_restore();
  return 0;
}

/* We are about to end by this signal, which has its default action again. */
static void on_crash(int signo) {
  terminal_restore();
  raise(signo);
}

/* The shell had the terminal while we were stopped. */
static void on_continue(int signo) {
  int error = errno;
  (void)signo;
  if (is_raw)
    tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
  errno = error;
}

/* Sanitizers have handlers of their own, which say more. */
static void watch_crash(int signo) {
  struct sigaction action = {.sa_handler = on_crash, .sa_flags = SA_RESETHAND};
  struct sigaction before;
  if (sigaction(signo, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
    sigaction(signo, &action, NULL);
}

static void make_raw(void) {
  static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
  if (tcgetattr(STDIN_FILENO, &cooked) < 0)
    return;
  raw = cooked;
  cfmakeraw(&raw);
  for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; i++)
    watch_crash(crashes[i]);
  is_raw = 1;
  cli_set_handler(SIGCONT, on_continue);
  tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
}

int terminal_size(lua_State *L) {
  struct winsize size;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0 ||
      size.ws_row == 0)
    return 0;
  lua_pushinteger(L, size.ws_col);
  lua_pushinteger(L, size.ws_row);
  return 2;
}

/* ---- what is typed ------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t taken = PTHREAD_COND_INITIALIZER;
/* Under the lock. */
static char typed[4096];
static size_t n_typed;
static bool typed_end;

static pthread_t main_thread;

/* Hands over what was read (nothing: the end), once there is room. */
static void hand_over(const char *data, size_t n) {
  pthread_mutex_lock(&lock);
  while (n_typed > 0)
    pthread_cond_wait(&taken, &lock);
  memcpy(typed, data, n);
  n_typed = n;
  typed_end = n == 0;
  pthread_mutex_unlock(&lock);
  pthread_kill(main_thread, SIGURG);
}

static void *read_keys(void *arg) {
  static char buffer[sizeof typed];
  (void)arg;
  ssize_t n;
  do {
    n = pump_read(STDIN_FILENO, buffer, sizeof buffer);
    hand_over(buffer, n > 0 ? (size_t)n : 0);
  } while (n > 0);
  return NULL;
}

int terminal_begin(lua_State *L) {
  bool reads = lua_toboolean(L, 1), keys = lua_toboolean(L, 2);
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, NULL); /* an EPIPE of emit, instead */
  main_thread = pthread_self();
  stop_wake_on(SIGWINCH);
  if (reads && keys && isatty(STDIN_FILENO))
    make_raw();
  int rc = reads ? pump_thread(read_keys, NULL) : 0;
  if (rc < 0)
    return luaL_error(L, "cannot read stdin: %s", strerror(-rc));
  return 0;
}

int terminal_typed(lua_State *L) {
  char data[sizeof typed];
  pthread_mutex_lock(&lock);
  size_t n = n_typed;
  bool end = typed_end && n == 0;
  memcpy(data, typed, n);
  n_typed = 0;
  typed_end = typed_end && !end; /* told once */
  pthread_cond_signal(&taken);
  pthread_mutex_unlock(&lock);
  if (n > 0)
    lua_pushlstring(L, data, n);
  else if (end)
    lua_pushboolean(L, 0);
  else
    lua_pushnil(L);
  return 1;
}

/* ---- what is shown ------------------------------------------------------- */

int terminal_emit(lua_State *L) {
  size_t left;
  const char *data = luaL_checklstring(L, 1, &left);
  int fd = (int)luaL_optinteger(L, 2, STDOUT_FILENO);
  struct pollfd out = {.fd = fd, .events = POLLOUT};
  while (left > 0) {
    ssize_t n = write(fd, data, left);
    if (n < 0 && errno != EINTR && errno != EAGAIN)
      return luaL_fileresult(L, 0, NULL);
    if (n < 0 && stop_signal())
      return 0;
    if (n < 0 && errno == EAGAIN)
      poll(&out, 1, -1);
    if (n > 0) {
      data += n;
      left -= (size_t)n;
    }
  }
  lua_pushboolean(L, 1);
  return 1;
}
