/* SPDX-License-Identifier: MIT */
/*
 * The local backend, driven through its function table by a small host
 * (spec/support/plugins/mini_host.h) and with a real agent, of whose protocol
 * only the end of the stream is used here.
 *
 *   local_test portico-local.so [portico-agent]
 */
#include "mini_host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sys/agent_image.h"
#include "sys/spawn.h"

static const pco_backend_api *api;
static const char *agent_path;
static char tmp[] = "/tmp/portico-test-local-XXXXXX";
static char state[] = "/tmp/portico-test-state-XXXXXX";
static int spawn_result; /* < 0: spawn() fails */
static int last_pidfd = -1;
static int n_at_start; /* entries of tmp when the last agent was started */
static char last_args[4096];
static char last_env[8192];

/* ---- host extensions ---------------------------------------------------- */

static int open_image(const pco_host *host, const char *machine,
                      pco_error *err) {
  (void)host;
  (void)machine;
  int fd = pco__agent_image_open(agent_path);
  return fd < 0 ? pco_error_set(err, fd, PCO_SOURCE_HOST, "no image") : fd;
}

static void join(char *out, size_t size, const char *const *list) {
  size_t len = 0;
  for (*out = '\0'; *list && len < size; list++)
    len += (size_t)snprintf(out + len, size - len, "%s\n", *list);
}

/* Counts the entries of a directory. */
static int entries(const char *path) {
  int n = -2; /* "." and ".." */
  DIR *d = opendir(path);
  REQUIRE(d);
  while (readdir(d))
    n++;
  closedir(d);
  return n;
}

static int do_spawn(const pco_host *host, const pco_host_spawn_opts *o,
                    int32_t *pidfd, pco_error *err) {
  (void)host;
  int fd = -1;
  *pidfd = -1;
  if (spawn_result < 0)
    return pco_error_set(err, spawn_result, PCO_SOURCE_HOST, "not %s", "now");
  n_at_start = entries(tmp);
  join(last_args, sizeof last_args, o->argv);
  join(last_env, sizeof last_env, o->env);
  int rc = pco__spawn(NULL, o->exec_fd, (char *const *)(uintptr_t)o->argv,
                      (char *const *)(uintptr_t)o->env, o->cwd, o->fds,
                      o->n_fds, &fd);
  last_pidfd = *pidfd = fd;
  return rc;
}

static const void *extension(const char *id) {
  static const pco_host_agent_api agents = {.struct_size = sizeof agents,
                                            .open_image = open_image};
  static const pco_host_spawn_api spawner = {.struct_size = sizeof spawner,
                                             .spawn = do_spawn};
  return pco_streq(id, PCO_HOST_AGENT_ID)   ? (const void *)&agents
         : pco_streq(id, PCO_HOST_SPAWN_ID) ? (const void *)&spawner
                                            : NULL;
}

/* ---- helpers ------------------------------------------------------------ */

static void local_open(mini_host *h) {
  pco_pair settings[] = {{"tmpdir", tmp}, {"state", state}};
  mini_start(h, api);
  h->extension = extension;
  REQUIRE(api->open(&h->host, settings, 2, &h->backend, NULL) == 0);
}

static pco_op create_op(mini_host *h, const pco_create_opts *o) {
  pco_op op = {.expect = SANDBOX};
  REQUIRE(api->create(h->backend, o, &op) == 0 && op.completions == 1);
  return op;
}

static pco_op create(mini_host *h) {
  pco_create_opts o = pco_create_opts_init();
  pco_op op = create_op(h, &o);
  if (op.code)
    printf("# %s\n", op.text);
  REQUIRE(op.sandbox && op.fd >= 0);
  return op;
}

static bool destroy(mini_host *h, pco_sandbox *s) {
  pco_op op = {.expect = NOTHING};
  REQUIRE(api->destroy(s, &op) == 0);
  bool ok = wait_op(h, &op, 20000) && !op.code;
  if (!ok)
    printf("# %s\n", op.text);
  return ok;
}

static void kill_agent(int signo) {
  syscall(SYS_pidfd_send_signal, last_pidfd, signo, NULL, 0);
}

