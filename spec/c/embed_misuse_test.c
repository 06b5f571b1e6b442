/* SPDX-License-Identifier: MIT */
/*
 * Bad input to portico.h: each a code, never a crash; and an allocator that
 * fails the n-th time, for every n.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "embed.h"
#include "embed_host.h"
#include "portico/sandbox.h"

#define MS UINT64_C(1000000)

/* ---- structs ------------------------------------------------------------- */

static int create(const pco_config *c) {
  pco_runtime *rt = NULL;
  int rc = pco_runtime_create(c, &rt);
  if (rc == 0)
    pco_runtime_destroy(rt);
  return rc == 0 ? 0 : rt ? 1 : rc;
}

/* Structs of a program that was built earlier, and of one built later. */
static void test_sizes(void) {
  struct {
    size_t size;
    int first, second;
  } given = {sizeof given, 1, 2}, ours = {0};
  const size_t first = sizeof given.size + sizeof given.first;
  embed_is(pco__embed_take(&ours, sizeof ours, first, &given, first), 0,
           "a struct that had one field less");
  embed_ok(ours.first == 1 && ours.second == 0, "which is zero");
  embed_is(pco__embed_take(&ours, sizeof ours, first, &given, sizeof given), 0,
           "one of this size");
  embed_ok(ours.first == 1 && ours.second == 2, "is taken whole");
  embed_is(pco__embed_take(&ours, sizeof ours, first, &given, first - 1),
           PCO_ESIZE, "smaller than it ever was");
  embed_is(pco__embed_take(&ours, first, first, &given, sizeof given),
           PCO_ESIZE, "a field that is not known here yet, and is used");
  given.second = 0;
  ours.second = 7;
  embed_is(pco__embed_take(&ours, first, first, &given, sizeof given), 0,
           "or is zero");
  embed_is(ours.second, 7, "nothing is written behind ours");
}

/* The same for structs that are filled in. */
static void test_filling(void) {
  struct {
    size_t size;
    int first, second;
  } ours = {0, 1, 2}, theirs = {0, 7, 7};
  const size_t first = sizeof ours.size + sizeof ours.first;
  ours.size = first;
  embed_is(pco__embed_give(&theirs, first, &ours, sizeof ours, first), 0,
           "a struct that had one field less is filled");
  embed_ok(theirs.size == first && theirs.first == 1 && theirs.second == 7,
           "and nothing behind it is written");
  embed_is(pco__embed_give(&theirs, first - 1, &ours, sizeof ours, first),
           PCO_ESIZE, "smaller than it ever was");
  ours.size = sizeof theirs;
  embed_is(pco__embed_give(&theirs, sizeof theirs, &ours, first, first), 0,
           "one with a field that is not known here");
  embed_ok(theirs.size == sizeof theirs && theirs.second == 0,
           "which is zeroed");
  embed_is(pco__embed_give(&theirs, SIZE_MAX, &ours, first, first), PCO_ESIZE,
           "no struct is that large");

  struct {
    pco_tick_info info;
    uint64_t more[2];
  } tick;
  struct {
    pco_stats stats;
    uint64_t more[2];
  } looked;
  memset(&tick, 7, sizeof tick);
  memset(&looked, 7, sizeof looked);
  tick.info.size = sizeof tick - sizeof tick.more[1];
  looked.stats.size = sizeof looked - sizeof looked.more[1];
  pco_runtime *rt = embed_new(NULL);
  embed_is(pco_tick(rt, 0, &tick.info), PCO_IDLE, "a larger info of a tick");
  embed_ok(tick.info.slices == 0 && tick.info.next_timer_ns == -1 &&
               tick.more[0] == 0 && tick.more[1] != 0,
           "is filled, and zero in what is new");
  embed_is(pco_get_stats(rt, &looked.stats), 0, "larger statistics");
  embed_ok(looked.stats.ticks == 1 && looked.more[0] == 0 &&
               looked.more[1] != 0,
           "are, too");
  pco_runtime_destroy(rt);
}

