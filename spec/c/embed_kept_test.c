/* SPDX-License-Identifier: MIT */
/*
 * Boxes that outlive their program, from C: left, listed, taken over, ended,
 * tidied up; on each backend, on the runtime's loop and on a portal.  All are
 * written down in a directory of this test's own.
 */
#include <signal.h>
#include <unistd.h>

#include "embed_boxes.h"

static char state[64];

/* What says where boxes are written down, and is good for all calls here. */
static pco_box_opts options(void) {
  static pco_pair place = {.key = "state", .value = state};
  return (pco_box_opts){.size = sizeof(pco_box_opts),
                        .backend = embed_backend,
                        .backend_settings = &place,
                        .n_backend_settings = 1,
                        .flags = embed_portal ? PCO_BOX_PORTAL : 0};
}

static pco_box *taken(int rc, pco_pending **p) {
  pco_pending *over = embed_over(rc, p);
  pco_box *box = over ? pco_pending_box(over) : NULL;
  pco_pending_release(over);
  return box;
}

static pco_box *make(const char *name, uint32_t flags) {
  static pco_pair label = {.key = "for", .value = "a test"};
  pco_create_opts c = {.struct_size = sizeof c,
                       .flags = flags,
                       .name = name,
                       .labels = &label,
                       .n_labels = 1,
                       .ttl = flags & PCO_CREATE_DETACHABLE ? 600 : 0};
  pco_box_opts o = options();
  pco_pending *p = NULL;
  o.create = &c;
  pco_box *box = taken(pco_box_create(embed_rt, &o, NULL, NULL, &p), &p);
  embed_ok(box != NULL, "a box is made");
  return box;
}

static pco_box *attach(const char *id) {
  pco_box_opts o = options();
  pco_pending *p = NULL;
  pco_box *box = taken(pco_box_attach(embed_rt, &o, id, NULL, NULL, &p), &p);
  embed_ok(box != NULL, "a box is taken over");
  return box;
}

static int attach_code(const char *id) {
  pco_box_opts o = options();
  pco_pending *p = NULL;
  return embed_code(pco_box_attach(embed_rt, &o, id, NULL, NULL, &p), &p);
}

static int detach(pco_box *box) {
  pco_pending *p = NULL;
  return embed_code(pco_box_detach(box, NULL, NULL, &p), &p);
}

/* Ends it by its id: 1, 0 or a code. */
static int destroy(const char *id) {
  pco_box_opts o = options();
  pco_pending *p = NULL;
  p = embed_over(pco_boxes_destroy(embed_rt, &o, id, NULL, NULL, &p), &p);
  int rc = pco_pending_acted(p);
  pco_pending_release(p);
  return rc;
}

/* The one with this id in an ended list, or 0. */
static int find(pco_pending *p, const char *id, pco_box_info *info) {
  int rc = 1;
  for (size_t i = 0; rc == 1; i++) {
    *info = (pco_box_info){.size = sizeof *info};
    rc = pco_pending_listed(p, i, info);
    if (rc == 1 && strcmp(info->id, id) == 0)
      return 1;
  }
  return rc;
}

/* Its state as a list tells it; -1: it is not there. */
static int state_of(const char *id) {
  pco_box_info info;
  pco_box_opts o = options();
  pco_pending *p = NULL;
  p = embed_over(pco_boxes_list(embed_rt, &o, NULL, NULL, &p), &p);
  int found = p ? find(p, id, &info) : 0;
  int is = found == 1 ? (int)info.state : -1;
  pco_pending_release(p);
  return is;
}

/* The same, once it is that, or after a minute. */
static int state_in_time(const char *id, int wanted) {
  uint64_t end = uv_hrtime() + (uint64_t)(60 * S);
  int is = state_of(id);
  while (is != wanted && uv_hrtime() < end)
    is = state_of(id);
  return is;
}