static bool has_line(const char *text, const char *line) {
  size_t len = strlen(line);
  for (; text && *text; text = strchr(text, '\n') + 1)
    if (strncmp(text, line, len) == 0 && text[len] == '\n')
      return true;
  return false;
}

/* ---- tests -------------------------------------------------------------- */

static void test_open(void) {
  mini_host h;
  char room[300];
  pco_error err = pco_error_in(room, sizeof room);
  pco_pair wrong[] = {{"tmpdri", "/tmp"}, {"workspace", "/x"}, {"tmpdir", "x"}};
  mini_start(&h, api);
  check(api->open(&h.host, NULL, 0, &h.backend, &err) == PCO_EUNAVAILABLE,
        "a host without its extensions");
  h.extension = extension;
  check(api->open(&h.host, wrong, 1, &h.backend, &err) == UV_EINVAL &&
            strstr(room, "did you mean 'tmpdir'?"),
        "an unknown setting, with the nearest");
  check(api->open(&h.host, wrong + 1, 1, &h.backend, &err) == UV_EINVAL &&
            strstr(room, "setting of create"),
        "a setting of create");
  check(api->open(&h.host, wrong + 2, 1, &h.backend, &err) == UV_EINVAL,
        "a tmpdir that is not absolute");
  mini_stop(&h);
  local_open(&h);
  pco_op op = {.expect = PROBE};
  REQUIRE(api->probe(h.backend, &op) == 0);
  check(op.caps == (PCO_CAP_LIST | PCO_CAP_SIGNALS | PCO_CAP_PTY |
                    PCO_CAP_ATTACH | PCO_CAP_DETACHED) &&
            op.n == 18,
        "probe");
  mini_close(&h);
}

static void test_life(void) {
  mini_host h;
  local_open(&h);
  pco_op op = create(&h);
  char cwd[PATH_MAX], line[PATH_MAX + 32];
  snprintf(cwd, sizeof cwd, "%s", op.path);
  struct stat st;
  check(pco_starts_with(op.text, "local-") && strlen(op.text) == 14, "an id");
  check(pco_starts_with(cwd, tmp) && stat(cwd, &st) == 0 &&
            (st.st_mode & 07777) == 0700 && entries(tmp) == 1,
        "a private workspace");
  snprintf(line, sizeof line, "HOME=%s", cwd);
  check(has_line(last_env, line) && has_line(last_env, "LANG=C.UTF-8") &&
            strstr(last_env, "USER=") && strstr(last_env, "TMPDIR=") &&
            strstr(last_env, "PATH=/usr/local/sbin") &&
            !strstr(last_env, "LOCAL_TEST_SECRET"),
        "the environment is the base, nothing of the host's");
  check(has_line(last_args, cwd) && has_line(last_args, "--remove"),
        "the agent is told where");
  check(n_at_start == 0, "and lives before there is anything to remove");
  close(op.fd);
  check(destroy(&h, op.sandbox), "destroy");
  check(entries(tmp) == 0, "nothing is left");
  mini_close(&h);
}

static void test_killed_agent(void) {
  mini_host h;
  local_open(&h);
  pco_op op = create(&h), cause = {.expect = CAUSE};
  char path[PATH_MAX + 64];
  snprintf(path, sizeof path, "%s/deep", op.path);
  REQUIRE(mkdir(path, 0700) == 0);
  REQUIRE(api->cause_of_death(op.sandbox, &cause) == 0 && !cause.completions);
  kill_agent(SIGKILL);
  check(wait_op(&h, &cause, 5000) && cause.code == PCO_EGONE &&
            strstr(cause.text, "killed by SIGKILL"),
        "why it died");
  cause = (pco_op){.expect = CAUSE};
  REQUIRE(api->cause_of_death(op.sandbox, &cause) == 0);
  check(cause.completions && strstr(cause.text, "SIGKILL"), "and again");
  close(op.fd);
  check(destroy(&h, op.sandbox) && entries(tmp) == 0,
        "its directory is removed all the same");
  op = create(&h);
  cause = (pco_op){.expect = CAUSE};
  REQUIRE(api->cause_of_death(op.sandbox, &cause) == 0);
  op_cancel(&cause);
  check(wait_op(&h, &cause, 1000) && cause.code == UV_ECANCELED,
        "the question can be cancelled");
  cause = (pco_op){.expect = CAUSE};
  REQUIRE(api->cause_of_death(op.sandbox, &cause) == 0);
  close(op.fd);
  check(destroy(&h, op.sandbox) && wait_op(&h, &cause, 1000),
        "and ends with the sandbox");
  mini_close(&h);
}

