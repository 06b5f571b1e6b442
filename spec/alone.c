/* SPDX-License-Identifier: MIT */
/*
 * Runs one test so that others may run beside it:
 *
 *   alone SECONDS COMMAND...
 *
 * It is the parent of every process that loses its own (a subreaper), so that
 * a test's processes are those below it, whatever they do; the test finds its
 * pid in PORTICO_TEST_ROOT.  TMPDIR and HOME are an empty directory, which is
 * removed; XDG_RUNTIME_DIR is one in it, so that its sandboxes are its own.
 * After so many seconds it kills the test, and lets what that has started clean
 * up, as ctest would not.  It ends as the test did, or with 1 if that left a
 * process behind that does not end within PATIENCE_MS, or a file in TMPDIR, or
 * a sandbox written down; and tells what it took.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 10000
#define TICK_MS     20

static char home[] = "/tmp/portico-alone-XXXXXX";
static char runtime[sizeof home + 8];

static void die(const char *what) {
  fprintf(stderr, "alone: %s: %s\n", what, strerror(errno));
  exit(126);
}

/* ---- processes ---------------------------------------------------------- */

/* Reaps what has ended; false if there are no children. */
static bool reap(pid_t test, int *status, bool *ended) {
  for (;;) {
    int s;
    pid_t pid = waitpid(-1, &s, WNOHANG);
    if (pid <= 0)
      return pid == 0;
    if (pid == test) {
      *status = s;
      *ended = true;
    }
  }
}

/* Calls fn with each child. */
static void each_child(void (*fn)(pid_t pid)) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
  FILE *f = fopen(path, "re");
  for (int pid; f && fscanf(f, "%d", &pid) == 1;)
    fn(pid);
  if (f)
    fclose(f);
}

static void tell(pid_t pid) {
  char path[64], line[512];
  snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? 0 : read(fd, line, sizeof line - 1);
  if (fd >= 0)
    close(fd);
  n = n < 0 ? 0 : n;
  for (ssize_t i = 0; i < n; i++)
    line[i] = line[i] ? line[i] : ' ';
  line[n] = 0;
  printf("# left behind: process %d %s\n", (int)pid, line);
}

static void end(pid_t pid) {
  kill(pid, SIGKILL);
}

static void pause_ms(long ms) {
  nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* Whose parents are killed become children in turn. */
static void end_all(void) {
  int status;
  bool ended;
  for (int i = 0; i < 250 && reap(0, &status, &ended); i++) {
    each_child(end);
    pause_ms(TICK_MS);
  }
}

/* True if all children end by themselves. */
static bool all_end(void) {
  int status;
  bool ended;
  for (long ms = 0; ms < PATIENCE_MS; ms += TICK_MS) {
    if (!reap(0, &status, &ended))
      return true;
    pause_ms(TICK_MS);
  }
  each_child(tell);
  end_all();
  return false;
}

/* ---- files -------------------------------------------------------------- */

static int remove_it(const char *path, const struct stat *st, int type,
                     struct FTW *at) {
  (void)st;
  (void)type;
  (void)at;
  return remove(path);
}

/* What programs keep in HOME begins with a dot; so does what an agent makes for
 * the time being. */
static bool may_stay(const char *name) {
  return name[0] == '.' && strncmp(name, ".portico", 8) != 0;
}

static bool is_empty(const char *dir) {
  DIR *d = opendir(dir);
  bool empty = true;
  for (struct dirent *e; d && (e = readdir(d));)
    if (!may_stay(e->d_name)) {
      printf("# left behind: %s/%s\n", dir, e->d_name);
      empty = false;
    }
  if (d)
    closedir(d);
  return empty;
}

static bool is_clean(void) {
  char sandboxes[sizeof runtime + 16];
  snprintf(sandboxes, sizeof sandboxes, "%s/portico", runtime);
  bool clean = is_empty(home);
  clean = is_empty(sandboxes) && clean;
  nftw(home, remove_it, 16, FTW_DEPTH | FTW_PHYS);
  if (access(home, F_OK) == 0) {
    printf("# cannot be removed: %s\n", home);
    clean = false;
  }
  return clean;
}

/* ---- the test ----------------------------------------------------------- */

static void set_up(void) {
  char root[16];
  snprintf(root, sizeof root, "%d", (int)getpid());
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
    die("subreaper");
  if (!mkdtemp(home))
    die(home);
  snprintf(runtime, sizeof runtime, "%s/.run", home);
  if (mkdir(runtime, 0700) < 0)
    die(runtime);
  if (setenv("XDG_RUNTIME_DIR", runtime, 1) < 0 ||
      setenv("TMPDIR", home, 1) < 0 || setenv("HOME", home, 1) < 0 ||
      setenv("PORTICO_TEST_ROOT", root, 1) < 0)
    die("setenv");
}

static pid_t start(char **argv) {
  pid_t parent = getpid(), pid = fork();
  if (pid < 0)
    die("fork");
  if (pid > 0)
    return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(126);
  close_range(3, ~0U, 0); /* ctest's log, whose name changes */
  execvp(argv[0], argv);
  die(argv[0]);
  return -1;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int run(char **argv, int seconds) {
  int status = 0;
  bool ended = false, killed = false;
  double limit = now() + seconds;
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  pid_t test = start(argv);
  sigprocmask(SIG_BLOCK, &child, NULL);
  while (reap(test, &status, &ended) && !ended) {
    if (!killed && now() > limit) {
      killed = true;
      printf("# killed after %d s\n", seconds);
      kill(test, SIGKILL);
    }
    sigtimedwait(&child, NULL, &(struct timespec){.tv_sec = 1});
  }
  return status;
}

static double seconds_of(struct timeval t) {
  return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static void tell_cost(double start) {
  struct rusage used;
  getrusage(RUSAGE_CHILDREN, &used);
  printf("# took %.1f s, %.1f s of processors\n", now() - start,
         seconds_of(used.ru_utime) + seconds_of(used.ru_stime));
}

int main(int argc, char **argv) {
  int seconds = argc > 2 ? atoi(argv[1]) : 0;
  if (seconds <= 0) {
    fprintf(stderr, "usage: alone SECONDS COMMAND...\n");
    return 2;
  }
  double start_time = now();
  set_up();
  int status = run(argv + 2, seconds);
  bool fine = all_end();
  fine = is_clean() && fine;
  tell_cost(start_time);
  fflush(stdout);
  if (WIFSIGNALED(status)) { /* ctest says which */
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
  }
  return WEXITSTATUS(status) ? WEXITSTATUS(status) : fine ? 0 : 1;
}
