/* SPDX-License-Identifier: MIT */
/*
 * The plugins of this process; see plugin_loader.h.
 *
 * A plugin is code with all the rights of the host, and dlopen runs its
 * constructors before it could be asked anything.  So everything that can be
 * known is checked first: the name, who could have changed the file
 * (sys/ownership.h; after that the path has no race), and that the file is a
 * whole plugin of this ABI (sys/image.h).  Every refusal says which file, what
 * is wrong with it and what would be right.
 *
 * The table is guarded by `lock`, which is also what makes init() and deinit()
 * [serial].  In a forked child it is open, whoever held it; the table is whole
 * then, since a plugin is linked in when it is complete.
 */
#include "plugin_loader.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <uv.h>

#include "plugin_dirs.h"
#include "portico/plugin_lock.h"
#include "portico/plugin_util.h"
#include "sys/image.h"
#include "sys/ownership.h"

#define NAME_MAX_LEN  32
#define MAX_BACKENDS  64 /* of one plugin */
#define FILE_PREFIX   "portico-"
#define FILE_SUFFIX   ".so"
#define SYMBOL_PREFIX "pco_plugin_entry_v"

/* ---- the table ---------------------------------------------------------- */

typedef struct plugin {
  struct plugin *next;
  const pco_plugin_entry *entry;
  char *path; /* without links; or NULL: built in */
  dev_t device;
  ino_t inode;
  unsigned uses; /* init() was called if > 0 */
} plugin;

static pco_lock lock = PCO_LOCK_INIT;
static plugin *plugins; /* in the order of loading */

static const char *origin(const plugin *p) {
  return p->path ? p->path : PCO_LOADER_BUILT_IN;
}

static const pco_backend_info *find_backend(const pco_plugin_entry *entry,
                                            const char *name) {
  for (const pco_backend_info *const *b = entry->backends; *b; b++)
    if (strcmp((*b)->id, name) == 0)
      return *b;
  return NULL;
}

static plugin *plugin_of_name(const char *name) {
  plugin *p = plugins;
  while (p && !find_backend(p->entry, name))
    p = p->next;
  return p;
}

static plugin *plugin_of_entry(const pco_plugin_entry *entry) {
  plugin *p = plugins;
  while (p && p->entry != entry)
    p = p->next;
  return p;
}

/* A loaded file is mapped, so that its inode cannot be given to another. */
static plugin *plugin_of_file(const struct stat *st) {
  plugin *p = plugins;
  while (p && !(p->path && p->device == st->st_dev && p->inode == st->st_ino))
    p = p->next;
  return p;
}

static void publish(plugin *p) {
  plugin **end = &plugins;
  while (*end)
    end = &(*end)->next;
  *end = p;
}

/* ---- refusing ----------------------------------------------------------- */

/* Sets *err to "PATH: text"; of a very long path only the end is in the text,
 * the whole is err->path. */
