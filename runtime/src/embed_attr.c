/* SPDX-License-Identifier: MIT */
/* Modes, owners, links, temporary names and sums, of a host in C. */
#include <string.h>

#include "embed_file.h"

#define MAX_LINK (64u * 1024) /* bytes of a path that an agent makes up */

int pco_file_chmod(pco_box *box, const char *path, uint32_t mode,
                   const pco_file_opts *opts, pco_done_fn done, void *ud,
                   pco_pending **out) {
  static const pco__file_call call = {&pco__fs_chmod_class, PCO__FS_CHMOD,
                                      PCO_FS_NOFOLLOW, 0};
  pco__caller c = pco__call_from(done, ud, out);
  pco_file_opts own;
  pco_pending *p;
  int rc = pco__file_op(box, &call, path, opts, &own, &c, &p);
  if (rc < 0)
    return rc;
  if (mode > 07777)
    return pco__call_drop(
        p, pco__embed_fail(c.rt, PCO_EINVAL,
                           "mode must be permission bits, 0 to 07777"));
  pco__file_op_of(p)->mode = (int32_t)mode;
  return pco__call_start(&c, p);
}

int pco_file_chown(pco_box *box, const char *path, const char *owner,
                   const pco_file_opts *opts, pco_done_fn done, void *ud,
                   pco_pending **out) {
  static const pco__file_call call = {&pco__fs_chown_class, PCO__FS_CHOWN,
                                      PCO_FS_NOFOLLOW, 0};
  pco__caller c = pco__call_from(done, ud, out);
  pco_file_opts own;
  pco_pending *p;
  int rc = pco__file_op(box, &call, path, opts, &own, &c, &p);
  if (rc < 0)
    return rc;
  if (!owner || pco__file_bad_owner(owner))
    return pco__call_drop(
        p, pco__embed_fail(c.rt, PCO_EINVAL,
                           "the owner must be \"USER\", \"USER:GROUP\" or "
                           "\":GROUP\""));
  pco__file_op_of(p)->owner = pco__call_copy(p, owner);
  return pco__call_start(&c, p);
}

int pco_file_symlink(pco_box *box, const char *target, const char *path,
                     const pco_file_opts *opts, pco_done_fn done, void *ud,
                     pco_pending **out) {
  static const pco__file_call call = {&pco__fs_symlink_class, PCO__FS_SYMLINK,
                                      PCO_FS_PARENTS, 0};
  pco__caller c = pco__call_from(done, ud, out);
  pco_file_opts own;
  pco_pending *p;
  int rc = pco__file_op(box, &call, path, opts, &own, &c, &p);
  if (rc < 0)
    return rc;
  rc = pco__file_aim(c.rt, p, target);
  return rc < 0 ? pco__call_drop(p, rc) : pco__call_start(&c, p);
}

int pco_file_readlink(pco_box *box, const char *path, const pco_file_opts *opts,
                      pco_done_fn done, void *ud, pco_pending **out) {
  static const pco__file_call call = {&pco__fs_readlink_class, PCO__FS_STAT, 0,
                                      0};
  pco__caller c = pco__call_from(done, ud, out);
  pco_file_opts own;
  pco_pending *p;
  int rc = pco__file_op(box, &call, path, opts, &own, &c, &p);
  if (rc < 0)
    return rc;
  pco__file_op_of(p)->flags |= PCO_FS_NOFOLLOW;
  return pco__call_start(&c, p);
}

int pco_file_mktemp(pco_box *box, const char *parent, const char *name,
                    const pco_file_opts *opts, pco_done_fn done, void *ud,
                    pco_pending **out) {
  static const pco__file_call call = {&pco__fs_mktemp_class, PCO__FS_MKTEMP,
                                      PCO_FILE_DIRECTORY, 0};
  pco__caller c = pco__call_from(done, ud, out);
  pco_file_opts own;
  pco_pending *p;
  int rc = pco__file_op(box, &call, parent, opts, &own, &c, &p);
  if (rc < 0)
    return rc;
  if (name && (!*name || strchr(name, '/')))
    return pco__call_drop(
        p, pco__embed_fail(c.rt, PCO_EINVAL,
                           "the name must be one component such as "
                           "\"build-*.log\""));
  pco__fs_op *o = pco__file_op_of(p);
  o->name = pco__call_copy(p, name ? name : "tmp-*");
  o->max_size = MAX_LINK;
  return pco__call_start(&c, p);
}

int pco_file_usage(pco_box *box, const char *path, const pco_file_opts *opts,
                   pco_done_fn done, void *ud, pco_pending **out) {
  static const pco__file_call call = {&pco__fs_usage_class, PCO__FS_USAGE,
                                      PCO_FS_NOFOLLOW, 0};
  pco__caller c = pco__call_from(done, ud, out);
  return pco__file_simple(box, &call, path, opts, &c);
}

int pco_pending_usage(pco_pending *pending, pco_usage *usage) {
  int rc = usage ? pco_pending_code(pending) : PCO_EINVAL;
  if (rc < 0)
    return rc;
  if (!pco__call_is(pending, &pco__fs_usage_class))
    return UV_ENOENT;
  const pco__usage *u = &pco__file_op_of(pending)->usage;
  pco_usage ours = {.size = usage->size,
                    .bytes = u->size,
                    .allocated = u->allocated,
                    .files = u->files,
                    .directories = u->directories};
  return pco__embed_give(usage, usage->size, &ours, sizeof ours,
                         PCO__END_OF(pco_usage, directories));
}