static void test_list(const char *id) {
  pco_box_info info;
  pco_box_opts o = options();
  pco_pending *p = NULL;
  p = embed_over(pco_boxes_list(embed_rt, &o, NULL, NULL, &p), &p);
  embed_is(find(p, id, &info), 1, "it is listed");
  embed_is(info.state, PCO_STATE_DETACHED, "nobody has it");
  embed_text(info.owner, NULL, "so there is no owner");
  embed_text(info.name, "kept", "its name");
  embed_text(info.backend, embed_backend, "its backend");
  embed_ok(info.expires > info.created && info.created > 1e9, "its times");
  embed_ok(info.n_labels == 1 && !strcmp(info.labels[0].value, "a test"),
           "its labels");
  struct {
    pco_box_info info;
    uint64_t behind;
  } old = {.behind = 7};
  old.info.owner = "untouched";
  old.info.size = offsetof(pco_box_info, expires);
  embed_is(pco_pending_listed(p, 0, &old.info), 1, "for an older program");
  embed_ok(old.behind == 7 && !strcmp(old.info.owner, "untouched"),
           "as far as it knows");
  old.info.size = 8;
  embed_is(pco_pending_listed(p, 0, &old.info), PCO_ESIZE, "none so old");
  embed_is(pco_pending_acted(p), UV_ENOENT, "a list destroys nothing");
  embed_ok(!pco_pending_box(p), "and makes no box");
  pco_pending_release(p);
}

/* A command that the last program has left. */
static void test_command(pco_box *box, int64_t pid) {
  pco_pending *p = NULL;
  pco_exec_result r = {.size = sizeof r};
  p = embed_over(pco_box_command(box, pid, NULL, NULL, &p), &p);
  pco_command *c = pco_pending_command(p);
  pco_pending_release(p);
  embed_ok(c != NULL, "the command is found");
  embed_is(embed_code(pco_command_write(c, "you\n", 4, NULL, NULL, &p), &p), 0,
           "and written to");
  p = embed_over(pco_command_wait(c, NULL, NULL, &p), &p);
  embed_ok(pco_pending_result(p, &r) == 0 && r.code == 3 && r.out_len == 8 &&
               memcmp(r.out, "got you\n", 8) == 0,
           "its end and its output");
  pco_pending_release(p);
  pco_command_release(c);
}

static void test_kept(void) {
  pco_pending *p = NULL, *q = NULL;
  pco_exec_opts o = {.size = sizeof o, .shell = "true"};
  embed_rt = embed_new(NULL);
  pco_box *box = make("kept", PCO_CREATE_DETACHABLE);
  embed_ok(embed_put(box, "f", "text"), "a file is written");
  pco_command *c =
      embed_start(box, "read x; echo got $x; exit 3", PCO_EXEC_STDIN);
  int64_t pid = pco_command_pid(c);
  pco_command_wait(c, NULL, NULL, &q);
  embed_is(detach(box), 0, "the box is left");
  embed_is(embed_code(0, &q), PCO_ECLOSED, "who waits hears of it");
  embed_is(pco_exec(box, &o, NULL, NULL, &p), PCO_ECLOSED, "it is closed");
  embed_is(pco_box_detach(box, NULL, NULL, &p), PCO_ECLOSED, "for detach, too");
  embed_text(pco_box_id(box), "kept", "and has its id");
  pco_command_release(c);
  pco_box_release(box);
  test_list("kept");
  embed_is(pco_runtime_destroy(embed_rt), 0, "the program ends");

  embed_rt = embed_new(NULL);
  box = attach("kept");
  embed_is(attach_code("kept"), UV_EBUSY, "by one at a time");
  embed_is(state_of("kept"), PCO_STATE_RUNNING, "it is listed as that");
  embed_ok(embed_file_is(box, "f", "text"), "its files are there");
  test_command(box, pid);
  pco_box_release(box);
  embed_is(state_in_time("kept", PCO_STATE_DETACHED), PCO_STATE_DETACHED,
           "a box that was left once is left by its release");
  box = attach("kept");
  embed_is(destroy("kept"), 1, "it is ended by its id");
  pco_box_release(box);
  embed_is(destroy("kept"), 0, "once");
  embed_is(attach_code("kept"), UV_ENOENT, "it is gone");
  embed_is(state_of("kept"), -1, "and not listed");
  pco_runtime_destroy(embed_rt);
}

