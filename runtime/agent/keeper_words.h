/* SPDX-License-Identifier: MIT */
/*
 * What a keeper is to do: its words (keeper.h), read from a memfd.
 *
 * They come from the host's own plugin; a mistake in them is that plugin's bug,
 * so the checks are there to find it, not to withstand an enemy.
 */
#ifndef PCO_KEEPER_WORDS_H
#define PCO_KEEPER_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct pco_keeper_dir {
  const char *name;
  mode_t mode;
  uint32_t owner; /* inside: PCO_KEEPER_AGENT_ID or _COMMAND_ID */
} pco_keeper_dir;

typedef struct pco_keeper_bind {
  const char *source;
  const char *entry; /* of the directory `source`; or NULL */
  const char *name;
  int fd;      /* of the source, once it was opened */
  bool is_dir; /* known then */
} pco_keeper_bind;

typedef struct pco_keeper_words {
  char *memory; /* all strings are in it */
  char **list;  /* of them, ending in NULL */
  bool two_ids;
  uint32_t first_uid, first_gid, n_ids; /* two_ids: to choose from */
  uint64_t tmpfs_bytes, tmpfs_inodes;
  uint64_t processes; /* 0: no limit */
  pco_keeper_dir *dirs;
  size_t n_dirs;
  pco_keeper_bind *binds;
  size_t n_binds;
  const char *cgroup_base, *cgroup_name;    /* NULL: none */
  uint64_t memory_max, pids_max, millicpus; /* 0: no limit */
  /* NULL: no door; then a ttl is refused, too. */
  const char *door_name;
  int door_listener, door_dir, door_info, door_agent;
  uint64_t ttl_ms; /* 0: none */
  char **launcher; /* the end of list: at least a path */
} pco_keeper_words;

/* Reads them all.  0 or a negative errno; *wrong then names the word.  deinit
 * after either. */
int pco_keeper_words_init(pco_keeper_words *w, int fd, const char **wrong);
void pco_keeper_words_deinit(pco_keeper_words *w);

#endif /* PCO_KEEPER_WORDS_H */
