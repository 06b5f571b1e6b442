/* SPDX-License-Identifier: MIT */
#include "embed_host.h"

#include <dirent.h>
#include <poll.h>

#include "lua_host.h"

static int failed, count;

void embed_ok(bool good, const char *text) {
  printf("%sok %d - %s\n", good ? "" : "not ", ++count, text);
  fflush(stdout);
  failed += !good;
}

void embed_is(long got, long want, const char *text) {
  embed_ok(got == want, text);
  if (got != want)
    printf("# got %ld (%s), not %ld\n", got, pco_errname((int)got), want);
}

void embed_text(const char *got, const char *want, const char *text) {
  bool same = got && want ? strcmp(got, want) == 0 : got == want;
  embed_ok(same, text);
  if (!same)
    printf("# got %s\n", got ? got : "nothing");
}

int embed_end(void) {
  printf("1..%d\n", count);
  return failed != 0;
}

void embed_begin(const char *argv0) {
  setvbuf(stdout, NULL, _IOLBF, 0); /* a crash leaves what was said */
  lua_host_begin(argv0);
}

bool embed_has(const char *backend, const char *what) {
  bool has = lua_host_has(backend);
  if (!has)
    printf("ok %d - # SKIP %s: %s cannot run here\n", ++count, what, backend);
  return has;
}

pco_runtime *embed_new(const pco_config *config) {
  pco_config c;
  pco_config_init(&c);
  pco_runtime *rt = NULL;
  int rc = pco_runtime_create(config ? config : &c, &rt);
  if (rc < 0) {
    printf("# no runtime: %s\n", pco_errname(rc));
    abort();
  }
  return rt;
}

pco_task *embed_load(pco_runtime *rt, const char *chunk) {
  pco_task *task = NULL;
  if (pco_load(rt, chunk, strlen(chunk), "=test", &task) < 0) {
    printf("# %s\n", pco_last_message(rt));
    abort();
  }
  return task;
}

const char *embed_run(pco_runtime *rt, const char *chunk) {
  static char text[1024];
  pco_task *task = embed_load(rt, chunk);
  int rc = pco_run(rt, task, 60 * INT64_C(1000000000));
  lua_State *L = pco_state(rt);
  text[0] = '\0';
  if (rc < 0) {
    snprintf(text, sizeof text, "pco_run: %s", pco_errname(rc));
  } else if (pco_task_status(task) != PCO_TASK_DONE) {
    snprintf(text, sizeof text, "%s", pco_task_message(task));
  } else if (pco_task_results(task, L, 1) == 1) {
    const char *s = lua_tostring(L, -1);
    snprintf(text, sizeof text, "%s", s ? s : luaL_typename(L, -1));
    lua_pop(L, 1);
  }
  pco_task_release(task);
  return text;
}

bool embed_readable(int fd, int ms) {
  struct pollfd p = {.fd = fd, .events = POLLIN};
  return poll(&p, 1, ms) == 1;
}

int embed_entries(const char *path) {
  DIR *d = opendir(path);
  int n = 0;
  while (d && readdir(d))
    n++;
  if (d)
    closedir(d);
  return n;
}
