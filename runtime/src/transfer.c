/* SPDX-License-Identifier: MIT */
/* Moving a tree; see transfer.h. */
#include "transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fields.h"
#include "host_services.h"
#include "sys/spawn.h"

#define HELPER_NS UINT64_C(30000000000) /* for tidying up */
#define HELPER_FD 3
#define PIPE_END  (O_CLOEXEC | O_NONBLOCK)

static pco__transfer *transfer_of(pco__op *op) {
  return PCO_CONTAINER(op, pco__transfer, op);
}

static pco__side *side_of(pco__link_request *r) {
  return PCO_CONTAINER(r, pco__side, request);
}

static int index_of(const pco__side *s) {
  return (int)(s - s->transfer->sides);
}

static void settle(pco__transfer *t);

/* ---- the end ------------------------------------------------------------- */

/* What is only the other side's failure, seen from here. */
static bool is_echo(const pco__error *err) {
  return err->code == UV_EPIPE || err->code == -ENODATA ||
         err->code == UV_ECANCELED;
}

/* The error that says why: of several the first that is no echo. */
static pco__error *take_error(pco__transfer *t) {
  pco__error **found = NULL;
  for (int i = 0; i < PCO__N_SIDES; i++) {
    pco__error **at = &t->sides[i].error;
    if (*at && (!found || (is_echo(*found) && !is_echo(*at))))
      found = at;
  }
  if (!found)
    return NULL;
  pco__error *err = *found;
  *found = NULL;
  return err;
}

/* Errnos that stand for more than the system means. */
static pco__error *explain(pco__error *err) {
  switch (err->code) {
  case -EBADMSG:
    err->code = PCO_EPROTO;
    break;
  case UV_EOVERFLOW:
    err->code = PCO_ELIMIT;
    err->limit = "max_entries";
    break;
  case UV_EMSGSIZE:
    err->code = PCO_ELIMIT;
    err->limit = "max_bytes";
    break;
  default:
    break;
  }
  return err;
}

static void note_end(pco__transfer *t) {
  pthread_mutex_lock(&t->op.loop->lock);
  t->progress.bytes = t->bytes;
  t->progress.files = t->files;
  t->has_progress = t->tells;
  pthread_mutex_unlock(&t->op.loop->lock);
}

static void complete(pco__transfer *t) {
  pco__error *err = take_error(t);
  bool given_up =
      t->sides[PCO__PACK].given_up || t->sides[PCO__UNPACK].given_up;
  if (!err && given_up)
    err = pco__error_new(UV_ECANCELED, PCO_SOURCE_HOST, NULL, NULL);
  if (!err)
    note_end(t);
  pco__timer_stop(t->op.loop, &t->timer);
  pco__sandbox *sb = t->sandbox;
  bool held = t->held;
  t->held = false;
  pco__sandbox_ref(sb);
  pco__op_complete(&t->op, err ? explain(err) : NULL);
  if (held)
    pco__sandbox_let_go(sb);
  pco__sandbox_unref(sb);
}

static bool any_pending(const pco__transfer *t, bool ours) {
  for (int i = 0; i < PCO__N_SIDES; i++)
    if (t->sides[i].pending && t->sides[i].ours == ours &&
        !t->sides[i].given_up)
      return true;
  return false;
}

/* ---- the helper's process -------------------------------------------------
 */

static void on_helper_exit(pco__watch *w, int status) {
  pco__transfer *t = PCO_CONTAINER(w, pco__transfer, exit);
  siginfo_t info = {0};
  (void)status;
  if (waitid(P_PIDFD, (id_t)t->pidfd, &info, WEXITED | WNOHANG) == 0 &&
      info.si_pid == 0)
    return;
  pco__watch_close(&t->exit);
  close(t->pidfd);
  t->pidfd = -1;
  settle(t);
}

static void kill_helper(pco__transfer *t) {
  syscall(SYS_pidfd_send_signal, t->pidfd, SIGKILL, NULL, 0);
}

