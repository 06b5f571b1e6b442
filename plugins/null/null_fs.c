/* SPDX-License-Identifier: MIT */
/*
 * Files of the null backend; see null.h.
 *
 * A tree of nodes; the children of a directory are a linked list in byte order
 * of their names.  Content is a blob with a count of references: a write makes
 * a new one, so a reader keeps what it began to read, as on a disk.  Every node
 * and byte counts against NULL_FS_LIMIT.  There are no links.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "null.h"

#define PATH_LIMIT 4096
#define NAME_LIMIT 255
#define LIST_LIMIT 1024 /* entries in one answer */

typedef struct node {
  struct node *parent; /* NULL: the root */
  struct node *next;   /* sibling */
  struct node *child;  /* first, of a directory */
  null_blob *blob;     /* of a file; NULL: empty */
  uint32_t type;       /* PCO_FILE, PCO_DIRECTORY */
  uint32_t mode;
  int64_t mtime;
  char name[NAME_LIMIT + 1];
} node;

struct null_fs {
  node *root;
  size_t used;
};

/* ---- blobs -------------------------------------------------------------- */

null_blob *null_blob_create(size_t len) {
  null_blob *b = malloc(sizeof *b + len);
  if (b) {
    b->refs = 1;
    b->len = len;
  }
  return b;
}

null_blob *null_blob_ref(null_blob *b) {
  b->refs++;
  return b;
}

void null_blob_unref(null_blob *b) {
  if (b && --b->refs == 0)
    free(b);
}

static size_t blob_len(const null_blob *b) {
  return b ? b->len : 0;
}

/* ---- nodes -------------------------------------------------------------- */

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int charge(null_fs *fs, size_t bytes) {
  if (bytes > NULL_FS_LIMIT - fs->used)
    return PCO_ELIMIT;
  fs->used += bytes;
  return 0;
}

/* Finds where the name is, or would be put, among the children. */
static node **slot(node *dir, const char *name) {
  node **at = &dir->child;
  while (*at && strcmp((*at)->name, name) < 0)
    at = &(*at)->next;
  return at;
}

static node *child_of(node *dir, const char *name) {
  node *n = *slot(dir, name);
  return n && strcmp(n->name, name) == 0 ? n : NULL;
}

static void link_node(node *dir, node *n) {
  node **at = slot(dir, n->name);
  n->next = *at;
  n->parent = dir;
  *at = n;
  dir->mtime = now_ns();
}

static void unlink_node(node *n) {
  *slot(n->parent, n->name) = n->next;
  n->parent->mtime = now_ns();
  n->next = NULL;
}

/* Every name comes from next_name(), which checks its length. */
static void copy_name(char to[NAME_LIMIT + 1], const char *name) {
  snprintf(to, NAME_LIMIT + 1, "%s", name);
}

static int node_create(null_fs *fs, const char *name, uint32_t type,
                       uint32_t mode, node **out) {
  int rc = charge(fs, sizeof(node));
  if (rc < 0)
    return rc;
  node *n = calloc(1, sizeof *n);
  if (!n) {
    fs->used -= sizeof(node);
    return UV_ENOMEM;
  }
  n->type = type;
  n->mode = mode & 07777;
  n->mtime = now_ns();
  copy_name(n->name, name);
  *out = n;
  return 0;
}

/* Frees an unlinked node and what is below it, without recursion: a tree may
 * be deep. */
static void node_free(null_fs *fs, node *top) {
  node *n = top;
  while (n) {
    if (n->child) {
      n = n->child;
      continue;
    }
    node *up = n == top ? NULL : n->parent;
    if (up)
      up->child = n->next;
    fs->used -= sizeof *n + blob_len(n->blob);
    null_blob_unref(n->blob);
    free(n);
    n = up;
  }
}

/* ---- paths -------------------------------------------------------------- */

/* Takes the next component of *path: 1, 0 at the end, or a negative code. */
static int next_name(const char **path, char name[NAME_LIMIT + 1]) {
  *path += strspn(*path, "/");
  size_t len = strcspn(*path, "/");
  if (len > NAME_LIMIT)
    return UV_ENAMETOOLONG;
  memcpy(name, *path, len);
  name[len] = '\0';
  *path += len;
  return len > 0;
}

/* One step: "." and ".." as a kernel takes them, the root being its own
 * parent. */
static int step(node *from, const char *name, node **out) {
  if (from->type != PCO_DIRECTORY)
    return UV_ENOTDIR;
  *out = pco_streq(name, ".")    ? from
         : pco_streq(name, "..") ? (from->parent ? from->parent : from)
                                 : child_of(from, name);
  return *out ? 0 : UV_ENOENT;
}

