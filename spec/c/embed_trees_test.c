/* SPDX-License-Identifier: MIT */
/*
 * Trees into sandboxes and out of them, from C, on each backend, on the loop
 * and on a portal.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "embed_boxes.h"
#include "test_dir.h"

static void write_here(const char *name, size_t size) {
  FILE *f = fopen(in_dir(name), "w");
  for (size_t i = 0; f && i < size; i++)
    fputc('a' + (int)(i % 26), f);
  if (f)
    fclose(f);
}

static long size_here(const char *name) {
  struct stat st;
  return stat(in_dir(name), &st) == 0 ? (long)st.st_size : -1;
}

static void make_tree(void) {
  if (!dir_make() || mkdir(in_dir("in"), 0755) < 0 ||
      mkdir(in_dir("in/sub"), 0755) < 0)
    exit(1);
  write_here("in/a.c", 10);
  write_here("in/b.o", 20);
  write_here("in/sub/big.c", 300000);
}

static void remove_tree(void) {
  if (!dir_remove())
    exit(1);
}

static void test_up(pco_box *box) {
  pco_pending *p = NULL;
  pco_tree_result r = {.size = sizeof r};
  pco_stat st = {.struct_size = sizeof st};
  p = embed_over(pco_tree_upload(box, in_dir("in"), "up", NULL, NULL, NULL, &p),
                 &p);
  embed_ok(p && pco_pending_tree(p, &r) == 0 && r.files == 3 &&
               r.bytes == 300030 && r.skipped == 0,
           "a tree goes in");
  r.size = 5;
  embed_is(pco_pending_tree(p, &r), PCO_ESIZE, "a result of another size");
  pco_pending_release(p);
  p = embed_over(pco_file_stat(box, "up/sub/big.c", NULL, NULL, NULL, &p), &p);
  embed_ok(p && pco_pending_entry(p, 0, &st) == 1 && st.size == 300000,
           "whole");
  pco_pending_release(p);

  pco_tree_opts o = {.size = sizeof o, .flags = PCO_TREE_PARENTS};
  o.include = (const char *const[]){"*.c", "*.o", NULL};
  o.exclude = (const char *const[]){"sub/", NULL};
  r.size = sizeof r;
  p = embed_over(
      pco_tree_upload(box, in_dir("in"), "new/dir/part", &o, NULL, NULL, &p),
      &p);
  embed_ok(p && pco_pending_tree(p, &r) == 0 && r.files == 2,
           "a part of it, below new directories");
  pco_pending_release(p);

  o = (pco_tree_opts){.size = sizeof o, .flags = PCO_TREE_ONLY_CHANGED};
  p = embed_over(pco_tree_upload(box, in_dir("in"), "up", &o, NULL, NULL, &p),
                 &p);
  embed_ok(p && pco_pending_tree(p, &r) == 0 && r.files == 0,
           "nothing has changed");
  pco_pending_release(p);
}

static void test_down(pco_box *box) {
  pco_pending *p = NULL;
  pco_tree_result r = {.size = sizeof r};
  pco_tree_opts o = {.size = sizeof o};
  p = embed_over(
      pco_tree_download(box, "up", in_dir("out"), NULL, NULL, NULL, &p), &p);
  embed_ok(p && pco_pending_tree(p, &r) == 0 && r.files == 3,
           "a tree goes out");
  pco_pending_release(p);
  embed_is(size_here("out/sub/big.c"), 300000, "whole");
  o.max_bytes = 1000;
  embed_is(
      embed_code(
          pco_tree_download(box, "up", in_dir("less"), &o, NULL, NULL, &p), &p),
      PCO_ELIMIT, "more than may be");
  embed_is(size_here("less"), -1, "leaves nothing");
  embed_code(
      pco_file_symlink(box, "/etc/passwd", "up/link", NULL, NULL, NULL, &p),
      &p);
  embed_ok(embed_code(pco_tree_download(box, "up", in_dir("leads"), NULL, NULL,
                                        NULL, &p),
                      &p) < 0,
           "a link that leads out of it");
  o = (pco_tree_opts){.size = sizeof o, .flags = PCO_TREE_SKIP};
  const char *path, *message;
  int why = 0;
  p = embed_over(
      pco_tree_download(box, "up", in_dir("most"), &o, NULL, NULL, &p), &p);
  embed_ok(p && pco_pending_tree(p, &r) == 0 && r.skipped == 1 &&
               pco_pending_skipped(p, 0, &path, &why, &message) == 1 &&
               strstr(path, "link") && why < 0 && *message,
           "is left out, and listed");
  embed_is(pco_pending_skipped(p, 1, &path, &why, &message), 0, "alone");
  pco_pending_release(p);
  o = (pco_tree_opts){.size = sizeof o, .symlinks = PCO_LINKS_KEEP};
  embed_is(
      embed_code(
          pco_tree_download(box, "up", in_dir("kept"), &o, NULL, NULL, &p), &p),
      0, "or kept");
  char text[64];
  ssize_t n = readlink(in_dir("kept/link"), text, sizeof text);
  embed_ok(n == 11 && memcmp(text, "/etc/passwd", 11) == 0, "as it is");
}

static void test_progress(pco_box *box) {
  pco_pending *p = NULL;
  pco_tree_opts o = {.size = sizeof o, .flags = PCO_TREE_PROGRESS};
  pco_tree_progress g = {.size = sizeof g};
  p = embed_over(pco_tree_upload(box, in_dir("in"), "seen", &o, NULL, NULL, &p),
                 &p);
  embed_ok(p && pco_pending_progress(p, &g) == 1 && g.bytes == 300030 &&
               g.files == 3 && g.path != NULL,
           "the last progress is all");
  embed_is(pco_pending_progress(p, &g), 0, "told once");
  g.size = 3;
  embed_is(pco_pending_progress(p, &g), PCO_ESIZE, "of another size");
  pco_pending_release(p);
  g.size = sizeof g;
  p = embed_over(pco_file_stat(box, "seen", NULL, NULL, NULL, &p), &p);
  embed_is(pco_pending_progress(p, &g), UV_ENOENT, "what has none");
  embed_is(pco_pending_tree(p, &(pco_tree_result){.size = 48}), UV_ENOENT,
           "nor a result of a tree");
  pco_pending_release(p);
}

static void test_mistakes(pco_box *box) {
  pco_pending *p = NULL;
  pco_tree_opts o = {.size = sizeof o, .flags = PCO_TREE_CHECKSUM};
  embed_is(pco_tree_upload(box, "", "x", NULL, NULL, NULL, &p), PCO_EINVAL,
           "no source");
  embed_is(pco_tree_download(box, "x", NULL, NULL, NULL, NULL, &p), PCO_EINVAL,
           "no target");
  embed_is(pco_tree_upload(box, dir, "x", &o, NULL, NULL, &p), PCO_EINVAL,
           "sums of nothing that is compared");
  o = (pco_tree_opts){.size = sizeof o, .symlinks = 99};
  embed_is(pco_tree_upload(box, dir, "x", &o, NULL, NULL, &p), PCO_EINVAL,
           "what links do not become");
  o = (pco_tree_opts){.size = 7};
  embed_is(pco_tree_upload(box, dir, "x", &o, NULL, NULL, &p), PCO_ESIZE,
           "another size");
  o = (pco_tree_opts){.size = sizeof o};
  o.include = (const char *const[]){"", NULL};
  embed_is(pco_tree_upload(box, dir, "x", &o, NULL, NULL, &p), PCO_EINVAL,
           "an empty pattern");
  embed_is(
      embed_code(
          pco_tree_upload(box, in_dir("none"), "x", NULL, NULL, NULL, &p), &p),
      UV_ENOENT, "a source that is not there");
  embed_is(pco_tree_upload(box, in_dir("in"), "end", NULL, NULL, NULL, &p), 0,
           "one goes on");
  embed_is(pco_pending_cancel(p), 0, "is cancelled");
  int rc = embed_code(0, &p);
  embed_ok(rc == PCO_ECANCELED || rc == 0, "and ends so, unless it was quick");
  embed_is(pco_tree_upload(box, in_dir("in"), "end2", NULL, NULL, NULL, &p), 0,
           "one goes on while the box ends");
  pco_pending_release(p);
}

static void test_all(pco_box *box) {
  make_tree();
  test_up(box);
  test_down(box);
  test_progress(box);
  test_mistakes(box);
  remove_tree();
}

static void test_backend(void) {
  embed_with_box(test_all);
}

int main(int argc, char **argv) {
  (void)argc;
  embed_begin(argv[0]);
  embed_on_each(test_backend);
  return embed_end();
}
