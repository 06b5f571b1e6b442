/* SPDX-License-Identifier: MIT */
/*
 * Parts of moving trees, linked in: words and patterns, digests, the tar that
 * is written and read again, and what a confined process can still do.
 * usage: agent_unit_trees_test
 */
#include "agent_client.h"

#include "../../runtime/agent/sha256.h"
#include "../../runtime/agent/tar.h"
#include "../../runtime/agent/transfer_confine.h"
#include "../../runtime/agent/transfer_words.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- words -------------------------------------------------------------- */

static int words(const char *text, size_t len) {
  pco_transfer_words w;
  int rc = pco_transfer_words_read(&w, text, len);
  pco_transfer_words_free(&w);
  return rc;
}

static void test_words(void) {
  static const char good[] = "symlinks=follow\0include=*.c\0include=*.h\0"
                             "exclude=build/\0on_error=skip\0bytes=12";
  pco_transfer_words w;
  IS(pco_transfer_words_read(&w, good, sizeof good), 0, "words");
  OK(w.symlinks == PCO_SYMLINKS_FOLLOW && w.skip && w.bytes == 12 &&
         w.entries == UINT64_MAX && w.n_include == 2 && w.n_exclude == 1 &&
         strcmp(w.include[1], "*.h") == 0,
     "as they are");
  pco_transfer_words_free(&w);
  static const char *const bad[] = {
      "x=1",      "symlinks",   "symlinks=",  "symlinks=maybe", "bytes=x",
      "bytes=-1", "umask=4096", "on_error=x", "include=",       "="};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    IS(words(bad[i], strlen(bad[i]) + 1), -EPROTO, bad[i]);
  IS(words("", 0), 0, "none");
}

static void test_patterns(void) {
  static const struct {
    const char *pattern, *path;
    bool directory, matches;
  } cases[] = {
      {"*.o", "x.o", false, true},
      {"*.o", "a/b/x.o", false, true},
      {"*.o", "x.c", false, false},
      {"*.o", "x.o/y", false, false},
      {"a*b*c", "aXbYbZc", false, true},
      {"a*b*c", "aXbYbZ", false, false},
      {"?", "x", false, true},
      {"?", "xy", false, false},
      {"\\*", "*", false, true},
      {"\\*", "x", false, false},
      {".git", "a/.git", true, true},
      {"build/", "build", true, true},
      {"build/", "a/build", true, true},
      {"build/", "build", false, false},
      {"/build", "build", true, true},
      {"/build", "a/build", true, false},
      {"a/*.c", "a/x.c", false, true},
      {"a/*.c", "a/b/x.c", false, false},
      {"a/*.c", "b/a/x.c", false, false},
      {"a/**/x", "a/x", false, true},
      {"a/**/x", "a/b/c/x", false, true},
      {"a/**/x", "a/b/c/y", false, false},
      {"**/x", "x", false, true},
      {"**/x/y", "a/x/x/y", false, true},
      {"a/**", "a/b", false, true},
      {"a/**", "a/b/c", false, true},
      {"a/**", "a", true, false},
      {"a/b/", "a/b", true, true},
      {"**", "a", false, true},
      {"*", "", false, true},
      {"a", "\xff", false, false},
      {"\xff*", "\xff\xfe", false, true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    OK(pco_transfer_matches(cases[i].pattern, cases[i].path,
                            cases[i].directory) == cases[i].matches,
       "%s and %s", cases[i].pattern, cases[i].path);
  char pattern[2001], path[4001]; /* would take for ever, if it tried all */
  for (size_t i = 0; i < 2000; i++)
    pattern[i] = i % 2 ? '*' : 'a';
  memset(path, 'a', 4000);
  pattern[2000] = path[4000] = 0;
  pattern[1998] = 'b';
  OK(!pco_transfer_matches(pattern, path, false), "many stars");
}

/* ---- digests ------------------------------------------------------------ */

static void test_digest(void) {
  static const struct {
    const char *text, *hex;
  } cases[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc",
       "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
  };
  char hex[PCO_SHA256_HEX];
  pco_sha256 s;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    pco_sha256_begin(&s);
    for (const char *p = cases[i].text; *p; p++)
      pco_sha256_add(&s, p, 1);
    pco_sha256_end(&s, hex);
    OK(strcmp(hex, cases[i].hex) == 0, "sha256 of \"%s\"", cases[i].text);
  }
  char *block = malloc(1000000);
  memset(block, 'a', 1000000);
  pco_sha256_begin(&s);
  pco_sha256_add(&s, block, 1000000);
  pco_sha256_end(&s, hex);
  OK(strcmp(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112"
                 "cd0") == 0,
     "sha256 of a million");
  free(block);
}

/* ---- tar ---------------------------------------------------------------- */

static int never(pco_tar_wait *w, int fd, short events) {
  (void)w;
  (void)fd;
  (void)events;
  return -ECANCELED;
}

static void test_entry(const pco_tar_entry *e, const char *what) {
  pco_tar_wait wait = {never};
  static pco_tar_out out;
  pco_tar_in *in = calloc(1, sizeof *in);
  pco_tar_entry got;
  char content[16] = "";
  out.fd = in->fd = memfd_create("tar", MFD_CLOEXEC);
  out.wait = in->wait = &wait;
  out.len = 0;
  int rc = pco_tar_header(&out, e);
  rc = rc ? rc : pco_tar_put(&out, "0123456789", e->stored);
  rc = rc ? rc : pco_tar_pad(&out, e->stored);
  rc = rc ? rc : pco_tar_finish(&out);
  IS(rc, 0, what);
  lseek(out.fd, 0, SEEK_SET);
  IS(pco_tar_in_init(in), 0, "to be read");
  IS(pco_tar_next(in, &got), 1, "an entry");
  OK(strcmp(got.path, e->path) == 0 && got.type == e->type &&
         got.mode == e->mode && got.mtime == e->mtime &&
         got.mtime_ns == e->mtime_ns && got.size == e->size &&
         got.stored == e->stored,
     "the same");
  OK(!e->link || strcmp(got.link, e->link) == 0, "the same link");
  OK(got.n_data == e->n_data &&
         (!e->data ||
          memcmp(got.data, e->data, e->n_data * sizeof *e->data) == 0),
     "the same holes");
  IS(pco_tar_read(in, content, sizeof content), (long)e->stored, "content");
  IS(pco_tar_next(in, &got), 0, "the end");
  pco_tar_in_deinit(in);
  close(out.fd);
  free(in);
}

static void test_tar(void) {
  static char deep[60000];
  memset(deep, 'd', sizeof deep - 1);
  const pco_tar_piece data[] = {{5, 3}, {1000, 7}, {INT64_MAX - 10, 0}};
  pco_tar_entry e = {.path = "root", .type = PCO_TAR_DIRECTORY, .mode = 07777};
  test_entry(&e, "a directory");
  e = (pco_tar_entry){.path = deep, .mode = 0600, .size = 10, .stored = 10};
  test_entry(&e, "a long name");
  e.mtime = -5;
  e.mtime_ns = 250000000;
  e.path = "before\n1970 \xff";
  test_entry(&e, "a time before 1970");
  e.mtime = INT64_C(1) << 40;
  test_entry(&e, "a time far ahead");
  e.size = INT64_MAX;
  e.data = data;
  e.n_data = 3;
  test_entry(&e, "holes");
  e = (pco_tar_entry){.path = "l", .type = PCO_TAR_LINK, .mode = 0777};
  e.link = deep;
  test_entry(&e, "a long link");
  for (size_t n = 95; n < 105; n++) { /* about the size of a field */
    deep[n] = 0;
    e.path = e.link = deep;
    test_entry(&e, "a name that just fits");
    deep[n] = 'd';
  }
}

/* ---- confinement -------------------------------------------------------- */

static char dir[] = "/tmp/agent-confine-XXXXXX";

/* What a process tries; each is a bit if it goes. */
enum {
  INSIDE = 1,
  READS = 2,
  WRITES = 4,
  MAKES = 8,
  CHMODS = 16,
  CONNECTS = 64,
  KILLS = 256,
  FAILED = 512
};

static bool can_make(int at, const char *path) {
  int fd = openat(at, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd >= 0)
    close(fd);
  return fd >= 0;
}

static bool can_connect(void) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  return fd >= 0 && open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0;
}

