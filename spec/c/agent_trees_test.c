/* SPDX-License-Identifier: MIT */
/*
 * A real agent: trees.  usage: agent_trees_test AGENT
 *
 * What is unpacked is forged here, by code that shares nothing with the agent's
 * reader; each forgery is also given to the system's tar, told to trust it, to
 * show that it would do harm.  Both kinds of agent are tested: the one inside a
 * sandbox, and the one that works for the host and unpacks in a process that
 * can do nothing else.
 */
#include "agent_client.h"
#include "test_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *program; /* its root is dir/ws */

static int shell(const char *text) {
  char command[2048];
  snprintf(command, sizeof command, "cd %s && { %s; }", dir, text);
  int status = system(command);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- forging ------------------------------------------------------------ */

typedef struct tar {
  uint8_t *p;
  size_t len, cap;
} tar;

static void put(tar *t, const void *p, size_t len) {
  if (t->len + len + 512 > t->cap) {
    t->cap = 2 * (t->len + len + 512);
    t->p = realloc(t->p, t->cap);
  }
  memcpy(t->p + t->len, p, len);
  t->len += len;
  memset(t->p + t->len, 0, 512);
}

static void pad(tar *t) {
  static const char zeros[512];
  put(t, zeros, (512 - t->len % 512) % 512);
}

/* An entry with the given content; `size` may lie about it. */
static void add_sized(tar *t, char type, const char *name, const char *link,
                      const char *content, size_t len, unsigned long long size,
                      unsigned mode) {
  char h[513] = {0};
  unsigned sum = 0;
  snprintf(h, 101, "%.100s", name);
  h[100] = 0;
  snprintf(h + 100, 8, "%07o", mode);
  snprintf(h + 108, 8, "%07o", 0u);
  snprintf(h + 116, 8, "%07o", 0u);
  snprintf(h + 124, 12, "%011llo", size & 077777777777);
  snprintf(h + 136, 12, "%011o", 1u);
  h[156] = type;
  snprintf(h + 157, 100, "%s", link ? link : "");
  memcpy(h + 257, "ustar\00000", 8);
  memset(h + 148, ' ', 8);
  for (int i = 0; i < 512; i++)
    sum += (unsigned char)h[i];
  snprintf(h + 148, 8, "%06o", sum);
  put(t, h, 512);
  put(t, content, len);
  pad(t);
}

static void add(tar *t, char type, const char *name, const char *link,
                const char *content) {
  size_t len = content ? strlen(content) : 0;
  add_sized(t, type, name, link, content ? content : "", len, len, 0755);
}

static void end(tar *t) {
  static const char zeros[1024];
  put(t, zeros, sizeof zeros);
}

/* ---- the agent ---------------------------------------------------------- */

typedef struct outcome {
  int error; /* 0, an errno, or -1: no answer */
  char message[256], path[512];
  size_t skipped;
  unsigned long long files, directories, bytes;
} outcome;

static outcome read_outcome(client *c, uint64_t op) {
  outcome o = {.error = -1};
  frame *f;
  while ((f = client_take(c, op, 20000)) != NULL) {
    bool last = !(f->header.flags & PCO_WIRE_MORE);
    uint64_t number = frame_number(f, PCO_TAG_ERRNO, 0);
    if (last) {
      char *message = frame_text(f, PCO_TAG_MESSAGE);
      char *path = frame_text(f, PCO_TAG_PATH);
      snprintf(o.message, sizeof o.message, "%s", message ? message : "");
      snprintf(o.path, sizeof o.path, "%s", path ? path : "");
      free(message);
      free(path);
      o.error = f->header.type == PCO_WIRE_ERROR ? (int)number : 0;
      o.files = frame_number(f, PCO_TAG_COUNT, 0);
      o.directories = frame_number(f, PCO_TAG_DIRECTORIES, 0);
      o.bytes = frame_number(f, PCO_TAG_SIZE, 0);
    } else if (number) {
      o.skipped++;
    }
    free(f);
    if (last)
      break;
  }
  return o;
}

/* Words are separated by blanks here. */
static uint64_t request(client *c, uint16_t type, const char *path,
                        const char *words, int fd) {
  char text[1024];
  size_t n = strlen(words);
  memcpy(text, words, n + 1);
  for (size_t i = 0; i < n; i++)
    if (text[i] == ' ')
      text[i] = 0;
  uint64_t op = client_begin(c, type);
  client_string(c, PCO_TAG_PATH, path);
  client_number(c, PCO_TAG_FLAGS, 0);
  pco_wire_bytes(&c->buf, PCO_TAG_DATA, text, n ? n + 1 : 0);
  client_send(c, &fd, 1);
  return op;
}

/* Feeds a pipe from a process, so that neither side can make us wait. */
static pid_t feed(const tar *t, int fds[2]) {
  if (pipe2(fds, O_CLOEXEC) != 0)
    return -1;
  pid_t pid = fork();
  if (pid == 0) {
    signal(SIGPIPE, SIG_IGN);
    close(fds[0]);
    size_t done = 0;
    while (done < t->len) {
      ssize_t n = write(fds[1], t->p + done, t->len - done);
      if (n < 0)
        break;
      done += (size_t)n;
    }
    _exit(0);
  }
  close(fds[1]);
  return pid;
}

static outcome unpack(client *c, const tar *t, const char *path,
                      const char *words) {
  int fds[2];
  pid_t pid = feed(t, fds);
  uint64_t op = request(c, PCO_WIRE_UNPACK, path, words, fds[0]);
  close(fds[0]);
  outcome o = read_outcome(c, op);
  waitpid(pid, NULL, 0);
  return o;
}

/* The system's tar unpacks it, with all trust, in dir/control: whether the file
 * outside appears. */
static bool bites(const tar *t, const char *evil) {
  int fd = open(in_dir("forged.tar"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                0600);
  bool good = write(fd, t->p, t->len) == (ssize_t)t->len;
  close(fd);
  shell("rm -rf control && mkdir control && cd control && "
        "tar -x -P -f ../forged.tar 2>/dev/null");
  good = good && access(in_dir(evil), F_OK) == 0;
  unlink(in_dir(evil));
  return good;
}

/* ---- tests -------------------------------------------------------------- */

static void begin(client *c, bool confine) {
  const char *const inside[] = {"--root", in_dir("ws"), NULL};
  const char *const host[] = {"--confine", NULL};
  client_start(c, program, in_dir("ws"), confine ? host : inside);
}

static void test_plain(client *c, const char *what) {
  tar t = {0};
  struct stat st;
  add(&t, '5', "root/", NULL, NULL);
  add_sized(&t, '0', "root/set-id", NULL, "x", 1, 1, 06777);
  add(&t, '2', "root/link", "set-id", NULL);
  add_sized(&t, '5', "root/d", NULL, "", 0, 0, 01777);
  add(&t, '0', "root/d/f", NULL, "deep");
  end(&t);
  outcome o = unpack(c, &t, "plain", "");
  IS(o.error, 0, what);
  IS(o.files * 100 + o.directories, 302, "counts");
  OK(stat(in_dir("ws/plain/set-id"), &st) == 0 && (st.st_mode & 07777) == 0777,
     "no set-id bit");
  OK(stat(in_dir("ws/plain/d"), &st) == 0 && (st.st_mode & 07777) == 0777,
     "no sticky bit");
  OK(st.st_mtime == 1, "the time of a directory that something is in");
  o = unpack(c, &t, "plain", "umask=18");
  IS(o.error, 0, "again, into what is there");
  OK(stat(in_dir("ws/plain/set-id"), &st) == 0 && (st.st_mode & 07777) == 0755,
     "within the umask");
  IS(shell("ls -A ws | grep -c portico"), 1, "nothing is left beside it");
  IS(shell("ls -A ws/plain | grep -c portico"), 1, "nor in it");
  free(t.p);
}

/* Each of these would make dir/evil, if it were believed; what it says first is
 * harmless. */
static void test_ways_out(client *c) {
  char up[64], absolute[128], there[128];
  snprintf(up, sizeof up, "root/../../evil");
  snprintf(absolute, sizeof absolute, "%s/evil", dir);
  snprintf(there, sizeof there, "%s", dir);
  const struct {
    const char *what;
    char first_type;
    const char *first, *link, *second;
    char second_type;
    bool controlled;
  } ways[] = {
      {"..", '5', "root/d", NULL, "root/../../evil", '0', true},
      {"an absolute path", '5', "root/d", NULL, absolute, '0', true},
      {"through a link", '2', "root/l", there, "root/l/evil", '0', true},
      {"through a relative link", '2', "root/l", "../..", "root/l/evil", '0',
       true},
      {"over a link", '2', "root/evil", absolute, "root/evil", '0', false},
      {"beside the tree", '5', "root/d", NULL, "evil", '0', false},
      {"an empty name", '5', "root/d", NULL, "root/d//evil", '0', false},
      {"a dot", '5', "root/d", NULL, "root/./evil", '0', false},
      {"a directory that did not come", '5', "root/d", NULL, "root/e/evil", '0',
       false},
      {"a directory that was left", '0', "root/f", NULL, "root/f/evil", '0',
       false},
      {"a link behind ..", '5', "root/d", NULL, "root/d/../../../evil", '2',
       false},
      {"a directory behind ..", '5', "root/d", NULL, "root/d/../../../evil",
       '5', false},
  };
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    tar t = {0};
    add(&t, '5', "root", NULL, NULL);
    add(&t, ways[i].first_type, ways[i].first, ways[i].link, NULL);
    add(&t, ways[i].second_type, ways[i].second, "x",
        ways[i].second_type == '0' ? "evil" : NULL);
    end(&t);
    OK(!ways[i].controlled || bites(&t, "evil"), "%s: it bites", ways[i].what);
    outcome o = unpack(c, &t, "out", "symlinks=keep on_error=skip");
    OK(o.error != 0 || o.skipped > 0, "%s: refused (%d %s)", ways[i].what,
       o.error, o.message);
    OK(access(in_dir("evil"), F_OK) != 0 &&
           access(in_dir("ws/evil"), F_OK) != 0,
       "%s: nothing is outside", ways[i].what);
    shell("rm -rf ws/out");
    free(t.p);
  }
}

static void test_kinds(client *c) {
  static const char kinds[] = {'1', '3', '4', '6', '7', 'g', 'L', 'K',
                               'S', 'N', 'x', 'V', 'M', 'D', 'z', '9'};
  for (size_t i = 0; i < sizeof kinds; i++) {
    tar t = {0};
    add(&t, '5', "root", NULL, NULL);
    add(&t, kinds[i], "root/x", "/etc/passwd", NULL);
    end(&t);
    outcome o = unpack(c, &t, "kind", "on_error=skip");
    OK(o.error == EBADMSG, "kind %c is refused (%d %s)", kinds[i], o.error,
       o.message);
    OK(access(in_dir("ws/kind"), F_OK) != 0, "kind %c leaves nothing",
       kinds[i]);
    free(t.p);
  }
}

static void add_pax(tar *t, const char *records) {
  size_t len = strlen(records);
  add_sized(t, 'x', "pax", NULL, records, len, len, 0644);
}

static void test_bounds(client *c) {
  tar t = {0};
  add(&t, '5', "root", NULL, NULL);
  for (int i = 0; i < 20; i++) {
    char name[32];
    snprintf(name, sizeof name, "root/%d", i);
    add(&t, '0', name, NULL, "0123456789");
  }
  end(&t);
  IS(unpack(c, &t, "b", "entries=20").error, EOVERFLOW, "too many entries");
  IS(unpack(c, &t, "b", "bytes=199").error, EMSGSIZE, "too many bytes");
  IS(access(in_dir("ws/b"), F_OK), -1, "nothing is there");
  IS(unpack(c, &t, "b", "entries=21 bytes=200").error, 0, "just fits");
  t.len = 0;
  add(&t, '5', "root", NULL, NULL);
  add_pax(&t, "26 GNU.sparse.numblocks=0\n"
              "34 GNU.sparse.size=99999999999999\n"
              "19 GNU.sparse.map=\n");
  add(&t, '0', "root/f", NULL, NULL);
  end(&t);
  IS(unpack(c, &t, "c", "bytes=1000000").error, EMSGSIZE, "holes count");
  t.len = 0; /* 300 directories in each other */
  char name[1024] = "root";
  add(&t, '5', name, NULL, NULL);
  for (int i = 0; i < 300; i++) {
    char record[1100], whole[1120];
    strcat(name, "/d");
    int n = snprintf(record, sizeof record, " path=%s\n", name);
    n += n + 2 > 99 ? 3 : n + 1 > 9 ? 2 : 1;
    snprintf(whole, sizeof whole, "%d%s", n, record);
    add_pax(&t, whole);
    add(&t, '5', "long", NULL, NULL);
  }
  end(&t);
  IS(unpack(c, &t, "deep", "").error, ENAMETOOLONG, "too deep");
  IS(access(in_dir("ws/deep"), F_OK), -1, "nothing of it is there");
  t.len = 0; /* headers without end */
  add(&t, '5', "root", NULL, NULL);
  char *junk = malloc(900001);
  memset(junk, 'a', 900000);
  memcpy(junk, "900000 comment=", 15);
  junk[899999] = '\n';
  junk[900000] = 0;
  for (int i = 0; i < 40; i++) {
    char file[32];
    snprintf(file, sizeof file, "root/%d", i);
    add_pax(&t, junk);
    add(&t, '0', file, NULL, NULL);
  }
  end(&t);
  IS(unpack(c, &t, "headers", "").error, EBADMSG, "too many bytes of headers");
  free(junk);
  free(t.p);
}

static void test_bad_streams(client *c) {
  static const struct {
    const char *what, *records;
  } bad[] = {
      {"no length", " path=x\n"},
      {"too long", "99 path=x\n"},
      {"too short", "3 p\n"},
      {"no equals sign", "8 pathx\n"},
      {"no newline", "10 path=xyz"},
      {"a huge length", "99999999999999999999999 path=x\n"},
      {"a size that is none", "9 size=x\n"},
      {"a negative size", "11 size=-1\n"},
      {"a huge size", "29 size=99999999999999999999\n"},
      {"half a map", "22 GNU.sparse.size=10\n"},
      {"a map that goes back",
       "22 GNU.sparse.size=99\n26 GNU.sparse.numblocks=2\n"
       "26 GNU.sparse.map=5,1,2,1\n"},
      {"a map that is longer than what is stored",
       "22 GNU.sparse.size=99\n26 GNU.sparse.numblocks=1\n"
       "23 GNU.sparse.map=5,10\n"},
      {"another format of holes", "22 GNU.sparse.major=1\n"},
      {"a time that is none", "11 mtime=x\n"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    tar t = {0};
    add(&t, '5', "root", NULL, NULL);
    add_pax(&t, bad[i].records);
    add(&t, '0', "root/f", NULL, "ab");
    end(&t);
    outcome o = unpack(c, &t, "bad", "on_error=skip");
    OK(o.error == EBADMSG || o.error == EMSGSIZE, "%s is refused (%d %s)",
       bad[i].what, o.error, o.message);
    OK(access(in_dir("ws/bad"), F_OK) != 0, "%s leaves nothing", bad[i].what);
    free(t.p);
  }
  tar t = {0};
  add(&t, '5', "root", NULL, NULL);
  add_sized(&t, '0', "root/f", NULL, "abc", 3, 1000000, 0644);
  IS(unpack(c, &t, "bad", "").error, ENODATA, "content that ends too early");
  t.len -= 700;
  IS(unpack(c, &t, "bad", "").error, ENODATA, "half a header");
  t.len = 0;
  IS(unpack(c, &t, "bad", "").error, ENODATA, "nothing at all");
  end(&t);
  IS(unpack(c, &t, "bad", "").error, EBADMSG, "an empty tar");
  IS(access(in_dir("ws/bad"), F_OK), -1, "nothing is there");
  free(t.p);
}

static void test_links(client *c) {
  static const struct {
    const char *name, *text;
    bool inside;
  } links[] = {
      {"root/l", "f", true},        {"root/l", "./d/e", true},
      {"root/d/l", "../f", true},   {"root/d/l", "..", true},
      {"root/d/l", "../..", false}, {"root/l", "..", false},
      {"root/l", "/etc", false},    {"root/d/l", "e/../../..", false},
      {"root/d/l", "e/..", false},  {"root/l", "../root/f", false},
      {"root/d/l", ".././f", true}, {"root/d/l", "..//f", true},
  };
  for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
    tar t = {0};
    char text[64];
    add(&t, '5', "root", NULL, NULL);
    add(&t, '5', "root/d", NULL, NULL);
    add(&t, '2', links[i].name, links[i].text, NULL);
    end(&t);
    outcome o = unpack(c, &t, "links", "symlinks=inside");
    OK(links[i].inside == (o.error == 0) &&
           (links[i].inside || o.error == ELOOP),
       "%s -> %s (%d)", links[i].name, links[i].text, o.error);
    shell("rm -rf ws/links");
    IS(unpack(c, &t, "links", "symlinks=keep").error, 0, "kept");
    snprintf(text, sizeof text, "ws/links/%s", links[i].name + 5);
    char got[64] = {0};
    OK(readlink(in_dir(text), got, sizeof got - 1) > 0 &&
           strcmp(got, links[i].text) == 0,
       "as it was");
    shell("rm -rf ws/links");
    IS(unpack(c, &t, "links", "symlinks=refuse").error, ELOOP, "refused");
    free(t.p);
  }
}

/* A link of the host is not followed by what goes into its directory. */
static void test_host_links(client *c) {
  tar t = {0};
  add(&t, '5', "root", NULL, NULL);
  add(&t, '5', "root/d", NULL, NULL);
  add(&t, '0', "root/d/evil", NULL, "evil");
  add(&t, '0', "root/f", NULL, "evil");
  end(&t);
  shell("rm -rf ws/h outside; mkdir -p ws/h outside; echo good > good;"
        "ln -s ../../outside ws/h/d; ln -s ../../good ws/h/f");
  outcome o = unpack(c, &t, "h", "");
  OK(o.error == ENOTDIR, "a link where a directory is to be (%d %s)", o.error,
     o.message);
  o = unpack(c, &t, "h", "on_error=skip");
  OK(o.error == 0 && o.skipped == 1, "left out (%d %zu)", o.error, o.skipped);
  IS(shell("test -z \"$(ls -A outside)\" && grep -q good good"), 0,
     "nothing outside is changed");
  IS(shell("test ! -L ws/h/f && grep -q evil ws/h/f"), 0,
     "the link to a file is replaced, not followed");
  shell("mkdir -p ws/g/f");
  o = unpack(c, &t, "g", "");
  OK(o.error == EISDIR && strstr(o.message, "put in place") != NULL,
     "a directory where a file is to be (%d %s)", o.error, o.message);
  IS(unpack(c, &t, "good-file/x", "").error, ENOENT, "no directory");
  shell("touch ws/file; mkfifo ws/fifo");
  IS(unpack(c, &t, "file", "").error, ENOTDIR, "a directory over a file");
  IS(unpack(c, &t, "fifo", "").error, EINVAL, "over a FIFO");
  free(t.p);
}

static void test_cancel(client *c) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0)
    return;
  tar t = {0};
  add(&t, '5', "root", NULL, NULL);
  for (int i = 0; i < 3000; i++) {
    char name[32];
    snprintf(name, sizeof name, "root/%d", i);
    add(&t, '0', name, NULL, "x");
  }
  fcntl(fds[1], F_SETPIPE_SZ, 1 << 20);
  uint64_t op = request(c, PCO_WIRE_UNPACK, "cancelled", "", fds[0]);
  close(fds[0]);
  size_t done = 0;
  while (done < t.len) {
    ssize_t n = write(fds[1], t.p + done, t.len - done);
    if (n <= 0)
      break;
    done += (size_t)n;
  }
  c->op--; /* of the same number */
  client_begin(c, PCO_WIRE_CANCEL);
  client_send(c, NULL, 0);
  outcome o = read_outcome(c, op);
  IS(o.error, ECANCELED, "cancelled while it waits");
  IS(access(in_dir("ws/cancelled"), F_OK), -1, "nothing has the name");
  IS(shell("ls -A ws | grep portico"), 1, "and nothing is left");
  close(fds[1]);
  free(t.p);
}

