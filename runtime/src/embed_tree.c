/* SPDX-License-Identifier: MIT */
/* Whole trees into sandboxes and out of them, of a host in C. */
#include <stdlib.h>
#include <string.h>

#include "embed_call.h"
#include "transfer_ask.h"

#define ALL_FLAGS                                                              \
  (PCO_TREE_SKIP | PCO_TREE_PARENTS | PCO_TREE_ONLY_CHANGED |                  \
   PCO_TREE_CHECKSUM | PCO_TREE_PROGRESS)

static pco__transfer *transfer_of(const pco_pending *p) {
  return PCO_CONTAINER(p->op, pco__transfer, op);
}

static bool is_transfer(const pco_pending *p) {
  return pco__call_is(p, &pco__upload_class) ||
         pco__call_is(p, &pco__download_class);
}

/* ---- options ------------------------------------------------------------- */

/* Counts them; false if one is no pattern, or they are too many. */
static bool count_patterns(const char *const *patterns, size_t *n) {
  for (*n = 0; patterns && patterns[*n]; ++*n) {
    size_t len = strnlen(patterns[*n], PCO__MAX_PATTERN + 1);
    if (len == 0 || len > PCO__MAX_PATTERN || *n == PCO__MAX_PATTERNS)
      return false;
  }
  return true;
}

static const char *bad_options(const pco_tree_opts *o) {
  if (o->flags & ~ALL_FLAGS)
    return "a flag of pco_tree_opts is unknown";
  if (o->symlinks > PCO_LINKS_REFUSE)
    return "symlinks must be one of PCO_LINKS_*";
  if (o->flags & PCO_TREE_CHECKSUM && !(o->flags & PCO_TREE_ONLY_CHANGED))
    return "PCO_TREE_CHECKSUM says how PCO_TREE_ONLY_CHANGED compares: give "
           "both";
  return o->timeout_ns < 0 ? "timeout_ns is negative" : NULL;
}

static int take_options(pco_runtime *rt, const pco_tree_opts *opts,
                        pco_tree_opts *own) {
  *own = (pco_tree_opts){.size = sizeof *own};
  if (opts &&
      pco__embed_take(own, sizeof *own, PCO__END_OF(pco_tree_opts, timeout_ns),
                      opts, opts->size) < 0)
    return pco__embed_fail(rt, PCO_ESIZE, "the size of pco_tree_opts");
  const char *bad = bad_options(own);
  return bad ? pco__embed_fail(rt, PCO_EINVAL, "%s", bad) : 0;
}

/* Asks for what the options say: 0, or PCO_EINVAL, which is told. */
static int ask(pco_runtime *rt, pco_pending *p, const pco_tree_opts *o) {
  pco__transfer *t = transfer_of(p);
  uint64_t entries = t->upload ? UINT64_MAX : PCO__DEFAULT_ENTRIES;
  uint64_t bytes = t->upload ? UINT64_MAX : PCO__DEFAULT_BYTES;
  pco__transfer_wish w = {
      .include = o->include,
      .exclude = o->exclude,
      .symlinks = o->symlinks ? (int)o->symlinks - PCO_LINKS_KEEP
                  : t->upload ? PCO__LINKS_KEEP
                              : PCO__LINKS_INSIDE,
      .skip = (o->flags & PCO_TREE_SKIP) != 0,
      .parents = (o->flags & PCO_TREE_PARENTS) != 0,
      .only_changed = (o->flags & PCO_TREE_ONLY_CHANGED) != 0,
      .checksum = (o->flags & PCO_TREE_CHECKSUM) != 0,
      .max_entries = o->max_entries ? o->max_entries : entries,
      .max_bytes = o->max_bytes ? o->max_bytes : bytes,
  };
  if (!count_patterns(o->include, &w.n_include) ||
      !count_patterns(o->exclude, &w.n_exclude) ||
      pco__transfer_ask(t, &w) == PCO_ELIMIT)
    return pco__embed_fail(rt, PCO_EINVAL,
                           "include and exclude have at most %d patterns of 1 "
                           "to %d bytes each, and 100 KiB in all",
                           PCO__MAX_PATTERNS, PCO__MAX_PATTERN);
  return 0;
}

/* ---- calls --------------------------------------------------------------- */

