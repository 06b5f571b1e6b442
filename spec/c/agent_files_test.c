/* SPDX-License-Identifier: MIT */
/*
 * A real agent: files.  usage: agent_files_test AGENT
 *
 * The agent is confined to DIR/ws; DIR/secret and DIR/outside must never be
 * reached, whatever links and races say.
 */
#include "agent_client.h"

#include "portico/plugin.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64]; /* temporary; the root is dir/ws */

static const char *at(const char *name) {
  static char path[4][512];
  static int i;
  i = (i + 1) % 4;
  snprintf(path[i], sizeof path[i], "%s/%s", dir, name);
  return path[i];
}

static void make_file(const char *name, const char *text, mode_t mode) {
  int fd = open(at(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0 || write(fd, text, strlen(text)) < 0 || fchmod(fd, mode) != 0)
    perror(name);
  close(fd);
}

static bool holds(const char *name, const char *text) {
  char buf[4096];
  int fd = open(at(name), O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof buf - 1);
  buf[n < 0 ? 0 : n] = 0;
  if (fd >= 0)
    close(fd);
  return n >= 0 && strcmp(buf, text) == 0;
}

static int count_entries(const char *name) {
  DIR *d = opendir(at(name));
  int n = -2;
  while (d && readdir(d))
    n++;
  if (d)
    closedir(d);
  return n;
}

static mode_t mode_of(const char *name) {
  struct stat st;
  return lstat(at(name), &st) == 0 ? st.st_mode & 07777 : 0177777;
}

/* ---- requests ----------------------------------------------------------- */

typedef struct answer {
  int error; /* 0, errno; -1: no answer */
  char message[512];
  char *data; /* of READ; free it */
  size_t len;
  frame *entry; /* of STAT; free it */
} answer;

static answer take(client *c, uint64_t op) {
  answer a;
  memset(&a, 0, sizeof a);
  a.error = -1;
  for (;;) {
    frame *f = client_take(c, op, 20000);
    if (!f)
      return a;
    bool more = f->header.flags & PCO_WIRE_MORE;
    pco_wire_iter it;
    pco_wire_field d;
    pco_wire_iter_init(&it, f->payload, f->header.size);
    while (f->header.type == PCO_WIRE_DATA && pco_wire_next(&it, &d) == 1) {
      a.data = realloc(a.data, a.len + d.len + 1);
      memcpy(a.data + a.len, d.data, d.len);
      a.len += d.len;
      a.data[a.len] = 0;
    }
    a.error = f->header.type == PCO_WIRE_ERROR
                  ? (int)frame_number(f, PCO_TAG_ERRNO, 9999)
                  : 0;
    char *m = frame_text(f, PCO_TAG_MESSAGE);
    snprintf(a.message, sizeof a.message, "%s", m ? m : "");
    free(m);
    if (f->header.type == PCO_WIRE_REPLY && !more)
      a.entry = f;
    else
      free(f);
    if (!more)
      return a;
  }
}

static int finish(answer a) {
  free(a.data);
  free(a.entry);
  return a.error;
}

static uint64_t begin(client *c, uint16_t type, const char *path, int flags) {
  uint64_t op = client_begin(c, type);
  client_string(c, PCO_TAG_PATH, path);
  client_number(c, PCO_TAG_FLAGS, (uint64_t)flags);
  return op;
}

static answer ask(client *c, uint16_t type, const char *path, int flags) {
  uint64_t op = begin(c, type, path, flags);
  client_send(c, NULL, 0);
  return take(c, op);
}

static int simple(client *c, uint16_t type, const char *path, int flags) {
  return finish(ask(c, type, path, flags));
}

static int stat_error(client *c, const char *path, int flags) {
  return simple(c, PCO_WIRE_STAT, path, flags);
}

/* READ that must give that text. */
static bool reads(client *c, const char *path, const char *text) {
  answer a = ask(c, PCO_WIRE_READ, path, 0);
  bool same = a.error == 0 && a.data && strcmp(a.data, text) == 0;
  finish(a);
  return same;
}

static void send_data(client *c, uint64_t op, const char *p, size_t len,
                      bool more) {
  pco_wire_begin(&c->buf, PCO_WIRE_DATA, more ? PCO_WIRE_MORE : 0, op);
  pco_wire_bytes(&c->buf, PCO_TAG_DATA, p, len);
  client_send(c, NULL, 0);
}

static int write_mode(client *c, const char *path, const char *text, int flags,
                      int mode) {
  uint64_t op = begin(c, PCO_WIRE_WRITE, path, flags);
  if (mode >= 0)
    client_number(c, PCO_TAG_MODE, (uint64_t)mode);
  client_send(c, NULL, 0);
  send_data(c, op, text, strlen(text), false);
  return finish(take(c, op));
}

static int write_text(client *c, const char *path, const char *text,
                      int flags) {
  return write_mode(c, path, text, flags, -1);
}

static int rename_to(client *c, const char *a, const char *b, int flags) {
  uint64_t op = begin(c, PCO_WIRE_RENAME, a, flags);
  client_string(c, PCO_TAG_TARGET_PATH, b);
  client_send(c, NULL, 0);
  return finish(take(c, op));
}

/* A number of the ENTRY of a STAT. */
static uint64_t entry_number(const frame *f, uint16_t tag) {
  pco_wire_iter it, in;
  pco_wire_field e, g;
  pco_wire_iter_init(&it, f->payload, f->header.size);
  while (pco_wire_next(&it, &e) == 1) {
    if (e.tag != PCO_TAG_ENTRY)
      continue;
    pco_wire_enter(&in, &e);
    while (pco_wire_next(&in, &g) == 1)
      if (g.tag == tag)
        return PCO_TAG_KIND(tag) == PCO_TAG_NUMBER ? g.number : g.len;
  }
  return UINT64_MAX;
}

/* ---- paths -------------------------------------------------------------- */

static void test_inside(client *c) {
  make_file("ws/file", "content", 0640);
  mkdir(at("ws/sub"), 0755);
  make_file("ws/sub/inner", "inner", 0600);
  OK(reads(c, "file", "content"), "a relative path");
  OK(reads(c, "./sub/../sub//inner", "inner"), "dots and slashes");
  OK(reads(c, at("ws/sub/inner"), "inner"), "an absolute path");
  char path[600];
  snprintf(path, sizeof path, "//%s/./ws/sub/inner", dir + 1);
  OK(reads(c, path, "inner"), "another spelling of it");
  OK(reads(c, at("alias/file"), "content"), "through the alias");
  IS(stat_error(c, "", 0), ENOENT, "the empty path");
  IS(stat_error(c, "nothing", 0), ENOENT, "a missing file");
  IS(stat_error(c, "file/", 0), ENOTDIR, "a file with a slash");
  IS(stat_error(c, "file/x", 0), ENOTDIR, "a file as directory");
  IS(stat_error(c, ".", 0), 0, "the working directory");
  IS(stat_error(c, "sub/", 0), 0, "a directory with a slash");
}

static void test_outside(client *c) {
  make_file("secret", "secret", 0644);
  answer a = ask(c, PCO_WIRE_READ, "../secret", 0);
  IS(a.error, EACCES, "..: refused");
  OK(strstr(a.message, "outside the workspace") &&
         strstr(a.message, at("ws")) && strstr(a.message, "settings.root"),
     "with a sentence: %s", a.message);
  finish(a);
  IS(stat_error(c, at("secret"), 0), EACCES, "an absolute path outside");
  IS(stat_error(c, "/etc/passwd", 0), EACCES, "/etc/passwd");
  IS(stat_error(c, "/", 0), EACCES, "/");
  IS(stat_error(c, "sub/../..", 0), EACCES, "sub/../..");
  IS(stat_error(c, at("ws/../secret"), 0), EACCES, "an absolute path with ..");
  IS(stat_error(c, at("wsx"), 0), EACCES, "a name that starts like the root");
  IS(write_text(c, "../new", "x", 0), EACCES, "write outside");
  IS(simple(c, PCO_WIRE_MKDIR, "../d/e", PCO_FS_PARENTS), EACCES,
     "mkdir outside");
  IS(rename_to(c, "file", "../stolen", 0), EACCES, "rename to outside");
  IS(rename_to(c, "../secret", "mine", 0), EACCES, "rename from outside");
  IS(simple(c, PCO_WIRE_REMOVE, "../secret", 0), EACCES, "remove outside");
  OK(holds("secret", "secret"), "nothing happened to it");
}

static void link_to(const char *text, const char *name) {
  unlink(at(name));
  if (symlink(text, at(name)) != 0)
    perror(name);
}

static void test_links(client *c) {
  link_to("sub/inner", "ws/rel");
  link_to(at("ws/sub"), "ws/abs");
  link_to("../secret", "ws/out");
  link_to("/etc", "ws/etc");
  link_to("loop", "ws/loop");
  link_to("sub/../../secret", "ws/out2");
  link_to("later", "ws/dangling");
  OK(reads(c, "rel", "inner"), "a relative link");
  OK(reads(c, "abs/inner", "inner"), "an absolute link inside is rebased");
  IS(simple(c, PCO_WIRE_READ, "out", 0), EACCES, "a link out by ..");
  IS(simple(c, PCO_WIRE_READ, "out2", 0), EACCES, "a link out by a detour");
  IS(simple(c, PCO_WIRE_READ, "etc/passwd", 0), EACCES, "an absolute link out");
  IS(simple(c, PCO_WIRE_READ, "loop", 0), ELOOP, "a loop");
  IS(simple(c, PCO_WIRE_READ, "rel", PCO_FS_NOFOLLOW), ELOOP,
     "READ with NOFOLLOW");
  IS(simple(c, PCO_WIRE_LIST, "abs", PCO_FS_NOFOLLOW), ELOOP,
     "LIST with NOFOLLOW");
  IS(write_text(c, "rel", "x", PCO_FS_NOFOLLOW), ELOOP, "WRITE with NOFOLLOW");
  answer a = ask(c, PCO_WIRE_STAT, "out", PCO_FS_NOFOLLOW);
  OK(a.entry && entry_number(a.entry, PCO_TAG_TYPE) == PCO_SYMLINK &&
         entry_number(a.entry, PCO_TAG_LINK) == strlen("../secret") &&
         entry_number(a.entry, PCO_TAG_NAME) == 3,
     "STAT with NOFOLLOW tells of the link");
  finish(a);
  IS(write_text(c, "rel", "through", 0), 0, "write through a link");
  OK(holds("ws/sub/inner", "through") &&
         readlink(at("ws/rel"), (char[9]){0}, 9) == 9,
     "changes the file; the link stays");
  IS(write_text(c, "dangling", "made", 0), 0, "write through a dangling link");
  OK(holds("ws/later", "made"), "makes what it leads to");
  IS(write_text(c, "out", "x", 0), EACCES, "write through a link out");
  OK(holds("secret", "secret"), "nothing happened");
  IS(simple(c, PCO_WIRE_REMOVE, "rel", 0), 0, "REMOVE of a link");
  OK(holds("ws/sub/inner", "through"), "leaves what it leads to");
  IS(simple(c, PCO_WIRE_REMOVE, "abs/", PCO_FS_RECURSIVE), ENOTDIR,
     "REMOVE of a link with a slash");
  link_to("40", "ws/l0");
  for (int i = 1; i <= 41; i++) {
    char name[32], text[32];
    snprintf(name, sizeof name, "ws/l%d", i);
    snprintf(text, sizeof text, "l%d", i - 1);
    link_to(text, name);
  }
  make_file("ws/40", "end", 0600);
  OK(reads(c, "l39", "end"), "40 links");
  IS(simple(c, PCO_WIRE_READ, "l41", 0), ELOOP, "42 links");
}

/* ---- STAT, LIST, READ --------------------------------------------------- */

static void test_stat(client *c) {
  make_file("ws/st", "12345", 0640);
  answer a = ask(c, PCO_WIRE_STAT, "sub/../st", 0);
  struct stat st;
  stat(at("ws/st"), &st);
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
  finish(a);
  a = ask(c, PCO_WIRE_STAT, at("ws"), 0);
  OK(a.entry && entry_number(a.entry, PCO_TAG_TYPE) == PCO_DIRECTORY,
     "the root");
  finish(a);
}

/* Counts the entries of a LIST; -errno. */
static int list(client *c, const char *path, char *names, size_t size) {
  uint64_t op = begin(c, PCO_WIRE_LIST, path, 0);
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
  mkdir(at("ws/ls"), 0755);
  IS(list(c, "ls", NULL, 0), 0, "an empty directory");
  make_file("ws/ls/new\nline", "", 0600);
  make_file("ws/ls/\xff\xfe", "", 0600);
  make_file("ws/ls/...", "", 0600);
  link_to("nowhere", "ws/ls/link");
  IS(list(c, "ls", names, sizeof names), 4, "four entries");
  OK(strstr(names, "new\nline|") && strstr(names, "\xff\xfe|") &&
         strstr(names, "...|") && strstr(names, "link|"),
     "names are bytes");
  IS(list(c, "file", NULL, 0), -ENOTDIR, "LIST of a file");
  IS(list(c, "nothing", NULL, 0), -ENOENT, "LIST of nothing");
  OK(reads(c, "ls/new\nline", ""), "and can be read");
  IS(simple(c, PCO_WIRE_REMOVE, "ls/\xff\xfe", 0), 0, "and removed");
}

static void test_big_list(client *c) {
  enum { N = 100000 };
  mkdir(at("ws/big"), 0755);
  int d = open(at("ws/big"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  for (int i = 0; i < N; i++) {
    char name[32];
    snprintf(name, sizeof name, "entry-%06d", i);
    close(openat(d, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  }
  close(d);
  uint64_t op = begin(c, PCO_WIRE_LIST, "big", 0);
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
  finish(take(c, op));
  IS(list(c, "big", NULL, 0), N, "100,000 entries");
  uint64_t rm = begin(c, PCO_WIRE_REMOVE, "big", PCO_FS_RECURSIVE);
  client_send(c, NULL, 0);
  ping = client_begin(c, PCO_WIRE_PING);
  client_send(c, NULL, 0);
  f = client_take(c, ping, 5000);
  OK(f && !c->waiting, "PING is answered before a long REMOVE has ended");
  free(f);
  IS(finish(take(c, rm)), 0, "which removes them");
  OK(access(at("ws/big"), F_OK) != 0, "all of them");
}

static void test_read(client *c) {
  size_t size = 1000003;
  char *text = malloc(size + 1);
  for (size_t i = 0; i < size; i++)
    text[i] = (char)('a' + i % 23);
  text[size] = 0;
  make_file("ws/large", text, 0600);
  OK(reads(c, "large", text), "a file of a megabyte");
  uint64_t op = begin(c, PCO_WIRE_READ, "large", 0);
  client_number(c, PCO_TAG_OFFSET, 999990);
  client_number(c, PCO_TAG_LENGTH, 5);
  client_send(c, NULL, 0);
  answer a = take(c, op);
  OK(a.len == 5 && memcmp(a.data, text + 999990, 5) == 0, "OFFSET and LENGTH");
  finish(a);
  op = begin(c, PCO_WIRE_READ, "large", 0);
  client_number(c, PCO_TAG_OFFSET, INT64_MAX);
  client_send(c, NULL, 0);
  a = take(c, op);
  OK(a.error == 0 || a.error == EINVAL, "an offset beyond all");
  IS(a.len, 0, "gives nothing");
  finish(a);
  op = begin(c, PCO_WIRE_READ, "large", 0);
  client_number(c, PCO_TAG_LENGTH, 0);
  client_send(c, NULL, 0);
  a = take(c, op);
  OK(a.error == 0 && a.len == 0, "LENGTH 0");
  finish(a);
  IS(simple(c, PCO_WIRE_READ, "sub", 0), EISDIR, "READ of a directory");
  mkfifo(at("ws/fifo"), 0600);
  a = ask(c, PCO_WIRE_READ, "fifo", 0);
  OK(a.error == EINVAL && a.message[0], "READ of a FIFO: %s", a.message);
  finish(a);
  IS(write_text(c, "fifo", "x", 0), EINVAL, "WRITE of a FIFO");
  IS(write_text(c, "fifo", "x", PCO_FS_APPEND), EINVAL, "APPEND to a FIFO");
  free(text);
}

/* ---- WRITE -------------------------------------------------------------- */

static void test_write(client *c) {
  int before = count_entries("ws");
  IS(write_text(c, "w", "one", 0), 0, "WRITE makes a file");
  OK(holds("ws/w", "one"), "with the content");
  IS(mode_of("ws/w"), 0644, "mode 0666 & ~umask");
  IS(write_text(c, "w", "two", 0), 0, "WRITE replaces");
  OK(holds("ws/w", "two"), "the content");
  chmod(at("ws/w"), 0751);
  write_text(c, "w", "three", 0);
  IS(mode_of("ws/w"), 0751, "keeps the mode");
  IS(write_mode(c, "w", "four", 0, 0666), 0, "MODE");
  IS(mode_of("ws/w"), 0666, "is exact");
  IS(write_mode(c, "w2", "", 0, 0600), 0, "an empty file");
  IS(mode_of("ws/w2"), 0600, "with its mode");
  IS(write_text(c, "w", "+five", PCO_FS_APPEND), 0, "APPEND");
  OK(holds("ws/w", "four+five"), "adds");
  IS(write_text(c, "w3", "new", PCO_FS_APPEND), 0, "APPEND makes a file");
  OK(holds("ws/w3", "new"), "if there is none");
  IS(write_text(c, "sub", "x", 0), EISDIR, "WRITE to a directory");
  IS(write_text(c, "nodir/", "x", 0), EISDIR, "to a name with a slash");
  IS(write_text(c, "x/y/z", "deep", 0), ENOENT, "without parents");
  IS(write_text(c, "x/y/z", "deep", PCO_FS_PARENTS), 0, "with PARENTS");
  OK(holds("ws/x/y/z", "deep"), "made");
  IS(count_entries("ws"), before + 4, "no temporary file is left");
}

static void test_write_cancel(client *c) {
  int before = count_entries("ws");
  make_file("ws/keep", "old", 0600);
  uint64_t op = begin(c, PCO_WIRE_WRITE, "keep", 0);
  client_send(c, NULL, 0);
  send_data(c, op, "new", 3, true);
  client_simple(c, PCO_WIRE_PING, 5000);
  OK(holds("ws/keep", "old"), "amid a WRITE the old content is there");
  pco_wire_begin(&c->buf, PCO_WIRE_CANCEL, 0, op);
  client_send(c, NULL, 0);
  send_data(c, op, "late", 4, false);
  IS(finish(take(c, op)), ECANCELED, "CANCEL");
  OK(holds("ws/keep", "old"), "leaves it");
  IS(count_entries("ws"), before + 1, "and nothing else");
  pco_wire_begin(&c->buf, PCO_WIRE_CANCEL, 0, 1000000);
  client_send(c, NULL, 0);
  IS(client_simple(c, PCO_WIRE_PING, 5000), 0,
     "CANCEL of an unknown op is ignored");
  IS(write_text(c, "keep/x", "x", 0), ENOTDIR, "an early error drops DATA");
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
  write_text(c, "atomic", text[0], 0);
  pthread_t t;
  atomic_store(&stop, false);
  pthread_create(&t, NULL, look_at_file, (void *)at("ws/atomic"));
  for (int i = 0; i < 200; i++)
    write_text(c, "atomic", text[i & 1], 0);
  atomic_store(&stop, true);
  pthread_join(t, NULL);
  OK(torn == 0 && looks > 0, "%d of %d looks saw a part", torn, looks);
}

/* ---- directories -------------------------------------------------------- */

static void test_mkdir(client *c) {
  IS(simple(c, PCO_WIRE_MKDIR, "m", 0), 0, "MKDIR");
  IS(mode_of("ws/m"), 0755, "mode 0777 & ~umask");
  IS(simple(c, PCO_WIRE_MKDIR, "m", 0), EEXIST, "again: EEXIST");
  IS(simple(c, PCO_WIRE_MKDIR, "m", PCO_FS_PARENTS), 0,
     "with PARENTS: no error");
  IS(simple(c, PCO_WIRE_MKDIR, "file", PCO_FS_PARENTS), EEXIST,
     "PARENTS over a file");
  IS(simple(c, PCO_WIRE_MKDIR, "m/a/b/c/", PCO_FS_PARENTS), 0, "PARENTS");
  IS(simple(c, PCO_WIRE_MKDIR, "n/a", 0), ENOENT, "without");
  IS(simple(c, PCO_WIRE_MKDIR, ".", PCO_FS_PARENTS), 0, "the cwd");
  uint64_t op = begin(c, PCO_WIRE_MKDIR, "m/exact", 0);
  client_number(c, PCO_TAG_MODE, 01777);
  client_send(c, NULL, 0);
  IS(finish(take(c, op)), 0, "MKDIR with MODE");
  IS(mode_of("ws/m/exact"), 01777, "is exact");
}

static void test_remove(client *c) {
  IS(simple(c, PCO_WIRE_REMOVE, "m", 0), ENOTEMPTY, "REMOVE of a full one");
  IS(simple(c, PCO_WIRE_REMOVE, "m/exact", 0), 0, "of an empty one");
  mkdir(at("outside"), 0755);
  make_file("outside/f", "x", 0600);
  link_to(at("outside"), "ws/m/a/link");
  link_to("../../outside", "ws/m/a/b/link");
  IS(simple(c, PCO_WIRE_REMOVE, "m", PCO_FS_RECURSIVE), 0, "RECURSIVE");
  OK(access(at("ws/m"), F_OK) != 0, "removes all");
  OK(holds("outside/f", "x"), "and follows no link");
  IS(simple(c, PCO_WIRE_REMOVE, "m", PCO_FS_RECURSIVE), ENOENT,
     "again: ENOENT");
  IS(simple(c, PCO_WIRE_REMOVE, "w2", PCO_FS_RECURSIVE), 0, "of a file");
  IS(simple(c, PCO_WIRE_REMOVE, at("ws"), PCO_FS_RECURSIVE), EBUSY,
     "not the root itself");
  char deep[4096] = "deep";
  for (int i = 0; i < 150; i++)
    strcat(deep, "/d");
  IS(simple(c, PCO_WIRE_MKDIR, deep, PCO_FS_PARENTS), 0, "150 levels");
  IS(simple(c, PCO_WIRE_REMOVE, "deep", PCO_FS_RECURSIVE), 0, "removed");
}

static void test_rename(client *c) {
  make_file("ws/r1", "1", 0600);
  make_file("ws/r2", "2", 0600);
  IS(rename_to(c, "r1", "r2", 0), EEXIST, "RENAME onto another");
  OK(holds("ws/r2", "2"), "changes nothing");
  IS(rename_to(c, "r1", "r2", PCO_FS_REPLACE), 0, "with REPLACE");
  OK(holds("ws/r2", "1"), "it does");
  IS(rename_to(c, "r2", "sub/r3", 0), 0, "to another directory");
  IS(rename_to(c, "r2", "sub/r3", 0), ENOENT, "what is missing");
  IS(rename_to(c, "sub", "sub/x", 0), EINVAL, "into itself");
  link_to("sub", "ws/lnk");
  IS(rename_to(c, "lnk", "lnk2", 0), 0, "a link");
  OK(readlink(at("ws/lnk2"), (char[8]){0}, 8) == 3, "itself");
}

/* ---- a racer ------------------------------------------------------------ */

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
  mkdir(at("ws/swap"), 0755);
  mkdir(at("evil"), 0755);
  make_file("ws/swap/file", "good", 0600);
  make_file("evil/file", "evil", 0600);
  link_to("../evil", "ws/other");
  pthread_t t;
  int good = 0, refused = 0, bad = 0;
  atomic_store(&stop, false);
  pthread_create(&t, NULL, swap, NULL);
  int naive = naive_loses();
  for (int i = 0; i < 4000; i++) {
    answer a = ask(c, PCO_WIRE_READ, "swap/file", 0);
    good += a.error == 0 && a.data && strcmp(a.data, "good") == 0;
    bad += a.error == 0 && a.data && strcmp(a.data, "good") != 0;
    refused += a.error == EACCES;
    finish(a);
    if (i % 8 == 0)
      write_text(c, "swap/new", "x", 0);
    if (i % 8 == 4)
      simple(c, PCO_WIRE_REMOVE, "swap/new", 0);
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
    simple(c, PCO_WIRE_MKDIR, "swap", PCO_FS_PARENTS);
    unlink(at("ws/other"));
    if (symlink("../evil", at("ws/other")) != 0 && errno != EEXIST)
      perror("symlink");
    write_text(c, "swap/a/b", "x", PCO_FS_PARENTS);
    simple(c, PCO_WIRE_REMOVE, "swap", PCO_FS_RECURSIVE);
  }
  atomic_store(&stop, true);
  pthread_join(t, NULL);
  OK(holds("evil/file", "evil"), "REMOVE in a race removes nothing outside");
  simple(c, PCO_WIRE_REMOVE, "swap", PCO_FS_RECURSIVE);
  simple(c, PCO_WIRE_REMOVE, "other", PCO_FS_RECURSIVE);
}

/* ---- other agents ------------------------------------------------------- */

static void test_whole_system(const char *agent) {
  client c;
  client_start(&c, agent, at("ws/sub"), NULL);
  OK(reads(&c, "../file", "content"), "root /: .. leads up");
  OK(reads(&c, at("secret"), "secret"), "everything is inside");
  IS(stat_error(&c, "/../../etc", 0), 0, "/.. stays at /");
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/status", (int)getpid());
  answer a = ask(&c, PCO_WIRE_READ, path, 0);
  OK(a.error == 0 && a.data && strstr(a.data, "Name:"),
     "/proc/PID/status can be read");
  finish(a);
  snprintf(path, sizeof path, "/proc/%d/status", (int)c.agent);
  OK(finish(ask(&c, PCO_WIRE_READ, path, 0)) == EACCES, "but the agent's own");
  OK(finish(ask(&c, PCO_WIRE_READ, "/proc/self/status", 0)) == ELOOP,
     "/proc/self is refused");
  snprintf(path, sizeof path, "/proc/%d/cwd/inner", (int)getpid());
  OK(finish(ask(&c, PCO_WIRE_READ, path, 0)) == ELOOP, "magic links, too");
  snprintf(path, sizeof path, "/proc/%d/root/etc/passwd", (int)getpid());
  OK(finish(ask(&c, PCO_WIRE_READ, path, 0)) == ELOOP, "also root");
  snprintf(path, sizeof path, "/proc/%d/fd/0", (int)getpid());
  OK(finish(ask(&c, PCO_WIRE_READ, path, 0)) != 0, "also fd/0");
  uint64_t op = begin(&c, PCO_WIRE_READ, "/dev/zero", 0);
  client_number(&c, PCO_TAG_LENGTH, 300000);
  client_send(&c, NULL, 0);
  a = take(&c, op);
  IS(a.len, 300000, "/dev/zero by LENGTH");
  finish(a);
  a = ask(&c, PCO_WIRE_READ, "/dev/null", 0);
  OK(a.error == 0 && a.len == 0, "/dev/null is empty");
  finish(a);
  op = begin(&c, PCO_WIRE_READ, "/dev/zero", 0);
  client_send(&c, NULL, 0);
  IS(client_simple(&c, PCO_WIRE_PING, 5000), 0, "an endless READ lets others");
  pco_wire_begin(&c.buf, PCO_WIRE_CANCEL, 0, op);
  client_send(&c, NULL, 0);
  IS(finish(take(&c, op)), ECANCELED, "and can be cancelled");
  client_stop(&c);
}

/* The stream ends amid a WRITE. */
static void test_end_amid_write(const char *agent) {
  client c;
  int before = count_entries("ws");
  client_start(&c, agent, at("ws"), NULL);
  uint64_t op = begin(&c, PCO_WIRE_WRITE, "half", 0);
  client_send(&c, NULL, 0);
  send_data(&c, op, "half", 4, true);
  for (int i = 0; i < 500 && count_entries("ws") == before; i++)
    poll(NULL, 0, 10);
  IS(count_entries("ws"), before + 1, "a temporary file exists meanwhile");
  client_stop(&c);
  IS(count_entries("ws"), before, "the end of the stream removes it");
}

/* ---- workers ------------------------------------------------------------ */

/* The pids of the agent's workers, up to n of them; gives how many. */
static int find_workers(const client *c, pid_t *pids, int n) {
  char path[80], comm[32] = "";
  int pid, found = 0;
  snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)c->agent,
           (int)c->agent);
  FILE *children = fopen(path, "re");
  while (children && found < n && fscanf(children, "%d", &pid) == 1) {
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    FILE *f = fopen(path, "re");
    if (f && fgets(comm, sizeof comm, f) &&
        strcmp(comm, "portico-files\n") == 0)
      pids[found++] = pid;
    if (f)
      fclose(f);
  }
  if (children)
    fclose(children);
  return found;
}

static int count_workers(const client *c) {
  pid_t pids[32];
  return find_workers(c, pids, 32);
}

/* Waits until there are so many workers; gives how many there are. */
static int await_workers(const client *c, int n) {
  for (int i = 0; i < 1500 && count_workers(c) != n; i++)
    poll(NULL, 0, 10);
  return count_workers(c);
}

static uint64_t begin_read(client *c) {
  uint64_t op = begin(c, PCO_WIRE_READ, "file", 0);
  client_send(c, NULL, 0);
  return op;
}

static void cancel(client *c, uint64_t op) {
  pco_wire_begin(&c->buf, PCO_WIRE_CANCEL, 0, op);
  client_send(c, NULL, 0);
}

/* Stops the worker, as a file system that is dead does. */
static pid_t stop_worker(const client *c) {
  pid_t pid = 0;
  if (find_workers(c, &pid, 1) == 1)
    kill(pid, SIGSTOP);
  return pid;
}

static void test_dead_file_system(client *c) {
  OK(reads(c, "file", "content"), "there is a worker");
  IS(count_workers(c), 1, "one");
  pid_t stopped = stop_worker(c);
  uint64_t op = begin_read(c);
  OK(reads(c, "file", "content"), "a dead file system lets others");
  IS(client_simple(c, PCO_WIRE_PING, 5000), 0, "and the agent");
  IS(await_workers(c, 2), 2, "by another worker");
  OK(client_take(c, op, 100) == NULL, "what is on it waits");
  cancel(c, op);
  IS(finish(take(c, op)), ECANCELED, "and can be cancelled");
  IS(await_workers(c, 1), 1, "which ends its worker");
  OK(kill(stopped, 0) != 0, "the one that was stopped");
}

/* A request at each of the workers there may be, and one more. */
static void test_all_workers_dead(client *c) {
  uint64_t op[9];
  for (int i = 0; i < 8; i++) {
    pid_t pids[16];
    OK(reads(c, "file", "content"), "%d workers are dead", i);
    int n = find_workers(c, pids, 16);
    for (int j = 0; j < n; j++)
      kill(pids[j], SIGSTOP);
    op[i] = begin_read(c);
  }
  op[8] = begin_read(c);
  OK(client_take(c, op[8], 300) == NULL, "the ninth waits in line");
  IS(count_workers(c), 8, "there are no more than eight");
  cancel(c, op[8]);
  IS(finish(take(c, op[8])), ECANCELED, "it can be cancelled there");
  op[8] = begin_read(c);
  cancel(c, op[0]);
  IS(finish(take(c, op[0])), ECANCELED, "one is given up");
  IS(finish(take(c, op[8])), 0, "so that the next can be done");
  for (int i = 1; i < 8; i++)
    cancel(c, op[i]);
  for (int i = 1; i < 8; i++)
    IS(finish(take(c, op[i])), ECANCELED, "all can be given up");
}

/* Waits until there are so many entries, or more, or fewer: as the sign of n
 * says; gives how many there are. */
static int await_entries(const char *name, int n, bool at_most) {
  int found = count_entries(name);
  for (int i = 0; i < 3000 && (at_most ? found > n : found < n); i++) {
    poll(NULL, 0, at_most ? 10 : 1);
    found = count_entries(name);
  }
  return found;
}

static void kill_workers(client *c) {
  pid_t pid = 0;
  while (find_workers(c, &pid, 1) == 1 && kill(pid, SIGKILL) == 0)
    poll(NULL, 0, 10);
}

/* A worker is killed when it has begun something in `name`: what it made there
 * for the time being goes. */
static void test_litter(client *c, uint64_t op, const char *name, int before,
                        const char *what) {
  IS(await_entries(name, before + 1, false), before + 1, what);
  kill_workers(c);
  IS(finish(take(c, op)), EIO, "what a killed worker did is an error");
  IS(await_entries(name, before, true), before, "and nothing is left of it");
}

static uint64_t begin_unpack(client *c, const char *path, int fd) {
  uint64_t op = begin(c, PCO_WIRE_UNPACK, path, 0);
  pco_wire_bytes(&c->buf, PCO_TAG_DATA, "", 0);
  client_send(c, &fd, 1);
  return op;
}

/* One whose request was cancelled is killed, when it does not answer. */
static void test_litter_of_stopped(client *c, const char *name) {
  int before = count_entries(name);
  uint64_t op = begin(c, PCO_WIRE_WRITE, "lit/stopped", 0);
  client_send(c, NULL, 0);
  await_entries(name, before + 1, false);
  stop_worker(c);
  cancel(c, op);
  IS(finish(take(c, op)), ECANCELED, "a worker that is slow is given up");
  IS(await_entries(name, before, true), before, "nothing is left of it, too");
}

static void test_killed_worker(client *c) {
  int fds[2];
  mkdir(at("ws/lit"), 0755);
  mkdir(at("ws/lit/deep"), 0755);
  link_to("lit/deep", "ws/way");
  OK(reads(c, "file", "content"), "there is a worker again");
  uint64_t op = begin(c, PCO_WIRE_WRITE, "way/killed", 0);
  client_send(c, NULL, 0);
  test_litter(c, op, "ws/lit/deep", 0, "a WRITE has a temporary file");
  if (pipe2(fds, O_CLOEXEC) != 0)
    return;
  op = begin_unpack(c, "way", fds[0]);
  test_litter(c, op, "ws/lit/deep", 0, "UNPACK has a directory in the target");
  op = begin_unpack(c, "lit/new", fds[0]);
  test_litter(c, op, "ws/lit", 1, "or beside it");
  close(fds[0]);
  close(fds[1]);
  test_litter_of_stopped(c, "ws/lit");
  OK(reads(c, "file", "content"), "and the next one lives");
  IS(await_workers(c, 0), 0, "a sandbox that does nothing has no worker");
}

/* More than may be ahead is acknowledged, and a dead file system is not sent
 * more. */
static void test_write_window(client *c) {
  static char block[PCO_WIRE_MAX_DATA];
  uint64_t op = begin(c, PCO_WIRE_WRITE, "window", 0), taken = 0;
  client_send(c, NULL, 0);
  for (int i = 0; i < 8; i++)
    send_data(c, op, block, sizeof block, true);
  while (taken < 8 * sizeof block) {
    frame *f = client_take(c, op, 20000);
    if (!f || f->header.type != PCO_WIRE_REPLY ||
        !(f->header.flags & PCO_WIRE_MORE)) {
      free(f);
      break;
    }
    taken += frame_number(f, PCO_TAG_LENGTH, 0);
    free(f);
  }
  IS(taken, 8 * sizeof block, "a WRITE tells how much it took");
  send_data(c, op, "", 0, false);
  IS(finish(take(c, op)), 0, "and ends");
}

static void test_workers(const char *agent) {
  client c;
  const char *const args[] = {"--root", at("ws"), NULL};
  client_start(&c, agent, at("ws"), args);
  make_file("ws/file", "content", 0644);
  test_write_window(&c);
  test_dead_file_system(&c);
  test_all_workers_dead(&c);
  test_killed_worker(&c);
  OK(reads(&c, "file", "content"), "a worker that is dead at the end");
  stop_worker(&c);
  begin_read(&c);
  int status = client_stop(&c);
  OK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "does not hold it up");
}

static void test_owner(client *c) {
  if (geteuid() != 0) {
    tap_skip("WRITE keeps the owner", "needs root");
    return;
  }
  struct stat st;
  make_file("ws/owned", "x", 0640);
  if (chown(at("ws/owned"), 65534, 65534) != 0)
    return;
  write_text(c, "owned", "y", 0);
  stat(at("ws/owned"), &st);
  OK(st.st_uid == 65534 && st.st_gid == 65534 && (st.st_mode & 07777) == 0640,
     "WRITE keeps the owner");
}

static void test_refused_root(const char *agent) {
  client c;
  const char *const args[] = {"--root", at("ws"), NULL};
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
  if (argc < 2)
    return 2;
  char *agent = realpath(argv[1], NULL);
  snprintf(dir, sizeof dir, "/tmp/portico-files-test-XXXXXX");
  if (!agent || !mkdtemp(dir))
    return 2;
  umask(022);
  signal(SIGPIPE, SIG_IGN);
  mkdir(at("ws"), 0755);
  link_to(at("ws"), "alias");
  char root[256], alias[256];
  snprintf(root, sizeof root, "%s", at("ws"));
  snprintf(alias, sizeof alias, "%s", at("alias"));
  const char *const args[] = {"--root", root, "--alias", alias, NULL};
  client_start(&c, agent, root, args);
  test_inside(&c);
  test_outside(&c);
  test_links(&c);
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
  test_race(&c);
  test_remove_race(&c);
  test_big_list(&c);
  int status = client_stop(&c);
  OK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the agent exits 0");
  test_whole_system(agent);
  test_end_amid_write(agent);
  test_workers(agent);
  test_refused_root(agent);
  char command[512];
  snprintf(command, sizeof command, "exec %s --remove-only %s", agent, dir);
  IS(system(command), 0, "--remove-only cleans up");
  free(agent);
  return tap_done();
}
