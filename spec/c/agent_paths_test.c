/* SPDX-License-Identifier: MIT */
/*
 * A real agent: which paths lead where, and that none leads out.
 * usage: agent_paths_test AGENT
 */
#include "agent_files.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_inside(client *c) {
  OK(file_reads(c, "file", "content"), "a relative path");
  OK(file_reads(c, "./sub/../sub//inner", "inner"), "dots and slashes");
  OK(file_reads(c, in_dir("ws/sub/inner"), "inner"), "an absolute path");
  char path[600];
  snprintf(path, sizeof path, "//%s/./ws/sub/inner", dir + 1);
  OK(file_reads(c, path, "inner"), "another spelling of it");
  OK(file_reads(c, in_dir("alias/file"), "content"), "through the alias");
  IS(file_stat_error(c, "", 0), ENOENT, "the empty path");
  IS(file_stat_error(c, "nothing", 0), ENOENT, "a missing file");
  IS(file_stat_error(c, "file/", 0), ENOTDIR, "a file with a slash");
  IS(file_stat_error(c, "file/x", 0), ENOTDIR, "a file as directory");
  IS(file_stat_error(c, ".", 0), 0, "the working directory");
  IS(file_stat_error(c, "sub/", 0), 0, "a directory with a slash");
}

static void test_outside(client *c) {
  make_file("secret", "secret", 0644);
  answer a = file_ask(c, PCO_WIRE_READ, "../secret", 0);
  IS(a.error, EACCES, "..: refused");
  OK(strstr(a.message, "outside the workspace") &&
         strstr(a.message, in_dir("ws")) && strstr(a.message, "settings.root"),
     "with a sentence: %s", a.message);
  answer_finish(a);
  IS(file_stat_error(c, in_dir("secret"), 0), EACCES,
     "an absolute path outside");
  IS(file_stat_error(c, "/etc/passwd", 0), EACCES, "/etc/passwd");
  IS(file_stat_error(c, "/", 0), EACCES, "/");
  IS(file_stat_error(c, "sub/../..", 0), EACCES, "sub/../..");
  IS(file_stat_error(c, in_dir("ws/../secret"), 0), EACCES,
     "an absolute path with ..");
  IS(file_stat_error(c, in_dir("wsx"), 0), EACCES,
     "a name that starts like the root");
  IS(file_write(c, "../new", "x", 0), EACCES, "write outside");
  IS(file_simple(c, PCO_WIRE_MKDIR, "../d/e", PCO_FS_PARENTS), EACCES,
     "mkdir outside");
  IS(file_rename(c, "file", "../stolen", 0), EACCES, "rename to outside");
  IS(file_rename(c, "../secret", "mine", 0), EACCES, "rename from outside");
  IS(file_simple(c, PCO_WIRE_REMOVE, "../secret", 0), EACCES, "remove outside");
  OK(file_holds("secret", "secret"), "nothing happened to it");
}