/* Nobody needs it any more: its stream ends, and so it does. */
static void dismiss_helper(pco__transfer *t) {
  pco__link *link = t->helper;
  t->helper = NULL;
  if (!t->timer.index) {
    t->patience = 1;
    pco__timer_start(t->op.loop, &t->timer, HELPER_NS);
  }
  if (link)
    pco__link_close(link,
                    pco__error_new(UV_ECANCELED, PCO_SOURCE_HOST, NULL, NULL));
}

static void settle(pco__transfer *t) {
  if (t->op.completed || any_pending(t, true))
    return;
  dismiss_helper(t);
  if (t->pidfd < 0 && !any_pending(t, false))
    complete(t);
}

/* ---- cancelling -----------------------------------------------------------
 */

static void send_cancel(pco__side *s) {
  pco_wire_buf frame = {0};
  pco_wire_begin(&frame, PCO_WIRE_CANCEL, 0, s->request.id);
  pco__link_send(s->request.link, &frame);
}

static void give_up_sandbox(pco__transfer *t) {
  for (int i = 0; i < PCO__N_SIDES; i++)
    t->sides[i].given_up = t->sides[i].pending && !t->sides[i].ours;
}

static void give_up_helper(pco__transfer *t) {
  pco__watch_close(&t->exit);
  close(t->pidfd);
  t->pidfd = -1;
  for (int i = 0; i < PCO__N_SIDES; i++)
    t->sides[i].given_up = t->sides[i].pending;
}

/* The sandbox had its time; the helper is ours and gets more; and one that not
 * even dies, as a file system holds it, is left. */
static void on_late(pco__timer *timer) {
  pco__transfer *t = PCO_CONTAINER(timer, pco__transfer, timer);
  t->patience++;
  if (t->patience == 1)
    give_up_sandbox(t);
  else if (t->patience == 2 && t->pidfd >= 0)
    kill_helper(t);
  else if (t->pidfd >= 0)
    give_up_helper(t);
  pco__timer_start(t->op.loop, timer,
                   t->patience == 1 ? HELPER_NS : PCO__LINK_MOMENT);
  settle(t);
}

static void stop_all(pco__transfer *t) {
  for (int i = 0; i < PCO__N_SIDES; i++)
    if (t->sides[i].pending)
      send_cancel(&t->sides[i]);
  if (!t->timer.index)
    pco__timer_start(t->op.loop, &t->timer, PCO__LINK_MOMENT);
}

static void transfer_cancel(pco__op *op) {
  stop_all(transfer_of(op));
}

/* ---- what comes -----------------------------------------------------------
 */

/* The side is over; takes err.  A real failure ends the others. */
static void end_side(pco__side *s, pco__error *err) {
  pco__transfer *t = s->transfer;
  bool fails = err && !is_echo(err);
  s->pending = false;
  if (s->error)
    pco__error_free(err); /* it gave a reason before */
  else
    s->error = err;
  if (!t->op.completed) {
    if (fails)
      stop_all(t);
    settle(t);
  }
  pco__op_unref(&t->op); /* the request's */
}

static void fail_side(pco__side *s, pco__error *err) {
  if (s->error || s->transfer->op.completed) {
    pco__error_free(err);
    return;
  }
  s->error = err;
  stop_all(s->transfer);
}

static int add_skipped(pco__transfer *t, char *path, char *message, int code) {
  if (t->n_skipped == PCO__MAX_SKIPPED)
    return PCO_ELIMIT;
  if (t->n_skipped % 64 == 0) {
    pco__skipped *more =
        realloc(t->skipped, (t->n_skipped + 64) * sizeof *t->skipped);
    if (!more)
      return UV_ENOMEM;
    t->skipped = more;
  }
  t->skipped[t->n_skipped++] =
      (pco__skipped){.path = path, .message = message, .code = code};
  return 0;
}

static pco__error *too_many_skipped(int code) {
  if (code != PCO_ELIMIT)
    return pco__error_new(code, PCO_SOURCE_HOST, NULL, NULL);
  pco__error *err =
      pco__error_new(PCO_ELIMIT, PCO_SOURCE_HOST, NULL,
                     "more than %d files could not be moved", PCO__MAX_SKIPPED);
  err->limit = "skipped";
  return err;
}