static int refuse(pco__error **err, const char *path, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static int refuse(pco__error **err, const char *path, const char *fmt, ...) {
  char text[768];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  size_t len = strlen(path);
  bool cut = len > 200;
  *err = pco__error_new(PCO_EPLUGIN, PCO_SOURCE_HOST, path, "%s%s: %s",
                        cut ? "..." : "", cut ? path + len - 200 : path, text);
  return PCO_EPLUGIN;
}

/* It is not the file's fault: this program has no room for it. */
static int refuse_room(pco__error **err, const char *path, int rc) {
  *err = pco__error_new(rc, PCO_SOURCE_HOST, path, "%s: %s", path,
                        uv_strerror(rc));
  return rc;
}

static bool name_is_valid(const char *s) {
  size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-");
  return n > 0 && n <= NAME_MAX_LEN && s[n] == '\0';
}

/* ---- checking an entry -------------------------------------------------- */

static const char *missing_function(const pco_backend_api *api) {
  return !api->open      ? "open"
         : !api->close   ? "close"
         : !api->probe   ? "probe"
         : !api->create  ? "create"
         : !api->destroy ? "destroy"
                         : NULL;
}

static int check_backend(const pco_backend_info *info, const char *path,
                         pco__error **err) {
  if (info->struct_size != sizeof *info)
    return refuse(err, path,
                  "pco_backend_info has %u bytes, this Portico's has %zu; "
                  "build it with this Portico's headers",
                  info->struct_size, sizeof *info);
  if (!info->id || !name_is_valid(info->id))
    return refuse(err, path,
                  "the backend id '%.64s' is not 1 to 32 of a-z, 0-9 and '-'",
                  info->id ? info->id : "");
  if (!info->summary || !info->version || !info->license)
    return refuse(err, path,
                  "backend '%s' lacks its summary, version or license",
                  info->id);
  if (!info->api)
    return refuse(err, path, "backend '%s' has no functions (api is NULL)",
                  info->id);
  if (info->api->struct_size != sizeof *info->api)
    return refuse(err, path,
                  "pco_backend_api of '%s' has %u bytes, this Portico's has "
                  "%zu; build it with this Portico's headers",
                  info->id, info->api->struct_size, sizeof *info->api);
  const char *missing = missing_function(info->api);
  if (missing)
    return refuse(err, path, "backend '%s' lacks the mandatory function %s()",
                  info->id, missing);
  return 0;
}

static int check_names(const pco_plugin_entry *entry, const char *path,
                       pco__error **err) {
  for (size_t i = 0; entry->backends[i]; i++) {
    const char *id = entry->backends[i]->id;
    if (find_backend(entry, id) != entry->backends[i])
      return refuse(err, path, "it offers the backend '%s' twice", id);
    const plugin *owner = plugin_of_name(id);
    if (owner)
      return refuse(err, path,
                    "the backend '%s' exists already, from %s; only one of "
                    "a name can be loaded",
                    id, origin(owner));
  }
  return 0;
}

static int check_version(const pco_plugin_entry *entry, const char *path,
                         pco__error **err) {
  if (entry->struct_size < offsetof(pco_plugin_entry, backends))
    return refuse(err, path, "its entry has %u bytes: that is no plugin entry",
                  entry->struct_size);
  if (entry->abi_major != PCO_ABI_MAJOR)
    return refuse(err, path, "it is built for ABI %u, this Portico speaks %d",
                  entry->abi_major, PCO_ABI_MAJOR);
  if (entry->abi_minor != PCO_ABI_MINOR)
    return refuse(err, path,
                  "it is built for ABI %u.%u, this Portico speaks %d.%d; "
                  "build it with this Portico's headers",
                  entry->abi_major, entry->abi_minor, PCO_ABI_MAJOR,
                  PCO_ABI_MINOR);
  if (entry->struct_size != sizeof *entry)
    return refuse(err, path,
                  "pco_plugin_entry has %u bytes, this Portico's has %zu; "
                  "build it with this Portico's headers",
                  entry->struct_size, sizeof *entry);
  return 0;
}

/* Everything that an entry says of itself, before a line of it runs but
 * uv_identity().  Needs the lock. */
static int check_entry(const pco_plugin_entry *entry, const char *path,
                       pco__error **err) {
  int rc = check_version(entry, path, err);
  if (rc < 0)
    return rc;
  if (entry->uv_identity &&
      entry->uv_identity() != (const void *)uv_version_string())
    return refuse(err, path,
                  "it brings a second libuv into this process, which would "
                  "break both; link it with the shared libuv (-luv) that "
                  "Portico uses");
  if (!entry->backends || !entry->backends[0])
    return refuse(err, path, "it offers no backend");
  for (size_t i = 0; entry->backends[i]; i++) {
    if (i == MAX_BACKENDS)
      return refuse(err, path,
                    "it offers more than %d backends; is its list terminated "
                    "by NULL?",
                    MAX_BACKENDS);
    rc = check_backend(entry->backends[i], path, err);
    if (rc < 0)
      return rc;
  }
  return check_names(entry, path, err);
}

/* ---- uses --------------------------------------------------------------- */

static int init_failed(const plugin *p, int rc, const pco_error *abi,
                       pco__error **err) {
  refuse(err, origin(p), "its init() failed: %s",
         abi->message ? abi->message : pco__code_text(rc));
  pco__error *cause = pco__error_from_abi(abi, rc);
  *err = pco__error_because(*err, cause);
  return PCO_EPLUGIN;
}

/* Counts a use; the first is the plugin's init().  Needs the lock. */
static int use(plugin *p, pco__error **err) {
  if (p->uses == 0 && p->entry->init) {
    char room[PCO_MESSAGE_MAX];
    pco_error abi = pco_error_in(room, sizeof room);
    abi.source = PCO_SOURCE_PLUGIN;
    int rc = p->entry->init(&abi);
    if (rc < 0) {
      abi.code = abi.code < 0 ? abi.code : rc;
      return init_failed(p, rc, &abi, err);
    }
  }
  p->uses++;
  return 0;
}

void pco__loader_release(const pco_backend_info *info) {
  pco_lock_take(&lock);
  plugin *p = plugin_of_name(info->id);
  if (p && p->uses > 0 && --p->uses == 0 && p->entry->deinit)
    p->entry->deinit();
  pco_lock_give(&lock);
}

int pco__loader_add(const pco_plugin_entry *entry, pco__error **err) {
  plugin *p = calloc(1, sizeof *p);
  pco_lock_take(&lock);
  int rc = 0;
  if (!plugin_of_entry(entry)) {
    rc = check_entry(entry, PCO_LOADER_BUILT_IN, err);
    if (rc == 0 && !p) {
      *err = pco__error_new(UV_ENOMEM, PCO_SOURCE_HOST, NULL, NULL);
      rc = UV_ENOMEM;
    }
    if (rc == 0) {
      p->entry = entry;
      publish(p);
      p = NULL;
    }
  }
  pco_lock_give(&lock);
  free(p);
  return rc;
}

/* ---- loading a file ----------------------------------------------------- */

static int refuse_symbol(const char *path, const char *other,
                         pco__error **err) {
  if (*other)
    return refuse(err, path, "it is built for ABI %s, this Portico speaks %d",
                  other + strlen(SYMBOL_PREFIX), PCO_ABI_MAJOR);
  return refuse(err, path,
                "it is no Portico plugin: the symbol " PCO_ENTRY_SYMBOL
                " is missing (is it exported, with PCO_EXPORT?)");
}

/* Everything that can be found out before its constructors run. */
static int check_file(const char *path, pco__error **err) {
  char why[512] = "";
  struct stat st;
  pco__image_facts facts;
  int rc = pco__path_owned(path, &st, why, sizeof why);
  if (rc < 0)
    return refuse(err, path, "%s", *why ? why : uv_strerror(rc));
  rc = pco__image_check(path, PCO_ENTRY_SYMBOL, strlen(SYMBOL_PREFIX), &facts,
                        why, sizeof why);
  if (pco__out_of_descriptors(rc))
    return refuse_room(err, path, rc);
  if (rc < 0)
    return refuse(err, path, "%s", why);
  if (facts.has_symbol == 0)
    return refuse_symbol(path, facts.other, err);
  return 0;
}

/* Tells the C library's own text, without the path that refuse() says. */
static int refuse_load(const char *path, const char *text, pco__error **err) {
  size_t len = strlen(path);
  if (text && strncmp(text, path, len) == 0 && text[len] == ':')
    text += len + 1 + (text[len + 1] == ' ');
  const char *hint = "";
  if (text && strstr(text, strerror(EMFILE)))
    return refuse_room(err, path, -EMFILE);
  if (text && strstr(text, "undefined symbol: uv_"))
    hint = "; link it with the shared libuv (-luv)";
  else if (text && strstr(text, "undefined symbol"))
    hint = "; link it with -Wl,-z,defs to see what it lacks";
  else if (text && strstr(text, "cannot open shared object file"))
    hint = "; install that library, or set the plugin's RUNPATH";
  return refuse(err, path, "it cannot be loaded: %s%s",
                text ? text : "no reason given", hint);
}

/* RTLD_LOCAL: no symbol of a plugin meets the host's.  RTLD_NODELETE: threads
 * and destructors of unloaded code crash.  Sets *entry. */
static int open_file(const char *path, const pco_plugin_entry **entry,
                     pco__error **err) {
  dlerror(); /* somebody else's, stale */
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle)
    return refuse_load(path, dlerror(), err);
  *entry = dlsym(handle, PCO_ENTRY_SYMBOL);
  if (*entry)
    return 0;
  char other[] = SYMBOL_PREFIX "0", name[] = SYMBOL_PREFIX "0";
  *other = '\0';
  for (char digit = '1'; digit <= '9'; digit++) {
    name[sizeof name - 2] = digit;
    if (dlsym(handle, name))
      memcpy(other, name, sizeof name);
  }
  dlclose(handle);
  return refuse_symbol(path, other, err);
}

