/* SPDX-License-Identifier: MIT */
/*
 * Open files and watches of a host in C.
 *
 * What is open is a pco__file, which the calls share with the loop; who drops
 * the last reference while it is open has it closed in the background.  Calls
 * that change places or take events go one at a time: another is refused.
 */
#include <stdlib.h>
#include <string.h>

#include "embed_file.h"
#include "fs_file.h"
#include "wire.h"

#define MAX_PATTERNS 8192 /* bytes: each copies those before it */

_Static_assert((int)PCO_WATCH_CREATE == (int)PCO_EVENT_CREATE &&
                   (int)PCO_WATCH_MODIFY == (int)PCO_EVENT_MODIFY &&
                   (int)PCO_WATCH_REMOVE == (int)PCO_EVENT_REMOVE &&
                   (int)PCO_WATCH_RENAME == (int)PCO_EVENT_RENAME &&
                   (int)PCO_WATCH_ATTRIBUTE == (int)PCO_EVENT_ATTRIBUTE &&
                   (int)PCO_WATCH_RESCAN == (int)PCO_EVENT_RESCAN,
               "the events are those of the wire");

typedef struct held {
  pco__node node;  /* in rt->opened */
  pco_runtime *rt; /* NULL: it is gone, and so is `file` */
  pco__loop *loop;
  pco__portal *portal; /* a reference; or NULL */
  pco__file *file;     /* a reference */
  pco__op *call;       /* the last one, a reference; or NULL */
  bool closed;
} held;

struct pco_file {
  held held;
};

struct pco_watch {
  held held;
};

static pco__fs_op *op_of(const pco_pending *p) {
  return pco__file_op_of(p);
}

/* ---- opening ------------------------------------------------------------- */

/* Opens what the op says. */
static int open_it(pco_box *box, pco__caller *c, pco_pending *p,
                   const char *path) {
  pco__fs_op *o = op_of(p);
  o->file = pco__file_new(box->sandbox, path, o->flags);
  if (!o->file)
    p->op->arena.failed = true;
  return pco__call_start(c, p);
}

int pco_file_open(pco_box *box, const char *path, const char *mode,
                  const pco_file_opts *opts, pco_done_fn done, void *ud,
                  pco_pending **out) {
  static const pco__file_call call = {&pco__fs_open_class, PCO__FS_OPEN,
                                      PCO_FS_NOFOLLOW | PCO_FS_PARENTS,
                                      PCO__TAKES_MODE};
  pco__caller c = pco__call_from(done, ud, out);
  pco_file_opts own;
  pco_pending *p;
  int rc = pco__file_op(box, &call, path, opts, &own, &c, &p);
  if (rc < 0)
    return rc;
  uint32_t flags = mode ? pco__file_mode(mode) : 0;
  if (!flags)
    return pco__call_drop(
        p, pco__embed_fail(box->rt, PCO_EINVAL,
                           "the mode must be \"r\", \"w\" or \"a\", with \"+\" "
                           "to read and write, and \"wx\" for a new file"));
  op_of(p)->flags |= flags;
  return open_it(box, &c, p, path);
}

/* Adds patterns to those that the op has, each behind a letter; false if one is
 * none. */
static bool add_patterns(pco_pending *p, char letter,
                         const char *const *patterns) {
  pco__fs_op *o = op_of(p);
  for (; patterns && *patterns; patterns++) {
    size_t len = strlen(*patterns);
    if (len == 0 || **patterns == '/' || o->len + len + 2 > MAX_PATTERNS)
      return false;
    char *data = pco__arena_alloc(&p->op->arena, o->len + len + 2);
    if (!data)
      return true; /* told when it is started */
    if (o->len)
      memcpy(data, o->data, o->len);
    data[o->len] = letter;
    memcpy(data + o->len + 1, *patterns, len + 1);
    o->data = data;
    o->len += len + 2;
  }
  return true;
}

int pco_watch_open(pco_box *box, const char *path, const pco_file_opts *opts,
                   pco_done_fn done, void *ud, pco_pending **out) {
  static const pco__file_call call = {&pco__fs_watch_class, PCO__FS_WATCH,
                                      PCO_FS_NOFOLLOW | PCO_FS_RECURSIVE,
                                      PCO__TAKES_PATTERNS};
  pco__caller c = pco__call_from(done, ud, out);
  pco_file_opts own;
  pco_pending *p;
  int rc = pco__file_op(box, &call, path, opts, &own, &c, &p);
  if (rc < 0)
    return rc;
  if (!add_patterns(p, 'i', own.include) || !add_patterns(p, 'x', own.exclude))
    return pco__call_drop(
        p, pco__embed_fail(box->rt, PCO_EINVAL,
                           "include and exclude have patterns of names, or of "
                           "paths below what is watched, of %d bytes in all",
                           MAX_PATTERNS));
  return open_it(box, &c, p, path);
}

