/* SPDX-License-Identifier: MIT */
/* What a host sees of a runtime: statistics, tasks, the log, names of codes. */
#include <string.h>

#include "embed.h"
#include "lua_dump.h"
#include "lua_task.h"

#ifndef PCO_VERSION
#  define PCO_VERSION "0.1.0"
#endif

const char *pco_errname(int code) {
  return pco__code_name(code);
}

const char *pco_strerror(int code) {
  return pco__code_text(code);
}

uint32_t pco_version(void) {
  return PCO_VERSION_NUMBER;
}

const char *pco_version_string(void) {
  return PCO_VERSION;
}

const char *pco_last_message(pco_runtime *rt) {
  return pco__embed_check(rt) < 0 ? "" : rt->message;
}

/* ---- the log ------------------------------------------------------------- */

void pco__embed_log(pco_runtime *rt, int level, const char *text) {
  if (pco__embed_logs(rt))
    rt->config.log(rt->config.ud, level, text);
}

bool pco__embed_logs(const pco_runtime *rt) {
  return rt && rt->config.log;
}

bool pco__may_use_backend(const pco__lua *lua, const char *name) {
  if (!lua->embedder)
    return true;
  if (strchr(name, '/'))
    return false;
  for (const char *const *b = lua->backends; b && *b; b++)
    if (strcmp(*b, name) == 0)
      return true;
  return !lua->backends;
}

/* ---- statistics ---------------------------------------------------------- */

static uint32_t length(const pco__node *list) {
  uint32_t count = 0;
  for (const pco__node *n = list->next; n != list; n = n->next)
    count++;
  return count;
}

static uint64_t lua_bytes(pco_runtime *rt) {
  if (rt->owns_state)
    return rt->memory.used;
  return (uint64_t)lua_gc(rt->L, LUA_GCCOUNT) * 1024 +
         (uint64_t)lua_gc(rt->L, LUA_GCCOUNTB);
}

int pco_get_stats(pco_runtime *rt, pco_stats *stats) {
  int rc = pco__embed_check(rt);
  if (rc < 0)
    return rc;
  if (!stats)
    return PCO_EINVAL;
  const pco__lua *lua = rt->lua;
  pco_stats s = rt->stats;
  s.size = stats->size;
  s.tasks = (uint32_t)lua->n_tasks;
  s.tasks_ready = length(&lua->ready) + length(&lua->turn);
  const pco__node *backends = &lua->runtime.loop.backends;
  for (pco__node *n = backends->next; n != backends; n = n->next) {
    s.backends++;
    s.sandboxes += length(&PCO_CONTAINER(n, pco__backend, node)->sandboxes);
  }
  s.portals = length(&lua->runtime.portals);
  s.calls = rt->n_calls;
  s.lua_bytes = lua_bytes(rt);
  s.lua_peak_bytes = rt->memory.peak;
  return pco__embed_give(stats, s.size, &s, sizeof s,
                         PCO__END_OF(pco_stats, lua_peak_bytes));
}

typedef struct dump {
  pco__guarded g;
  pco_dump_fn fn;
  void *ud;
  int n;
} dump;

static void dump_all(lua_State *L, pco_runtime *rt, pco__guarded *g) {
  dump *d = PCO_CONTAINER(g, dump, g);
  d->n = pco__dump_tasks(L, rt->lua, d->fn, d->ud);
}

int pco_dump_tasks(pco_runtime *rt, pco_dump_fn fn, void *ud) {
  int rc = pco__embed_check(rt);
  if (rc < 0 || !fn)
    return rc < 0 ? rc : PCO_EINVAL;
  dump d = {.g.fn = dump_all, .fn = fn, .ud = ud};
  rc = pco__embed_guard(rt, &d.g, 0);
  return rc < 0 ? rc : d.n;
}