static bool ends_with_slash(const char *path) {
  size_t len = strlen(path);
  return len > 0 && path[len - 1] == '/';
}

static int walk(node *from, const char *path, node **out) {
  char name[NAME_LIMIT + 1];
  node *at = from;
  const char *rest = path;
  int rc = strlen(path) < PATH_LIMIT ? 1 : UV_ENAMETOOLONG;
  while (rc > 0 && (rc = next_name(&rest, name)) > 0) {
    int found = step(at, name, &at);
    if (found < 0)
      return found;
  }
  if (rc == 0 && ends_with_slash(path) && at->type != PCO_DIRECTORY)
    rc = UV_ENOTDIR;
  *out = at;
  return rc;
}

static int make_dir(null_fs *fs, node *parent, const char *name, uint32_t mode,
                    node **out) {
  int rc = node_create(fs, name, PCO_DIRECTORY, mode, out);
  if (rc == 0)
    link_node(parent, *out);
  return rc;
}

/* Walks to the directory of the last component, making it and those above with
 * PCO_FS_PARENTS, and gives that component.  A path that ends in "/", "." or
 * ".." names no new thing: EINVAL; callers take it as "exists". */
static int walk_parent(null_fs *fs, const char *path, uint32_t flags,
                       node **dir, char name[NAME_LIMIT + 1]) {
  char next[NAME_LIMIT + 1];
  const char *rest = path;
  node *at = fs->root;
  int rc = strlen(path) < PATH_LIMIT ? next_name(&rest, name) : UV_ENAMETOOLONG;
  if (rc == 0)
    return UV_EINVAL;
  while (rc > 0 && (rc = next_name(&rest, next)) > 0) {
    node *found = NULL;
    int stepped = step(at, name, &found);
    if (stepped == UV_ENOENT && flags & PCO_FS_PARENTS)
      stepped = make_dir(fs, at, name, 0755, &found);
    if (stepped < 0)
      return stepped;
    at = found;
    copy_name(name, next);
  }
  if (rc == 0 && (pco_streq(name, ".") || pco_streq(name, "..")))
    rc = UV_EINVAL;
  if (rc == 0 && at->type != PCO_DIRECTORY)
    rc = UV_ENOTDIR;
  *dir = at;
  return rc;
}

/* ---- for null.c and null_process.c -------------------------------------- */

static int mkdir_at(null_fs *fs, const char *path, uint32_t mode,
                    uint32_t flags);

int null_fs_create(const char *cwd, null_fs **out) {
  null_fs *fs = calloc(1, sizeof *fs);
  if (!fs)
    return UV_ENOMEM;
  int rc = node_create(fs, "", PCO_DIRECTORY, 0755, &fs->root);
  if (rc == 0)
    rc = mkdir_at(fs, "/tmp", 01777, 0);
  if (rc == 0)
    rc = mkdir_at(fs, cwd, 0, PCO_FS_PARENTS);
  if (rc < 0)
    null_fs_destroy(fs);
  else
    *out = fs;
  return rc;
}

void null_fs_destroy(null_fs *fs) {
  if (!fs)
    return;
  node_free(fs, fs->root);
  free(fs);
}

static int walk_from(null_fs *fs, const char *cwd, const char *path,
                     node **out) {
  node *from = fs->root;
  int rc = *path == '/' ? 0 : walk(fs->root, cwd, &from);
  return rc < 0 ? rc : walk(from, path, out);
}

null_blob *null_fs_content(null_fs *fs, const char *cwd, const char *path,
                           int *rc) {
  node *n;
  *rc = walk_from(fs, cwd, path, &n);
  if (*rc == 0 && n->type == PCO_DIRECTORY)
    *rc = UV_EISDIR;
  if (*rc < 0)
    return NULL;
  null_blob *b = n->blob ? null_blob_ref(n->blob) : null_blob_create(0);
  *rc = b ? 0 : UV_ENOMEM;
  return b;
}

int null_fs_check_dir(null_fs *fs, const char *cwd, const char *path) {
  node *n;
  int rc = walk_from(fs, cwd, path, &n);
  return rc == 0 && n->type != PCO_DIRECTORY ? UV_ENOTDIR : rc;
}

/* ---- the extension ------------------------------------------------------ */

