/* SPDX-License-Identifier: MIT */
/*
 * PACK, UNPACK and SURVEY: the requests around transfer.h.
 *
 * A worker does one to its end and looks meanwhile whether something comes from
 * the agent, which can only be the CANCEL, or the end.  What is unpacked goes
 * into a directory with a random name, in the target or beside it, and gets its
 * place when all is there: what was cancelled or failed is removed, and leaves
 * nothing.  In an agent that was started with --confine, which works for the
 * host, a process of its own does the unpacking (transfer_confine.h).
 */
#include "clock.h"
#include "fs.h"
#include "transfer.h"
#include "transfer_confine.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TELL_EVERY (50 * PCO_MS)
#define QUEUE      (64u * 1024) /* bytes for the agent that may wait */
#define PIPE_SIZE  (1024 * 1024)

/* What one request is about.  In memory that the process which unpacks shares;
 * what stands in it afterwards is no more trusted than that process. */
typedef struct work {
  pco_transfer t;
  pco_agent *agent;
  uint64_t op;
  int64_t told_at;
  int rc; /* how it ended, there */
} work;

/* This is the process that unpacks for another: the agent is not its business.
 */
static bool confined;

static work *work_of(pco_tar_wait *w) {
  return (work *)(void *)((char *)w - offsetof(work, t.wait));
}

/* ---- what it is told, and tells ------------------------------------------ */

static int wait_for(pco_tar_wait *waiter, int fd, short events) {
  work *w = work_of(waiter);
  struct pollfd p[2] = {
      {.fd = fd, .events = events},
      {.fd = confined ? -1 : w->agent->host.fd, .events = POLLIN}};
  while (poll(p, 2, fd < 0 ? 0 : -1) < 0)
    if (errno != EINTR)
      return -errno;
  return p[1].revents ? -ECANCELED : 0;
}

/* Sends what was said, if it is much, and waits for that. */
static int flush(work *w, size_t most) {
  pco_channel *c = &w->agent->host;
  while (pco_channel_queued(c) > most) {
    int rc = pco_channel_flush(c);
    if (rc < 0 && rc != -EAGAIN)
      return -ECANCELED;
    if (rc == 0)
      break;
    rc = wait_for(&w->t.wait, c->fd, POLLOUT);
    if (rc < 0)
      return rc;
  }
  return w->agent->ending ? -ECANCELED : 0;
}

static int on_skipped(pco_transfer *t, const char *path, int error,
                      const char *why) {
  work *w = (work *)t;
  pco_wire_buf *b = &w->agent->buf;
  pco_wire_begin(b, PCO_WIRE_REPLY, PCO_WIRE_MORE, w->op);
  pco_wire_string(b, PCO_TAG_PATH, path);
  pco_wire_number(b, PCO_TAG_ERRNO, (uint64_t)error);
  if (why)
    pco_wire_string(b, PCO_TAG_MESSAGE, why);
  pco_answer(w->agent);
  return flush(w, QUEUE);
}

static void tell(work *w, const char *path) {
  pco_wire_buf *b = &w->agent->buf;
  pco_wire_begin(b, PCO_WIRE_REPLY, PCO_WIRE_MORE, w->op);
  pco_wire_string(b, PCO_TAG_PATH, path);
  pco_wire_number(b, PCO_TAG_SIZE, w->t.bytes);
  pco_wire_number(b, PCO_TAG_COUNT, w->t.files);
  pco_answer(w->agent);
  pco_channel_flush(&w->agent->host);
}

/* Not more often than anybody can look; nothing if the agent is slow. */
static void on_progress(pco_transfer *t, const char *path) {
  work *w = (work *)t;
  int64_t now = pco_now();
  if (now - w->told_at < TELL_EVERY ||
      pco_channel_queued(&w->agent->host) > QUEUE)
    return;
  w->told_at = now;
  tell(w, path);
}

static void tell_total(work *w, uint64_t total) {
  pco_wire_buf *b = &w->agent->buf;
  pco_wire_begin(b, PCO_WIRE_REPLY, PCO_WIRE_MORE, w->op);
  pco_wire_number(b, PCO_TAG_LENGTH, total);
  pco_answer(w->agent);
  pco_channel_flush(&w->agent->host);
}