/* Takes what was opened out of the pending; false: there is nothing, or no
 * memory. */
static bool take(pco_pending *pending, const pco__op_class *cls, held *h) {
  if (!h || pco__call_ended(pending) < 0 || !pending->rt ||
      !pco__call_is(pending, cls) || pending->op->error ||
      !op_of(pending)->file)
    return false;
  h->rt = pending->rt;
  h->loop = pending->op->loop;
  h->portal = pending->portal;
  pco__portal_ref(h->portal);
  h->file = op_of(pending)->file;
  op_of(pending)->file = NULL;
  pco__list_append(&h->rt->opened, &h->node);
  return true;
}

pco_file *pco_pending_file(pco_pending *pending) {
  pco_file *file = pending ? calloc(1, sizeof *file) : NULL;
  if (file && take(pending, &pco__fs_open_class, &file->held))
    return file;
  free(file);
  return NULL;
}

pco_watch *pco_pending_watch(pco_pending *pending) {
  pco_watch *watch = pending ? calloc(1, sizeof *watch) : NULL;
  if (watch && take(pending, &pco__fs_watch_class, &watch->held))
    return watch;
  free(watch);
  return NULL;
}

/* ---- the end ------------------------------------------------------------- */

/* Lets go of what is the loop's. */
static void leave(held *h) {
  if (h->call)
    pco__op_unref(h->call);
  pco__file_unref(h->file);
  h->call = NULL;
  h->file = NULL;
}

/* True if it may be freed now. */
static bool release(held *h) {
  if (h->rt && pco__embed_check(h->rt) < 0)
    return false;
  leave(h);
  if (h->rt)
    pco__embed_touch(h->rt);
  pco__list_remove(&h->node);
  pco__portal_unref(h->portal);
  return true;
}

void pco_file_release(pco_file *file) {
  if (file && release(&file->held))
    free(file);
}

void pco_watch_release(pco_watch *watch) {
  if (watch && release(&watch->held))
    free(watch);
}

void pco__embed_orphan_opened(pco_runtime *rt) {
  for (pco__node *n; (n = pco__list_shift(&rt->opened)) != NULL;) {
    held *h = PCO_CONTAINER(n, held, node);
    leave(h);
    h->rt = NULL;
  }
}

/* ---- calls --------------------------------------------------------------- */

static bool is_busy(const held *h) {
  return h->call && atomic_load(&h->call->word) != PCO__OP_DONE;
}

static int check(held *h, pco__caller *c) {
  if (!h->rt)
    return PCO_ECLOSED;
  c->rt = h->rt;
  c->loop = h->loop;
  int rc = pco__call_check(c);
  if (rc == 0 && h->closed)
    return pco__embed_fail(c->rt, PCO_ECLOSED, "it is closed");
  return rc;
}

/* Makes an op on what is open; it is started by the caller. */
static int new_op(held *h, const pco__op_class *cls, int kind, pco__caller *c,
                  pco_pending **p) {
  int rc = check(h, c);
  if (rc < 0)
    return rc;
  *p = pco__call_new(c, cls, sizeof(pco__fs_op));
  if (!*p)
    return UV_ENOMEM;
  pco__fs_op *o = op_of(*p);
  pco__sandbox_ref(h->file->sandbox);
  pco__file_ref(h->file);
  o->sandbox = h->file->sandbox;
  o->file = h->file;
  o->kind = kind;
  o->mode = -1;
  o->max_size = SIZE_MAX / 4;
  o->path = h->file->path;
  return 0;
}

/* Starts it as the one call that may go on. */
static int start(held *h, pco__caller *c, pco_pending *p) {
  pco__op *op = p->op;
  if (is_busy(h))
    return pco__call_drop(
        p, pco__embed_fail(c->rt, PCO_EBUSY,
                           "another call on it has not ended yet"));
  atomic_fetch_add_explicit(&op->refs, 1, memory_order_relaxed);
  int rc = pco__call_start(c, p);
  if (rc < 0) {
    pco__op_unref(op);
    return rc;
  }
  if (h->call)
    pco__op_unref(h->call);
  h->call = op;
  return 0;
}

