/* SPDX-License-Identifier: MIT */
/*
 * Locks of the whole process in a child that was forked while another thread
 * held them: the child must not wait for a thread that it does not have.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plugin_loader.h"
#include "portico/plugin_lock.h"

enum { FORKS = 200, PATIENCE_S = 20 };

static int failed, count;

static void ok(bool good, const char *text) {
  printf("%sok %d - %s\n", good ? "" : "not ", ++count, text);
  fflush(stdout);
  failed += !good;
}

/* True if fn() comes back in a forked child. */
static bool returns_in_child(void (*fn)(void)) {
  int status = 0;
  pid_t pid = fork();
  if (pid == 0) {
    alarm(PATIENCE_S);
    fn();
    _exit(0);
  }
  return waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

/* ---- a lock -------------------------------------------------------------- */

static pco_lock lock = PCO_LOCK_INIT;
static atomic_int stage;

static void *hold(void *arg) {
  (void)arg;
  pco_lock_take(&lock);
  atomic_store(&stage, 1);
  while (atomic_load(&stage) == 1)
    usleep(1000);
  pco_lock_give(&lock);
  return NULL;
}

static void take_and_give(void) {
  for (int i = 0; i < 2; i++) {
    pco_lock_take(&lock);
    pco_lock_give(&lock);
  }
}

static void test_lock(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, hold, NULL);
  while (atomic_load(&stage) == 0)
    usleep(1000);
  ok(returns_in_child(take_and_give), "held by a thread, open in the child");
  ok(pthread_mutex_trylock(pco_lock_mutex(&lock)) != 0,
     "and held in the parent");
  atomic_store(&stage, 2);
  pthread_join(thread, NULL);
  take_and_give();
  ok(true, "until that gives it back");
}

/* ---- the table of plugins ------------------------------------------------ */

static atomic_bool enough;

static void see(void *arg, const char *name, const char *path) {
  (void)arg;
  (void)name;
  (void)path;
}

static void list(void) {
  pco__loader_list(see, NULL);
}

static void *keep_listing(void *arg) {
  (void)arg;
  while (!atomic_load(&enough))
    list();
  return NULL;
}

static void test_loader(void) {
  pthread_t thread;
  bool good = true;
  pthread_create(&thread, NULL, keep_listing, NULL);
  for (int i = 0; i < FORKS && good; i++)
    good = returns_in_child(list);
  atomic_store(&enough, true);
  pthread_join(thread, NULL);
  ok(good, "a host that forks while another thread looks for plugins");
}

int main(void) {
  test_lock();
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  (void)test_loader;
  printf("ok %d # SKIP the sanitizer's own locks may be held in the child\n",
         ++count);
#else
  test_loader();
#endif
  printf("1..%d\n", count);
  return failed != 0;
}