static plugin *plugin_new(const char *path, const struct stat *st) {
  plugin *p = calloc(1, sizeof *p);
  char *copy = strdup(path);
  if (!p || !copy) {
    free(p);
    free(copy);
    return NULL;
  }
  p->path = copy;
  p->device = st->st_dev;
  p->inode = st->st_ino;
  return p;
}

/* A file found by a name must offer that backend; wanted may be NULL. */
static int check_wanted(const pco_plugin_entry *entry, const char *path,
                        const char *wanted, pco__error **err) {
  if (!wanted || find_backend(entry, wanted))
    return 0;
  return refuse(err, path, "it offers '%s', not '%s'; rename the file",
                entry->backends[0]->id, wanted);
}

static int use_wanted(plugin *p, const char *wanted, pco__error **err) {
  int rc = check_wanted(p->entry, origin(p), wanted, err);
  return rc < 0 ? rc : use(p, err);
}

/* Loads a file that no plugin of the table is.  On success it is in the table
 * with one use; else nothing of it is.  Needs the lock. */
static int load_new(const char *path, const char *wanted, const struct stat *st,
                    plugin **out, pco__error **err) {
  plugin *p = NULL;
  int rc = check_file(path, err);
  const pco_plugin_entry *entry = NULL;
  if (rc == 0)
    rc = open_file(path, &entry, err);
  if (rc < 0)
    return rc;
  *out = plugin_of_entry(entry); /* a file replaced since: the old is mapped */
  if (*out)
    return use_wanted(*out, wanted, err);
  rc = check_entry(entry, path, err);
  if (rc == 0)
    rc = check_wanted(entry, path, wanted, err);
  if (rc == 0) {
    p = plugin_new(path, st);
    if (!p) {
      *err = pco__error_new(UV_ENOMEM, PCO_SOURCE_HOST, path, NULL);
      return UV_ENOMEM;
    }
    p->entry = entry;
    rc = use(p, err);
  }
  if (rc == 0) {
    publish(p);
    *out = p;
  } else if (p) {
    free(p->path);
    free(p);
  }
  return rc;
}