/* Another's tar, with all that it writes. */
static void test_other_tar(client *c) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0)
    return;
  shell("rm -rf theirs ws/theirs; mkdir -p theirs/root/d; cd theirs/root;"
        "head -c 100000 /dev/urandom > d/random; ln -s d/random l;"
        "truncate -s 3M holes; echo x >> holes;"
        "touch -d 2001-01-01T01:01:01.123456789 d/random;"
        "mkdir $(printf 'a%.0s' $(seq 120)); touch $(printf 'a%.0s' "
        "$(seq 120))/$(printf 'b%.0s' $(seq 120))");
  uint64_t op = request(c, PCO_WIRE_UNPACK, "theirs", "", fds[0]);
  close(fds[0]);
  pid_t pid = fork();
  if (pid == 0) {
    dup2(fds[1], 1);
    execlp("tar", "tar", "-c", "--format=pax", "--sparse",
           "--sparse-version=0.1", "-C", in_dir("theirs"), "root",
           (char *)NULL);
    _exit(127);
  }
  close(fds[1]);
  outcome o = read_outcome(c, op);
  waitpid(pid, NULL, 0);
  OK(o.error == 0, "the system's tar (%d %s)", o.error, o.message);
  IS(shell("diff -r theirs/root ws/theirs"), 0, "is the same");
  IS(shell("cmp theirs/root/holes ws/theirs/holes && test $(stat -c %b "
           "ws/theirs/holes) -lt 1000"),
     0, "holes are holes");
  IS(shell("test $(stat -c %.Y theirs/root/d/random) = "
           "$(stat -c %.Y ws/theirs/d/random)"),
     0, "nanoseconds");
}

