/* SPDX-License-Identifier: MIT */
/*
 * A runtime in a hostile host: whatever that does with SIGCHLD, SIGPIPE,
 * descriptors, forks and threads, commands run; and what is the host's is the
 * same before and after.
 */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "embed_host.h"
#include "portico/sandbox.h"

#define MS UINT64_C(1000000)
#define S  INT64_C(1000000000)

extern char **environ;

static const char *backend;
static const char *self;

static void ok(bool good, const char *text) {
  char line[200];
  snprintf(line, sizeof line, "%s [%s]", text, backend);
  embed_ok(good, line);
}

/* ---- what is the host's -------------------------------------------------- */

typedef struct belongings {
  struct sigaction actions[65];
  sigset_t mask;
  char cwd[4096];
  mode_t mode;
  char *environment;
  char locale[256];
  int threads, descriptors, children;
} belongings;

static char *join_environment(void) {
  size_t size = 1;
  for (char **e = environ; *e; e++)
    size += strlen(*e) + 1;
  char *all = malloc(size);
  char *at = all;
  for (char **e = environ; all && *e; e++)
    at += sprintf(at, "%s\n", *e);
  if (all)
    *at = '\0';
  return all;
}

/* Children are only looked at, not reaped. */
static int has_children(void) {
  siginfo_t info = {0};
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static void look(belongings *b) {
  memset(b, 0, sizeof *b);
  for (int i = 1; i <= 64; i++)
    sigaction(i, NULL, &b->actions[i]);
  pthread_sigmask(SIG_SETMASK, NULL, &b->mask);
  if (!getcwd(b->cwd, sizeof b->cwd))
    abort();
  b->mode = umask(0);
  umask(b->mode);
  b->environment = join_environment();
  snprintf(b->locale, sizeof b->locale, "%s", setlocale(LC_ALL, NULL));
  b->threads = embed_entries("/proc/self/task");
  b->descriptors = embed_entries("/proc/self/fd");
  b->children = has_children();
}

static bool same(const char *what, bool good) {
  if (!good)
    printf("# changed: %s\n", what);
  return good;
}

static bool same_actions(const belongings *a, const belongings *b) {
  for (int i = 1; i <= 64; i++)
    if (a->actions[i].sa_handler != b->actions[i].sa_handler ||
        a->actions[i].sa_flags != b->actions[i].sa_flags)
      return false;
  return true;
}

static bool unchanged(belongings *a) {
  belongings b;
  look(&b);
  /* For a moment after its join the kernel still lists a thread. */
  for (int i = 0; i < 500 && b.threads != a->threads; i++) {
    usleep(10000);
    b.threads = embed_entries("/proc/self/task");
  }
  bool good = same("dispositions", same_actions(a, &b));
  good &= same("mask", memcmp(&a->mask, &b.mask, sizeof b.mask) == 0);
  good &= same("directory", strcmp(a->cwd, b.cwd) == 0);
  good &= same("umask", a->mode == b.mode);
  good &= same("environment", strcmp(a->environment, b.environment) == 0);
  good &= same("locale", strcmp(a->locale, b.locale) == 0);
  good &= same("threads", a->threads == b.threads);
  good &= same("descriptors", a->descriptors == b.descriptors);
  good &= same("children", a->children == b.children);
  free(a->environment);
  free(b.environment);
  return good;
}

/* ---- work ---------------------------------------------------------------- */

static const char script[] =
    "for _, name in ipairs{'portico', 'portico.sync'} do\n"
    "  local P = require(name)\n"
    "  local sync = name ~= 'portico' or nil\n"
    "  local sb <close> = P.sandbox{backend = BACKEND, allow_in_tasks = sync}\n"
    "  for i = 1, 5 do assert(sb:exec('exit ' .. i).code == i) end\n"
    /* A command that ends without reading its input. */
    "  assert(sb:exec('exit 7', {input = ('x'):rep(1e6)}).code == 7)\n"
    "  assert(sb:spawn'exec sleep 100':kill().signal == 'SIGKILL')\n"
    "end\n"
    "return 'fine'";

static pco_runtime *new_runtime(void) {
  pco_runtime *rt = embed_new(NULL);
  lua_pushstring(pco_state(rt), backend);
  lua_setglobal(pco_state(rt), "BACKEND");
  return rt;
}

/* Scripts in both facades, and the same from C. */
static bool works(void) {
  pco_runtime *rt = new_runtime();
  pco_task *task = embed_load(rt, script);
  bool good =
      pco_run(rt, task, 120 * S) == 0 && pco_task_status(task) == PCO_TASK_DONE;
  if (!good)
    printf("# %s\n", pco_task_message(task) ? pco_task_message(task) : "late");
  pco_task_release(task);
  return pco_runtime_destroy(rt) == 0 && good;
}

/* ---- SIGCHLD and SIGPIPE ------------------------------------------------- */

static volatile sig_atomic_t children;

static void on_child(int signo) {
  (void)signo;
  children++;
}

static void with_disposition(int signo, void (*handler)(int),
                             const char *text) {
  struct sigaction old;
  struct sigaction sa = {.sa_handler = handler, .sa_flags = SA_RESTART};
  belongings b;
  sigaction(signo, &sa, &old);
  look(&b);
  ok(works(), text);
  ok(unchanged(&b), "and nothing of the host's has changed");
  sigaction(signo, &old, NULL);
}

static void with_blocked(void) {
  sigset_t all;
  sigset_t old;
  belongings b;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  look(&b);
  ok(works(), "every signal is blocked");
  ok(unchanged(&b), "and stays so");
  pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static atomic_bool enough;

static void *steal_children(void *arg) {
  (void)arg;
  while (!atomic_load(&enough))
    if (waitpid(-1, NULL, WNOHANG) <= 0)
      nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  return NULL;
}

static void with_thief(void) {
  pthread_t thread;
  atomic_store(&enough, false);
  if (pthread_create(&thread, NULL, steal_children, NULL) != 0)
    abort();
  ok(works(), "another thread waits for every child");
  atomic_store(&enough, true);
  pthread_join(thread, NULL);
}

static void test_signals(void) {
  with_disposition(SIGCHLD, SIG_DFL, "SIGCHLD as it was");
  with_disposition(SIGCHLD, SIG_IGN, "SIGCHLD is ignored");
  with_disposition(SIGCHLD, on_child, "SIGCHLD has a handler");
  with_disposition(SIGPIPE, SIG_DFL, "SIGPIPE kills");
  with_blocked();
  with_thief();
}

/* ---- many at once -------------------------------------------------------- */

static void *work_in_thread(void *arg) {
  atomic_int *good = (atomic_int *)arg;
  if (works())
    atomic_fetch_add(good, 1);
  return NULL;
}

static void test_many(void) {
  belongings b;
  look(&b);
  pthread_t threads[3];
  atomic_int good = 0;
  for (int i = 0; i < 3; i++)
    if (pthread_create(&threads[i], NULL, work_in_thread, &good) != 0)
      abort();
  for (int i = 0; i < 3; i++)
    pthread_join(threads[i], NULL);
  ok(atomic_load(&good) == 3, "three runtimes in three threads");

  pco_runtime *first = new_runtime();
  pco_runtime *second = new_runtime();
  pco_task *a = embed_load(first, script);
  pco_task *c = embed_load(second, script);
  for (int i = 0; i < 1000000 && (pco_task_status(a) == PCO_TASK_RUNNING ||
                                  pco_task_status(c) == PCO_TASK_RUNNING);
       i++) {
    pco_tick(first, MS, NULL);
    pco_tick(second, MS, NULL);
    embed_readable(pco_poll_fd(first), 1);
  }
  ok(pco_task_status(a) == PCO_TASK_DONE && pco_task_status(c) == PCO_TASK_DONE,
     "two runtimes in one thread");
  pco_task_release(a);
  pco_task_release(c);
  pco_runtime_destroy(first);
  pco_runtime_destroy(second);
  ok(unchanged(&b), "and nothing is left");
}

/* ---- forks --------------------------------------------------------------- */

/* How many descriptors a program has that the host forks and executes. */
static int inherited(void) {
  int status = -1;
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    execl("/bin/sh", "sh", "-c", "exit $(ls /proc/self/fd | wc -l)", NULL);
    _exit(127);
  }
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_forks(void) {
  belongings b;
  look(&b);
  int before = inherited();
  pco_runtime *rt = new_runtime();
  pco_task *task =
      embed_load(rt, "local P = require'portico'\n"
                     "local sb <close> = P.sandbox{backend = BACKEND}\n"
                     "return sb:output'sleep 0.5; echo there'");
  for (int i = 0; i < 10; i++) {
    embed_readable(pco_poll_fd(rt), 100);
    pco_tick(rt, MS, NULL);
  }
  fflush(stdout);
  pid_t plain = fork();
  if (plain == 0) {
    pco_forked_child(rt);
    _exit(0);
  }
  pid_t careless = fork();
  if (careless == 0)
    exit(0); /* with all handlers of atexit, and nothing let go */
  int during = inherited();
  int status[2] = {-1, -1};
  waitpid(plain, &status[0], 0);
  waitpid(careless, &status[1], 0);
  ok(status[0] == 0 && status[1] == 0, "children of the host end");
  ok(before > 0 && during == before,
     "a program that it executes has no descriptor of ours");
  ok(pco_run(rt, task, 60 * S) == 0 && pco_task_status(task) == PCO_TASK_DONE,
     "the parent's command has not noticed");
  pco_task_release(task);
  pco_runtime_destroy(rt);
  ok(unchanged(&b), "and nothing is left");
}

/* ---- ends ---------------------------------------------------------------- */

static void test_open(void) {
  belongings b;
  look(&b);
  pco_runtime *rt = new_runtime();
  embed_run(rt, "local P, Q = require'portico', require'portico.sync'\n"
                "a = P.sandbox{backend = BACKEND}\n"
                "p = a:spawn'yes'  it = p:chunks()  it()\n"
                "q = Q.sandbox{backend = BACKEND, allow_in_tasks = true}\n"
                "r = q:spawn'sleep 1000'");
  pco_load(rt, "a:exec'sleep 1000'", 18, "=x", NULL);
  pco_tick(rt, MS, NULL);
  ok(pco_runtime_destroy(rt) == 0, "destroyed with everything open");
  ok(unchanged(&b), "and nothing is left");
}

static bool is_alive(pid_t pid) {
  return kill(pid, 0) == 0 || errno == EPERM;
}

/* The host runs again as a child, in a mode. */
static int run_self(const char *mode, char *out, size_t size) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) < 0)
    abort();
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    dup2(fds[1], 20);
    execl("/proc/self/exe", self, mode, backend, NULL);
    _exit(127);
  }
  close(fds[1]);
  size_t len = 0;
  for (ssize_t n;
       len + 1 < size && (n = read(fds[0], out + len, size - len - 1)) != 0;)
    if (n > 0)
      len += (size_t)n;
    else if (errno != EINTR)
      break;
  out[len] = '\0';
  close(fds[0]);
  int status = -1;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
    ;
  return status;
}

