/* SPDX-License-Identifier: MIT */
/*
 * Sandboxes from C, without Lua: made, looked at, and ended in every way; on
 * the runtime's loop and on a portal, on each backend.
 */
#include "embed_boxes.h"

static void test_look(pco_box *box) {
  pco_pending *p = NULL;
  pco_box_info b = {.size = sizeof b};
  p = embed_over(pco_box_look(box, NULL, NULL, &p), &p);
  embed_ok(p && pco_pending_info(p, &b) == 0 && b.state == PCO_STATE_RUNNING &&
               strcmp(b.id, pco_box_id(box)) == 0 &&
               strcmp(b.backend, embed_backend) == 0 && b.created > 1e9,
           "what a box is");
  embed_is(pco_pending_path(p, 0, &(const char *){NULL}), UV_ENOENT,
           "an outcome that it has not");
  pco_pending_release(p);
  const char *name, *reason;
  int level, found = 0;
  p = embed_over(pco_box_probe(box, NULL, NULL, &p), &p);
  for (size_t n = 0;
       p && pco_pending_capability(p, n, &name, &level, &reason) == 1; n++)
    found += strcmp(name, "limits.memory") == 0 && level >= PCO_MISSING &&
             level <= PCO_NATIVE;
  embed_is(found, 1, "what a backend can enforce is told");
  pco_pending_release(p);
}

/* Calls that have made something, which nobody took when the runtime ended. */
static void test_untaken(void) {
  pco_pending *p[4] = {NULL};
  pco_exec_opts o = {.size = sizeof o, .shell = "sleep 100"};
  pco_box_opts bo = {.size = sizeof bo, .backend = embed_backend};
  bo.flags = embed_portal ? PCO_BOX_PORTAL : 0;
  embed_rt = embed_new(NULL);
  pco_box *box = embed_box();
  embed_over(pco_file_open(box, "f", "w", NULL, NULL, NULL, &p[0]), &p[0]);
  embed_over(pco_watch_open(box, ".", NULL, NULL, NULL, &p[1]), &p[1]);
  embed_over(pco_command_start(box, &o, NULL, NULL, &p[2]), &p[2]);
  embed_over(pco_box_create(embed_rt, &bo, NULL, NULL, &p[3]), &p[3]);
  pco_box_release(box);
  embed_is(pco_runtime_destroy(embed_rt), 0,
           "the runtime ends before its calls");
  embed_ok(!pco_pending_file(p[0]) && !pco_pending_watch(p[1]) &&
               !pco_pending_command(p[2]) && !pco_pending_box(p[3]),
           "what they made is gone");
  for (int i = 0; i < 4; i++)
    pco_pending_release(p[i]);
}

static void test_ends(void) {
  pco_pending *p = NULL;
  pco_exec_opts o = {.size = sizeof o, .shell = "sleep 100"};
  pco_box *box = embed_box();
  embed_ok(pco_box_id(box) != NULL, "a box has an id");
  embed_is(pco_exec(box, &o, NULL, NULL, &p), 0, "a command runs in it");
  pco_pending *q = NULL;
  embed_is(embed_code(pco_box_close(box, NULL, NULL, &q), &q), 0,
           "it is closed");
  embed_is(embed_code(0, &p), PCO_ECLOSED, "the command hears of it");
  embed_is(pco_exec(box, &o, NULL, NULL, &p), PCO_ECLOSED, "no more calls");
  pco_box_release(box);

  box = embed_box();
  pco_exec(box, &o, NULL, NULL, &p);
  pco_pending_release(p); /* while it runs */
  pco_box_release(box);   /* unclosed */

  box = embed_box();
  pco_exec(box, &o, NULL, NULL, &p);
  pco_pending_release(p); /* while it runs */
  pco_command_start(box, &o, NULL, NULL, &q);
  pco_command *c = embed_over(0, &q) ? pco_pending_command(q) : NULL;
  pco_pending_release(q);
  pco_exec(box, &o, NULL, NULL, &q);
  pco_pending *made = NULL;
  made = embed_over(pco_file_open(box, "last", "w", NULL, NULL, NULL, &made),
                    &made);
  pco_file *f = pco_pending_file(made);
  pco_pending_release(made);
  pco_pending *many[5] = {NULL};
  pco_wait_opts w = {.size = sizeof w, .output = "never", .output_len = 5};
  pco_file_glob(box, "**/*", NULL, NULL, NULL, &many[0]);
  pco_file_walk(box, ".", NULL, NULL, NULL, &many[1]);
  pco_tree_upload(box, "/etc/passwd", "in", NULL, NULL, NULL, &many[2]);
  pco_box_command(box, pco_command_pid(c), NULL, NULL, &many[3]);
  pco_command_wait_for(c, &w, NULL, NULL, &many[4]);
  pco_pending *r = NULL;
  embed_is(pco_runtime_destroy(embed_rt), 0,
           "the runtime ends under all of them");
  for (int i = 0; i < 5; i++) {
    int rc = pco_pending_code(many[i]);
    embed_ok(rc < 0 || (rc == 0 && i != 4), "others have ended, one way");
    embed_ok(!pco_pending_command(many[i]), "and have made nothing");
    pco_pending_release(many[i]);
  }
  embed_ok(pco_pending_code(q) < 0, "a call has failed then");
  embed_is(pco_exec(box, &o, NULL, NULL, &p), PCO_ECLOSED, "the box is closed");
  embed_is(pco_command_wait(c, NULL, NULL, &p), PCO_ECLOSED,
           "so is the command");
  embed_is(pco_file_sync(f, NULL, NULL, &r), PCO_ECLOSED, "and the file");
  pco_file_release(f);
  pco_pending_release(q);
  pco_command_release(c);
  pco_box_release(box);
}

