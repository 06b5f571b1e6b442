/* SPDX-License-Identifier: MIT */
/*
 * A real agent: files.  usage: agent_files_test AGENT
 */
#include "agent_files.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- STAT, LIST, READ ---------------------------------------------------- */

static void test_stat(client *c) {
  make_file("ws/st", "12345", 0640);
  answer a = file_ask(c, PCO_WIRE_STAT, "sub/../st", 0);
  struct stat st;
  stat(in_dir("ws/st"), &st);
  OK(a.entry != NULL, "STAT");
  if (a.entry) {
    IS(entry_number(a.entry, PCO_TAG_SIZE), 5, "size");
    IS(entry_number(a.entry, PCO_TAG_MODE), 0640, "mode");
    IS(entry_number(a.entry, PCO_TAG_TYPE), PCO_FILE, "type");
    IS(entry_number(a.entry, PCO_TAG_UID), geteuid(), "uid");
    IS(entry_number(a.entry, PCO_TAG_NAME), 2, "name");
    IS(entry_number(a.entry, PCO_TAG_MTIME),
       (long long)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec, "mtime");
    IS(entry_number(a.entry, PCO_TAG_LINK), -1, "no link");
  }
  answer_finish(a);
  a = file_ask(c, PCO_WIRE_STAT, in_dir("ws"), 0);
  OK(a.entry && entry_number(a.entry, PCO_TAG_TYPE) == PCO_DIRECTORY,
     "the root");
  answer_finish(a);
}

/* Counts the entries of a LIST; -errno. */
static int list(client *c, const char *path, char *names, size_t size) {
  uint64_t op = file_begin(c, PCO_WIRE_LIST, path, 0);
  client_send(c, NULL, 0);
  int n = 0;
  size_t len = 0;
  for (bool more = true; more;) {
    frame *f = client_take(c, op, 30000);
    if (!f)
      return -9999;
    more = f->header.flags & PCO_WIRE_MORE;
    if (f->header.type == PCO_WIRE_ERROR)
      n = -(int)frame_number(f, PCO_TAG_ERRNO, 9999);
    if (f->header.size > 300 * 1024)
      n = -9998;
    pco_wire_iter it, in;
    pco_wire_field e, g;
    pco_wire_iter_init(&it, f->payload, f->header.size);
    while (pco_wire_next(&it, &e) == 1 && e.tag == PCO_TAG_ENTRY) {
      n++;
      pco_wire_enter(&in, &e);
      while (pco_wire_next(&in, &g) == 1)
        if (g.tag == PCO_TAG_NAME && names && len + g.len + 2 < size) {
          memcpy(names + len, g.data, g.len);
          len += g.len;
          names[len++] = '|';
        }
    }
    free(f);
  }
  if (names)
    names[len] = 0;
  return n;
}

static void test_list(client *c) {
  char names[4096];
  mkdir(in_dir("ws/ls"), 0755);
  IS(list(c, "ls", NULL, 0), 0, "an empty directory");
  make_file("ws/ls/new\nline", "", 0600);
  make_file("ws/ls/\xff\xfe", "", 0600);
  make_file("ws/ls/...", "", 0600);
  make_link("nowhere", "ws/ls/link");
  IS(list(c, "ls", names, sizeof names), 4, "four entries");
  OK(strstr(names, "new\nline|") && strstr(names, "\xff\xfe|") &&
         strstr(names, "...|") && strstr(names, "link|"),
     "names are bytes");
  IS(list(c, "file", NULL, 0), -ENOTDIR, "LIST of a file");
  IS(list(c, "nothing", NULL, 0), -ENOENT, "LIST of nothing");
  OK(file_reads(c, "ls/new\nline", ""), "and can be read");
  IS(file_simple(c, PCO_WIRE_REMOVE, "ls/\xff\xfe", 0), 0, "and removed");
}