static void test_config(void) {
  struct {
    pco_config c;
    char more[64];
  } big;
  memset(&big, 0, sizeof big);
  pco_config_init(&big.c);
  embed_is(create(&big.c), 0, "the right size");
  size_t sizes[] = {0,    1,       sizeof(size_t), sizeof(pco_config) - 1,
                    5000, SIZE_MAX};
  bool good = true;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    big.c.size = sizes[i];
    good = good && create(&big.c) == PCO_ESIZE;
  }
  embed_ok(good, "wrong sizes are refused");
  big.c.size = sizeof big;
  embed_is(create(&big.c), 0, "a larger struct, with zero in what is new");
  big.more[63] = 1;
  embed_is(create(&big.c), PCO_ESIZE, "with something there: refused");

  pco_config c;
  pco_config_init(&c);
  embed_is(c.lua_version, LUA_VERSION_NUM, "the host's Lua is noted");
  c.lua_version = 501;
  embed_is(create(&c), PCO_ELUA, "Lua 5.1 or LuaJIT");
  c.lua_version = 505;
  embed_is(create(&c), PCO_ELUA, "a Lua of the future");
  pco_config_init(&c);
  c.libs = 1u << 30;
  embed_is(create(&c), PCO_EINVAL, "an unknown library");
  pco_config_init(&c);
  c.slice_signal = 1000;
  c.interruptible = 1;
  embed_is(create(&c), PCO_EINVAL, "a signal that there is not");
  pco_config_init(&c);
  c.lua_dir = "/no/such/directory";
  c.libs = PCO_LIBS_SAFE; /* so that LUA_PATH finds nothing either */
  pco_runtime *rt = embed_new(&c);
  embed_ok(strstr(embed_run(rt, "require 'portico'"), "/no/such/directory") !=
               NULL,
           "a directory without the modules is named");
  pco_runtime_destroy(rt);
  embed_is(create(NULL), PCO_EINVAL, "no config");
  pco_config_init(&c);
  embed_is(pco_runtime_create(&c, NULL), PCO_EINVAL, "nowhere to put it");
  lua_State *L = luaL_newstate();
  c.state = L;
  c.memory_limit = 1;
  embed_is(create(&c), PCO_EINVAL, "a limit of memory for the host's state");
  lua_close(L);

  pco_tick_info info = {.size = 1};
  pco_stats stats = {.size = 1};
  rt = embed_new(NULL);
  embed_is(pco_tick(rt, 0, &info), PCO_ESIZE, "info of another size");
  embed_is(pco_get_stats(rt, &stats), PCO_ESIZE, "stats of another size");
  pco_runtime_destroy(rt);
}

/* ---- every function, wherever it must not be called ---------------------- */

static void no_post(pco_runtime *rt, void *ud) {
  (void)rt;
  (void)ud;
}

static void no_dump(void *ud, const char *line) {
  (void)ud;
  (void)line;
}

/* True if all functions of a runtime answer with this code; `posts`: those for
 * any thread, too. */