/* A host that ticks only when it is told to.  The last that a shutdown waits
 * for may be the thread of a portal, whose end is no event on the loop. */
static void test_shutdown(void) {
  embed_rt = embed_new(NULL);
  pco_box *boxes[3];
  pco_exec_opts o = {.size = sizeof o, .shell = "sleep 100"};
  pco_pending *p[3] = {NULL};
  for (int i = 0; i < 3; i++) {
    boxes[i] = embed_box();
    pco_exec(boxes[i], &o, NULL, NULL, &p[i]);
  }
  embed_is(pco_shutdown(embed_rt, 5 * S), 0, "a shutdown with open boxes");
  int wakes = 0;
  while (pco_shutdown_done(embed_rt) == 0 && wakes < 100 &&
         embed_readable(pco_poll_fd(embed_rt), 15000)) {
    wakes++;
    pco_tick(embed_rt, 0, NULL);
  }
  printf("# %d wakes\n", wakes);
  embed_is(pco_shutdown_done(embed_rt), 1, "wakes its host until it is done");
  embed_ok(wakes < 100, "and no more than there is to do");
  for (int i = 0; i < 3; i++) {
    pco_pending_release(p[i]);
    pco_box_release(boxes[i]);
  }
  pco_runtime_destroy(embed_rt);
}

static void test_box(pco_box *box) {
  test_look(box);
  pco_pending *p = NULL;
  embed_is(embed_code(pco_box_close(box, NULL, NULL, &p), &p), 0, "closed");
}

static void test_backend(void) {
  embed_with_box(test_box);
  embed_rt = embed_new(NULL);
  test_ends();
  test_untaken();
  test_shutdown();
}

static void count_backend(void *ud, const char *name, const char *path) {
  if (strcmp(name, "local") == 0 && strstr(path, "portico-local"))
    (*(int *)ud)++;
  if (strcmp(name, "bwrap") == 0)
    *(int *)ud += 100;
}

/* Those that there are, and that are allowed. */
static void test_backends(void) {
  static const char *const only[] = {"local", NULL};
  pco_config c;
  int found = 0;
  pco_config_init(&c);
  c.backends = only;
  embed_rt = embed_new(&c);
  embed_is(pco_list_backends(embed_rt, count_backend, &found), 0,
           "the backends");
  embed_is(found, 1, "are listed, but no other than may be used");
  embed_is(pco_list_backends(embed_rt, NULL, NULL), PCO_EINVAL, "to nobody");
  pco_runtime_destroy(embed_rt);
}

static void test_refused(void) {
  pco_pending *p = NULL;
  embed_rt = embed_new(NULL);
  pco_box_opts o = {.size = sizeof o, .backend = "no-such-backend"};
  embed_is(pco_box_create(embed_rt, &o, NULL, NULL, &p), UV_ENOENT,
           "a backend that is not there");
  embed_ok(strstr(pco_last_message(embed_rt), "no-such-backend") != NULL,
           "is named");
  o.backend = "local";
  pco_create_opts c = {.struct_size = 4};
  o.create = &c;
  embed_is(pco_box_create(embed_rt, &o, NULL, NULL, &p), PCO_ESIZE,
           "options of another size");
  struct {
    pco_create_opts c;
    uint64_t more;
  } big = {{.struct_size = sizeof big}, 0};
  o.create = &big.c;
  embed_is(embed_code(pco_box_create(embed_rt, &o, NULL, NULL, &p), &p), 0,
           "a later program's, with zero in what is new");
  big.more = 1;
  embed_is(pco_box_create(embed_rt, &o, NULL, NULL, &p), PCO_ESIZE,
           "with something there");
  big.c.struct_size = sizeof big.c;
  big.c.n_mounts = 1;
  embed_is(pco_box_create(embed_rt, &o, NULL, NULL, &p), PCO_EINVAL,
           "mounts that are not there");
  o.create = &c;
  c = (pco_create_opts){.struct_size = sizeof c, .image = "debian"};
  embed_is(embed_code(pco_box_create(embed_rt, &o, NULL, NULL, &p), &p),
           PCO_EUNSUPPORTED, "what a backend cannot do");
  pco_runtime_destroy(embed_rt);
}

int main(int argc, char **argv) {
  (void)argc;
  embed_begin(argv[0]);
  embed_on_each(test_backend);
  test_refused();
  test_backends();
  return embed_end();
}
