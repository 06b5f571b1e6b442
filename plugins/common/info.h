/* SPDX-License-Identifier: MIT */
/*
 * What is written down of a sandbox that may outlive its program, and how: the
 * text of a file NAME.info in the directory of state.h.
 *
 *   host=0000012345      the first two lines have a fixed width, so that they
 *   keeper=0000012346    can be written in place; 0: not known
 *   name=... image=... cwd=... dir=...     a line each, those that there are
 *   pidns=... created=... expires=...      numbers; microseconds since 1970
 *   label.KEY=VALUE
 *
 * Bytes below 33, '%', '=' and above 126 are %XX.  Unknown lines are passed
 * over, for those who come later.
 */
#ifndef PLUGIN_INFO_H
#define PLUGIN_INFO_H

#include <stdint.h>
#include <sys/types.h>

#include "portico/plugin.h"
#include "portico/plugin_util.h"

/* The size of the text at most. */
#define PLUGIN_INFO_MAX (256u * 1024)

/* Where the numbers of the fixed lines begin, and how many digits they have. */
#define PLUGIN_INFO_HOST   5
#define PLUGIN_INFO_KEEPER 23
#define PLUGIN_INFO_DIGITS 10

/* Zeroed is empty.  Strings are borrowed when it is to be written, and in
 * `memory` when it was read. */
typedef struct plugin_info {
  char id[65];
  pid_t host;              /* who is attached to it, or was last */
  pid_t keeper;            /* what it lives and dies with */
  uint64_t namespace;      /* of these pids: its inode */
  double created, expires; /* seconds since 1970; 0: never */
  const char *name, *image, *cwd;
  const char *dir; /* that goes with it; or NULL */
  const pco_pair *labels;
  size_t n_labels;
  bool lives, attached; /* by the locks */
  char *memory;         /* owned; NULL of one that is to be written */
  pco_pair *pairs;      /* owned: labels of one that was read */
} plugin_info;

/* Writes it as text, to be freed by the caller.  UV_ENOMEM, or UV_E2BIG. */
int plugin_info_write(const plugin_info *i, char **text, size_t *len);
/* Reads a text of len bytes, which is taken also on failure.  UV_ENOMEM, or
 * UV_EINVAL.  deinit after either. */
int plugin_info_read(plugin_info *i, char *text, size_t len);
void plugin_info_deinit(plugin_info *i);

/* The PID namespace of this process, or 0. */
uint64_t plugin_info_namespace(void);

#endif /* PLUGIN_INFO_H */