static void test_links(client *c) {
  make_link("sub/inner", "ws/rel");
  make_link(in_dir("ws/sub"), "ws/abs");
  make_link("../secret", "ws/out");
  make_link("/etc", "ws/etc");
  make_link("loop", "ws/loop");
  make_link("sub/../../secret", "ws/out2");
  make_link("later", "ws/dangling");
  OK(file_reads(c, "rel", "inner"), "a relative link");
  OK(file_reads(c, "abs/inner", "inner"), "an absolute link inside is rebased");
  IS(file_simple(c, PCO_WIRE_READ, "out", 0), EACCES, "a link out by ..");
  IS(file_simple(c, PCO_WIRE_READ, "out2", 0), EACCES,
     "a link out by a detour");
  IS(file_simple(c, PCO_WIRE_READ, "etc/passwd", 0), EACCES,
     "an absolute link out");
  IS(file_simple(c, PCO_WIRE_READ, "loop", 0), ELOOP, "a loop");
  IS(file_simple(c, PCO_WIRE_READ, "rel", PCO_FS_NOFOLLOW), ELOOP,
     "READ with NOFOLLOW");
  IS(file_simple(c, PCO_WIRE_LIST, "abs", PCO_FS_NOFOLLOW), ELOOP,
     "LIST with NOFOLLOW");
  IS(file_write(c, "rel", "x", PCO_FS_NOFOLLOW), ELOOP, "WRITE with NOFOLLOW");
  answer a = file_ask(c, PCO_WIRE_STAT, "out", PCO_FS_NOFOLLOW);
  OK(a.entry && entry_number(a.entry, PCO_TAG_TYPE) == PCO_SYMLINK &&
         entry_number(a.entry, PCO_TAG_LINK) == strlen("../secret") &&
         entry_number(a.entry, PCO_TAG_NAME) == 3,
     "STAT with NOFOLLOW tells of the link");
  answer_finish(a);
  IS(file_write(c, "rel", "through", 0), 0, "write through a link");
  OK(file_holds("ws/sub/inner", "through") &&
         readlink(in_dir("ws/rel"), (char[9]){0}, 9) == 9,
     "changes the file; the link stays");
  IS(file_write(c, "dangling", "made", 0), 0, "write through a dangling link");
  OK(file_holds("ws/later", "made"), "makes what it leads to");
  IS(file_write(c, "out", "x", 0), EACCES, "write through a link out");
  OK(file_holds("secret", "secret"), "nothing happened");
  IS(file_simple(c, PCO_WIRE_REMOVE, "rel", 0), 0, "REMOVE of a link");
  OK(file_holds("ws/sub/inner", "through"), "leaves what it leads to");
  IS(file_simple(c, PCO_WIRE_REMOVE, "abs/", PCO_FS_RECURSIVE), ENOTDIR,
     "REMOVE of a link with a slash");
  make_link("40", "ws/l0");
  for (int i = 1; i <= 41; i++) {
    char name[32], text[32];
    snprintf(name, sizeof name, "ws/l%d", i);
    snprintf(text, sizeof text, "l%d", i - 1);
    make_link(text, name);
  }
  make_file("ws/40", "end", 0600);
  OK(file_reads(c, "l39", "end"), "40 links");
  IS(file_simple(c, PCO_WIRE_READ, "l41", 0), ELOOP, "42 links");
}

/* ---- a racer ------------------------------------------------------------- */

static atomic_bool stop;

/* Swaps a directory with a link to the outside as fast as it can. */
static void *swap(void *arg) {
  char a[600], b[600];
  (void)arg;
  snprintf(a, sizeof a, "%s/ws/swap", dir);
  snprintf(b, sizeof b, "%s/ws/other", dir);
  while (!atomic_load(&stop))
    syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, 2u /* EXCHANGE */);
  return NULL;
}

/* How often a check-then-open by name would have been fooled. */
static int naive_loses(void) {
  char path[600], buf[16];
  struct stat st;
  int lost = 0;
  snprintf(path, sizeof path, "%s/ws/swap", dir);
  for (int i = 0; i < 20000; i++) {
    char file[640];
    if (lstat(path, &st) != 0 || S_ISLNK(st.st_mode))
      continue;
    snprintf(file, sizeof file, "%s/file", path);
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
      continue;
    if (read(fd, buf, 4) == 4 && memcmp(buf, "evil", 4) == 0)
      lost++;
    close(fd);
  }
  return lost;
}

static void test_race(client *c) {
  mkdir(in_dir("ws/swap"), 0755);
  mkdir(in_dir("evil"), 0755);
  make_file("ws/swap/file", "good", 0600);
  make_file("evil/file", "evil", 0600);
  make_link("../evil", "ws/other");
  pthread_t t;
  int good = 0, refused = 0, bad = 0;
  atomic_store(&stop, false);
  pthread_create(&t, NULL, swap, NULL);
  int naive = naive_loses();
  for (int i = 0; i < 4000; i++) {
    answer a = file_ask(c, PCO_WIRE_READ, "swap/file", 0);
    good += a.error == 0 && a.data && strcmp(a.data, "good") == 0;
    bad += a.error == 0 && a.data && strcmp(a.data, "good") != 0;
    refused += a.error == EACCES;
    answer_finish(a);
    if (i % 8 == 0)
      file_write(c, "swap/new", "x", 0);
    if (i % 8 == 4)
      file_simple(c, PCO_WIRE_REMOVE, "swap/new", 0);
  }
  atomic_store(&stop, true);
  pthread_join(t, NULL);
  OK(bad == 0,
     "a racer never gets out: %d read, %d refused, %d escaped; a "
     "naive reader lost %d times",
     good, refused, bad, naive);
  IS(count_entries("evil"), 1, "nothing was written outside");
}