static void answer_done(work *w) {
  pco_wire_buf *b = &w->agent->buf;
  pco_wire_begin(b, PCO_WIRE_REPLY, 0, w->op);
  pco_wire_number(b, PCO_TAG_COUNT, w->t.files);
  pco_wire_number(b, PCO_TAG_DIRECTORIES, w->t.directories);
  pco_wire_number(b, PCO_TAG_SIZE, w->t.bytes);
  pco_answer(w->agent);
}

/* The path of the request, and the one below the tree behind it. */
static void answer_failed(work *w, int rc, const char *base) {
  static char path[PCO_PATH_TEXT + PCO_TAR_MAX_PATH];
  w->t.path[sizeof w->t.path - 1] = w->t.why[sizeof w->t.why - 1] = 0;
  size_t n = strlen(base);
  const char *slash = n > 0 && base[n - 1] == '/' ? "" : "/";
  snprintf(path, sizeof path, "%s%s%s", base, w->t.path[0] ? slash : "",
           w->t.path);
  pco_answer_error(w->agent, w->op, -rc, path, w->t.why[0] ? w->t.why : NULL);
}

/* ---- PACK, SURVEY -------------------------------------------------------- */

static const pco_paths *packed_paths; /* of this worker */

static bool is_forbidden(int dir, const char *name) {
  return pco_path_is_own_proc(packed_paths, dir, name);
}

/* It is told when it is packed. */
static int skip_silently(pco_transfer *t, const char *path, int error,
                         const char *why) {
  (void)path;
  (void)error;
  (void)why;
  return t->wait.fn(&t->wait, -1, 0);
}

/* Counts what would be packed; what the other side has can be read once. */
static int count(work *w, const pco_pack *p) {
  pco_pack counting = *p;
  counting.out = NULL;
  counting.known = NULL;
  w->t.skipped = skip_silently;
  int rc = pco_transfer_pack(&w->t, &counting);
  w->t.skipped = on_skipped;
  if (rc == 0)
    tell_total(w, w->t.bytes);
  return rc;
}

static int pack_place(work *w, const pco_place *at, const int *fds,
                      unsigned n_fds, bool listing) {
  pco_tar_out *out = malloc(sizeof *out);
  pco_tar_in *known = n_fds > 1 ? calloc(1, sizeof *known) : NULL;
  pco_pack p = {.dir = pco_place_dir(at),
                .name = at->name[0] ? at->name : ".",
                .splice = !w->agent->confines,
                .listing = listing,
                .out = out,
                .known = known,
                .forbidden = is_forbidden};
  int rc = out && (known || n_fds == 1) ? 0 : -ENOMEM;
  if (rc == 0) {
    out->fd = fds[0];
    out->wait = &w->t.wait;
    out->len = 0;
  }
  if (rc == 0 && known) {
    known->fd = fds[1];
    known->wait = &w->t.wait;
    rc = pco_tar_in_init(known);
  }
  packed_paths = &w->agent->paths;
  if (rc == 0 && w->t.words->total)
    rc = count(w, &p);
  if (rc == 0)
    rc = pco_transfer_pack(&w->t, &p);
  if (known)
    pco_tar_in_deinit(known);
  free(known);
  free(out);
  return rc;
}

/* An end of the tar that says nothing is there: what a survey finds where
 * nothing is. */
static int pack_nothing(work *w, int fd) {
  pco_tar_out *out = malloc(sizeof *out);
  if (!out)
    return -ENOMEM;
  out->fd = fd;
  out->wait = &w->t.wait;
  out->len = 0;
  int rc = pco_tar_finish(out);
  free(out);
  return rc;
}

static int pack(work *w, const char *path, const int *fds, unsigned n_fds,
                bool listing) {
  pco_place at;
  int rc = pco_walk(&w->agent->paths, path, 0, &at);
  bool missing = rc == -ENOENT || rc == -ENOTDIR;
  if (rc == 0) {
    missing = at.fd < 0;
    if (!missing)
      rc = pack_place(w, &at, fds, n_fds, listing);
    pco_place_deinit(&at);
  }
  if (missing && listing)
    return pack_nothing(w, fds[0]);
  return missing ? pco_transfer_fail(&w->t, rc ? rc : -ENOENT, NULL) : rc;
}