/* Ends an operation without a result. */
static int finish(pco_sandbox *s, pco_op *op, const char *path, int rc) {
  const pco_host *host = s->backend->host;
  if (rc == 0)
    host->complete(host, op, NULL);
  else if (rc == PCO_ELIMIT)
    pco_fail_path(host, op, rc, PCO_SOURCE_PLUGIN, path,
                  "a null sandbox holds at most %zu MiB of files",
                  NULL_FS_LIMIT / 1024 / 1024);
  else
    pco_fail_path(host, op, rc, PCO_SOURCE_PLUGIN, path, NULL);
  return 0;
}

/* The rules of every call: flags that are known, a path that is absolute. */
static int check_call(const char *path, uint32_t flags, uint32_t known) {
  return flags & ~known || !path || *path != '/' ? UV_EINVAL : 0;
}

static pco_stat stat_of(const node *n) {
  pco_stat st = pco_stat_init();
  st.type = n->type;
  st.mode = n->mode;
  st.size = blob_len(n->blob);
  st.mtime_ns = n->mtime;
  st.name = n->name;
  return st;
}

static int fs_stat(pco_sandbox *s, const char *path, uint32_t flags,
                   pco_op *op) {
  if (check_call(path, flags, PCO_FS_NOFOLLOW) < 0)
    return UV_EINVAL;
  if (null_is_gone(s, op))
    return 0;
  node *n;
  int rc = walk(s->fs->root, path, &n);
  if (rc < 0)
    return finish(s, op, path, rc);
  pco_stat st = stat_of(n);
  s->backend->host->complete(s->backend->host, op, &st);
  return 0;
}

/* Completes op with up to max entries from n on. */
static int answer_list(pco_sandbox *s, const node *n, size_t max, pco_op *op) {
  pco_stat *stats = calloc(max, sizeof *stats);
  const pco_stat **entries = calloc(max, sizeof *entries);
  size_t count = 0;
  int rc = stats && entries ? 0 : UV_ENOMEM;
  for (; rc == 0 && n && count < max; n = n->next, count++) {
    stats[count] = stat_of(n);
    entries[count] = &stats[count];
  }
  if (rc == 0) {
    pco_stat_list result = pco_stat_list_init();
    result.entries = entries;
    result.n_entries = count;
    result.more = n != NULL;
    s->backend->host->complete(s->backend->host, op, &result);
  } else {
    finish(s, op, NULL, rc);
  }
  free(stats);
  free(entries);
  return 0;
}

static int fs_list(pco_sandbox *s, const char *path, const char *after,
                   uint32_t max, pco_op *op) {
  if (check_call(path, 0, 0) < 0)
    return UV_EINVAL;
  if (null_is_gone(s, op))
    return 0;
  node *dir;
  int rc = walk(s->fs->root, path, &dir);
  if (rc == 0 && dir->type != PCO_DIRECTORY)
    rc = UV_ENOTDIR;
  if (rc < 0)
    return finish(s, op, path, rc);
  const node *n = dir->child;
  while (after && n && strcmp(n->name, after) <= 0)
    n = n->next;
  return answer_list(s, n, max == 0 || max > LIST_LIMIT ? LIST_LIMIT : max, op);
}

static int fs_read(pco_sandbox *s, const char *path, uint64_t offset,
                   size_t max, uint32_t flags, pco_op *op) {
  if (check_call(path, flags, PCO_FS_NOFOLLOW) < 0)
    return UV_EINVAL;
  if (null_is_gone(s, op))
    return 0;
  node *n;
  int rc = walk(s->fs->root, path, &n);
  if (rc == 0 && n->type == PCO_DIRECTORY)
    rc = UV_EISDIR;
  if (rc < 0)
    return finish(s, op, path, rc);
  size_t size = blob_len(n->blob);
  size_t from = offset < size ? (size_t)offset : size;
  pco_data data = pco_data_init();
  data.len = size - from < max ? size - from : max;
  data.base = n->blob ? n->blob->data + from : NULL;
  data.eof = from + data.len == size;
  s->backend->host->complete(s->backend->host, op, &data);
  return 0;
}

/* Gives the new content: the old one first if it is an append. */
static int new_content(const null_blob *old, const pco_iov *bufs, size_t n,
                       null_blob **out) {
  size_t len = blob_len(old);
  for (size_t i = 0; i < n; i++) {
    if (bufs[i].len > NULL_FS_LIMIT - len)
      return PCO_ELIMIT;
    len += bufs[i].len;
  }
  *out = null_blob_create(len);
  if (!*out)
    return UV_ENOMEM;
  size_t at = blob_len(old);
  if (at)
    memcpy((*out)->data, old->data, at);
  for (size_t i = 0; i < n; i++) {
    if (bufs[i].len)
      memcpy((*out)->data + at, bufs[i].base, bufs[i].len);
    at += bufs[i].len;
  }
  return 0;
}

