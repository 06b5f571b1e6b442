/* SPDX-License-Identifier: MIT */
/*
 * Where sandboxes are written down that may outlive their programs
 * (plugins/common/state.h): the directory and who may have made it, the text,
 * the locks, the door, and what a killed keeper leaves.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "../../plugins/common/door.h"
#include "tap.h"

static char top[] = "/tmp/portico-test-state-XXXXXX";
static char dir[PATH_MAX]; /* the directory that most tests use */
static char room[PCO_MESSAGE_MAX];
static pco_error err;

static const char *in_top(const char *name) {
  static char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/%s", top, name);
  return path;
}

static int open_at(const char *path, bool make) {
  plugin_state st;
  err = pco_error_in(room, sizeof room);
  room[0] = '\0';
  int rc = plugin_state_open(&st, "b", path, make, &err);
  if (rc == 0)
    plugin_state_close(&st);
  return rc;
}

static bool says(const char *text) {
  bool it_does = strstr(room, text) != NULL;
  if (!it_does)
    printf("# %s\n", room);
  return it_does;
}

/* ---- the directory ------------------------------------------------------- */

static void test_directory(void) {
  struct stat st;
  char path[PATH_MAX], link[PATH_MAX];
  snprintf(path, sizeof path, "%s", in_top("made"));
  snprintf(link, sizeof link, "%s", in_top("link"));
  check(open_at(path, false) == UV_ENOENT, "it is not there");
  check(open_at(path, true) == 0 && stat(path, &st) == 0 &&
            (st.st_mode & 07777) == 0700,
        "it is made for its user alone");
  check(open_at(path, true) == 0 && open_at(path, false) == 0, "and opened");
  REQUIRE(symlink(path, link) == 0);
  check(open_at(link, true) == PCO_EUNAVAILABLE && says(link) && says("link"),
        "a link to a good one is not followed");
  REQUIRE(chmod(path, 0750) == 0);
  check(open_at(path, true) == PCO_EUNAVAILABLE && says("chmod 700"),
        "one that a group may enter");
  REQUIRE(chmod(path, 0701) == 0);
  check(open_at(path, false) == PCO_EUNAVAILABLE && says("chmod 700"),
        "one that others may search");
  REQUIRE(rmdir(path) == 0);
  check(open_at(link, false) == PCO_EUNAVAILABLE, "a link to nothing");
  unlink(link);
  int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  REQUIRE(fd >= 0);
  close(fd);
  check(open_at(path, true) == PCO_EUNAVAILABLE, "a file");
  unlink(path);
  check(open_at(in_top("missing/x"), true) == PCO_EUNAVAILABLE &&
            says("missing/x"),
        "a parent that is not there");
}

/* Root can give one away; nobody else has to, since root has some. */
static void test_other_user(void) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s",
           geteuid() == 0 ? in_top("theirs") : "/root");
  if (geteuid() == 0)
    REQUIRE(mkdir(path, 0700) == 0 && chown(path, 65534, 65534) == 0);
  int rc = open_at(path, true);
  check(rc == PCO_EUNAVAILABLE &&
            (geteuid() != 0 || says("belongs to another user")),
        "one that another user has made");
  if (geteuid() == 0)
    rmdir(path);
}

/* Nobody who never left a sandbox running can help that. */
static void test_other_user_by_default(void) {
  plugin_info *list;
  plugin_state st;
  size_t n = 1;
  char path[PATH_MAX];
  if (geteuid() != 0) {
    printf("ok %d # SKIP only root can give a directory away\n", ++tap_count);
    return;
  }
  snprintf(path, sizeof path, "%s", in_top("portico"));
  setenv("XDG_RUNTIME_DIR", top, 1);
  REQUIRE(mkdir(path, 0700) == 0 && chown(path, 65534, 65534) == 0);
  err = pco_error_in(room, sizeof room);
  check(plugin_state_list("b", NULL, &list, &n, &err) == 0 && n == 0 &&
            says("belongs to another user"),
        "by default another user's holds none, and that is told");
  check(plugin_state_open(&st, "b", NULL, true, NULL) == PCO_EUNAVAILABLE,
        "it is not taken");
  check(plugin_state_list("b", path, &list, &n, &err) == PCO_EUNAVAILABLE,
        "one that was named has to be good");
  rmdir(path);
  unsetenv("XDG_RUNTIME_DIR");
}