/* ---- UNPACK: by another process ------------------------------------------ */

static _Noreturn void unpack_confined(work *w, const pco_unpack_tree *u,
                                      bool in_namespace) {
  confined = true;
  pco_litter_free(w->agent->litter); /* it is the worker's alone */
  w->agent->litter = NULL;
  w->rc =
      pco_transfer_confine(u->stage, u->in, w->agent->host.fd, in_namespace);
  if (w->rc == 0)
    w->rc = pco_transfer_unpack(&w->t, u);
  else if (w->rc == -EPERM)
    pco_transfer_fail(&w->t, -EPERM,
                      "nothing is unpacked here: this machine has neither "
                      "Landlock nor user namespaces to confine that with");
  flush(w, 0);
  _exit(0);
}

/* Waits for the process, or ends it if the agent says something. */
static int wait_for_child(work *w, pid_t pid) {
  int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
  int rc = pidfd < 0 ? -errno : wait_for(&w->t.wait, pidfd, POLLIN);
  int status;
  if (rc < 0)
    kill(pid, SIGKILL);
  if (pidfd >= 0)
    close(pidfd);
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
    ;
  if (rc < 0)
    return rc;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return w->rc > 0 ? -EIO : w->rc;
  return pco_transfer_fail(&w->t, -EIO, "the process that unpacked was killed");
}

static int unpack_by_child(work *w, const pco_unpack_tree *u,
                           bool in_namespace) {
  pid_t pid = flush(w, 0) == 0 ? fork() : -1;
  if (pid < 0)
    return -EAGAIN;
  if (pid == 0)
    unpack_confined(w, u, in_namespace);
  return wait_for_child(w, pid);
}

static int unpack_into(work *w, const pco_unpack_tree *u) {
  if (!w->agent->confines)
    return pco_transfer_unpack(&w->t, u);
  int rc = unpack_by_child(w, u, true);
  return rc == -EUSERS ? unpack_by_child(w, u, false) : rc;
}

/* ---- UNPACK -------------------------------------------------------------- */

static int make_stage(pco_litter *litter, int dir, char name[NAME_MAX + 1]) {
  int rc = pco_litter_name(litter, dir, name);
  if (rc == 0 && mkdirat(dir, name, 0700) != 0)
    rc = -errno;
  if (rc < 0)
    return rc;
  int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  rc = fd < 0 ? -errno : fd;
  if (rc < 0)
    pco_litter_remove(dir, name);
  return rc;
}

/* Unpacks in a stage of `dir`, and then puts it in place: into `dir` itself, or
 * with the name of the place. */
static int unpack_at(work *w, int dir, const pco_place *at,
                     pco_unpack_tree *u) {
  char name[NAME_MAX + 1];
  bool into = at->fd >= 0 && S_ISDIR(at->st.st_mode);
  int stage = make_stage(w->agent->litter, dir, name);
  if (stage < 0)
    return pco_transfer_fail(
        &w->t, stage,
        pco_transfer_tried(&w->t, stage, "making a directory to unpack in"));
  u->stage = stage;
  int rc = unpack_into(w, u);
  if (rc == 0 && w->t.empty) {
    /* all is there */
  } else if (rc == 0 && into) {
    rc = pco_transfer_merge(&w->t, stage, dir);
  } else if (rc == 0) {
    w->t.path[0] = 0;
    rc = pco_transfer_place(stage, dir, at->name, at->fd >= 0);
    if (rc < 0)
      pco_transfer_fail(&w->t, rc,
                        pco_transfer_tried(&w->t, rc, "giving it its name"));
  }
  close(stage);
  pco_litter_remove(dir, name);
  pco_litter_clear(w->agent->litter);
  return rc;
}