/* Gives the plugin of a file, loaded if need be, with one use more.  Needs the
 * lock. */
static int load_file(const char *path, const char *wanted, plugin **out,
                     pco__error **err) {
  char real[PATH_MAX];
  struct stat st;
  if (!realpath(path, real) || stat(real, &st) < 0)
    return errno == ENOENT || errno == ENOTDIR
               ? refuse(err, path, "there is no such file")
               : refuse(err, path, "it cannot be reached: %s",
                        uv_strerror(-errno));
  if (S_ISDIR(st.st_mode))
    return refuse(err, real, "it is a directory; name the .so file in it");
  if (!S_ISREG(st.st_mode))
    return refuse(err, real, "it is not a regular file");
  *out = plugin_of_file(&st);
  return *out ? use_wanted(*out, wanted, err)
              : load_new(real, wanted, &st, out, err);
}

/* ---- finding a file ------------------------------------------------------ */

typedef struct file_search {
  const char *name;
  char path[PATH_MAX];
} file_search;

/* True if the directory has a file of that name, fit or not: one that is to be
 * refused must not be passed over for another. */
static bool file_is_in(void *arg, const char *dir) {
  file_search *s = arg;
  int n = snprintf(s->path, sizeof s->path, "%s/" FILE_PREFIX "%s" FILE_SUFFIX,
                   dir, s->name);
  struct stat st;
  return n > 0 && (size_t)n < sizeof s->path && lstat(s->path, &st) == 0;
}

/* ---- listing ------------------------------------------------------------ */

typedef struct found {
  char name[NAME_MAX_LEN + 1];
  char *path; /* owned */
} found;

typedef struct found_list {
  found *items;
  size_t n;
  bool failed; /* no memory: the list is not whole */
} found_list;

static bool is_listed(const found_list *l, const char *name) {
  for (size_t i = 0; i < l->n; i++)
    if (strcmp(l->items[i].name, name) == 0)
      return true;
  return false;
}

/* Adds a backend; the first of a name counts, as in opening. */
static void list_add(found_list *l, const char *name, const char *path) {
  if (l->failed || is_listed(l, name))
    return;
  found *items = realloc(l->items, (l->n + 1) * sizeof *items);
  char *copy = strdup(path);
  if (items)
    l->items = items;
  if (!items || !copy) {
    free(copy);
    l->failed = true;
    return;
  }
  snprintf(items[l->n].name, sizeof items->name, "%s", name);
  items[l->n++].path = copy;
}

static void list_free(found_list *l) {
  for (size_t i = 0; i < l->n; i++)
    free(l->items[i].path);
  free(l->items);
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const found *)a)->name, ((const found *)b)->name);
}

/* Reads "NAME" of "portico-NAME.so" into name; false if it is none. */
static bool name_of_file(const char *file, char name[NAME_MAX_LEN + 1]) {
  size_t len = strlen(file), prefix = strlen(FILE_PREFIX);
  size_t suffix = strlen(FILE_SUFFIX);
  if (len <= prefix + suffix || len - prefix - suffix > NAME_MAX_LEN ||
      strncmp(file, FILE_PREFIX, prefix) != 0 ||
      strcmp(file + len - suffix, FILE_SUFFIX) != 0)
    return false;
  len -= prefix + suffix;
  memcpy(name, file + prefix, len);
  name[len] = '\0';
  return name_is_valid(name);
}