static bool all_say(pco_runtime *rt, pco_task *task, int want, bool posts) {
  pco_stats stats = {.size = sizeof stats};
  uv_loop_t loop;
  pco_task *made = NULL;
  pco_pending *pending = NULL;
  const int got[] = {
      pco_tick(rt, 0, NULL),
      pco_run(rt, NULL, 0),
      pco_poll_fd(rt),
      pco_load(rt, "return", 6, "=x", &made),
      pco_call(rt, 0, &made),
      pco_attach_uv(rt, &loop, 0),
      pco_shutdown(rt, 0),
      pco_shutdown_done(rt),
      pco_get_stats(rt, &stats),
      pco_dump_tasks(rt, no_dump, NULL),
      pco_box_create(rt, NULL, NULL, NULL, &pending),
      pco_box_attach(rt, NULL, "id", NULL, NULL, &pending),
      pco_boxes_list(rt, NULL, NULL, NULL, &pending),
      pco_boxes_reap(rt, NULL, NULL, NULL, &pending),
      pco_boxes_destroy(rt, NULL, "id", NULL, NULL, &pending),
      task ? pco_task_status(task) : want,
      task ? pco_task_cancel(task) : want,
      task ? pco_task_on_done(task, NULL, NULL) : want,
      task ? pco_task_results(task, NULL, 0) : want,
      posts ? pco_post(rt, no_post, NULL) : want,
      posts ? pco_wake(rt) : want,
      posts ? pco_interrupt(rt) : want,
  };
  bool good = !made && !pending && !pco_state(rt) && !*pco_last_message(rt);
  for (size_t i = 0; i < sizeof got / sizeof *got; i++)
    if (got[i] != want) {
      printf("# function %zu says %s\n", i, pco_errname(got[i]));
      good = false;
    }
  return good;
}

typedef struct visit {
  pco_runtime *rt;
  pco_task *task;
  bool good;
} visit;

static void *from_thread(void *arg) {
  visit *v = (visit *)arg;
  v->good = all_say(v->rt, v->task, PCO_ETHREAD, false) &&
            pco_runtime_destroy(v->rt) == PCO_ETHREAD &&
            pco_detach_uv(v->rt) == PCO_ETHREAD && !pco_task_message(v->task) &&
            pco_post(v->rt, no_post, NULL) == 0 && pco_wake(v->rt) == 0;
  return NULL;
}

static int in_child(pco_runtime *rt, pco_task *task) {
  bool good = all_say(rt, task, PCO_EFORKED, true) &&
              pco_runtime_destroy(rt) == PCO_EFORKED &&
              pco_forked_child(rt) == 0 &&
              pco_forked_child(rt) == PCO_ECLOSED &&
              pco_tick(rt, 0, NULL) == PCO_ECLOSED;
  /* The child may have one of its own. */
  pco_config c;
  pco_config_init(&c);
  pco_runtime *own = NULL;
  good = good && pco_runtime_create(&c, &own) == 0 && own != rt &&
         strcmp(embed_run(own, "return 5"), "5") == 0 &&
         pco_runtime_destroy(own) == 0;
  return good ? 0 : 1;
}

static pid_t inner_child = -1;

static int fork_in_script(lua_State *L) {
  (void)L;
  inner_child = fork();
  return 0;
}

/* The child's tick ends there, and takes nothing of what the parent waits for:
 * its timer, the answers to its calls. */
static void test_fork_in_tick(void) {
  pco_runtime *rt = embed_new(NULL);
  lua_State *L = pco_state(rt);
  lua_register(L, "fork", fork_in_script);
  pco_task *others = embed_load(rt, "local P = require'portico'\n"
                                    "for _ = 1, 20 do P.sleep(0.01) end");
  pco_task *task = embed_load(rt, "fork()");
  fflush(stdout);
  int rc = 0;
  for (int i = 0; i < 10000 && inner_child < 0; i++)
    rc = pco_tick(rt, 20 * MS, NULL);
  if (inner_child == 0)
    _exit(rc == PCO_EFORKED ? 0 : 1);
  int status = -1;
  waitpid(inner_child, &status, 0);
  embed_is(status, 0, "forked by a script: the child's tick says PCO_EFORKED");
  embed_ok(pco_run(rt, others, INT64_C(60000000000)) == 0 &&
               pco_task_status(others) == PCO_TASK_DONE,
           "the parent has its timers");
  pco_task_release(others);
  pco_task_release(task);
  pco_runtime_destroy(rt);
}