/* The same at a place of a file, if it was opened for that. */
static int new_file_op(pco_file *file, uint32_t way, const pco__op_class *cls,
                       int kind, uint64_t offset, pco__caller *c,
                       pco_pending **p) {
  if (!file)
    return PCO_EINVAL;
  int rc = new_op(&file->held, cls, kind, c, p);
  if (rc == 0 && !(file->held.file->flags & way))
    return pco__call_drop(
        *p, pco__embed_fail(c->rt, UV_EBADF, "it was not opened for %s",
                            way & PCO_OPEN_READ ? "reading" : "writing"));
  if (rc == 0 && offset > INT64_MAX)
    return pco__call_drop(
        *p, pco__embed_fail(c->rt, PCO_EINVAL,
                            "a file has no place %llu: INT64_MAX is the last",
                            (unsigned long long)offset));
  if (rc == 0)
    op_of(*p)->offset = offset;
  return rc;
}

int pco_file_read_at(pco_file *file, uint64_t offset, size_t len,
                     pco_done_fn done, void *ud, pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  pco_pending *p;
  int rc = new_file_op(file, PCO_OPEN_READ, &pco__file_read_class,
                       PCO__FILE_READ, offset, &c, &p);
  if (rc < 0)
    return rc;
  op_of(p)->length = len;
  return start(&file->held, &c, p);
}

int pco_file_write_at(pco_file *file, uint64_t offset, const void *data,
                      size_t len, pco_done_fn done, void *ud,
                      pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  pco_pending *p;
  int rc = new_file_op(file, PCO_OPEN_WRITE, &pco__file_write_class,
                       PCO__FILE_WRITE, offset, &c, &p);
  if (rc < 0)
    return rc;
  rc = pco__file_give(c.rt, p, data, len);
  if (rc < 0)
    return pco__call_drop(p, rc);
  return start(&file->held, &c, p);
}

int pco_file_truncate(pco_file *file, uint64_t size, pco_done_fn done, void *ud,
                      pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  pco_pending *p;
  int rc = new_file_op(file, PCO_OPEN_WRITE, &pco__file_truncate_class,
                       PCO__FILE_TRUNCATE, size, &c, &p);
  if (rc < 0)
    return rc;
  return start(&file->held, &c, p);
}

/* Calls without arguments, which may go on beside another. */
static int plain(held *h, const pco__op_class *cls, int kind, pco_done_fn done,
                 void *ud, pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  pco_pending *p;
  int rc = h ? new_op(h, cls, kind, &c, &p) : PCO_EINVAL;
  return rc < 0 ? rc : pco__call_start(&c, p);
}

static int close_it(held *h, const pco__op_class *cls, pco_done_fn done,
                    void *ud, pco_pending **out) {
  int rc = plain(h, cls, PCO__FILE_CLOSE, done, ud, out);
  if (rc == 0)
    h->closed = true;
  return rc;
}

int pco_file_sync(pco_file *file, pco_done_fn done, void *ud,
                  pco_pending **out) {
  return plain(file ? &file->held : NULL, &pco__file_sync_class, PCO__FILE_SYNC,
               done, ud, out);
}

int pco_file_stat_open(pco_file *file, pco_done_fn done, void *ud,
                       pco_pending **out) {
  return plain(file ? &file->held : NULL, &pco__file_stat_class, PCO__FILE_STAT,
               done, ud, out);
}

int pco_file_close(pco_file *file, pco_done_fn done, void *ud,
                   pco_pending **out) {
  return close_it(file ? &file->held : NULL, &pco__file_close_class, done, ud,
                  out);
}

int pco_watch_next(pco_watch *watch, pco_done_fn done, void *ud,
                   pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  pco_pending *p;
  int rc = watch ? new_op(&watch->held, &pco__watch_next_class,
                          PCO__WATCH_EVENTS, &c, &p)
                 : PCO_EINVAL;
  return rc < 0 ? rc : start(&watch->held, &c, p);
}

int pco_watch_close(pco_watch *watch, pco_done_fn done, void *ud,
                    pco_pending **out) {
  return close_it(watch ? &watch->held : NULL, &pco__watch_close_class, done,
                  ud, out);
}

/* ---- events -------------------------------------------------------------- */

int pco_pending_event(pco_pending *pending, size_t i, pco_watch_event *event) {
  int rc = pco_pending_code(pending);
  if (rc < 0 || !event)
    return rc < 0 ? rc : PCO_EINVAL;
  if (!pco__call_is(pending, &pco__watch_next_class))
    return UV_ENOENT;
  const pco__entry *e = op_of(pending)->entries;
  while (e && i-- > 0)
    e = e->next;
  if (!e)
    return 0;
  pco_watch_event ours = {
      .size = event->size, .type = e->type, .path = e->name, .from = e->link};
  rc = pco__embed_give(event, event->size, &ours, sizeof ours,
                       PCO__END_OF(pco_watch_event, from));
  return rc < 0 ? rc : 1;
}