/* One that cannot be left is as it was. */
static void test_refused(void) {
  embed_rt = embed_new(NULL);
  pco_box *box = make(NULL, 0);
  embed_is(detach(box), PCO_EUNSUPPORTED, "it was not made to be left");
  embed_ok(embed_put(box, "f", "text"), "and goes on");
  embed_is(detach(box), PCO_EUNSUPPORTED, "again");
  pco_box_release(box);
  pco_runtime_destroy(embed_rt);
}

/* Whether a detach that was cancelled came first or not: both hold. */
static void test_cancelled(void) {
  pco_pending *p = NULL, *q = NULL;
  embed_rt = embed_new(NULL);
  pco_box *box = make("late", PCO_CREATE_DETACHABLE);
  pco_box_detach(box, NULL, NULL, &p);
  int rc = pco_box_detach(box, NULL, NULL, &q);
  embed_ok(rc == PCO_EBUSY || (embed_portal && rc == PCO_ECLOSED),
           "one detach at a time");
  pco_pending_cancel(p);
  rc = embed_code(0, &p);
  embed_ok(rc == 0 || rc == PCO_ECANCELED, "a detach is cancelled, or done");
  embed_ok(embed_put(box, "f", "text") == (rc != 0),
           "its box is open, or closed");
  pco_box_release(box);
  destroy("late");
  pco_runtime_destroy(embed_rt);
}

/* Ends in the middle of each call. */
static void test_ends(void) {
  pco_pending *p[4] = {NULL};
  pco_box_opts o = options();
  embed_rt = embed_new(NULL);
  pco_box *box = make("amid", PCO_CREATE_DETACHABLE);
  embed_is(detach(box), 0, "it is left");
  pco_box_release(box);
  pco_boxes_list(embed_rt, &o, NULL, NULL, &p[0]);
  pco_box_attach(embed_rt, &o, "amid", NULL, NULL, &p[1]);
  pco_boxes_reap(embed_rt, &o, NULL, NULL, &p[2]);
  pco_pending_release(p[0]);
  embed_is(pco_runtime_destroy(embed_rt), 0, "the runtime ends");
  pco_pending_release(p[1]); /* its box was taken by nobody, and so is left */
  pco_pending_release(p[2]);

  embed_rt = embed_new(NULL);
  embed_is(state_in_time("amid", PCO_STATE_DETACHED), PCO_STATE_DETACHED,
           "the box does not");
  box = attach("amid");
  pco_box_detach(box, NULL, NULL, &p[3]);
  pco_box_release(box); /* while it is being left */
  pco_pending_release(p[3]);
  embed_is(state_in_time("amid", PCO_STATE_DETACHED), PCO_STATE_DETACHED,
           "nor by that");
  pco_boxes_destroy(embed_rt, &o, "amid", NULL, NULL, &p[0]);
  pco_pending_release(p[0]);
  embed_is(state_in_time("amid", -1), -1, "a call that nobody asks goes on");
  pco_runtime_destroy(embed_rt);
}