static void test_places(void) {
  embed_ok(all_say(NULL, NULL, PCO_EINVAL, true), "no runtime");
  embed_is(pco_runtime_destroy(NULL), PCO_EINVAL, "nor its end");
  embed_is(pco_forked_child(NULL), PCO_EINVAL, "nor a child of it");
  pco_task_release(NULL);
  pco_box_release(NULL);
  pco_command_release(NULL);
  pco_pending_release(NULL);
  embed_is(pco_task_status(NULL), PCO_EINVAL, "nor a task");
  embed_is(pco_promise_resolve(NULL, NULL, NULL), PCO_EINVAL, "nor a promise");
  embed_is(pco_pending_code(NULL), PCO_EINVAL, "nor a call");

  pco_runtime *rt = embed_new(NULL);
  pco_task *task = embed_load(rt, "require'portico'.sleep(100)");
  pco_tick(rt, MS, NULL);
  visit v = {.rt = rt, .task = task};
  pthread_t thread;
  pthread_create(&thread, NULL, from_thread, &v);
  pthread_join(thread, NULL);
  embed_ok(v.good, "from another thread: PCO_ETHREAD, but for posts");

  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0)
    _exit(in_child(rt, task));
  int status = -1;
  waitpid(pid, &status, 0);
  embed_is(status, 0, "in a forked child: PCO_EFORKED, and a new one works");
  embed_is(pco_forked_child(rt), PCO_EINVAL, "the parent is no child");
  embed_is(pco_tick(rt, 0, NULL), PCO_WAITING, "it did not notice");
  embed_is(pco_task_status(task), PCO_TASK_RUNNING, "nor did its task");

  pco_task_release(task);
  pco_runtime_destroy(rt);
  embed_ok(all_say(rt, NULL, PCO_ECLOSED, true), "after the end: PCO_ECLOSED");
  embed_is(pco_runtime_destroy(rt), PCO_ECLOSED, "also for a second end");
}

/* ---- re-entrance --------------------------------------------------------- */

static int inner_tick, inner_run, inner_destroy, inner_wait;

static void misbehave(pco_runtime *rt, void *ud) {
  (void)ud;
  inner_tick = pco_tick(rt, 0, NULL);
  inner_run = pco_run(rt, NULL, 0);
  inner_destroy = pco_runtime_destroy(rt);
  pco_pending *p = NULL;
  pco_box_opts o = {.size = sizeof o, .backend = "null"};
  pco_box_create(rt, &o, NULL, NULL, &p);
  inner_wait = pco_pending_wait(p, -1);
  pco_pending_release(p);
}

static int tick_in_script(lua_State *L) {
  lua_pushinteger(L, pco_tick(lua_touserdata(L, lua_upvalueindex(1)), 0, NULL));
  return 1;
}

static void test_reentrance(void) {
  pco_runtime *rt = embed_new(NULL);
  pco_post(rt, misbehave, NULL);
  pco_tick(rt, MS, NULL);
  embed_is(inner_tick, PCO_EREENTRANT, "a tick in a callback");
  embed_is(inner_run, PCO_EREENTRANT, "a run");
  embed_is(inner_destroy, PCO_EREENTRANT, "the end");
  embed_is(inner_wait, PCO_EREENTRANT, "waiting");
  lua_State *L = pco_state(rt);
  lua_pushlightuserdata(L, rt);
  lua_pushcclosure(L, tick_in_script, 1);
  lua_setglobal(L, "tick");
  char want[16];
  snprintf(want, sizeof want, "%d", PCO_EREENTRANT);
  embed_text(embed_run(rt, "return tick()"), want, "a tick in a script");
  embed_ok(luaL_dostring(L, "require'portico'.run(print)") != LUA_OK,
           "run() outside of a task: the host drives");
  lua_settop(L, 0);
  pco_runtime_destroy(rt);
}

/* ---- the n-th allocation fails ------------------------------------------- */

/* Sanitizers make it slow: with them every 7th, unless PORTICO_HEAVY=100. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STRIDE = 7 };
#else
enum { STRIDE = 1 };
#endif

typedef struct memory {
  long left; /* allocations until it fails; negative: it never does */
  bool once;
  bool failed;
  long waits;
  size_t used;
} memory;

