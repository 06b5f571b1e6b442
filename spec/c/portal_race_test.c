/* SPDX-License-Identifier: MIT */
/*
 * Portals by themselves, without Lua and backends: opening where there is no
 * room, calls from many threads while it closes, cancelling that races with
 * starting and ending, a loop that somebody else stops.  The races are seeded
 * loops, for the thread sanitizer above all.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "op.h"
#include "portal.h"

#if defined(__SANITIZE_THREAD__)
enum { CLOSE_ROUNDS = 60, CANCEL_ROUNDS = 3000 };
/* The sanitizer ends forked children that start threads, unless told not to. */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void) {
  return "die_after_fork=0";
}
#else
enum { CLOSE_ROUNDS = 300, CANCEL_ROUNDS = 20000 };
#endif

enum { CALLERS = 4, PATIENCE_S = 20 };

static int failed, count;

static void ok(bool good, const char *text) {
  printf("%sok %d - %s\n", good ? "" : "not ", ++count, text);
  fflush(stdout);
  failed += !good;
}

static int count_fds(void) {
  int n = 0;
  for (int fd = 0; fd < 1024; fd++)
    n += fcntl(fd, F_GETFD) >= 0;
  return n;
}

static uint32_t random_of(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return *seed >> 8;
}

/* Waits for up to 50 us, without sleeping. */
static void dally(uint32_t *seed) {
  uint64_t until = uv_hrtime() + random_of(seed) % 50000;
  while (uv_hrtime() < until)
    ;
}

/* ---- ops for it ---------------------------------------------------------- */

/* What lives on a portal's loop: as a backend, it ends what waits on it. */
typedef struct place {
  pco__portal *portal;
  pco__node parked; /* of pco__op.owner_node */
  bool closing;
  pco__call close_call;
} place;

typedef struct echo {
  pco__op op;
  place *at;
  unsigned asked;
  unsigned answer;
  pco__call later;
} echo;

static void echo_later(pco__call *call) {
  echo *e = PCO_CONTAINER(call, echo, later);
  e->answer = e->asked;
  pco__op_complete(&e->op, NULL);
}

/* A third ends at once, a third in the next turn, a third never by itself. */
static void echo_start(pco__op *op) {
  echo *e = PCO_CONTAINER(op, echo, op);
  e->later.fn = echo_later;
  if (e->asked % 3 == 2 && !e->at->closing)
    pco__list_append(&e->at->parked, &op->owner_node);
  else if (e->asked % 3 == 1)
    pco__loop_defer(op->loop, &e->later);
  else
    echo_later(&e->later);
}

static void echo_cancel(pco__op *op) {
  if (!pco__list_empty(&op->owner_node))
    pco__op_complete(op,
                     pco__error_new(UV_ECANCELED, PCO_SOURCE_HOST, NULL, NULL));
}

static const pco__op_class echo_class = {
    .name = "echo", .start = echo_start, .cancel = echo_cancel};

static echo *echo_new(place *at, unsigned asked) {
  pco__op *op = pco__op_new(&echo_class, sizeof(echo), &at->portal->loop);
  if (!op)
    abort();
  echo *e = PCO_CONTAINER(op, echo, op);
  e->at = at;
  e->asked = asked;
  return e;
}

static void end_parked(pco__call *call) {
  place *at = PCO_CONTAINER(call, place, close_call);
  at->closing = true;
  while (!pco__list_empty(&at->parked))
    echo_cancel(PCO_CONTAINER(at->parked.next, pco__op, owner_node));
}

static bool open_place(place *at, pco__runtime *rt) {
  memset(at, 0, sizeof *at);
  pco__list_init(&at->parked);
  at->close_call.fn = end_parked;
  return pco__portal_open(rt, true, &at->portal) == 0;
}

static void stop_place(place *at) {
  pco__loop_post(&at->portal->loop, &at->close_call);
  pco__portal_stop(at->portal);
}

/* Waits for the op; its code, 0, or 1 if it never ended. */
static int outcome(echo *e) {
  int rc = pco__op_wait(&e->op, INT64_C(1000000000) * PATIENCE_S);
  if (rc != PCO__OP_DONE)
    return 1;
  if (e->op.error)
    return e->op.error->code;
  return e->answer == e->asked ? 0 : 2;
}