static int read_skipped(pco__side *s, const pco_wire_header *h,
                        const uint8_t *payload, uint64_t number) {
  pco__transfer *t = s->transfer;
  if (number == 0 || t->op.completed)
    return number == 0 ? -EPROTO : 0;
  char *path = pco__field_string(h, payload, PCO_TAG_PATH);
  char *message = pco__field_string(h, payload, PCO_TAG_MESSAGE);
  int rc = path ? add_skipped(t, path, message, -(int)number) : -EPROTO;
  if (rc == 0)
    return 0;
  free(path);
  free(message);
  if (rc == -EPROTO)
    return rc;
  fail_side(s, too_many_skipped(rc));
  return 0;
}

static int read_progress(pco__side *s, const pco_wire_header *h,
                         const uint8_t *payload) {
  pco__transfer *t = s->transfer;
  uint64_t bytes;
  uint64_t files;
  char *path = pco__field_string(h, payload, PCO_TAG_PATH);
  if (!s->ours || !path ||
      pco__field_number(h, payload, PCO_TAG_SIZE, INT64_MAX, &bytes) != 1 ||
      pco__field_number(h, payload, PCO_TAG_COUNT, INT64_MAX, &files) != 1) {
    free(path);
    return -EPROTO;
  }
  pthread_mutex_lock(&t->op.loop->lock);
  free(t->progress.path);
  t->progress.path = path;
  t->progress.bytes = bytes;
  t->progress.files = files;
  t->has_progress = true;
  pthread_mutex_unlock(&t->op.loop->lock);
  pco__op_notify(&t->op);
  return 0;
}

static int read_total(pco__transfer *t, uint64_t total) {
  pthread_mutex_lock(&t->op.loop->lock);
  t->progress.total = total;
  t->progress.has_total = true;
  pthread_mutex_unlock(&t->op.loop->lock);
  return 0;
}

/* Something on the way. */
static int read_news(pco__side *s, const pco_wire_header *h,
                     const uint8_t *payload) {
  uint64_t number = 0;
  int rc = pco__field_number(h, payload, PCO_TAG_ERRNO, 4095, &number);
  if (rc != 0)
    return rc < 0 ? rc : read_skipped(s, h, payload, number);
  rc = pco__field_number(h, payload, PCO_TAG_LENGTH, INT64_MAX, &number);
  if (rc != 0)
    return rc < 0 || index_of(s) != PCO__PACK ? -EPROTO
                                              : read_total(s->transfer, number);
  return read_progress(s, h, payload);
}

static int read_result(pco__side *s, const pco_wire_header *h,
                       const uint8_t *payload) {
  pco__transfer *t = s->transfer;
  uint64_t n[3];
  if (pco__field_number(h, payload, PCO_TAG_COUNT, INT64_MAX, &n[0]) != 1 ||
      pco__field_number(h, payload, PCO_TAG_DIRECTORIES, INT64_MAX, &n[1]) !=
          1 ||
      pco__field_number(h, payload, PCO_TAG_SIZE, INT64_MAX, &n[2]) != 1)
    return -EPROTO;
  if (s->ours && index_of(s) != PCO__SURVEY) {
    t->files = n[0];
    t->directories = n[1];
    t->bytes = n[2];
  }
  return 0;
}

static int on_frame(pco__link_request *r, const pco_wire_header *h,
                    const uint8_t *payload) {
  pco__side *s = side_of(r);
  bool last = !(h->flags & PCO_WIRE_MORE);
  pco__error *err = NULL;
  int rc = 0;
  if (h->type == PCO_WIRE_ERROR) {
    err = pco__field_error(h, payload);
    rc = err ? 0 : -EPROTO;
  } else {
    rc = last ? read_result(s, h, payload) : read_news(s, h, payload);
  }
  if (rc < 0)
    err = pco__error_new(PCO_EPROTO, PCO_SOURCE_AGENT, NULL,
                         "the agent's answer makes no sense");
  if (last)
    end_side(s, err);
  else
    pco__error_free(err);
  return rc;
}

