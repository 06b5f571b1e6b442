/* SPDX-License-Identifier: MIT */
/*
 * The plugin loader against the plugins of spec/support/plugins, most of them
 * broken in one way each.
 *
 *   loader_test DIRECTORY   with good.so, no_symbol.so ... as built
 *
 * Works in a private copy, since the loader refuses files in directories that
 * a group can write, as a build tree may be.  Prints TAP.
 */
#include "plugin_loader.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "portico/plugin_util.h"

static int n_tests, n_failed;
static char dir[PATH_MAX]; /* the private copy, 0755 */

static void check(bool ok, const char *what, const char *more) {
  printf("%sok %d - %s\n", ok ? "" : "not ", ++n_tests, what);
  if (!ok) {
    n_failed++;
    printf("# %s\n", more ? more : "");
  }
}

static void skip(const char *what, const char *why) {
  printf("ok %d - %s # SKIP %s\n", ++n_tests, what, why);
}

static void die(const char *what) {
  printf("Bail out! %s: %s\n", what, strerror(errno));
  exit(1);
}

/* ---- files -------------------------------------------------------------- */

static const char *in(const char *name) {
  static char paths[4][PATH_MAX + 64];
  static unsigned next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof *paths, "%s/%s", dir, name);
  return path;
}

static void write_file(const char *path, const void *data, size_t len) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0 || write(fd, data, len) != (ssize_t)len || fchmod(fd, 0644) < 0)
    die(path);
  close(fd);
}

static char *read_file(const char *path, size_t *len) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  struct stat st;
  if (fd < 0 || fstat(fd, &st) < 0)
    die(path);
  char *data = malloc((size_t)st.st_size + 1);
  if (!data || read(fd, data, (size_t)st.st_size) != st.st_size)
    die(path);
  close(fd);
  *len = (size_t)st.st_size;
  return data;
}

static void copy_file(const char *from, const char *to) {
  size_t len;
  char *data = read_file(from, &len);
  write_file(to, data, len);
  free(data);
}

static void make_copies(const char *from) {
  static const char *const names[] = {
      "good",        "two_backends",     "no_symbol",  "other_abi",
      "wrong_major", "wrong_minor",      "wrong_size", "second_libuv",
      "init_fails",  "duplicate",        "twice",      "bad_id",
      "empty",       "undefined_symbol", "no_create",  "needs_library"};
  char source[PATH_MAX + 64], target[64];
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    snprintf(source, sizeof source, "%s/%s.so", from, names[i]);
    snprintf(target, sizeof target, "%s.so", names[i]);
    copy_file(source, in(target));
  }
}

/* ---- helpers ------------------------------------------------------------ */

static void count(void *arg, const char *name, const char *path) {
  (void)name;
  (void)path;
  ++*(unsigned *)arg;
}

static unsigned listed(void) {
  unsigned n = 0;
  pco__loader_list(count, &n);
  return n;
}

static void append(void *arg, const char *name, const char *path) {
  char *text = arg;
  (void)path;
  snprintf(text + strlen(text), 512 - strlen(text), "%s ", name);
}

static bool opens(const char *name, const char *id) {
  const pco_backend_info *info;
  const char *path;
  pco__error *err;
  int rc = pco__loader_open(name, &info, &path, &err);
  if (rc < 0)
    printf("# %s\n", err->message);
  pco__error_free(err);
  return rc == 0 && pco_streq(info->id, id) && path;
}

/* Opens what must be refused; the error is the caller's. */
static pco__error *refused(const char *name) {
  const pco_backend_info *info;
  const char *path;
  pco__error *err;
  int rc = pco__loader_open(name, &info, &path, &err);
  return rc < 0 && !info && !path ? err : NULL;
}

/* Refused with this code, its path and a message that has both parts. */
static void check_refused(const char *what, const char *name, int code,
                          const char *part, const char *part2) {
  unsigned before = listed();
  pco__error *err = refused(name);
  bool ok = err && err->code == code && err->message &&
            strstr(err->message, part) && strstr(err->message, part2);
  if (ok && code == PCO_EPLUGIN)
    ok = err->path && *err->path && strstr(err->message, err->path);
  check(ok, what, err ? err->message : "it was not refused");
  if (listed() != before)
    check(false, what, "something of it stayed registered");
  pco__error_free(err);
}

/* ---- tests -------------------------------------------------------------- */