static void test_stopped_agent(void) {
  mini_host h;
  local_open(&h);
  pco_op op = create(&h);
  kill_agent(SIGSTOP);
  close(op.fd);
  uint64_t start = uv_hrtime();
  check(destroy(&h, op.sandbox) && entries(tmp) == 0,
        "an agent that hangs is killed and its directory removed");
  double took = (double)(uv_hrtime() - start) / 1e9;
  check(took > 4.5 && took < 9, "after the grace");
  mini_close(&h);
}

/* ---- sandboxes that outlive a host --------------------------------------- */

static pco_op create_detachable(mini_host *h, double ttl) {
  pco_create_opts o = pco_create_opts_init();
  pco_op op = {.expect = SANDBOX};
  o.flags = PCO_CREATE_DETACHABLE;
  o.name = "kept";
  o.ttl = ttl;
  REQUIRE(api->create(h->backend, &o, &op) == 0);
  if (!wait_op(h, &op, 20000) || op.code)
    printf("# %d %s\n", op.code, op.text);
  return op;
}

static pco_op attach(mini_host *h) {
  pco_op op = {.expect = SANDBOX};
  REQUIRE(api->attach(h->backend, "kept", &op) == 0);
  REQUIRE(wait_op(h, &op, 20000));
  return op;
}

static void detach(mini_host *h, pco_op *sandbox, const char *what) {
  pco_op op = {.expect = NOTHING};
  REQUIRE(api->detach(sandbox->sandbox, &op) == 0);
  check(wait_op(h, &op, 20000) && !op.code, what);
  close(sandbox->fd);
}

static bool is_listed(mini_host *h, const char *names) {
  pco_op op = {.expect = LIST};
  REQUIRE(api->list(h->backend, &op) == 0 && op.completions == 1);
  bool is = pco_streq(op.bytes, names);
  if (!is)
    printf("# %s\n", op.bytes);
  op_free(&op);
  return is;
}

static bool destroy_kept(mini_host *h) {
  pco_op op = {.expect = NOTHING};
  REQUIRE(api->destroy_id(h->backend, "kept", &op) == 0);
  return wait_op(h, &op, 20000) && !op.code;
}

static void test_detach(void) {
  mini_host a, b;
  local_open(&a);
  pco_op op = create_detachable(&a, 0), other;
  REQUIRE(op.sandbox && op.fd >= 0);
  check(entries(state) == 2, "it is written down, with a door");
  pco_op again = create_detachable(&a, 0);
  check(again.code == UV_EEXIST && entries(tmp) == 1, "its id is taken");
  detach(&a, &op, "it is let go");
  mini_close(&a);
  local_open(&b);
  check(is_listed(&b, "kept "), "another backend sees it");
  op = attach(&b);
  check(op.sandbox && !op.code && pco_starts_with(op.path, tmp),
        "and takes it over");
  other = attach(&b);
  check(other.code == UV_EBUSY && strstr(other.text, "this one"),
        "nobody else can");
  detach(&b, &op, "it is let go again");
  op = attach(&b);
  REQUIRE(op.sandbox);
  close(op.fd);
  check(destroy(&b, op.sandbox) && entries(tmp) == 0 && entries(state) == 0,
        "who is attached ends it");
  other = attach(&b);
  check(other.code == UV_ENOENT, "then there is none");
  op = create(&b);
  pco_op no = {.expect = NOTHING};
  REQUIRE(api->detach(op.sandbox, &no) == 0);
  check(no.code == PCO_EUNSUPPORTED && strstr(no.text, "detachable = true"),
        "what was not made for that is not let go");
  close(op.fd);
  REQUIRE(destroy(&b, op.sandbox));
  mini_close(&b);
}