/* Starts something, tells the pid of its agent's child, and ends at once. */
static int abrupt(void) {
  pco_runtime *rt = new_runtime();
  const char *pid =
      embed_run(rt, "sb = require'portico'.sandbox{backend = BACKEND}\n"
                    "p = sb:spawn'echo $$; exec sleep 1000'\n"
                    "return (p:read().data:gsub('%s', ''))");
  dprintf(20, "%s", pid);
  _exit(0);
}

/* Has none of the three descriptors, and must not get one. */
/* Without those of the descriptors 0 to 2 whose bits are set. */
static int naked(int which) {
  for (int fd = 0; fd < 3; fd++)
    if (which & 1 << fd)
      close(fd);
  bool good = works();
  for (int fd = 0; fd < 3; fd++)
    if (which & 1 << fd)
      good = good && fcntl(fd, F_GETFD) < 0 && errno == EBADF;
  dprintf(20, "%s", good ? "good" : "bad");
  _exit(0);
}

static void test_ends(void) {
  char out[100];
  int status;
  bool good = true;
  for (int which = 1; which < 8; which += which < 4 ? which : 3) {
    char mode[] = {(char)('0' + which), '\0'};
    status = run_self(mode, out, sizeof out);
    good &= same(mode, status == 0 && strcmp(out, "good") == 0);
  }
  ok(good, "a host without some of descriptors 0 to 2, or all, works, and has "
           "none of these after");
  status = run_self("abrupt", out, sizeof out);
  pid_t pid = (pid_t)atoi(out);
  ok(status == 0 && pid > 0, "a host ends while a command runs");
  if (strcmp(backend, "local") != 0) /* another's pid namespace */
    return;
  for (int i = 0; i < 1000 && is_alive(pid); i++)
    usleep(10000);
  ok(!is_alive(pid), "the command ends, too");
}

/* What libuv and a plugin keep for the whole process is there then. */
static void warm_up(void) {
  works();
}

int main(int argc, char **argv) {
  static const char *const names[] = {"local", "bwrap"};
  self = argv[0];
  if (argc == 3) {
    embed_begin(argv[0]);
    backend = argv[2];
    return argv[1][0] == 'a' ? abrupt() : naked(atoi(argv[1]));
  }
  embed_begin(argv[0]);
  setlocale(LC_ALL, "");
  umask(027);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    backend = names[i];
    if (!embed_has(backend, "a hostile host"))
      continue;
    warm_up();
    test_signals();
    test_many();
    test_forks();
    test_open();
    test_ends();
  }
  return embed_end();
}