static void test_default(void) {
  char path[PATH_MAX];
  setenv("XDG_RUNTIME_DIR", top, 1);
  check(plugin_state_path(NULL, path, NULL) == 0 &&
            pco_streq(path, in_top("portico")),
        "the session's directory, if it is for its user alone");
  REQUIRE(chmod(top, 0755) == 0);
  check(plugin_state_path(NULL, path, NULL) == 0 && !pco_starts_with(path, top),
        "and not if others may enter it");
  REQUIRE(chmod(top, 0700) == 0);
  setenv("XDG_RUNTIME_DIR", "here", 1);
  check(plugin_state_path(NULL, path, NULL) == 0 && path[0] == '/',
        "nor a relative one");
  unsetenv("XDG_RUNTIME_DIR");
  check(plugin_state_path("/a/b", path, NULL) == 0 && pco_streq(path, "/a/b"),
        "a setting is taken as it is");
}

/* ---- the text ------------------------------------------------------------ */

static bool is_same(const plugin_info *a, const plugin_info *b) {
  bool same = a->host == b->host && a->keeper == b->keeper &&
              a->namespace == b->namespace && pco_streq(a->name, b->name) &&
              pco_streq(a->image, b->image) && pco_streq(a->cwd, b->cwd) &&
              pco_streq(a->dir, b->dir) && a->n_labels == b->n_labels &&
              (int64_t)(a->created * 1e3) == (int64_t)(b->created * 1e3) &&
              a->expires - b->expires < 1e-5 && b->expires - a->expires < 1e-5;
  for (size_t i = 0; same && i < a->n_labels; i++)
    same = pco_streq(a->labels[i].key, b->labels[i].key) &&
           pco_streq(a->labels[i].value, b->labels[i].value);
  return same;
}

static const pco_pair labels[] = {
    {"plain", "value"},   {"a=b", "c=d=e"},           {"nl", "1\n2\nhost=7\n"},
    {"per%cent", "%41%"}, {"bytes", "\xff\x01\x80 "}, {"empty", ""}};

static plugin_info example(void) {
  return (plugin_info){.host = 12345,
                       .keeper = 4194304,
                       .namespace = 4026531836u,
                       .created = 1700000000.25,
                       .expires = 1800000000.5,
                       .name = "a name",
                       .image = "/x\n/y",
                       .cwd = "/w",
                       .labels = labels,
                       .n_labels = sizeof labels / sizeof *labels};
}

static void test_text(void) {
  plugin_info a = example(), b = {0};
  char *text;
  size_t len;
  REQUIRE(plugin_info_write(&a, &text, &len) == 0);
  check(strncmp(text + PLUGIN_INFO_HOST, "0000012345\n", 11) == 0 &&
            strncmp(text + PLUGIN_INFO_KEEPER, "0004194304\n", 11) == 0,
        "numbers that are written in place are where they are looked for");
  check(plugin_info_read(&b, text, len) == 0 && is_same(&a, &b),
        "what is written is read");
  plugin_info_deinit(&b);
  char *large = malloc(PLUGIN_INFO_MAX + 1);
  REQUIRE(large);
  memset(large, 'x', PLUGIN_INFO_MAX);
  large[PLUGIN_INFO_MAX] = '\0';
  a.name = large;
  check(plugin_info_write(&a, &text, &len) == UV_E2BIG, "it is bounded");
  free(large);
}

static int read_text(const char *text, size_t len) {
  plugin_info i = {0};
  char *copy = malloc(len ? len : 1);
  REQUIRE(copy);
  memcpy(copy, text, len);
  int rc = plugin_info_read(&i, copy, len);
  plugin_info_deinit(&i);
  return rc;
}

/* Changed and cut texts are refused or read, and nothing else. */
static void test_broken_text(void) {
  static const char *const bad[] = {"",        "x",       "host=1",
                                    "host\n",  "a=%4\n",  "a=%G0\n",
                                    "a=%00\n", "a=1\n\n", "%=1\n"};
  bool refused = true, fine = true;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    refused = read_text(bad[i], strlen(bad[i])) == UV_EINVAL && refused;
  check(refused && read_text("a=1\0\n", 5) == UV_EINVAL, "broken texts");
  plugin_info a = example();
  char *text;
  size_t len;
  unsigned seed = 1;
  REQUIRE(plugin_info_write(&a, &text, &len) == 0);
  for (size_t n = 0; n < len; n++) {
    int rc = read_text(text, n);
    fine = fine && (rc == 0 || rc == UV_EINVAL);
  }
  for (int i = 0; i < 20000; i++) {
    size_t at = (seed = seed * 1103515245u + 12345u) % len;
    char was = text[at];
    text[at] = (char)(seed >> 16);
    int rc = read_text(text, len);
    fine = fine && (rc == 0 || rc == UV_EINVAL);
    if (i % 8)
      text[at] = was;
  }
  check(fine, "texts that were cut or changed");
  free(text);
}