static void on_lost(pco__link_request *r, const pco__error *err) {
  pco__side *s = side_of(r);
  if (s->ours)
    s->transfer->helper = NULL; /* whoever closed it has it */
  end_side(s, pco__error_copy(err));
}

/* The helper died: only its requests can tell whose it was. */
static void on_helper_dead(pco__link *link, const pco__error *err) {
  (void)err;
  pco__link_close(link, pco__error_new(PCO_EBACKEND, PCO_SOURCE_HOST, NULL,
                                       "the process that moves files for this "
                                       "program was killed"));
}

/* ---- what is sent ---------------------------------------------------------
 */

static void close_fd(int *fd) {
  if (*fd >= 0)
    close(*fd);
  *fd = -1;
}

/* Words of one side alone, behind those of all. */
static void add_words(const pco__transfer *t, int side, bool ours,
                      pco_wire_buf *frame) {
  static const char progress[] = "progress=1";
  static const char total[] = "total=1";
  char text[64];
  size_t n = 0;
  if (t->tells && ours && side != PCO__SURVEY) {
    memcpy(text, progress, sizeof progress);
    n = sizeof progress;
  }
  if (t->tells && side == PCO__PACK) {
    memcpy(text + n, total, sizeof total);
    n += sizeof total;
  }
  char *all = malloc(t->words_len + n + 1);
  if (!all) {
    frame->error = -ENOMEM;
    return;
  }
  memcpy(all, t->words, t->words_len);
  memcpy(all + t->words_len, text, n);
  pco_wire_bytes(frame, PCO_TAG_DATA, all, t->words_len + n);
  free(all);
}

/* Asks one side; takes the descriptors. */
static void ask(pco__transfer *t, int side, uint16_t type, const int *fds,
                uint8_t n_fds) {
  pco__side *s = &t->sides[side];
  bool of_target = side != PCO__PACK;
  bool ours = of_target != t->upload;
  pco__link *link = ours ? t->helper : t->sandbox->link;
  pco_wire_buf frame = {0};
  s->transfer = t;
  s->ours = ours;
  s->pending = true;
  s->request.id = pco__link_next(link);
  s->request.type = type;
  s->request.frame = on_frame;
  s->request.lost = on_lost;
  pco_wire_begin(&frame, type, 0, s->request.id);
  pco_wire_string(&frame, PCO_TAG_PATH, of_target ? t->target : t->source);
  pco_wire_number(&frame, PCO_TAG_FLAGS, 0);
  add_words(t, side, ours, &frame);
  atomic_fetch_add_explicit(&t->op.refs, 1, memory_order_relaxed);
  pco__link_request_send(link, &s->request, &frame, fds, n_fds, false);
}

/* The pipes: of the tar, and of what is there already. */
static int make_pipes(const pco__transfer *t, int tar[2], int known[2]) {
  tar[0] = tar[1] = known[0] = known[1] = -1;
  if (pipe2(tar, PIPE_END) != 0)
    return -errno;
  if (!t->only_changed || pipe2(known, PIPE_END) == 0)
    return 0;
  int rc = -errno;
  close_fd(&tar[0]);
  close_fd(&tar[1]);
  return rc;
}

static int ask_all(pco__transfer *t) {
  int tar[2];
  int known[2];
  int rc = make_pipes(t, tar, known);
  if (rc < 0)
    return rc;
  if (t->only_changed)
    ask(t, PCO__SURVEY, PCO_WIRE_SURVEY, &known[1], 1);
  ask(t, PCO__UNPACK, PCO_WIRE_UNPACK, &tar[0], 1);
  const int ends[2] = {tar[1], known[0]};
  ask(t, PCO__PACK, PCO_WIRE_PACK, ends, t->only_changed ? 2 : 1);
  return 0;
}

/* ---- the start ------------------------------------------------------------
 */