/* By the order of somebody who is not attached. */
static void test_far_end(void) {
  mini_host a, b;
  local_open(&a);
  local_open(&b);
  pco_op op = create_detachable(&a, 0);
  REQUIRE(op.sandbox);
  detach(&a, &op, "let go");
  check(destroy_kept(&b) && entries(tmp) == 0 && entries(state) == 0,
        "one that nobody is attached to is ended by its id");
  op = create_detachable(&a, 0);
  REQUIRE(op.sandbox);
  detach(&a, &op, "let go");
  kill_agent(SIGSTOP);
  uint64_t start = uv_hrtime();
  pco_op slow = {.expect = NOTHING};
  REQUIRE(api->destroy_id(b.backend, "kept", &slow) == 0);
  op_cancel(&slow);
  check(wait_op(&b, &slow, 5000) && slow.code == UV_ECANCELED,
        "whoever waits for an end may give up");
  mini_close(&b);
  check(entries(tmp) == 0 && entries(state) == 0,
        "an agent that does not answer is killed, and nothing is left");
  printf("# after %.1f s\n", (double)(uv_hrtime() - start) / 1e9);
  mini_close(&a);
}

/* One that another program is about to make: it has a name, and neither a door
 * nor a keeper yet. */
static int write_down_kept(void) {
  static const char text[] = "host=0000000000\nkeeper=0000000000\n";
  char path[PATH_MAX];
  struct flock lives = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
  snprintf(path, sizeof path, "%s/local-kept.info", state);
  int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  REQUIRE(fd >= 0 && fcntl(fd, F_OFD_SETLK, &lives) == 0 &&
          write(fd, text, sizeof text - 1) == sizeof text - 1);
  return fd;
}

static void test_end_too_early(void) {
  mini_host h;
  local_open(&h);
  int fd = write_down_kept();
  pco_op op = {.expect = NOTHING};
  REQUIRE(api->destroy_id(h.backend, "kept", &op) == 0);
  check(!wait_op(&h, &op, 300), "one without a door is waited for");
  close(fd); /* its maker dies */
  check(wait_op(&h, &op, 5000) && !op.code && entries(state) == 0,
        "until it has a door, or is dead");
  mini_close(&h);
}

static void test_ttl(void) {
  mini_host h;
  local_open(&h);
  pco_op op = create_detachable(&h, 0.3), cause = {.expect = CAUSE};
  REQUIRE(op.sandbox);
  char byte;
  check(recv(op.fd, &byte, 1, 0) == 0, "its time is over");
  REQUIRE(api->cause_of_death(op.sandbox, &cause) == 0);
  check(wait_op(&h, &cause, 5000) && strstr(cause.text, "ttl"), "that is told");
  close(op.fd);
  check(destroy(&h, op.sandbox) && entries(tmp) == 0 && entries(state) == 0,
        "nothing is left");
  mini_close(&h);
}

static void test_reap(void) {
  mini_host h;
  local_open(&h);
  pco_op op = create_detachable(&h, 0), reaped = {.expect = LIST};
  REQUIRE(op.sandbox);
  char path[PATH_MAX + 64];
  snprintf(path, sizeof path, "%s/deep", op.path);
  REQUIRE(mkdir(path, 0700) == 0);
  detach(&h, &op, "let go");
  REQUIRE(api->reap(h.backend, &reaped) == 0 && wait_op(&h, &reaped, 20000));
  check(pco_streq(reaped.bytes, "") && entries(tmp) == 1,
        "what lives is not reaped");
  op_free(&reaped);
  kill_agent(SIGKILL);
  struct pollfd gone = {.fd = last_pidfd, .events = POLLIN};
  REQUIRE(poll(&gone, 1, 5000) == 1);
  check(is_listed(&h, "kept ") && entries(tmp) == 1,
        "who was killed is listed");
  check(attach(&h).code == UV_ENOENT, "and cannot be attached to");
  reaped = (pco_op){.expect = LIST};
  REQUIRE(api->reap(h.backend, &reaped) == 0);
  check(wait_op(&h, &reaped, 20000) && pco_streq(reaped.bytes, "kept ") &&
            entries(tmp) == 0 && entries(state) == 0,
        "its directory and all else is reaped");
  op_free(&reaped);
  op = create_detachable(&h, 0);
  REQUIRE(op.sandbox);
  detach(&h, &op, "let go");
  kill_agent(SIGKILL);
  gone.fd = last_pidfd;
  REQUIRE(poll(&gone, 1, 5000) == 1);
  op = create_detachable(&h, 0);
  check(op.sandbox && !op.code, "its id is free for another");
  close(op.fd);
  REQUIRE(destroy(&h, op.sandbox));
  mini_close(&h);
  check(entries(tmp) == 0 && entries(state) == 0, "nothing is left of both");
}