/* Puts the blob into the file, taking it: all or nothing. */
static int replace_content(null_fs *fs, node *n, null_blob *blob) {
  size_t old = blob_len(n->blob);
  if (blob->len > old && charge(fs, blob->len - old) < 0) {
    null_blob_unref(blob);
    return PCO_ELIMIT;
  }
  if (blob->len < old)
    fs->used -= old - blob->len;
  null_blob_unref(n->blob);
  n->blob = blob;
  n->mtime = now_ns();
  return 0;
}

static int write_file(null_fs *fs, const char *path, uint32_t mode,
                      uint32_t flags, const pco_iov *bufs, size_t n_bufs) {
  char name[NAME_LIMIT + 1];
  node *dir, *n, *made = NULL;
  null_blob *blob;
  int rc = walk_parent(fs, path, flags, &dir, name);
  if (rc < 0)
    return rc == UV_EINVAL ? UV_EISDIR : rc;
  n = child_of(dir, name);
  if ((n && n->type == PCO_DIRECTORY) || ends_with_slash(path))
    return n && n->type != PCO_DIRECTORY ? UV_ENOTDIR : UV_EISDIR;
  bool append = (flags & PCO_FS_APPEND) != 0;
  rc = new_content(append && n ? n->blob : NULL, bufs, n_bufs, &blob);
  if (rc < 0)
    return rc;
  if (!n)
    rc = node_create(fs, name, PCO_FILE, mode ? mode : 0644, &made);
  if (rc < 0) {
    null_blob_unref(blob);
    return rc;
  }
  rc = replace_content(fs, n ? n : made, blob);
  if (rc < 0 && made)
    node_free(fs, made);
  else if (made)
    link_node(dir, made);
  if (rc == 0 && n && mode)
    n->mode = mode & 07777;
  return rc;
}

static int fs_write(pco_sandbox *s, const char *path, uint32_t mode,
                    uint32_t flags, const pco_iov *bufs, size_t n, pco_op *op) {
  uint32_t known = PCO_FS_NOFOLLOW | PCO_FS_PARENTS | PCO_FS_APPEND;
  if (check_call(path, flags, known) < 0)
    return UV_EINVAL;
  if (null_is_gone(s, op))
    return 0;
  return finish(s, op, path, write_file(s->fs, path, mode, flags, bufs, n));
}

static int mkdir_at(null_fs *fs, const char *path, uint32_t mode,
                    uint32_t flags) {
  char name[NAME_LIMIT + 1];
  node *dir, *n;
  if (walk(fs->root, path, &n) == 0)
    return n->type == PCO_DIRECTORY && flags & PCO_FS_PARENTS ? 0 : UV_EEXIST;
  int rc = walk_parent(fs, path, flags, &dir, name);
  if (rc < 0)
    return rc == UV_EINVAL ? UV_ENOENT : rc;
  if (child_of(dir, name)) /* a file, by a path that ends in '/' */
    return UV_EEXIST;
  return make_dir(fs, dir, name, mode ? mode : 0755, &n);
}

static int fs_mkdir(pco_sandbox *s, const char *path, uint32_t mode,
                    uint32_t flags, pco_op *op) {
  if (check_call(path, flags, PCO_FS_PARENTS) < 0)
    return UV_EINVAL;
  if (null_is_gone(s, op))
    return 0;
  return finish(s, op, path, mkdir_at(s->fs, path, mode, flags));
}

static int fs_remove(pco_sandbox *s, const char *path, uint32_t flags,
                     pco_op *op) {
  if (check_call(path, flags, PCO_FS_RECURSIVE) < 0)
    return UV_EINVAL;
  if (null_is_gone(s, op))
    return 0;
  node *n;
  int rc = walk(s->fs->root, path, &n);
  if (rc == 0 && !n->parent)
    rc = UV_EBUSY;
  if (rc == 0 && n->child && !(flags & PCO_FS_RECURSIVE))
    rc = UV_ENOTEMPTY;
  if (rc == 0) {
    unlink_node(n);
    node_free(s->fs, n);
  }
  return finish(s, op, path, rc);
}

static bool is_inside(const node *n, const node *dir) {
  while (n && n != dir)
    n = n->parent;
  return n != NULL;
}

/* Says whether `from` may take the place of `to` (NULL: free). */
static int check_replace(const node *from, const node *to, uint32_t flags) {
  if (!to)
    return 0;
  if (!(flags & PCO_FS_REPLACE))
    return UV_EEXIST;
  if (from->type != to->type)
    return to->type == PCO_DIRECTORY ? UV_EISDIR : UV_ENOTDIR;
  return to->child ? UV_ENOTEMPTY : 0;
}