static void test_pack(client *c) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0)
    return;
  shell("rm -rf ws/mine mine; mkdir mine; cp -a theirs/root ws/mine");
  uint64_t op = request(c, PCO_WIRE_PACK, "mine", "", fds[1]);
  close(fds[1]);
  pid_t pid = fork();
  if (pid == 0) {
    dup2(fds[0], 0);
    execlp("tar", "tar", "-x", "-C", in_dir("mine"), (char *)NULL);
    _exit(127);
  }
  close(fds[0]);
  int status = -1;
  outcome o = read_outcome(c, op);
  waitpid(pid, &status, 0);
  OK(o.error == 0 && status == 0, "read by the system's tar (%d %d %s)",
     o.error, status, o.message);
  IS(shell("diff -r theirs/root mine/root && "
           "test $(stat -c %b mine/root/holes) -lt 1000"),
     0, "is the same");
}

static void test_all(bool confine) {
  client c;
  begin(&c, confine);
  test_plain(&c, confine ? "for the host" : "inside");
  test_ways_out(&c);
  test_kinds(&c);
  test_bounds(&c);
  test_bad_streams(&c);
  test_links(&c);
  test_host_links(&c);
  test_cancel(&c);
  test_other_tar(&c);
  test_pack(&c);
  IS(client_stop(&c), 0, "the agent has ended well");
  shell("chmod -R u+rwx . ; rm -rf ws; mkdir ws");
}

int main(int argc, char **argv) {
  if (argc < 2)
    return 2;
  program = argv[1];
  signal(SIGPIPE, SIG_IGN);
  umask(022);
  if (!dir_make() || mkdir(in_dir("ws"), 0755) != 0)
    return 1;
  test_all(false);
  test_all(true);
  dir_remove();
  return tap_done();
}