static bool list_dir(void *arg, const char *dir) {
  found_list *l = arg;
  size_t first = l->n;
  DIR *d = opendir(dir);
  struct dirent *e;
  while (d && (e = readdir(d))) {
    char name[NAME_MAX_LEN + 1], path[PATH_MAX];
    if (!name_of_file(e->d_name, name))
      continue;
    int n = snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
    if (n > 0 && (size_t)n < sizeof path)
      list_add(l, name, path);
  }
  if (d)
    closedir(d);
  if (l->n > first)
    qsort(l->items + first, l->n - first, sizeof *l->items, by_name);
  return false;
}

/* Needs the lock. */
static void list_all(found_list *l) {
  for (const plugin *p = plugins; p; p = p->next)
    for (const pco_backend_info *const *b = p->entry->backends; *b; b++)
      list_add(l, (*b)->id, origin(p));
  pco__plugin_dirs(list_dir, l);
}

int pco__loader_list(void (*each)(void *arg, const char *name,
                                  const char *path),
                     void *arg) {
  found_list l = {0};
  pco_lock_take(&lock);
  list_all(&l);
  pco_lock_give(&lock);
  for (size_t i = 0; i < l.n && !l.failed; i++)
    each(arg, l.items[i].name, l.items[i].path);
  int rc = l.failed ? UV_ENOMEM : 0;
  list_free(&l);
  return rc;
}

/* ---- opening ------------------------------------------------------------ */

/* A text that grows to a bound; what does not fit is cut. */
typedef struct text {
  char at[400];
  size_t len;
} text;

static void text_add(text *t, const char *separator, const char *s) {
  int n = snprintf(t->at + t->len, sizeof t->at - t->len, "%s%s",
                   t->len ? separator : "", s);
  size_t room = sizeof t->at - 1 - t->len;
  t->len += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room;
}

static bool text_add_dir(void *arg, const char *dir) {
  text_add(arg, ", ", dir);
  return false;
}

static const char *nearest(const found_list *l, const char *name) {
  const char *best = NULL;
  size_t best_distance = strlen(name) / 3 + 2;
  for (size_t i = 0; i < l->n; i++) {
    size_t distance = pco_edit_distance(name, l->items[i].name);
    if (distance < best_distance) {
      best = l->items[i].name;
      best_distance = distance;
    }
  }
  return best;
}

/* Says what there is instead.  Needs the lock. */
static int refuse_name(const char *name, pco__error **err) {
  text names = {.len = 0}, dirs = {.len = 0};
  found_list l = {0};
  list_all(&l);
  for (size_t i = 0; i < l.n; i++)
    text_add(&names, ", ", l.items[i].name);
  pco__plugin_dirs(text_add_dir, &dirs);
  const char *near = nearest(&l, name);
  *err = pco__error_new(
      UV_ENOENT, PCO_SOURCE_HOST, NULL,
      "there is no backend '%s'%s%s%s; there are: %s; searched for " FILE_PREFIX
      "%s" FILE_SUFFIX " in: %s",
      name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "",
      names.len ? names.at : "none", name, dirs.len ? dirs.at : "nowhere");
  list_free(&l);
  return UV_ENOENT;
}

static int open_name(const char *name, plugin **out,
                     const pco_backend_info **info, pco__error **err) {
  file_search s = {.name = name};
  if (!name_is_valid(name))
    return refuse(err, name,
                  "a backend's name is 1 to 32 of a-z, 0-9 and '-' (a plugin's "
                  "path has a '/')");
  *out = plugin_of_name(name);
  int rc = *out ? use(*out, err)
           : pco__plugin_dirs(file_is_in, &s)
               ? load_file(s.path, name, out, err)
               : refuse_name(name, err);
  if (rc == 0)
    *info = find_backend((*out)->entry, name);
  return rc;
}

static int open_path(const char *path, plugin **out,
                     const pco_backend_info **info, pco__error **err) {
  if (*path != '/' && strncmp(path, "./", 2) != 0)
    return refuse(err, path,
                  "a plugin's path is absolute or begins with \"./\"");
  int rc = load_file(path, NULL, out, err);
  if (rc == 0)
    *info = (*out)->entry->backends[0];
  return rc;
}

int pco__loader_open(const char *name_or_path, const pco_backend_info **out,
                     const char **path, pco__error **err) {
  plugin *p = NULL;
  *out = NULL;
  *path = NULL;
  *err = NULL;
  pco_lock_take(&lock);
  int rc = strchr(name_or_path, '/') ? open_path(name_or_path, &p, out, err)
                                     : open_name(name_or_path, &p, out, err);
  if (rc == 0)
    *path = origin(p);
  pco_lock_give(&lock);
  return rc;
}