static void test_big_list(client *c) {
  enum { N = 100000 };
  mkdir(in_dir("ws/big"), 0755);
  int d = open(in_dir("ws/big"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  for (int i = 0; i < N; i++) {
    char name[32];
    snprintf(name, sizeof name, "entry-%06d", i);
    close(openat(d, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  }
  close(d);
  uint64_t op = file_begin(c, PCO_WIRE_LIST, "big", 0);
  client_send(c, NULL, 0);
  usleep(300000); /* not reading: the agent must not queue it all */
  char path[64], line[256] = "";
  snprintf(path, sizeof path, "/proc/%d/statm", (int)c->agent);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (read(fd, line, sizeof line - 1) < 0)
    perror("statm");
  close(fd);
  long total = 0, resident = 0;
  sscanf(line, "%ld %ld", &total, &resident);
  OK(resident * 4 < 4096, "a long LIST waits for the reader (%ld KiB)",
     resident * 4);
  uint64_t ping = client_begin(c, PCO_WIRE_PING);
  client_send(c, NULL, 0);
  frame *f = client_take(c, ping, 5000);
  int before = 0;
  for (const frame *w = c->waiting; w; w = w->next)
    before += w->header.op == op;
  OK(f && before < 100, "and others go between (after %d frames)", before);
  free(f);
  answer_finish(answer_take(c, op));
  IS(list(c, "big", NULL, 0), N, "100,000 entries");
  uint64_t rm = file_begin(c, PCO_WIRE_REMOVE, "big", PCO_FS_RECURSIVE);
  client_send(c, NULL, 0);
  ping = client_begin(c, PCO_WIRE_PING);
  client_send(c, NULL, 0);
  f = client_take(c, ping, 5000);
  OK(f && !c->waiting, "PING is answered before a long REMOVE has ended");
  free(f);
  IS(answer_finish(answer_take(c, rm)), 0, "which removes them");
  OK(access(in_dir("ws/big"), F_OK) != 0, "all of them");
}

static void test_read(client *c) {
  size_t size = 1000003;
  char *text = malloc(size + 1);
  for (size_t i = 0; i < size; i++)
    text[i] = (char)('a' + i % 23);
  text[size] = 0;
  make_file("ws/large", text, 0600);
  OK(file_reads(c, "large", text), "a file of a megabyte");
  uint64_t op = file_begin(c, PCO_WIRE_READ, "large", 0);
  client_number(c, PCO_TAG_OFFSET, 999990);
  client_number(c, PCO_TAG_LENGTH, 5);
  client_send(c, NULL, 0);
  answer a = answer_take(c, op);
  OK(a.len == 5 && memcmp(a.data, text + 999990, 5) == 0, "OFFSET and LENGTH");
  answer_finish(a);
  op = file_begin(c, PCO_WIRE_READ, "large", 0);
  client_number(c, PCO_TAG_OFFSET, INT64_MAX);
  client_send(c, NULL, 0);
  a = answer_take(c, op);
  OK(a.error == 0 || a.error == EINVAL, "an offset beyond all");
  IS(a.len, 0, "gives nothing");
  answer_finish(a);
  op = file_begin(c, PCO_WIRE_READ, "large", 0);
  client_number(c, PCO_TAG_LENGTH, 0);
  client_send(c, NULL, 0);
  a = answer_take(c, op);
  OK(a.error == 0 && a.len == 0, "LENGTH 0");
  answer_finish(a);
  IS(file_simple(c, PCO_WIRE_READ, "sub", 0), EISDIR, "READ of a directory");
  mkfifo(in_dir("ws/fifo"), 0600);
  a = file_ask(c, PCO_WIRE_READ, "fifo", 0);
  OK(a.error == EINVAL && a.message[0], "READ of a FIFO: %s", a.message);
  answer_finish(a);
  IS(file_write(c, "fifo", "x", 0), EINVAL, "WRITE of a FIFO");
  IS(file_write(c, "fifo", "x", PCO_FS_APPEND), EINVAL, "APPEND to a FIFO");
  free(text);
}

/* ---- WRITE --------------------------------------------------------------- */

static void test_write(client *c) {
  int before = count_entries("ws");
  IS(file_write(c, "w", "one", 0), 0, "WRITE makes a file");
  OK(file_holds("ws/w", "one"), "with the content");
  IS(file_mode("ws/w"), 0644, "mode 0666 & ~umask");
  IS(file_write(c, "w", "two", 0), 0, "WRITE replaces");
  OK(file_holds("ws/w", "two"), "the content");
  chmod(in_dir("ws/w"), 0751);
  file_write(c, "w", "three", 0);
  IS(file_mode("ws/w"), 0751, "keeps the mode");
  IS(file_write_mode(c, "w", "four", 0, 0666), 0, "MODE");
  IS(file_mode("ws/w"), 0666, "is exact");
  IS(file_write_mode(c, "w2", "", 0, 0600), 0, "an empty file");
  IS(file_mode("ws/w2"), 0600, "with its mode");
  IS(file_write(c, "w", "+five", PCO_FS_APPEND), 0, "APPEND");
  OK(file_holds("ws/w", "four+five"), "adds");
  IS(file_write(c, "w3", "new", PCO_FS_APPEND), 0, "APPEND makes a file");
  OK(file_holds("ws/w3", "new"), "if there is none");
  IS(file_write(c, "sub", "x", 0), EISDIR, "WRITE to a directory");
  IS(file_write(c, "nodir/", "x", 0), EISDIR, "to a name with a slash");
  IS(file_write(c, "x/y/z", "deep", 0), ENOENT, "without parents");
  IS(file_write(c, "x/y/z", "deep", PCO_FS_PARENTS), 0, "with PARENTS");
  OK(file_holds("ws/x/y/z", "deep"), "made");
  IS(count_entries("ws"), before + 4, "no temporary file is left");
}

static void test_write_cancel(client *c) {
  int before = count_entries("ws");
  make_file("ws/keep", "old", 0600);
  uint64_t op = file_begin(c, PCO_WIRE_WRITE, "keep", 0);
  client_send(c, NULL, 0);
  file_send_data(c, op, "new", 3, true);
  client_simple(c, PCO_WIRE_PING, 5000);
  OK(file_holds("ws/keep", "old"), "amid a WRITE the old content is there");
  pco_wire_begin(&c->buf, PCO_WIRE_CANCEL, 0, op);
  client_send(c, NULL, 0);
  file_send_data(c, op, "late", 4, false);
  IS(answer_finish(answer_take(c, op)), ECANCELED, "CANCEL");
  OK(file_holds("ws/keep", "old"), "leaves it");
  IS(count_entries("ws"), before + 1, "and nothing else");
  pco_wire_begin(&c->buf, PCO_WIRE_CANCEL, 0, 1000000);
  client_send(c, NULL, 0);
  IS(client_simple(c, PCO_WIRE_PING, 5000), 0,
     "CANCEL of an unknown op is ignored");
  IS(file_write(c, "keep/x", "x", 0), ENOTDIR, "an early error drops DATA");
  IS(client_simple(c, PCO_WIRE_PING, 5000), 0, "that is under way");
}

/* A reader sees the old or the new text, never a part. */
static atomic_bool stop;
static atomic_int torn, looks;

static void *look_at_file(void *arg) {
  while (!atomic_load(&stop)) {
    char buf[65536];
    int fd = open(arg, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, buf, sizeof buf);
    if (fd >= 0)
      close(fd);
    bool whole = n == 40000;
    for (ssize_t i = 1; whole && i < n; i++)
      whole = buf[i] == buf[0];
    torn += !whole;
    looks++;
  }
  return NULL;
}

static void test_write_is_atomic(client *c) {
  static char text[2][40001];
  memset(text[0], 'a', 40000);
  memset(text[1], 'b', 40000);
  file_write(c, "atomic", text[0], 0);
  pthread_t t;
  atomic_store(&stop, false);
  pthread_create(&t, NULL, look_at_file, (void *)in_dir("ws/atomic"));
  for (int i = 0; i < 200; i++)
    file_write(c, "atomic", text[i & 1], 0);
  atomic_store(&stop, true);
  pthread_join(t, NULL);
  OK(torn == 0 && looks > 0, "%d of %d looks saw a part", torn, looks);
}

/* The stream ends amid a WRITE. */
static void test_end_amid_write(const char *agent) {
  client c;
  int before = count_entries("ws");
  client_start(&c, agent, in_dir("ws"), NULL);
  uint64_t op = file_begin(&c, PCO_WIRE_WRITE, "half", 0);
  client_send(&c, NULL, 0);
  file_send_data(&c, op, "half", 4, true);
  for (int i = 0; i < 500 && count_entries("ws") == before; i++)
    poll(NULL, 0, 10);
  IS(count_entries("ws"), before + 1, "a temporary file exists meanwhile");
  client_stop(&c);
  IS(count_entries("ws"), before, "the end of the stream removes it");
}

static void test_owner(client *c) {
  if (geteuid() != 0) {
    tap_skip("WRITE keeps the owner", "needs root");
    return;
  }
  struct stat st;
  make_file("ws/owned", "x", 0640);
  if (chown(in_dir("ws/owned"), 65534, 65534) != 0)
    return;
  file_write(c, "owned", "y", 0);
  stat(in_dir("ws/owned"), &st);
  OK(st.st_uid == 65534 && st.st_gid == 65534 && (st.st_mode & 07777) == 0640,
     "WRITE keeps the owner");
}

/* ---- directories --------------------------------------------------------- */

static void test_mkdir(client *c) {
  IS(file_simple(c, PCO_WIRE_MKDIR, "m", 0), 0, "MKDIR");
  IS(file_mode("ws/m"), 0755, "mode 0777 & ~umask");
  IS(file_simple(c, PCO_WIRE_MKDIR, "m", 0), EEXIST, "again: EEXIST");
  IS(file_simple(c, PCO_WIRE_MKDIR, "m", PCO_FS_PARENTS), 0,
     "with PARENTS: no error");
  IS(file_simple(c, PCO_WIRE_MKDIR, "file", PCO_FS_PARENTS), EEXIST,
     "PARENTS over a file");
  IS(file_simple(c, PCO_WIRE_MKDIR, "m/a/b/c/", PCO_FS_PARENTS), 0, "PARENTS");
  IS(file_simple(c, PCO_WIRE_MKDIR, "n/a", 0), ENOENT, "without");
  IS(file_simple(c, PCO_WIRE_MKDIR, ".", PCO_FS_PARENTS), 0, "the cwd");
  uint64_t op = file_begin(c, PCO_WIRE_MKDIR, "m/exact", 0);
  client_number(c, PCO_TAG_MODE, 01777);
  client_send(c, NULL, 0);
  IS(answer_finish(answer_take(c, op)), 0, "MKDIR with MODE");
  IS(file_mode("ws/m/exact"), 01777, "is exact");
}

static void test_remove(client *c) {
  IS(file_simple(c, PCO_WIRE_REMOVE, "m", 0), ENOTEMPTY,
     "REMOVE of a full one");
  IS(file_simple(c, PCO_WIRE_REMOVE, "m/exact", 0), 0, "of an empty one");
  mkdir(in_dir("outside"), 0755);
  make_file("outside/f", "x", 0600);
  make_link(in_dir("outside"), "ws/m/a/link");
  make_link("../../outside", "ws/m/a/b/link");
  IS(file_simple(c, PCO_WIRE_REMOVE, "m", PCO_FS_RECURSIVE), 0, "RECURSIVE");
  OK(access(in_dir("ws/m"), F_OK) != 0, "removes all");
  OK(file_holds("outside/f", "x"), "and follows no link");
  IS(file_simple(c, PCO_WIRE_REMOVE, "m", PCO_FS_RECURSIVE), ENOENT,
     "again: ENOENT");
  IS(file_simple(c, PCO_WIRE_REMOVE, "w2", PCO_FS_RECURSIVE), 0, "of a file");
  IS(file_simple(c, PCO_WIRE_REMOVE, in_dir("ws"), PCO_FS_RECURSIVE), EBUSY,
     "not the root itself");
  char deep[4096] = "deep";
  for (int i = 0; i < 150; i++)
    strcat(deep, "/d");
  IS(file_simple(c, PCO_WIRE_MKDIR, deep, PCO_FS_PARENTS), 0, "150 levels");
  IS(file_simple(c, PCO_WIRE_REMOVE, "deep", PCO_FS_RECURSIVE), 0, "removed");
}

static void test_rename(client *c) {
  make_file("ws/r1", "1", 0600);
  make_file("ws/r2", "2", 0600);
  IS(file_rename(c, "r1", "r2", 0), EEXIST, "RENAME onto another");
  OK(file_holds("ws/r2", "2"), "changes nothing");
  IS(file_rename(c, "r1", "r2", PCO_FS_REPLACE), 0, "with REPLACE");
  OK(file_holds("ws/r2", "1"), "it does");
  IS(file_rename(c, "r2", "sub/r3", 0), 0, "to another directory");
  IS(file_rename(c, "r2", "sub/r3", 0), ENOENT, "what is missing");
  IS(file_rename(c, "sub", "sub/x", 0), EINVAL, "into itself");
  make_link("sub", "ws/lnk");
  IS(file_rename(c, "lnk", "lnk2", 0), 0, "a link");
  OK(readlink(in_dir("ws/lnk2"), (char[8]){0}, 8) == 3, "itself");
}

int main(int argc, char **argv) {
  client c;
  char *agent = argc < 2 ? NULL : realpath(argv[1], NULL);
  if (!agent || !ws_open())
    return 2;
  ws_start(&c, agent);
  test_stat(&c);
  test_list(&c);
  test_read(&c);
  test_write(&c);
  test_write_cancel(&c);
  test_write_is_atomic(&c);
  test_mkdir(&c);
  test_remove(&c);
  test_rename(&c);
  test_owner(&c);
  test_big_list(&c);
  ws_stop(&c);
  test_end_amid_write(agent);
  ws_close(agent);
  free(agent);
  return tap_done();
}