static int check(pco_box *box, const char *source, const char *target,
                 const pco_tree_opts *opts, pco_tree_opts *own,
                 pco__caller *c) {
  int rc = pco__box_check(box);
  if (rc < 0)
    return rc;
  c->rt = box->rt;
  c->loop = box->loop;
  rc = pco__call_check(c);
  if (rc < 0)
    return rc;
  if (!source || !*source || !target || !*target)
    return pco__embed_fail(c->rt, PCO_EINVAL, "the source or target is empty");
  return take_options(c->rt, opts, own);
}

static int move_tree(pco_box *box, const pco__op_class *cls, const char *source,
                     const char *target, const pco_tree_opts *opts,
                     pco__caller *c) {
  pco_tree_opts own;
  int rc = check(box, source, target, opts, &own, c);
  if (rc < 0)
    return rc;
  pco_pending *p = pco__call_new(c, cls, sizeof(pco__transfer));
  if (!p)
    return UV_ENOMEM;
  pco__transfer *t = transfer_of(p);
  pco__sandbox_ref(box->sandbox);
  t->sandbox = box->sandbox;
  t->pidfd = -1;
  t->upload = cls == &pco__upload_class;
  t->tells = (own.flags & PCO_TREE_PROGRESS) != 0;
  t->source = pco__call_copy(p, source);
  t->target = pco__call_copy(p, target);
  p->op->timeout = own.timeout_ns ? own.timeout_ns : -1;
  rc = ask(c->rt, p, &own);
  return rc < 0 ? pco__call_drop(p, rc) : pco__call_start(c, p);
}

int pco_tree_upload(pco_box *box, const char *source, const char *target,
                    const pco_tree_opts *opts, pco_done_fn done, void *ud,
                    pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  return move_tree(box, &pco__upload_class, source, target, opts, &c);
}

int pco_tree_download(pco_box *box, const char *source, const char *target,
                      const pco_tree_opts *opts, pco_done_fn done, void *ud,
                      pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  return move_tree(box, &pco__download_class, source, target, opts, &c);
}

/* ---- outcomes ------------------------------------------------------------ */

int pco_pending_tree(pco_pending *pending, pco_tree_result *result) {
  int rc = result ? pco_pending_code(pending) : PCO_EINVAL;
  if (rc < 0)
    return rc;
  if (!is_transfer(pending))
    return UV_ENOENT;
  const pco__transfer *t = transfer_of(pending);
  pco_tree_result ours = {.size = result->size,
                          .files = t->files,
                          .directories = t->directories,
                          .bytes = t->bytes,
                          .skipped = t->n_skipped};
  return pco__embed_give(result, result->size, &ours, sizeof ours,
                         PCO__END_OF(pco_tree_result, skipped));
}

int pco_pending_skipped(pco_pending *pending, size_t i, const char **path,
                        int *code, const char **message) {
  if (!path || !code || !message)
    return PCO_EINVAL;
  *path = *message = NULL;
  *code = 0;
  int rc = pco_pending_code(pending);
  if (rc < 0)
    return rc;
  if (!is_transfer(pending))
    return UV_ENOENT;
  const pco__transfer *t = transfer_of(pending);
  if (i >= t->n_skipped)
    return 0;
  const pco__skipped *s = &t->skipped[i];
  *path = s->path;
  *code = s->code;
  *message = s->message ? s->message : pco__code_text(s->code);
  return 1;
}

static int give(pco_tree_progress *progress, const pco_tree_progress *ours) {
  return pco__embed_give(progress, progress->size, ours, sizeof *ours,
                         PCO__END_OF(pco_tree_progress, path));
}

int pco_pending_progress(pco_pending *pending, pco_tree_progress *progress) {
  pco__progress news;
  int rc = progress ? pco__call_check_pending(pending) : PCO_EINVAL;
  if (rc < 0)
    return rc;
  if (!is_transfer(pending))
    return UV_ENOENT;
  if (give(progress, &(pco_tree_progress){.size = progress->size}) < 0)
    return PCO_ESIZE;
  if (!pending->rt || !pco__transfer_take(transfer_of(pending), &news))
    return 0;
  free(pending->told);
  pending->told = news.path;
  pco_tree_progress ours = {.size = progress->size,
                            .bytes = news.bytes,
                            .files = news.files,
                            .total = news.has_total ? news.total : 0,
                            .path = news.path ? news.path : ""};
  give(progress, &ours);
  return 1;
}