/* ---- one sandbox --------------------------------------------------------- */

static plugin_door *make_door(const char *id, int *rc) {
  plugin_info i = example();
  plugin_door *d;
  char *left;
  snprintf(i.id, sizeof i.id, "%s", id);
  err = pco_error_in(room, sizeof room);
  *rc = plugin_door_make(&d, "b", dir, &i, &left, &err);
  free(left);
  return d;
}

static int look(const char *id, plugin_info *i) {
  plugin_state st;
  REQUIRE(plugin_state_open(&st, "b", dir, true, NULL) == 0);
  int rc = plugin_state_look(&st, id, i);
  plugin_state_close(&st);
  return rc;
}

static size_t count(void) {
  plugin_info *list;
  size_t n;
  REQUIRE(plugin_state_list("b", dir, &list, &n, NULL) == 0);
  plugin_state_free_list(list, n);
  return n;
}

/* A process that holds byte 0, as a keeper does, until it is killed. */
static pid_t start_keeper(plugin_door *d) {
  pid_t pid = fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    close(d->hold);
    for (;;)
      pause();
  }
  int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
  REQUIRE(pidfd >= 0);
  plugin_door_is_kept(d, pidfd);
  close(pidfd);
  return pid;
}

static void end_keeper(pid_t pid) {
  kill(pid, SIGKILL);
  REQUIRE(waitpid(pid, NULL, 0) == pid);
}

static void test_life(void) {
  int rc;
  plugin_info i;
  plugin_door *d = make_door("one", &rc), *again;
  REQUIRE(rc == 0);
  check(look("one", &i) == 0 && i.lives && i.attached && i.host == getpid() &&
            i.n_labels == sizeof labels / sizeof *labels,
        "it is written down, lives and is attached");
  plugin_info_deinit(&i);
  make_door("one", &rc);
  check(rc == UV_EEXIST && says("attached to process"), "its id is taken");
  pid_t keeper = start_keeper(d);
  check(look("one", &i) == 0 && i.lives && i.keeper == keeper,
        "its keeper is known");
  int pidfd = plugin_state_keeper(&d->state, &i);
  check(pidfd >= 0, "and can be reached");
  close(pidfd);
  plugin_info_deinit(&i);
  rc = plugin_door_find(&again, "b", dir, "one", &i, &err);
  check(rc == UV_EBUSY && says("this one") && err.flags & PCO_ERROR_RETRYABLE,
        "nobody else can attach");
  plugin_door_leave(d);
  check(look("one", &i) == 0 && i.lives && !i.attached, "it is let go");
  plugin_info_deinit(&i);
  make_door("one", &rc);
  check(rc == UV_EEXIST && says("detached"), "its id is still taken");
  rc = plugin_door_find(&again, "b", dir, "one", &i, &err);
  check(rc == 0 && count() == 1, "it is found");
  plugin_info_deinit(&i);
  plugin_door_leave(again);
  check(plugin_door_claim(&again, "b", dir, "one", &i, NULL) == UV_EBUSY,
        "what lives cannot be removed");
  end_keeper(keeper);
  check(look("one", &i) == 0 && !i.lives, "its keeper was killed");
  check(plugin_state_keeper(&(plugin_state){.dir = -1}, &i) == PCO_EGONE,
        "there is none then");
  plugin_info_deinit(&i);
  check(plugin_door_find(&again, "b", dir, "one", &i, &err) == UV_ENOENT,
        "who is dead is not found");
  d = make_door("one", &rc);
  check(rc == 0, "its id is free");
  plugin_door_remove(d);
  check(count() == 0 && look("one", &i) == UV_ENOENT, "nothing is left");
}

/* Nobody comes in between. */
static void test_published(void) {
  int info, hold;
  plugin_info i = example(), seen;
  plugin_state st;
  snprintf(i.id, sizeof i.id, "new");
  REQUIRE(plugin_state_open(&st, "b", dir, true, NULL) == 0 &&
          plugin_state_publish(&st, &i, &info, &hold, NULL) == 0);
  check(plugin_state_look(&st, "new", &seen) == 0 && seen.lives &&
            seen.attached && seen.host == getpid(),
        "what has its name is attached already");
  plugin_info_deinit(&seen);
  plugin_state_forget(&st, "new");
  plugin_state_let_go(hold);
  close(info);
  plugin_state_close(&st);
}