static void test_good(void) {
  const pco_backend_info *a, *b, *c;
  const char *pa, *pb, *pc;
  pco__error *err;
  char real[PATH_MAX];
  int rc = pco__loader_open(in("good.so"), &a, &pa, &err);
  check(rc == 0 && pco_streq(a->id, "good"), "a good plugin loads by path",
        err ? err->message : NULL);
  if (rc < 0)
    exit(1);
  check(realpath(in("good.so"), real) && pco_streq(pa, real),
        "its path is the file", pa);
  if (symlink("good.so", in("link.so")) < 0)
    die("symlink");
  rc = pco__loader_open(in("link.so"), &b, &pb, &err);
  check(rc == 0 && a == b && pa == pb, "the same file again is the same plugin",
        NULL);
  rc = pco__loader_open("good", &c, &pc, &err);
  check(rc == 0 && a == c, "a loaded backend is found by its name", NULL);
  check(opens(in("two_backends.so"), "first") && opens("second", "second"),
        "a plugin may offer two", NULL);
}

static void test_broken_plugins(void) {
  check_refused("no entry symbol", in("no_symbol.so"), PCO_EPLUGIN,
                "no Portico plugin", "pco_plugin_entry_v0 is missing");
  check(!getenv("PORTICO_SPEC_CONSTRUCTOR_RAN"),
        "no line of a file that is no plugin is run", NULL);
  check_refused("another ABI by its symbol", in("other_abi.so"), PCO_EPLUGIN,
                "built for ABI 7", "this Portico speaks 0");
  check_refused("another ABI by its entry", in("wrong_major.so"), PCO_EPLUGIN,
                "built for ABI 9", "this Portico speaks 0");
  check_refused("another minor", in("wrong_minor.so"), PCO_EPLUGIN,
                "built for ABI 0.1", "speaks 0.0");
  check_refused("another size", in("wrong_size.so"), PCO_EPLUGIN,
                "pco_plugin_entry has", "headers");
  check_refused("a second libuv", in("second_libuv.so"), PCO_EPLUGIN,
                "second libuv", "shared libuv");
  check_refused("a name that exists", in("duplicate.so"), PCO_EPLUGIN,
                "'good' exists already", "good.so");
  check_refused("one name twice", in("twice.so"), PCO_EPLUGIN, "'twice'",
                "twice");
  check_refused("a bad id", in("bad_id.so"), PCO_EPLUGIN, "'../x'", "a-z");
  check_refused("no backend", in("empty.so"), PCO_EPLUGIN, "no backend", "");
  check_refused("no create()", in("no_create.so"), PCO_EPLUGIN, "no-create",
                "create()");
}

static void test_init(void) {
  for (int i = 0; i < 2; i++) { /* it may be tried again */
    check_refused("init() that fails", in("init_fails.so"), PCO_EPLUGIN,
                  "init() failed", "needs /dev/kvm");
    pco__error *err = refused(in("init_fails.so"));
    check(err && err->cause && err->cause->code == PCO_EUNAVAILABLE &&
              pco_streq(err->cause->message, "needs /dev/kvm"),
          "its own error is the cause", NULL);
    pco__error_free(err);
  }
}

/* The ELF machine of another kind, in a copy. */
static void make_foreign(const char *path) {
  size_t len;
  char *data = read_file(in("good.so"), &len);
  Elf64_Ehdr *h = (Elf64_Ehdr *)data; /* e_machine is at one place in both */
  h->e_machine = EM_S390;
  write_file(path, data, len);
  free(data);
}

static void make_truncated(const char *path, size_t divisor) {
  size_t len;
  char *data = read_file(in("good.so"), &len);
  write_file(path, data, divisor ? len / divisor : 20);
  free(data);
}

/* As a user who is not root, since root may read everything. */
static void test_unreadable(void) {
  const char *what = "an unreadable file";
  copy_file(in("good.so"), in("unreadable.so"));
  chmod(in("unreadable.so"), 0000);
  bool root = geteuid() == 0;
  if (root && seteuid(65534) < 0)
    skip(what, "cannot give up root");
  else
    check_refused(what, in("unreadable.so"), PCO_EPLUGIN, "cannot be read",
                  "ermission denied");
  if (root && seteuid(0) < 0)
    die("seteuid");
}