static int rename_at(null_fs *fs, const char *source, const char *target,
                     uint32_t flags) {
  char name[NAME_LIMIT + 1];
  node *from, *dir;
  int rc = walk(fs->root, source, &from);
  if (rc == 0 && !from->parent)
    rc = UV_EBUSY;
  if (rc == 0)
    rc = walk_parent(fs, target, 0, &dir, name);
  if (rc < 0)
    return rc;
  if (is_inside(dir, from))
    return UV_EINVAL;
  node *to = child_of(dir, name);
  if (to == from)
    return 0;
  rc = check_replace(from, to, flags);
  if (rc == 0 && ends_with_slash(target) && from->type != PCO_DIRECTORY)
    rc = UV_ENOTDIR;
  if (rc < 0)
    return rc;
  if (to) {
    unlink_node(to);
    node_free(fs, to);
  }
  unlink_node(from);
  copy_name(from->name, name);
  link_node(dir, from);
  return 0;
}

static int fs_rename(pco_sandbox *s, const char *source, const char *target,
                     uint32_t flags, pco_op *op) {
  if (check_call(source, flags, PCO_FS_REPLACE) < 0 ||
      check_call(target, 0, 0) < 0)
    return UV_EINVAL;
  if (null_is_gone(s, op))
    return 0;
  return finish(s, op, source, rename_at(s->fs, source, target, flags));
}

/* The file at the path, which must be one. */
static int find_file(null_fs *fs, const char *path, node **out) {
  int rc = walk(fs->root, path, out);
  return rc == 0 && (*out)->type == PCO_DIRECTORY ? UV_EISDIR : rc;
}

/* The content with `size` bytes, the new ones zeros. */
static int resized(const null_blob *old, uint64_t size, null_blob **out) {
  if (size > NULL_FS_LIMIT)
    return PCO_ELIMIT;
  *out = null_blob_create((size_t)size);
  if (!*out)
    return UV_ENOMEM;
  size_t kept = blob_len(old) < size ? blob_len(old) : (size_t)size;
  if (kept)
    memcpy((*out)->data, old->data, kept);
  if (size > kept)
    memset((*out)->data + kept, 0, (size_t)size - kept);
  return 0;
}

static int write_at(null_fs *fs, const char *path, uint64_t offset,
                    const pco_iov *bufs, size_t n_bufs) {
  node *n;
  null_blob *blob = NULL;
  uint64_t end = offset;
  int rc = find_file(fs, path, &n);
  for (size_t i = 0; i < n_bufs && rc == 0; i++) {
    rc = bufs[i].len > NULL_FS_LIMIT || end > NULL_FS_LIMIT ? PCO_ELIMIT : 0;
    end += bufs[i].len;
  }
  if (rc == 0 && end == offset)
    return 0;
  if (rc == 0)
    rc = resized(n->blob, end > blob_len(n->blob) ? end : blob_len(n->blob),
                 &blob);
  if (rc < 0)
    return rc;
  for (size_t i = 0; i < n_bufs; offset += bufs[i++].len)
    if (bufs[i].len)
      memcpy(blob->data + offset, bufs[i].base, bufs[i].len);
  return replace_content(fs, n, blob);
}

static int fs_write_at(pco_sandbox *s, const char *path, uint64_t offset,
                       const pco_iov *bufs, size_t n, pco_op *op) {
  if (check_call(path, 0, 0) < 0)
    return UV_EINVAL;
  if (null_is_gone(s, op))
    return 0;
  return finish(s, op, path, write_at(s->fs, path, offset, bufs, n));
}

static int fs_truncate(pco_sandbox *s, const char *path, uint64_t size,
                       pco_op *op) {
  node *n;
  null_blob *blob = NULL;
  if (check_call(path, 0, 0) < 0)
    return UV_EINVAL;
  if (null_is_gone(s, op))
    return 0;
  int rc = find_file(s->fs, path, &n);
  if (rc == 0)
    rc = resized(n->blob, size, &blob);
  if (rc == 0)
    rc = replace_content(s->fs, n, blob);
  return finish(s, op, path, rc);
}

const pco_fs_api null_fs_api = {
    .struct_size = sizeof null_fs_api,
    .stat = fs_stat,
    .list = fs_list,
    .read = fs_read,
    .write = fs_write,
    .mkdir = fs_mkdir,
    .remove = fs_remove,
    .rename = fs_rename,
    .write_at = fs_write_at,
    .truncate = fs_truncate,
};