static void test_claim(void) {
  int rc;
  plugin_info i, j;
  plugin_door *a, *b, *d = make_door("dead", &rc);
  REQUIRE(rc == 0);
  pid_t keeper = start_keeper(d);
  plugin_door_leave(d);
  end_keeper(keeper);
  REQUIRE(plugin_door_claim(&a, "b", dir, "dead", &i, NULL) == 0);
  check(plugin_door_claim(&b, "b", dir, "dead", &j, NULL) == UV_EBUSY,
        "one at a time removes what is left");
  check(look("dead", &j) == 0 && !j.lives, "who does keeps nothing alive");
  check(plugin_state_keeper(&a->state, &j) == PCO_EGONE, "nor a keeper");
  plugin_info_deinit(&j);
  make_door("dead", &rc);
  check(rc == UV_EEXIST && says("being removed"), "its id is not free yet");
  plugin_door_leave(a);
  plugin_info_deinit(&i);
  REQUIRE(plugin_door_claim(&a, "b", dir, "dead", &i, NULL) == 0);
  plugin_door_remove(a);
  plugin_info_deinit(&i);
  check(count() == 0, "it is removed");
  check(plugin_door_claim(&b, "b", dir, "dead", &j, NULL) == UV_ENOENT, "once");
}

static void test_names(void) {
  static const char *const bad[] = {"", ".", "..", "../x", "a/b", "-x"};
  plugin_info i;
  bool none = true;
  for (size_t n = 0; n < sizeof bad / sizeof *bad; n++)
    none = look(bad[n], &i) == UV_ENOENT && none;
  check(none, "what is no id is none");
  char path[PATH_MAX + 32], target[PATH_MAX + 32];
  snprintf(path, sizeof path, "%s/b-evil.info", dir);
  snprintf(target, sizeof target, "%s/target", top);
  int fd = open(target, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  REQUIRE(fd >= 0 && write(fd, "host=1\n", 7) == 7);
  close(fd);
  REQUIRE(symlink(target, path) == 0);
  check(look("evil", &i) == UV_ENOENT && count() == 0,
        "a link in its place is not followed");
  unlink(path);
  REQUIRE(mkfifo(path, 0600) == 0);
  check(look("evil", &i) == UV_ENOENT && count() == 0, "a pipe does not block");
  unlink(path);
  unlink(target);
}

/* ---- the door ------------------------------------------------------------ */

static int knock(const char *id) {
  plugin_state st;
  REQUIRE(plugin_state_open(&st, "b", dir, true, NULL) == 0);
  int fd = plugin_state_knock(&st, id);
  plugin_state_close(&st);
  if (fd >= 0)
    close(fd);
  return fd < 0 ? fd : 0;
}

static void test_door(void) {
  int rc;
  char path[PATH_MAX + 32], other[PATH_MAX + 32];
  struct stat st;
  snprintf(path, sizeof path, "%s/b-door.sock", dir);
  snprintf(other, sizeof other, "%s/b-other.sock", dir);
  check(knock("door") == UV_ENOENT, "there is no door");
  plugin_door *d = make_door("door", &rc);
  REQUIRE(rc == 0);
  check(knock("door") == 0 && lstat(path, &st) == 0 && S_ISSOCK(st.st_mode),
        "there is");
  REQUIRE(symlink(path, other) == 0);
  check(knock("other") == UV_ENOENT, "a link to it is none");
  unlink(other);
  close(d->listener);
  d->listener = -1;
  check(knock("door") == UV_ECONNREFUSED, "nobody listens");
  rc = d->listener = plugin_state_listen(&d->state, d->id);
  check(rc >= 0 && knock("door") == 0, "what a dead one left is replaced");
  plugin_door_remove(d);
  check(access(path, F_OK) < 0, "it is removed");
}

/* A path longer than the address of a socket may be. */
static void test_long_path(void) {
  int rc;
  char was[PATH_MAX];
  snprintf(was, sizeof was, "%s", dir);
  snprintf(dir, sizeof dir, "%s/%0200d", top, 1);
  char id[65];
  snprintf(id, sizeof id, "%064d", 1);
  plugin_door *d = make_door(id, &rc);
  check(rc == 0 && knock(id) == 0 && count() == 1, "long paths and ids");
  if (rc == 0)
    plugin_door_remove(d);
  rmdir(dir);
  snprintf(dir, sizeof dir, "%s", was);
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  REQUIRE(mkdtemp(top));
  snprintf(dir, sizeof dir, "%s/state", top);
  test_directory();
  test_other_user();
  test_other_user_by_default();
  test_default();
  test_text();
  test_broken_text();
  test_life();
  test_published();
  test_claim();
  test_names();
  test_door();
  test_long_path();
  check(rmdir(dir) == 0 && rmdir(top) == 0, "nothing is left");
  return tap_end();
}