static void test_files(void) {
  static const char text[] = "#!/bin/sh\necho this is no library\n";
  mkdir(in("directory.so"), 0755);
  write_file(in("text.so"), text, sizeof text - 1);
  write_file(in("zero.so"), "", 0);
  make_foreign(in("foreign.so"));
  make_truncated(in("cut.so"), 2);
  make_truncated(in("half.so"), 8);
  make_truncated(in("stub.so"), 0);
  if (mkfifo(in("fifo.so"), 0644) < 0)
    die("mkfifo");
  dlopen("/nonexistent/libstale.so", RTLD_NOW); /* leaves its dlerror() */
  check_refused("a directory", in("directory.so"), PCO_EPLUGIN, "directory",
                ".so file");
  check_refused("a missing file", in("missing.so"), PCO_EPLUGIN, "no such file",
                "");
  check_refused("a text file", in("text.so"), PCO_EPLUGIN, "not a shared", "");
  check_refused("an empty file", in("zero.so"), PCO_EPLUGIN, "not a shared",
                "");
  check_refused("another machine", in("foreign.so"), PCO_EPLUGIN,
                "another machine", "22");
  check_refused("a cut file", in("cut.so"), PCO_EPLUGIN, "cut short", "");
  check_refused("a file cut in its code", in("half.so"), PCO_EPLUGIN,
                "cut short", "");
  check_refused("a cut header", in("stub.so"), PCO_EPLUGIN, "cut short", "20");
  check_refused("a fifo", in("fifo.so"), PCO_EPLUGIN, "regular file", "");
  check_refused("a missing library", in("needs_library.so"), PCO_EPLUGIN,
                "libportico-nope.so", "install that library");
  check_refused("an undefined symbol", in("undefined_symbol.so"), PCO_EPLUGIN,
                "portico_spec_missing_fn", "-z,defs");
  test_unreadable();
  check(opens(in("good.so"), "good"), "a good one still loads after all that",
        NULL);
}

static void test_owners(void) {
  copy_file(in("good.so"), in("loose.so"));
  chmod(in("loose.so"), 0646);
  check_refused("a file that anyone can write", in("loose.so"), PCO_EPLUGIN,
                "by anyone", "0646");
  chmod(in("loose.so"), 0664);
  check_refused("a file that its group can write", in("loose.so"), PCO_EPLUGIN,
                "by its group", "chmod go-w");
  mkdir(in("open"), 0755);
  copy_file(in("good.so"), in("open/x.so"));
  chmod(in("open"), 0777);
  check_refused("a directory that anyone can write", in("open/x.so"),
                PCO_EPLUGIN, "open (mode 0777)", "the directory");
  chmod(in("open"), 01777);
  check_refused("a sticky one is no fault of its own", in("open/x.so"),
                PCO_EPLUGIN, "'good' exists already", "");
  if (geteuid() != 0 || chown(in("loose.so"), 65534, (gid_t)-1) < 0) {
    skip("a stranger's file", "needs root");
    return;
  }
  chmod(in("loose.so"), 0644);
  check_refused("a stranger's file", in("loose.so"), PCO_EPLUGIN, "uid 65534",
                "must own it");
}

static void test_names(void) {
  static const char *const bad[] = {"",
                                    "Bad",
                                    "a_b",
                                    "..",
                                    "a b",
                                    "good.so",
                                    "a123456789012345678901234567890123"};
  bool ok = true;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    pco__error *err = refused(bad[i]);
    ok = ok && err && err->code == PCO_EPLUGIN && strstr(err->message, "a-z");
    pco__error_free(err);
  }
  check(ok, "names that are none", NULL);
  check_refused("a path that climbs", "../x", PCO_EPLUGIN, "absolute", "./");
  check_refused("a path without ./", "open/x.so", PCO_EPLUGIN, "absolute",
                "./");
}

static void test_search(void) {
  char path[PATH_MAX * 2], text[512] = "";
  copy_file(in("good.so"), in("portico-other.so"));
  snprintf(path, sizeof path, "relative:%s:/nonexistent", dir);
  setenv("PORTICO_PLUGIN_PATH", path, 1);
  check_refused("a name that nothing has", "godo", UV_ENOENT,
                "did you mean 'good'?", dir);
  check_refused("it says what there is", "something-else", UV_ENOENT,
                "first, second", "portico/plugins");
  check_refused("a file of another name", "other", PCO_EPLUGIN,
                "portico-other.so", "exists already");
  rename(in("init_fails.so"), in("portico-init-fails.so"));
  check_refused("by name, init() that fails", "init-fails", PCO_EPLUGIN,
                "/dev/kvm", "");
  pco__loader_list(append, text);
  check(pco_starts_with(text, "good first second init-fails other "),
        "the list: loaded ones, then files in byte order", text);
  unsetenv("PORTICO_PLUGIN_PATH");
  if (chdir(dir) < 0)
    die("chdir");
  check_refused("the current directory is not searched", "other", UV_ENOENT,
                "no backend", "");
  check(opens("./good.so", "good"), "./ is a path", NULL);
  setenv("PORTICO_PLUGIN_PATH", ".::./", 1);
  check_refused("nor by a relative entry", "other", UV_ENOENT, "no backend",
                "");
  unsetenv("PORTICO_PLUGIN_PATH");
}