/* ---- opening without room ------------------------------------------------ */

/* In a process of its own, which nobody else's limits count in. */
static bool in_child(bool (*fn)(void)) {
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0)
    _exit(fn() ? 0 : 1);
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* With `limit` of a resource the portal cannot open, or can; then, without the
 * limit, it opens, and nothing is left. */
static bool opens_after(int resource, rlim_t limit, int expected) {
  struct rlimit old;
  pco__runtime rt;
  pco__portal *portal = NULL;
  if (pco__runtime_init(&rt) < 0)
    return false;
  int fds = count_fds();
  getrlimit(resource, &old);
  setrlimit(resource, &(struct rlimit){limit, old.rlim_max});
  int rc = pco__portal_open(&rt, true, &portal);
  bool good = rc == expected && (rc == 0) == (portal != NULL);
  setrlimit(resource, &old);
  good = good && (portal || count_fds() == fds);
  if (!portal)
    good = pco__portal_open(&rt, true, &portal) == 0 && good;
  pco__portal_stop(portal);
  pco__portal_join(portal);
  good = good && count_fds() == fds;
  pco__runtime_deinit(&rt);
  return good;
}

static bool without_threads(void) {
  if (geteuid() == 0 && setresuid(61234, 61234, 61234) != 0)
    return false;
  return opens_after(RLIMIT_NPROC, 1, UV_EAGAIN);
}

/* The limit that leaves so many free. */
static rlim_t limit_for(int room) {
  int fd = 0;
  for (; room > 0 || fcntl(fd, F_GETFD) >= 0; fd++)
    room -= fcntl(fd, F_GETFD) < 0;
  return (rlim_t)fd;
}

/* One descriptor after the other, since libuv takes them one by one. */
static bool without_descriptors(void) {
  bool good = true;
  for (int room = 0; room < 4; room++)
    good = opens_after(RLIMIT_NOFILE, limit_for(room), UV_EMFILE) && good;
  return opens_after(RLIMIT_NOFILE, limit_for(4), 0) && good;
}

/* ---- A calls, B closes --------------------------------------------------- */

typedef struct caller {
  pthread_t thread;
  place *at;
  uint32_t seed;
  unsigned done, ended, strange;
} caller;

/* Calls until the portal is closed. */
static void *keep_calling(void *arg) {
  caller *c = arg;
  for (int code = 0; code != PCO_ECLOSED && code != 1;) {
    echo *e = echo_new(c->at, random_of(&c->seed));
    pco__op_submit(&e->op);
    code = outcome(e);
    c->done += code == 0;
    c->ended += code == PCO_ECLOSED || code == UV_ECANCELED;
    c->strange += code != 0 && code != PCO_ECLOSED && code != UV_ECANCELED;
    if (code != 1)
      pco__op_unref(&e->op);
  }
  return NULL;
}

/* Returns how many outcomes were none of the two. */
static unsigned close_round(pco__runtime *rt, uint32_t *seed, unsigned *done) {
  place at;
  caller callers[CALLERS] = {0};
  unsigned strange = 0;
  if (!open_place(&at, rt))
    return 1;
  pco__portal_ref(at.portal);
  for (int i = 0; i < CALLERS; i++) {
    callers[i].at = &at;
    callers[i].seed = random_of(seed);
    pthread_create(&callers[i].thread, NULL, keep_calling, &callers[i]);
  }
  for (uint32_t i = random_of(seed) % 8; i > 0; i--)
    dally(seed);
  stop_place(&at);
  pco__portal_join(at.portal);
  for (int i = 0; i < CALLERS; i++) {
    pthread_join(callers[i].thread, NULL);
    strange += callers[i].strange + (callers[i].ended == 0);
    *done += callers[i].done;
  }
  pco__portal_unref(at.portal);
  return strange;
}

static void test_close(pco__runtime *rt) {
  uint32_t seed = 4;
  unsigned strange = 0;
  unsigned done = 0;
  int fds = count_fds();
  for (int i = 0; i < CLOSE_ROUNDS; i++)
    strange += close_round(rt, &seed, &done);
  ok(strange == 0 && done > 0,
     "calls of many threads give their own answers, or hear of the close");
  ok(count_fds() == fds, "and leave no descriptor");
}

