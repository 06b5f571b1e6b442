/* SPDX-License-Identifier: MIT */
/*
 * The sandboxes of a process, for plugins that have no other place that knows
 * them: what list() shows and destroy_id() finds, over all instances of a
 * backend.
 *
 * A plugin has one table, static, and every sandbox an entry.  The lock guards
 * the list and, in an entry, `doomed` and the setting of `pidfd`; everything
 * else is set before the entry is added, or belongs to its loop.
 */
#ifndef PLUGIN_TABLE_H
#define PLUGIN_TABLE_H

#include <sys/types.h>

#include "portico/plugin.h"
#include "portico/plugin_lock.h"
#include "portico/plugin_util.h"
#include "state.h"

typedef struct plugin_entry {
  struct plugin_entry *next;
  char id[65];
  pco_pair *labels; /* one block */
  size_t n_labels;
  double created, expires; /* 0: never */
  char *name, *image;      /* owned; or NULL */
  int pidfd;   /* of what it lives with; -1 while that is being started */
  bool doomed; /* destroy_id() ends it: not listed any more */
} plugin_entry;

typedef struct plugin_table {
  pco_lock lock;
  plugin_entry *first;
  pid_t owner; /* whose sandboxes these are: not a forked child's */
} plugin_table;

#define PLUGIN_TABLE_INIT                                                      \
  { PCO_LOCK_INIT, NULL, 0 }

/* Sets what create() was given, and the time; UV_ENOMEM.  [any] */
int plugin_entry_init(plugin_entry *e, const pco_create_opts *o);
/* The same from what was written down.  [any] */
int plugin_entry_init_from(plugin_entry *e, const plugin_info *i);
/* Fills what is to be written down; everything is borrowed.  [any] */
void plugin_entry_tell(const plugin_entry *e, plugin_info *i);
/* The same for what attach() tells the host. */
void plugin_entry_fill(const plugin_entry *e, pco_sandbox_result *result);
void plugin_entry_deinit(plugin_entry *e);

/* Checks a wished id.  0, or UV_EINVAL and *err.  [any] */
int plugin_check_name(const char *name, pco_error *err);
/* Lists e under the wished id, or a new one "PREFIX-xxxxxxxx".  UV_EEXIST and
 * *err if it is taken.  [any] */
int plugin_table_add(plugin_table *t, plugin_entry *e, const char *wished,
                     const char *prefix, pco_error *err);
/* Also of an entry that is not in it.  [any] */
void plugin_table_remove(plugin_table *t, plugin_entry *e);
void plugin_table_set_pidfd(plugin_table *t, plugin_entry *e, int pidfd);
/* Finds the entry of that id that is not doomed, or NULL; the lock is held
 * until plugin_table_unlock() in both cases.  [any] */
plugin_entry *plugin_table_lock_find(plugin_table *t, const char *id);
void plugin_table_lock(plugin_table *t);
void plugin_table_unlock(plugin_table *t);
/* The same for an entry that is doomed, if it is still the one of that id. */
plugin_entry *plugin_table_lock_doomed(plugin_table *t, const plugin_entry *e,
                                       const char *id);
/* Fails a destroy_id(): 0 means that there is none of that id, UV_EBUSY that it
 * is still being made.  [loop] */
void plugin_fail_end(const pco_host *host, pco_op *op, const char *id, int rc);
/* Answers a list(): those of the table, and those that are written down and not
 * in it; `backend` and `setting` as in plugin_state_open().  [loop] */
void plugin_table_list(plugin_table *t, const pco_host *host,
                       const char *backend, const char *setting, pco_op *op);
/* Answers a reap() with what it has removed.  [loop] */
void plugin_tell_removed(const pco_host *host, const plugin_info *removed,
                         size_t n, pco_op *op);

#endif /* PLUGIN_TABLE_H */