static void test_first_visit(void) {
  mini_host h;
  local_open(&h);
  pco_create_opts o = pco_create_opts_init();
  pco_op op = {.expect = SANDBOX};
  o.flags = PCO_CREATE_DETACHABLE;
  REQUIRE(api->create(h.backend, &o, &op) == 0);
  op_cancel(&op);
  check(wait_op(&h, &op, 20000) && op.code == UV_ECANCELED &&
            entries(tmp) == 0 && entries(state) == 0,
        "a creation that is cancelled leaves nothing");
  op = (pco_op){.expect = SANDBOX};
  REQUIRE(api->create(h.backend, &o, &op) == 0);
  mini_close(&h);
  check(op.completions == 1 && op.code == UV_ECANCELED && entries(tmp) == 0 &&
            entries(state) == 0,
        "nor does one whose backend is closed");
}

static void refuse(mini_host *h, const pco_create_opts *o, int code,
                   const char *part, const char *what) {
  pco_op op = create_op(h, o);
  check(op.code == code && strstr(op.text, part) && entries(tmp) == 0, what);
  if (op.code != code || !strstr(op.text, part))
    printf("# %d %s\n", op.code, op.text);
}

static void test_options(void) {
  mini_host h;
  local_open(&h);
  pco_create_opts o = pco_create_opts_init();
  o.image = "debian";
  refuse(&h, &o, PCO_EUNSUPPORTED, "'image'", "image");
  o = pco_create_opts_init();
  o.network = "none";
  refuse(&h, &o, PCO_EUNSUPPORTED, "use bwrap", "network = none");
  o = pco_create_opts_init();
  pco_limits limits = pco_limits_init();
  limits.cpus = 1;
  o.limits = &limits;
  refuse(&h, &o, PCO_EUNSUPPORTED, "'limits.cpus'", "limits");
  o = pco_create_opts_init();
  o.ttl = 1;
  refuse(&h, &o, PCO_EUNSUPPORTED, "'ttl' without detachable", "ttl");
  o = pco_create_opts_init();
  o.user = "no-such-user";
  refuse(&h, &o, geteuid() == 0 ? UV_EINVAL : PCO_EUNSUPPORTED, "no-such-user",
         "another user");
  o = pco_create_opts_init();
  o.cwd = "missing";
  refuse(&h, &o, UV_ENOENT, "cwd", "a working directory that is missing");
  o.cwd = "/";
  refuse(&h, &o, UV_EACCES, "outside the root", "one outside the root");
  pco_pair settings[2] = {{"workspace", "/nonexistent/x"}, {"root", "/"}};
  o = pco_create_opts_init();
  o.settings = settings;
  o.n_settings = 1;
  refuse(&h, &o, UV_ENOENT, "/nonexistent/x", "a workspace that is missing");
  settings[0].value = "/dev/null";
  refuse(&h, &o, UV_ENOTDIR, "not a directory", "one that is a file");
  settings[0].value = "here";
  refuse(&h, &o, UV_EINVAL, "absolute", "one that is relative");
  settings[0].key = "workspce";
  refuse(&h, &o, UV_EINVAL, "did you mean 'workspace'?", "a typing error");
  spawn_result = UV_EAGAIN;
  o = pco_create_opts_init();
  refuse(&h, &o, UV_EAGAIN, "not now", "an agent that cannot be started");
  spawn_result = 0;
  mini_close(&h);
}