/* ---- cancelling ---------------------------------------------------------- */

/* Ends the ops of a place from a third thread, one a round. */
typedef struct finisher {
  place *at;
  atomic_int round;    /* that is to be finished; -1: no more */
  atomic_int finished; /* rounds whose call has run */
  pco__call call;
  uint32_t seed;
} finisher;

static void finish(pco__call *call) {
  finisher *f = PCO_CONTAINER(call, finisher, call);
  if (!pco__list_empty(&f->at->parked)) {
    pco__op *op = PCO_CONTAINER(f->at->parked.next, pco__op, owner_node);
    echo_later(&PCO_CONTAINER(op, echo, op)->later);
  }
  atomic_fetch_add(&f->finished, 1);
}

static void *finish_rounds(void *arg) {
  finisher *f = arg;
  f->call.fn = finish;
  for (int last = 0, round; (round = atomic_load(&f->round)) >= 0;) {
    if (round == last) {
      sched_yield();
      continue;
    }
    last = round;
    dally(&f->seed);
    pco__loop_post(&f->at->portal->loop, &f->call);
  }
  return NULL;
}

static void test_cancel(pco__runtime *rt) {
  place at;
  pthread_t thread;
  uint32_t seed = 8;
  int done = 0;
  int cancelled = 0;
  if (!open_place(&at, rt))
    abort();
  finisher f = {.at = &at, .seed = 5};
  pthread_create(&thread, NULL, finish_rounds, &f);
  for (int i = 1; i <= CANCEL_ROUNDS && done + cancelled == i - 1; i++) {
    echo *e = echo_new(&at, random_of(&seed));
    pco__op_submit(&e->op);
    atomic_store(&f.round, i);
    dally(&seed);
    pco__op_cancel(&e->op, PCO_ECANCELED);
    int code = outcome(e);
    done += code == 0;
    cancelled += code == PCO_ECANCELED;
    while (atomic_load(&f.finished) < i)
      sched_yield();
    pco__op_unref(&e->op);
  }
  ok(done + cancelled == CANCEL_ROUNDS, "a cancelled call ends, done or not");
  ok(done > 0 && cancelled > 0, "and both happened");
  atomic_store(&f.round, -1);
  pthread_join(thread, NULL);
  stop_place(&at);
  pco__portal_join(at.portal);
}

/* ---- a loop that somebody else stops ------------------------------------- */

static void stop_loop(pco__call *call) {
  uv_stop(&PCO_CONTAINER(call, place, close_call)->portal->loop.uv);
}

static void test_stray_stop(pco__runtime *rt) {
  place at;
  bool good = open_place(&at, rt);
  for (int i = 0; good && i < 100; i++) {
    at.close_call.fn = stop_loop;
    pco__loop_post(&at.portal->loop, &at.close_call);
    echo *e = echo_new(&at, 1);
    pco__op_submit(&e->op);
    good = outcome(e) == 0;
    pco__op_unref(&e->op);
  }
  ok(good, "a plugin that stops the loop does not end the portal");
  at.close_call.fn = end_parked;
  stop_place(&at);
  pco__portal_join(at.portal);
}

/* libuv makes a pipe for its first loop and keeps it. */
static bool warm_up(void) {
  pco__runtime rt;
  pco__portal *portal;
  if (pco__runtime_init(&rt) < 0 || pco__portal_open(&rt, true, &portal) < 0)
    return false;
  pco__portal_stop(portal);
  pco__portal_join(portal);
  pco__runtime_deinit(&rt);
  return true;
}

int main(void) {
  if (!warm_up())
    return 1;
  ok(in_child(without_threads), "no thread to be had: EAGAIN, nothing is left");
  ok(in_child(without_descriptors),
     "no descriptor to be had: EMFILE, nothing is left");
  pco__runtime rt;
  if (pco__runtime_init(&rt) < 0)
    return 1;
  test_close(&rt);
  test_cancel(&rt);
  test_stray_stop(&rt);
  pco__runtime_deinit(&rt);
  printf("1..%d\n", count);
  return failed != 0;
}