static int unpack_place(work *w, const pco_place *at, int in) {
  pco_unpack_tree u = {.in = in, .mask = (mode_t)w->t.words->mask};
  if (at->fd < 0) {
    u.want_dir = at->must_be_directory;
    return unpack_at(w, pco_place_dir(at), at, &u);
  }
  if (!S_ISDIR(at->st.st_mode)) {
    u.want_file = true;
    if (!S_ISREG(at->st.st_mode))
      return pco_transfer_fail(&w->t, -EINVAL,
                               "only regular files can be replaced");
    return unpack_at(w, pco_place_dir(at), at, &u);
  }
  u.want_dir = true;
  int dir = openat(at->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0)
    return pco_transfer_fail(&w->t, -errno, NULL);
  int rc = unpack_at(w, dir, at, &u);
  close(dir);
  return rc;
}

static int unpack(work *w, const char *path, int in) {
  pco_place at;
  int flags = w->t.words->parents ? PCO_WALK_PARENTS : 0;
  int rc = pco_walk(&w->agent->paths, path, flags, &at);
  if (rc == -ENOENT && !flags)
    return pco_transfer_fail(&w->t, rc,
                             "no such file or directory; parents = true makes "
                             "the directories above it");
  if (rc < 0)
    return pco_transfer_fail(&w->t, rc, NULL);
  rc = unpack_place(w, &at, in);
  pco_place_deinit(&at);
  return rc;
}

/* ---- requests ------------------------------------------------------------ */

/* Shared, so that the process which unpacks can leave in it what came of it. */
static work *make_work(pco_agent *a, const pco_request *r,
                       const pco_transfer_words *words) {
  work *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (w == MAP_FAILED)
    return NULL;
  w->agent = a;
  w->op = r->op;
  w->t.words = words;
  w->t.wait.fn = wait_for;
  w->t.skipped = on_skipped;
  w->t.progress = words->progress ? on_progress : NULL;
  return w;
}

static void do_work(work *w, const pco_request *r, const char *path,
                    const int *fds, unsigned n_fds) {
  int rc;
  for (unsigned i = 0; i < n_fds; i++) {
    fcntl(fds[i], F_SETFL, O_NONBLOCK); /* of an end of our own */
    fcntl(fds[i], F_SETPIPE_SZ, PIPE_SIZE);
  }
  if (r->type == PCO_WIRE_UNPACK)
    rc = unpack(w, path, fds[0]);
  else
    rc = pack(w, path, fds, n_fds, r->type == PCO_WIRE_SURVEY);
  if (rc == -EXDEV && !w->t.why[0])
    pco_fs_walk_error(w->agent, w->op, rc, path);
  else if (rc < 0)
    answer_failed(w, rc, path);
  else
    answer_done(w);
}

static bool read_words(pco_agent *a, const pco_request *r,
                       pco_transfer_words *words) {
  pco_text text = r->data;
  int rc = text.len == 0 || text.s[text.len - 1] == 0
               ? pco_transfer_words_read(words, text.s, text.len)
               : -EPROTO;
  if (rc == -EPROTO)
    pco_agent_protocol_error(a);
  else if (rc < 0)
    pco_answer_error(a, r->op, -rc, NULL, NULL);
  return rc == 0;
}

static void handle(pco_agent *a, const pco_frame *f, const pco_request *r) {
  char path[PCO_PATH_TEXT];
  pco_transfer_words words = {0};
  if (!a->is_worker) {
    pco_answer_error(a, r->op, EAGAIN, NULL,
                     "no process can be made for file work");
    return;
  }
  if (!pco_fs_path(a, r, PCO_TAG_PATH, path))
    return;
  if (read_words(a, r, &words)) {
    work *w = make_work(a, r, &words);
    if (w) {
      do_work(w, r, path, f->fds, f->header.n_fds);
      munmap(w, sizeof *w);
    } else {
      pco_answer_error(a, r->op, ENOMEM, NULL, NULL);
    }
  }
  pco_transfer_words_free(&words);
}

void pco_fs_transfer(pco_agent *a, pco_frame *f, const pco_request *r) {
  handle(a, f, r);
  pco_frame_close_fds(f);
}
