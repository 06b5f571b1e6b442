/* SPDX-License-Identifier: MIT */
/*
 * File operations: one function for each type of request.  Each answers, or
 * starts a job that will.  Paths are walked by path.h; nothing is ever checked
 * by name and then opened by name.
 */
#ifndef PCO_FS_H
#define PCO_FS_H

#include "agent.h"
#include "request.h"

#include <limits.h>
#include <sys/stat.h>

void pco_fs_stat(pco_agent *a, const pco_request *r);
void pco_fs_list(pco_agent *a, const pco_request *r);
void pco_fs_read(pco_agent *a, const pco_request *r);
void pco_fs_write(pco_agent *a, const pco_request *r);
void pco_fs_mkdir(pco_agent *a, const pco_request *r);
void pco_fs_remove(pco_agent *a, const pco_request *r);
void pco_fs_rename(pco_agent *a, const pco_request *r);
void pco_fs_chmod(pco_agent *a, const pco_request *r);
void pco_fs_chown(pco_agent *a, const pco_request *r);
void pco_fs_symlink(pco_agent *a, const pco_request *r);
void pco_fs_mktemp(pco_agent *a, const pco_request *r);
void pco_fs_usage(pco_agent *a, const pco_request *r);
void pco_fs_copy(pco_agent *a, const pco_request *r);
/* Of a worker, which keeps one file or watch open (fs_open.c, fs_watch.c). */
void pco_fs_open(pco_agent *a, const pco_request *r);
void pco_fs_watch(pco_agent *a, const pco_request *r);
/* FILE_... and EVENTS. */
void pco_watch_close(pco_agent *a, uint64_t target);
/* When pco_watch_tick() has something to do, for poll(); and once a turn. */
int pco_watch_timeout(const pco_agent *a);
void pco_watch_tick(pco_agent *a);
/* False if it is not of the watch that is held. */
bool pco_watch_opened(pco_agent *a, const pco_request *r);
/* False after answering: only workers hold something open. */
bool pco_fs_may_hold(pco_agent *a, const pco_request *r);
#define PCO_NOT_OPEN                                                           \
  "it is not open any more: the process of the sandbox that held it is gone"
void pco_fs_opened(pco_agent *a, const pco_request *r);
/* PACK, UNPACK and SURVEY; takes the frame's descriptors. */
void pco_fs_transfer(pco_agent *a, pco_frame *f, const pco_request *r);

/* ---- what they share (fs_common.c) -------------------------------------- */

/* Copies the text of a path field, with a NUL.  False after answering, if it
 * is too long. */
bool pco_fs_path(pco_agent *a, const pco_request *r, uint16_t tag,
                 char path[PCO_PATH_TEXT]);
/* Answers an error of a walk (negative errno): leaving the root becomes EACCES
 * with a sentence. */
void pco_fs_walk_error(pco_agent *a, uint64_t op, int rc, const char *path);
/* Answers what an operation came to: 0, or a negative errno.  `step` says what
 * was tried, "changing the mode"; NULL: the path says enough. */
void pco_fs_done(pco_agent *a, uint64_t op, int rc, const char *path,
                 const char *step);
/* Finds "USER", "USER:GROUP" or ":GROUP"; what is not named becomes -1.  False
 * after answering, if there is no such one. */
bool pco_fs_owner(pco_agent *a, const pco_request *r, const char *path,
                  uid_t *uid, gid_t *gid);
/* Fills in the last '*' of a pattern, so that nobody else has that name. */
int pco_fs_random_name(const char *pattern, char name[NAME_MAX + 1]);
/* Answers a READ or FILE_READ from fd, which is owned, unless borrowed. */
void pco_fs_read_from(pco_agent *a, const pco_request *r, const char *path,
                      int fd, bool borrowed);
/* What may be read: 0 or a negative errno, with a sentence if that says too
 * little. */
int pco_fs_readable(mode_t mode, const char **message);
/* Opens a place that was found: a descriptor or a negative errno, with a
 * sentence if that says too little. */
typedef int pco_fs_opener(const pco_place *at, const pco_request *r,
                          const char **message);
/* Finds the path, with PCO_WALK_* `flags`, and opens what is there, again if
 * others changed it meanwhile.  As the opener; *message is NULL or its. */
int pco_fs_open_at(pco_agent *a, const pco_request *r, const char *path,
                   int flags, pco_fs_opener *opener, const char **message);
/* Answers what that failed with. */
void pco_fs_open_failed(pco_agent *a, uint64_t op, int rc, const char *path,
                        const char *message);
/* The PCO_WALK_* flags of a request. */
int pco_fs_walk_flags(const pco_request *r);
bool pco_fs_flag(const pco_request *r, unsigned flag);
/* Writes an ENTRY into a->buf.  name NULL or "": none; link NULL: none. */
void pco_fs_put_entry(pco_wire_buf *b, const char *name, const struct stat *st,
                      const char *link);

#endif /* PCO_FS_H */