static int spawn_helper(pco__transfer *t, int theirs) {
  static char name[] = "portico-agent";
  static char confine[] = "--confine";
  static char option[] = "--fd";
  static char number[] = "3";
  char *argv[] = {name, confine, option, number, NULL};
  char *env[] = {NULL};
  int image = pco__shared_image(t->op.loop->runtime);
  if (image < 0)
    return image;
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  int rc = null < 0 ? -errno : 0;
  const int32_t fds[] = {null, null, null, theirs};
  _Static_assert(sizeof fds / sizeof *fds == HELPER_FD + 1, "as argv says");
  if (rc == 0)
    rc =
        pco__spawn(NULL, image, argv, env, NULL, fds, HELPER_FD + 1, &t->pidfd);
  close_fd(&null);
  close(image);
  return rc;
}

static int watch_helper(pco__transfer *t) {
  pco__watch_init(&t->exit, t->op.loop, t->pidfd, UV_READABLE, on_helper_exit);
  int rc = pco__watch_start(&t->exit);
  if (rc == 0)
    return 0;
  /* It cannot be waited for later: now, it is new and has nothing to tidy. */
  siginfo_t info;
  kill_helper(t);
  waitid(P_PIDFD, (id_t)t->pidfd, &info, WEXITED);
  pco__watch_close(&t->exit);
  close_fd(&t->pidfd);
  return rc;
}

static int start_helper(pco__transfer *t) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return -errno;
  int rc = spawn_helper(t, ends[1]);
  close(ends[1]);
  if (rc == 0)
    rc = watch_helper(t);
  if (rc < 0) {
    close(ends[0]);
    return rc;
  }
  return pco__link_open(t->op.loop, ends[0], on_helper_dead, &t->helper);
}

static pco__error *check_backend(const pco__transfer *t) {
  if (t->sandbox->link)
    return NULL;
  return pco__error_new(PCO_EUNSUPPORTED, PCO_SOURCE_HOST, NULL,
                        "the backend %s does not know %s; bwrap and local do",
                        t->sandbox->backend->info->id, t->op.cls->name);
}

static pco__error *start_error(int rc) {
  return pco__error_new(rc, PCO_SOURCE_HOST, NULL,
                        "cannot start the process that moves files: %s",
                        pco__code_text(rc));
}

static void transfer_start(pco__op *op) {
  pco__transfer *t = transfer_of(op);
  pco__error *err = pco__sandbox_check(t->sandbox);
  if (!err)
    err = check_backend(t);
  if (err) {
    pco__op_complete(op, err);
    return;
  }
  pco__list_append(&t->sandbox->ops, &op->owner_node);
  pco__sandbox_hold(t->sandbox);
  t->held = true;
  t->timer.fn = on_late;
  int rc = start_helper(t);
  if (rc == 0)
    rc = ask_all(t);
  if (rc < 0) {
    t->sides[PCO__PACK].error = start_error(rc);
    settle(t);
  }
}

bool pco__transfer_take(pco__transfer *t, pco__progress *out) {
  pthread_mutex_lock(&t->op.loop->lock);
  bool has = t->has_progress;
  if (has) {
    *out = t->progress; /* the path stays, for the last one */
    out->path = out->path ? strdup(out->path) : NULL;
    t->has_progress = false;
  }
  pthread_mutex_unlock(&t->op.loop->lock);
  return has;
}

static void transfer_destroy(pco__op *op) {
  pco__transfer *t = transfer_of(op);
  for (int i = 0; i < PCO__N_SIDES; i++)
    pco__error_free(t->sides[i].error);
  for (size_t i = 0; i < t->n_skipped; i++) {
    free(t->skipped[i].path);
    free(t->skipped[i].message);
  }
  free(t->skipped);
  free(t->progress.path);
  pco__sandbox_unref(t->sandbox);
}

#define TRANSFER_CLASS(variable, text)                                         \
  const pco__op_class variable = {.name = text,                                \
                                  .start = transfer_start,                     \
                                  .cancel = transfer_cancel,                   \
                                  .push = pco__push_transfer,                  \
                                  .offer = pco__offer_progress,                \
                                  .destroy = transfer_destroy}
TRANSFER_CLASS(pco__upload_class, "upload");
TRANSFER_CLASS(pco__download_class, "download");