static unsigned attempt(int stage, pid_t other) {
  char secret[64], new_file[64];
  unsigned done = 0;
  snprintf(secret, sizeof secret, "%s/secret", dir);
  snprintf(new_file, sizeof new_file, "%s/new", dir);
  done |= can_make(stage, "inside") ? INSIDE : 0;
  done |= open(secret, O_RDONLY | O_CLOEXEC) >= 0 ? READS : 0;
  done |= open(secret, O_WRONLY | O_CLOEXEC) >= 0 ? WRITES : 0;
  /* Where another root is, this one is made in it: the parent looks. */
  if (!can_make(AT_FDCWD, new_file))
    can_make(stage, "../new");
  done |= chmod(secret, 0777) == 0 ? CHMODS : 0;
  done |= can_connect() ? CONNECTS : 0;
  done |= kill(other, SIGURG) == 0 ? KILLS : 0;
  return done;
}

static unsigned in_child(bool confined, bool in_namespace) {
  unsigned *done = mmap(NULL, sizeof *done, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pid_t pid = fork();
  if (pid == 0) {
    char stage[64];
    snprintf(stage, sizeof stage, "%s/stage", dir);
    int fd = open(stage, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int rc = confined ? pco_transfer_confine(fd, null, 2, in_namespace) : 0;
    *done = rc < 0 ? FAILED : attempt(fd, getppid());
    _exit(0);
  }
  waitpid(pid, NULL, 0);
  unsigned result = *done;
  munmap(done, sizeof *done);
  char made[64];
  snprintf(made, sizeof made, "%s/stage/inside", dir);
  unlink(made);
  snprintf(made, sizeof made, "%s/stage/new", dir);
  unlink(made);
  snprintf(made, sizeof made, "%s/new", dir);
  return unlink(made) == 0 ? result | MAKES : result;
}

static void test_confine(void) {
  char path[64];
  if (!mkdtemp(dir))
    return;
  snprintf(path, sizeof path, "%s/stage", dir);
  mkdir(path, 0700);
  snprintf(path, sizeof path, "%s/secret", dir);
  int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  close(fd);
  unsigned all = INSIDE | READS | WRITES | MAKES | CHMODS | CONNECTS | KILLS;
  IS(in_child(false, false), all, "one that is not confined can do it all");
  unsigned done = in_child(true, true);
  OK((done & ~(unsigned)KILLS) == INSIDE, "one that is can write inside (%x)",
     done);
  done = in_child(true, false);
  OK((done & ~(unsigned)(KILLS | CHMODS)) == INSIDE,
     "also without a namespace (%x)", done);
  struct stat st;
  IS(stat(path, &st), 0, "it is there");
  unlink(path);
  snprintf(path, sizeof path, "%s/stage", dir);
  rmdir(path);
  rmdir(dir);
}

int main(void) {
  test_words();
  test_patterns();
  test_digest();
  test_tar();
  test_confine();
  return tap_done();
}