/* REMOVE while directories are swapped for links to the outside. */
static void test_remove_race(client *c) {
  make_file("outside/f", "x", 0600);
  pthread_t t;
  atomic_store(&stop, false);
  pthread_create(&t, NULL, swap, NULL);
  for (int i = 0; i < 200; i++) {
    file_simple(c, PCO_WIRE_MKDIR, "swap", PCO_FS_PARENTS);
    unlink(in_dir("ws/other"));
    if (symlink("../evil", in_dir("ws/other")) != 0 && errno != EEXIST)
      perror("symlink");
    file_write(c, "swap/a/b", "x", PCO_FS_PARENTS);
    file_simple(c, PCO_WIRE_REMOVE, "swap", PCO_FS_RECURSIVE);
  }
  atomic_store(&stop, true);
  pthread_join(t, NULL);
  OK(file_holds("evil/file", "evil"),
     "REMOVE in a race removes nothing outside");
  file_simple(c, PCO_WIRE_REMOVE, "swap", PCO_FS_RECURSIVE);
  file_simple(c, PCO_WIRE_REMOVE, "other", PCO_FS_RECURSIVE);
}

/* ---- other roots --------------------------------------------------------- */

static void test_whole_system(const char *agent) {
  client c;
  client_start(&c, agent, in_dir("ws/sub"), NULL);
  OK(file_reads(&c, "../file", "content"), "root /: .. leads up");
  OK(file_reads(&c, in_dir("secret"), "secret"), "everything is inside");
  IS(file_stat_error(&c, "/../../etc", 0), 0, "/.. stays at /");
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/status", (int)getpid());
  answer a = file_ask(&c, PCO_WIRE_READ, path, 0);
  OK(a.error == 0 && a.data && strstr(a.data, "Name:"),
     "/proc/PID/status can be read");
  answer_finish(a);
  snprintf(path, sizeof path, "/proc/%d/status", (int)c.agent);
  OK(answer_finish(file_ask(&c, PCO_WIRE_READ, path, 0)) == EACCES,
     "but the agent's own");
  OK(answer_finish(file_ask(&c, PCO_WIRE_READ, "/proc/self/status", 0)) ==
         ELOOP,
     "/proc/self is refused");
  snprintf(path, sizeof path, "/proc/%d/cwd/inner", (int)getpid());
  OK(answer_finish(file_ask(&c, PCO_WIRE_READ, path, 0)) == ELOOP,
     "magic links, too");
  snprintf(path, sizeof path, "/proc/%d/root/etc/passwd", (int)getpid());
  OK(answer_finish(file_ask(&c, PCO_WIRE_READ, path, 0)) == ELOOP, "also root");
  snprintf(path, sizeof path, "/proc/%d/fd/0", (int)getpid());
  OK(answer_finish(file_ask(&c, PCO_WIRE_READ, path, 0)) != 0, "also fd/0");
  uint64_t op = file_begin(&c, PCO_WIRE_READ, "/dev/zero", 0);
  client_number(&c, PCO_TAG_LENGTH, 300000);
  client_send(&c, NULL, 0);
  a = answer_take(&c, op);
  IS(a.len, 300000, "/dev/zero by LENGTH");
  answer_finish(a);
  a = file_ask(&c, PCO_WIRE_READ, "/dev/null", 0);
  OK(a.error == 0 && a.len == 0, "/dev/null is empty");
  answer_finish(a);
  op = file_begin(&c, PCO_WIRE_READ, "/dev/zero", 0);
  client_send(&c, NULL, 0);
  IS(client_simple(&c, PCO_WIRE_PING, 5000), 0, "an endless READ lets others");
  pco_wire_begin(&c.buf, PCO_WIRE_CANCEL, 0, op);
  client_send(&c, NULL, 0);
  IS(answer_finish(answer_take(&c, op)), ECANCELED, "and can be cancelled");
  client_stop(&c);
}

static void test_refused_root(const char *agent) {
  client c;
  const char *const args[] = {"--root", in_dir("ws"), NULL};
  int null = open("/dev/null", O_WRONLY | O_CLOEXEC), err = dup(2);
  dup2(null, 2);
  client_start(&c, agent, "/", args);
  int status = client_join(&c, 5000);
  dup2(err, 2);
  close(err);
  close(null);
  OK(WIFEXITED(status) && WEXITSTATUS(status) == 1,
     "a cwd outside the root is refused at the start");
  client_stop(&c);
}

int main(int argc, char **argv) {
  client c;
  char *agent = argc < 2 ? NULL : realpath(argv[1], NULL);
  if (!agent || !ws_open())
    return 2;
  ws_start(&c, agent);
  test_inside(&c);
  test_outside(&c);
  test_links(&c);
  test_race(&c);
  test_remove_race(&c);
  ws_stop(&c);
  test_whole_system(agent);
  test_refused_root(agent);
  ws_close(agent);
  free(agent);
  return tap_done();
}