static void test_plugin_dir(void) {
  char text[PATH_MAX] = "";
  int rc = pco__loader_plugin_dir(text, sizeof text);
  size_t len = strlen(text), tail = strlen("/portico/plugins");
  check(rc == 0 && *text == '/' && len > tail &&
            pco_streq(text + len - tail, "/portico/plugins"),
        "the plugin directory is beside the image", text);
  check(pco__loader_plugin_dir(text, 8) == UV_ENAMETOOLONG,
        "a buffer that is too small", NULL);
}

/* ---- built in ----------------------------------------------------------- */

static int inits, deinits, init_result;

static int built_in_init(pco_error *err) {
  inits++;
  return init_result < 0 ? pco_error_set(err, init_result, PCO_SOURCE_PLUGIN,
                                         "not %s", "today")
                         : 0;
}

static void built_in_deinit(void) {
  deinits++;
}

static const void *own_uv(void) {
  return uv_version_string();
}

static int no_op(pco_backend *b, pco_op *op) {
  (void)b;
  (void)op;
  return UV_ENOTSUP;
}

static int no_open(const pco_host *host, const pco_pair *settings, size_t n,
                   pco_backend **out, pco_error *err) {
  (void)host;
  (void)settings;
  (void)n;
  *out = NULL;
  return pco_error_set(err, UV_ENOTSUP, PCO_SOURCE_PLUGIN, NULL);
}

static int no_create(pco_backend *b, const pco_create_opts *o, pco_op *op) {
  (void)o;
  return no_op(b, op);
}

static int no_destroy(pco_sandbox *s, pco_op *op) {
  (void)s;
  return no_op(NULL, op);
}

static const pco_backend_api api = {.struct_size = sizeof api,
                                    .open = no_open,
                                    .close = no_op,
                                    .probe = no_op,
                                    .create = no_create,
                                    .destroy = no_destroy};

static const pco_backend_info inner = {.struct_size = sizeof inner,
                                       .id = "inner",
                                       .summary = "built in",
                                       .version = "0",
                                       .license = "MIT",
                                       .api = &api};

static const pco_backend_info *const backends[] = {&inner, NULL};

static const pco_plugin_entry entry = {.struct_size = sizeof entry,
                                       .abi_major = PCO_ABI_MAJOR,
                                       .abi_minor = PCO_ABI_MINOR,
                                       .backends = backends,
                                       .init = built_in_init,
                                       .deinit = built_in_deinit,
                                       .uv_identity = own_uv};

static void test_built_in(void) {
  static const pco_plugin_entry same_name = {.struct_size = sizeof same_name,
                                             .abi_major = PCO_ABI_MAJOR,
                                             .abi_minor = PCO_ABI_MINOR,
                                             .backends = backends};
  pco__error *err = NULL;
  check(pco__loader_add(&entry, &err) == 0 &&
            pco__loader_add(&entry, &err) == 0,
        "a built-in plugin is registered once", NULL);
  check(inits == 0, "which does not start it", NULL);
  int rc = pco__loader_add(&same_name, &err);
  check(rc == PCO_EPLUGIN && strstr(err->message, "from built-in"),
        "a second one of that name is refused and the first is named",
        err ? err->message : NULL);
  pco__error_free(err);
  init_result = UV_EIO;
  check_refused("its init() that fails", "inner", PCO_EPLUGIN, "not today",
                "built-in");
  init_result = 0;
  check(opens("inner", "inner") && opens("inner", "inner") && inits == 2,
        "two uses are one init()", NULL);
  pco__loader_release(&inner);
  check(deinits == 0, "deinit() waits for the last use", NULL);
  pco__loader_release(&inner);
  pco__loader_release(&inner); /* one too many does nothing */
  check(deinits == 1, "then it comes, once", NULL);
  check(opens("inner", "inner") && inits == 3, "and it can be used again",
        NULL);
  pco__loader_release(&inner);
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: loader_test DIRECTORY\n");
    return 2;
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  unsetenv("PORTICO_PLUGIN_PATH");
  char from[PATH_MAX], pattern[] = "/tmp/portico-loader-XXXXXX";
  if (!realpath(argv[1], from) || !mkdtemp(pattern) || chmod(pattern, 0755) < 0)
    die(argv[1]);
  strcpy(dir, pattern);
  make_copies(from);
  test_good();
  test_broken_plugins();
  test_init();
  test_files();
  test_owners();
  test_names();
  test_search();
  test_plugin_dir();
  test_built_in();
  char command[PATH_MAX + 16];
  snprintf(command, sizeof command, "rm -r '%s'", dir);
  if (system(command) != 0)
    printf("# %s is left\n", dir);
  printf("1..%d\n", n_tests);
  return n_failed != 0;
}