/* Of `local` the agent's pid is one of this machine. */
static void test_reap(void) {
  pco_pending *p = NULL;
  pco_box_opts o = options();
  pco_box_info info = {.size = sizeof info};
  embed_rt = embed_new(NULL);
  p = embed_over(pco_boxes_reap(embed_rt, &o, NULL, NULL, &p), &p);
  embed_is(pco_pending_listed(p, 0, &info), 0, "there is nothing to tidy up");
  pco_pending_release(p);
  if (strcmp(embed_backend, "local") == 0) {
    pco_box *box = make("dead", PCO_CREATE_DETACHABLE);
    p = embed_over(pco_box_look(box, NULL, NULL, &p), &p);
    embed_is(pco_pending_info(p, &info), 0, "its agent");
    pid_t agent = (pid_t)info.pid;
    pco_pending_release(p);
    embed_is(detach(box), 0, "is left");
    pco_box_release(box);
    kill(agent, SIGKILL);
    embed_is(state_in_time("dead", PCO_STATE_DEAD), PCO_STATE_DEAD, "it dies");
    embed_is(attach_code("dead"), UV_ENOENT, "nobody can take it over");
    p = embed_over(pco_boxes_reap(embed_rt, &o, NULL, NULL, &p), &p);
    embed_is(find(p, "dead", &info), 1, "what is left of it is removed");
    pco_pending_release(p);
    embed_is(state_of("dead"), -1, "and it is not listed");
  }
  pco_runtime_destroy(embed_rt);
}

static void ignore(void *ud, pco_pending *pending) {
  (void)ud;
  (void)pending;
}

static void test_mistakes(void) {
  pco_box_opts o = options();
  pco_create_opts c = {.struct_size = sizeof c};
  pco_pending *p = NULL;
  embed_rt = embed_new(NULL);
  embed_is(pco_box_attach(embed_rt, &o, NULL, NULL, NULL, &p), PCO_EINVAL,
           "no id");
  embed_is(pco_box_attach(embed_rt, &o, "", NULL, NULL, &p), PCO_EINVAL,
           "an empty one");
  embed_is(pco_boxes_destroy(embed_rt, &o, NULL, NULL, NULL, &p), PCO_EINVAL,
           "the same to be ended");
  embed_is(pco_box_detach(NULL, NULL, NULL, &p), PCO_EINVAL, "no box");
  embed_is(pco_pending_listed(NULL, 0, NULL), PCO_EINVAL, "no pending");
  embed_is(pco_pending_acted(NULL), PCO_EINVAL, "the same");
  o.create = &c;
  embed_is(pco_boxes_list(embed_rt, &o, NULL, NULL, &p), PCO_EINVAL,
           "options of a new box");
  embed_is(pco_box_attach(embed_rt, &o, "x", NULL, NULL, &p), PCO_EINVAL,
           "for attach, too");
  o.create = NULL;
  o.size = 8;
  embed_is(pco_boxes_reap(embed_rt, &o, NULL, NULL, &p), PCO_ESIZE, "a size");
  o = options();
  o.backend = "no-such";
  embed_ok(pco_boxes_list(embed_rt, &o, NULL, NULL, &p) < 0, "no such backend");
  o = options();
  o.flags = PCO_BOX_PORTAL;
  embed_is(pco_boxes_list(embed_rt, &o, ignore, NULL, &p), PCO_EINVAL,
           "a portal tells nobody");
  embed_is(attach_code("no-such"), UV_ENOENT, "no such box");
  embed_is(destroy("no-such"), 0, "is no failure for destroy");
  pco_pair bad = {.key = "no-such", .value = "x"};
  o = options();
  o.backend_settings = &bad;
  embed_is(embed_code(pco_boxes_list(embed_rt, &o, NULL, NULL, &p), &p),
           UV_EINVAL, "no such setting");
  pco_runtime_destroy(embed_rt);
}

static void test_backend(void) {
  test_kept();
  test_refused();
  test_cancelled();
  test_ends();
  test_reap();
  test_mistakes();
}

int main(int argc, char **argv) {
  (void)argc;
  embed_begin(argv[0]);
  snprintf(state, sizeof state, "/tmp/embed_kept.XXXXXX");
  if (!mkdtemp(state))
    return 1;
  embed_on_each(test_backend);
  char line[100];
  snprintf(line, sizeof line, "rm -rf '%s'", state);
  embed_is(system(line), 0, "tidied up");
  return embed_end();
}