static void *failing(void *ud, void *ptr, size_t osize, size_t nsize) {
  memory *m = (memory *)ud;
  if (nsize > osize && m->left >= 0 && m->left-- == 0) {
    m->failed = true;
    m->left = m->once ? -1 : 0;
    return NULL;
  }
  void *p = NULL;
  if (nsize)
    p = realloc(ptr, nsize);
  else
    free(ptr);
  if (p || !nsize)
    m->used += nsize - osize;
  return p;
}

static int ask_nobody(lua_State *L) {
  pco_promise *p = pco_promise_new(L);
  pco_promise_resolve(p, NULL, NULL);
  return 0;
}

static void nothing(void *ud, pco_task *task) {
  (void)ud;
  (void)pco_task_message(task);
}

/* A little of everything; false: something was reported that it must not. */
static bool little_life(memory *m) {
  static const char script[] =
      "local P, task = require 'portico', require 'portico.task'\n"
      "task.scope(function(s)\n"
      "  s:spawn(P.sleep, 0)\n"
      "  s:spawn(function() pcall(error, 'x') end)\n"
      "end)\n"
      "ask()\n"
      "local sb <close> = P.sandbox{backend = 'null'}\n"
      "sb:exec{'echo', 'x'}\n"
      "error('end')";
  pco_config c;
  pco_config_init(&c);
  c.alloc = failing;
  c.ud = m;
  pco_runtime *rt = NULL;
  int rc = pco_runtime_create(&c, &rt);
  if (rc < 0)
    return rc == UV_ENOMEM && !rt && m->used == 0;
  pco_task *task = NULL;
  lua_State *L = pco_state(rt);
  lua_pushcfunction(L, ask_nobody); /* light: it needs no memory */
  rc = pco_call(rt, 0, NULL);
  bool good = rc == 0 || rc == UV_ENOMEM;
  rc = pco_load(rt, script, sizeof script - 1, "=script", &task);
  good = good && (rc == 0 || rc == UV_ENOMEM);
  if (task)
    pco_task_on_done(task, nothing, NULL);
  for (int i = 0; i < 200; i++) {
    rc = pco_tick(rt, MS, NULL);
    good = good && (rc >= 0 || rc == UV_ENOMEM);
    if (rc == PCO_IDLE)
      break;
    if (!embed_readable(pco_poll_fd(rt), 5)) {
      m->waits++;
      break; /* it waits for what nobody could tell it: the end must do */
    }
  }
  rc = pco_dump_tasks(rt, no_dump, NULL);
  good = good && (rc >= 0 || rc == UV_ENOMEM);
  pco_task_release(task);
  good = good && pco_runtime_destroy(rt) == 0;
  return good && m->used == 0;
}

static void test_failing(bool once) {
  const char *heavy = getenv("PORTICO_HEAVY");
  long stride = heavy && atoi(heavy) >= 100 ? 1 : STRIDE;
  bool good = true;
  long n = 0;
  long waits = 0;
  for (;; n += stride) {
    memory m = {.left = n, .once = once};
    if (!little_life(&m)) {
      printf("# n = %ld: %zu bytes are left\n", n, m.used);
      good = false;
    }
    waits += m.waits;
    if (!m.failed)
      break;
  }
  printf("# %ld allocations, %ld ends with a script that waits\n", n, waits);
  embed_ok(n > 500, "there is much to fail");
  embed_ok(good, once ? "the n-th allocation fails, for every n"
                      : "and all that come after it");
}

int main(int argc, char **argv) {
  (void)argc;
  embed_begin(argv[0]);
  test_sizes();
  test_filling();
  test_config();
  test_places();
  test_fork_in_tick();
  test_reentrance();
  test_failing(true);
  test_failing(false);
  return embed_end();
}
