/* SPDX-License-Identifier: MIT */
/*
 * A tool on plain epoll that serves several scripts: each line that comes on
 * its standard input is a piece of Lua, run as a task beside the others; what
 * it returns, or why it failed, is printed.  One descriptor of the runtime's
 * lies in the tool's epoll, beside its own; no thread, no timeout.
 *
 *   cc embed_epoll.c $(pkg-config --cflags --libs portico lua5.4) -o serve
 *   echo 'return require "portico".sandbox{}:output("uname")' | ./serve
 */
#include <errno.h>
#include <lua.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <portico/portico.h>

#define BUDGET_NS 5000000 /* of a tick: the rest of the tool has its turn */
#define GRACE_NS  2000000000

static int running; /* scripts */

static void print_result(pco_runtime *rt, pco_task *task) {
  lua_State *L = pco_state(rt);
  if (pco_task_status(task) != PCO_TASK_DONE) {
    printf("failed: %s\n", pco_task_message(task));
  } else if (pco_task_results(task, L, 1) == 1) {
    const char *text = lua_tostring(L, -1);
    printf("%s\n", text ? text : lua_typename(L, lua_type(L, -1)));
    lua_pop(L, 1);
  }
  fflush(stdout);
}

static void on_done(void *ud, pco_task *task) {
  print_result((pco_runtime *)ud, task);
  running--;
}

static void start(pco_runtime *rt, const char *line, size_t len) {
  pco_task *task;
  if (pco_load(rt, line, len, "=input", &task) < 0) {
    printf("failed: %s\n", pco_last_message(rt));
    return;
  }
  running++;
  pco_task_on_done(task, on_done, rt);
  pco_task_release(task); /* it runs on */
}

/* Starts the whole lines of what has come; false at the end of the input. */
static int take_input(pco_runtime *rt) {
  static char text[65536];
  static size_t len;
  ssize_t n = read(STDIN_FILENO, text + len, sizeof text - len);
  if (n < 0 && errno == EINTR)
    return 1;
  len += n > 0 ? (size_t)n : 0;
  for (char *end; (end = memchr(text, '\n', len)) != NULL;) {
    size_t line = (size_t)(end - text);
    start(rt, text, line);
    len -= line + 1;
    memmove(text, end + 1, len);
  }
  return n > 0 && len < sizeof text;
}

static int watch(int ep, int fd) {
  struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};
  return epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
}

/* Serves until the input and all scripts have ended. */
static void serve(pco_runtime *rt, int ep) {
  int reading = 1;
  while (reading || running > 0) {
    struct epoll_event ev;
    if (epoll_wait(ep, &ev, 1, -1) != 1)
      continue;
    if (ev.data.fd != STDIN_FILENO) {
      pco_tick(rt, BUDGET_NS, NULL);
    } else if (!take_input(rt)) {
      reading = 0;
      epoll_ctl(ep, EPOLL_CTL_DEL, STDIN_FILENO, NULL);
    }
  }
}

int main(void) {
  pco_config config;
  pco_config_init(&config);
  config.libs = PCO_LIBS_SAFE; /* scripts have sandboxes, and nothing else */
  pco_runtime *rt;
  int rc = pco_runtime_create(&config, &rt);
  if (rc < 0) {
    fprintf(stderr, "no runtime: %s\n", pco_strerror(rc));
    return 1;
  }
  int ep = epoll_create1(EPOLL_CLOEXEC);
  if (ep < 0 || watch(ep, STDIN_FILENO) < 0 || watch(ep, pco_poll_fd(rt)) < 0) {
    perror("epoll (a pipe or a terminal as standard input is needed)");
    return 1;
  }
  serve(rt, ep);
  close(ep);
  pco_shutdown(rt, GRACE_NS);
  while (pco_shutdown_done(rt) == 0)
    pco_run(rt, NULL, -1);
  return pco_runtime_destroy(rt) < 0;
}
