/* SPDX-License-Identifier: MIT */
#include "embed_boxes.h"

pco_runtime *embed_rt;
const char *embed_backend;
bool embed_portal;

pco_pending *embed_over(int rc, pco_pending **out) {
  if (rc < 0) {
    printf("# %s: %s\n", pco_errname(rc), pco_last_message(embed_rt));
    return NULL;
  }
  pco_pending *p = *out;
  rc = pco_pending_wait(p, 60 * S);
  if (rc < 0)
    printf("# wait: %s\n", pco_errname(rc));
  const pco_error *err = pco_pending_error(p);
  if (err)
    printf("# %s: %s\n", pco_errname(err->code), err->message);
  return p;
}

int embed_code(int rc, pco_pending **out) {
  pco_pending *p = embed_over(rc, out);
  if (!p)
    return rc;
  rc = pco_pending_code(p);
  pco_pending_release(p);
  return rc;
}

pco_box *embed_box(void) {
  pco_box_opts o = {.size = sizeof o, .backend = embed_backend};
  pco_pending *p = NULL;
  o.flags = embed_portal ? PCO_BOX_PORTAL : 0;
  p = embed_over(pco_box_create(embed_rt, &o, NULL, NULL, &p), &p);
  pco_box *box = p ? pco_pending_box(p) : NULL;
  embed_ok(p && !pco_pending_box(p), "a box is taken once");
  pco_pending_release(p);
  return box;
}

pco_command *embed_start(pco_box *box, const char *line, uint32_t flags) {
  pco_pending *p = NULL;
  pco_exec_opts o = {.size = sizeof o, .shell = line, .flags = flags};
  p = embed_over(pco_command_start(box, &o, NULL, NULL, &p), &p);
  pco_command *c = pco_pending_command(p);
  pco_pending_release(p);
  return c;
}

bool embed_put(pco_box *box, const char *path, const char *text) {
  pco_pending *p = NULL;
  pco_file_opts o = {.size = sizeof o, .flags = PCO_FS_PARENTS};
  return embed_code(
             pco_file_write(box, path, text, strlen(text), &o, NULL, NULL, &p),
             &p) == 0;
}

bool embed_file_is(pco_box *box, const char *path, const char *text) {
  pco_pending *p = NULL;
  const char *data = NULL;
  size_t len = 0;
  p = embed_over(pco_file_read(box, path, NULL, NULL, NULL, &p), &p);
  bool same = p && pco_pending_bytes(p, &data, &len) == 0 &&
              len == strlen(text) && memcmp(data, text, len) == 0;
  pco_pending_release(p);
  return same;
}

/* What libuv and a plugin keep for the whole process is there then. */
static void warm_up(void) {
  embed_rt = embed_new(NULL);
  pco_box_release(embed_box());
  pco_runtime_destroy(embed_rt);
}

void embed_with_box(void (*fn)(pco_box *box)) {
  embed_rt = embed_new(NULL);
  pco_box *box = embed_box();
  if (box)
    fn(box);
  pco_box_release(box);
  pco_runtime_destroy(embed_rt);
}

static void run(void (*fn)(void)) {
  printf("# %s%s\n", embed_backend, embed_portal ? ", on a portal" : "");
  warm_up();
  int fds = embed_entries("/proc/self/fd");
  fn();
  embed_is(embed_entries("/proc/self/fd"), fds, "no descriptor is left");
}

void embed_on_each(void (*fn)(void)) {
  static const char *const names[] = {"local", "bwrap"};
  for (size_t i = 0; i < 2; i++) {
    if (!embed_has(names[i], "sandboxes in C"))
      continue;
    embed_backend = names[i];
    for (int on_portal = 0; on_portal < 2; on_portal++) {
      embed_portal = on_portal;
      run(fn);
    }
  }
}