static void test_workspace(void) {
  mini_host h;
  char place[PATH_MAX], link[PATH_MAX], sub[PATH_MAX + 8];
  local_open(&h);
  snprintf(place, sizeof place, "%s/../%s-place", tmp, tmp + 5);
  snprintf(link, sizeof link, "%s/../%s-link", tmp, tmp + 5);
  snprintf(sub, sizeof sub, "%s/sub", place);
  REQUIRE(!mkdir(place, 0755) && !mkdir(sub, 0755) && !symlink(place, link));
  const char *env[] = {"LANG", "EXTRA=1", "HOME=/h", "EXTRA=2", NULL};
  pco_pair setting = {"workspace", link};
  pco_create_opts o = pco_create_opts_init();
  o.settings = &setting;
  o.n_settings = 1;
  o.cwd = "sub";
  o.env = env;
  o.name = "mine";
  pco_op op = create_op(&h, &o);
  REQUIRE(op.sandbox);
  check(pco_streq(op.text, "mine") && realpath(sub, place) &&
            pco_streq(op.path, place),
        "a workspace by a link, a directory in it, a name");
  check(has_line(last_args, link), "the agent learns how it was written");
  check(has_line(last_env, "EXTRA=2") && !has_line(last_env, "EXTRA=1") &&
            has_line(last_env, "HOME=/h") && !strstr(last_env, "LANG="),
        "the environment: the last of a name counts, a bare name removes");
  pco_op again = create_op(&h, &o), list = {.expect = LIST};
  check(again.code == UV_EEXIST, "a name that is taken");
  REQUIRE(api->list(h.backend, &list) == 0);
  check(pco_streq(list.bytes, "mine "), "list");
  op_free(&list);
  close(op.fd);
  check(destroy(&h, op.sandbox) && access(sub, F_OK) == 0 && entries(tmp) == 0,
        "destroy leaves a workspace that was there");
  rmdir(sub);
  unlink(link);
  *strrchr(sub, '/') = '\0';
  rmdir(sub);
  mini_close(&h);
}

static void test_destroy_id(void) {
  mini_host a, b;
  local_open(&a);
  local_open(&b);
  pco_op op = create(&a), end = {.expect = NOTHING}, cause = {.expect = CAUSE};
  REQUIRE(api->destroy_id(b.backend, op.text, &end) == 0);
  check(wait_op(&b, &end, 20000) && !end.code && entries(tmp) == 0,
        "another instance ends it by id");
  end = (pco_op){.expect = NOTHING};
  REQUIRE(api->destroy_id(b.backend, op.text, &end) == 0);
  check(end.completions == 1 && end.code == UV_ENOENT, "again: there is none");
  REQUIRE(api->cause_of_death(op.sandbox, &cause) == 0);
  check(wait_op(&a, &cause, 5000), "its owner may ask why");
  close(op.fd);
  check(destroy(&a, op.sandbox), "and destroy its handle");
  mini_close(&a);
  mini_close(&b);
}

static int open_fds(void) {
  return entries("/proc/self/fd");
}

static void test_close(void) {
  mini_host h;
  local_open(&h);
  pco_op x = create(&h), y = create(&h);
  close(x.fd);
  close(y.fd);
  mini_close(&h);
  check(entries(tmp) == 0, "close ends what is left");
}

int main(int argc, char **argv) {
  if (argc < 2 || argc > 3) {
    fprintf(stderr, "usage: local_test portico-local.so [portico-agent]\n");
    return 2;
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  setenv("LOCAL_TEST_SECRET", "1", 1);
  api = load_api(argv[1]);
  static char beside[PATH_MAX]; /* in the build tree, as libportico finds it */
  REQUIRE(argc == 3 || pco__own_path("../libexec/portico/portico-agent", beside,
                                     sizeof beside) == 0);
  agent_path = argc == 3 ? argv[2] : beside;
  REQUIRE(mkdtemp(tmp) && mkdtemp(state));
  test_open();
  int fds = open_fds();
  test_life();
  test_killed_agent();
  test_options();
  test_workspace();
  test_destroy_id();
  test_close();
  test_stopped_agent();
  test_detach();
  test_far_end();
  test_end_too_early();
  test_ttl();
  test_reap();
  test_first_visit();
  check(open_fds() == fds, "no descriptor is left");
  rmdir(tmp);
  rmdir(state);
  return tap_end();
}
