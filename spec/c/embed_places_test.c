/* SPDX-License-Identifier: MIT */
/*
 * Where nothing of portico/sandbox.h may be called: on another thread, in a
 * forked child, after a shutdown, after the end.  Every function says so.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "embed_boxes.h"

typedef struct things {
  pco_box *box;
  pco_command *command;
  pco_file *file;
  pco_watch *watch;
  pco_pending *pending; /* that has ended */
} things;

/* Whether every function says this, and makes nothing. */
static bool all_say(const things *t, int want) {
  pco_pending *p = NULL;
  const pco_exec_opts exec = {.size = sizeof exec, .shell = "true"};
  const pco_wait_opts wait = {.size = sizeof wait, .port = 1};
  pco_box *b = t->box;
  pco_command *c = t->command;
  const int got[] = {
      pco_exec(b, &exec, NULL, NULL, &p),
      pco_command_start(b, &exec, NULL, NULL, &p),
      pco_box_close(b, NULL, NULL, &p),
      pco_box_probe(b, NULL, NULL, &p),
      pco_box_look(b, NULL, NULL, &p),
      pco_box_commands(b, 0, NULL, NULL, &p),
      pco_box_command(b, 1, NULL, NULL, &p),
      pco_file_read(b, "f", NULL, NULL, NULL, &p),
      pco_file_write(b, "f", "", 0, NULL, NULL, NULL, &p),
      pco_file_stat(b, "f", NULL, NULL, NULL, &p),
      pco_file_list(b, "f", NULL, NULL, NULL, &p),
      pco_file_mkdir(b, "f", NULL, NULL, NULL, &p),
      pco_file_remove(b, "f", NULL, NULL, NULL, &p),
      pco_file_rename(b, "f", "g", NULL, NULL, NULL, &p),
      pco_file_copy(b, "f", "g", NULL, NULL, NULL, &p),
      pco_file_chmod(b, "f", 0600, NULL, NULL, NULL, &p),
      pco_file_chown(b, "f", "0", NULL, NULL, NULL, &p),
      pco_file_symlink(b, "f", "g", NULL, NULL, NULL, &p),
      pco_file_readlink(b, "f", NULL, NULL, NULL, &p),
      pco_file_mktemp(b, NULL, NULL, NULL, NULL, NULL, &p),
      pco_file_usage(b, "f", NULL, NULL, NULL, &p),
      pco_file_glob(b, "f", NULL, NULL, NULL, &p),
      pco_file_walk(b, "f", NULL, NULL, NULL, &p),
      pco_file_open(b, "f", "r", NULL, NULL, NULL, &p),
      pco_watch_open(b, "f", NULL, NULL, NULL, &p),
      pco_tree_upload(b, "/f", "f", NULL, NULL, NULL, &p),
      pco_tree_download(b, "f", "/f", NULL, NULL, NULL, &p),
      pco_command_read(c, NULL, NULL, &p),
      pco_command_write(c, "", 0, NULL, NULL, &p),
      pco_command_close_stdin(c, NULL, NULL, &p),
      pco_command_resize(c, 1, 1, NULL, NULL, &p),
      pco_command_wait(c, NULL, NULL, &p),
      pco_command_wait_for(c, &wait, NULL, NULL, &p),
      pco_command_signal(c, 15, NULL, NULL, &p),
      pco_command_kill(c, 0, NULL, NULL, &p),
      pco_file_read_at(t->file, 0, 1, NULL, NULL, &p),
      pco_file_write_at(t->file, 0, "", 0, NULL, NULL, &p),
      pco_file_truncate(t->file, 0, NULL, NULL, &p),
      pco_file_sync(t->file, NULL, NULL, &p),
      pco_file_stat_open(t->file, NULL, NULL, &p),
      pco_file_close(t->file, NULL, NULL, &p),
      pco_watch_next(t->watch, NULL, NULL, &p),
      pco_watch_close(t->watch, NULL, NULL, &p),
  };
  bool good = !p;
  for (size_t i = 0; i < sizeof got / sizeof *got; i++)
    if (got[i] != want) {
      printf("# function %zu says %s\n", i, pco_errname(got[i]));
      good = false;
    }
  return good;
}

/* Of a runtime that lives: those that only ask, too. */
static bool none_answers(const things *t, int want) {
  const char *data;
  size_t len;
  pco_stat st = {.struct_size = sizeof st};
  pco_tree_progress g = {.size = sizeof g};
  const int got[] = {
      (int)pco_command_pid(t->command),
      pco_pending_code(t->pending),
      pco_pending_wait(t->pending, 0),
      pco_pending_cancel(t->pending),
      pco_pending_bytes(t->pending, &data, &len),
      pco_pending_entry(t->pending, 0, &st),
      pco_pending_path(t->pending, 0, &data),
      pco_pending_progress(t->pending, &g),
  };
  bool good = all_say(t, want) && !pco_pending_error(t->pending);
  pco_pending_release(t->pending); /* does nothing */
  pco_command_release(t->command);
  pco_file_release(t->file);
  pco_watch_release(t->watch);
  pco_box_release(t->box);
  for (size_t i = 0; i < sizeof got / sizeof *got; i++)
    good &= got[i] == want;
  return good;
}

static void *in_thread(void *arg) {
  things *t = (things *)arg;
  return none_answers(t, PCO_ETHREAD) ? t : NULL;
}

static bool in_child(const things *t) {
  int status = -1;
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0)
    _exit(none_answers(t, PCO_EFORKED) ? 0 : 1);
  waitpid(pid, &status, 0);
  return status == 0;
}

static void test_places(void) {
  pco_pending *p = NULL;
  things t = {0};
  embed_rt = embed_new(NULL);
  t.box = embed_box();
  t.command = embed_start(t.box, "sleep 100", PCO_EXEC_STDIN);
  p = embed_over(pco_file_open(t.box, "f", "w+", NULL, NULL, NULL, &p), &p);
  t.file = pco_pending_file(p);
  pco_pending_release(p);
  p = embed_over(pco_watch_open(t.box, ".", NULL, NULL, NULL, &p), &p);
  t.watch = pco_pending_watch(p);
  pco_pending_release(p);
  t.pending = embed_over(pco_box_look(t.box, NULL, NULL, &p), &p);
  pthread_t thread;
  void *good = NULL;
  if (pthread_create(&thread, NULL, in_thread, &t) == 0)
    pthread_join(thread, &good);
  embed_ok(good, "every function tells another thread");
  embed_ok(in_child(&t), "and a forked child");
  pco_shutdown(embed_rt, S);
  embed_ok(all_say(&t, PCO_ECLOSED), "and what comes after a shutdown");
  pco_runtime_destroy(embed_rt);
  embed_ok(all_say(&t, PCO_ECLOSED), "or the end");
  pco_pending_release(t.pending);
  pco_command_release(t.command);
  pco_file_release(t.file);
  pco_watch_release(t.watch);
  pco_box_release(t.box);
  embed_ok(all_say(&(things){0}, PCO_EINVAL), "or has nothing to call it on");
}

int main(int argc, char **argv) {
  (void)argc;
  embed_begin(argv[0]);
  embed_on_each(test_places);
  return embed_end();
}
