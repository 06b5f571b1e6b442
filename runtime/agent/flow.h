/* SPDX-License-Identifier: MIT */
/*
 * Contents on their way between a file and a pipe of the host's.
 *
 * A regular file is spliced, so that its bytes are not copied here (into one:
 * through.h); where the kernel refuses that (a file opened to append, some of
 * /proc, a device) they are read and written.  Neither waits: the pipe's end
 * does not block, and who uses a flow waits for it.
 */
#ifndef PCO_FLOW_H
#define PCO_FLOW_H

#include "job.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct pco_flow {
  int pipe; /* owned; -1: none */
  int fd;   /* of the file; borrowed */
  off_t at; /* in the file */
  uint64_t left;
  uint64_t done;
  bool seekable;
  bool copies;    /* it is not spliced */
  bool dry;       /* -EAGAIN was the file's, a device without bytes */
  uint8_t *block; /* for that; owned */
  size_t block_at, block_len;
} pco_flow;

/* Takes a copy of the pipe's end: 0 or a negative errno.  `f` is zeroed. */
int pco_flow_init(pco_flow *f, int pipe, int fd, off_t at, uint64_t left);
void pco_flow_deinit(pco_flow *f);
/* Moves some bytes on, from the file into the pipe or the other way.  1: there
 * may be more; 0: that was all, or the end of the file (of a device, the end of
 * what is there); -EAGAIN: the pipe is not ready, or the file is dry.  The
 * pipe's end before `left` bytes came is -ECANCELED. */
int pco_flow_out(pco_flow *f);
int pco_flow_in(pco_flow *f);
/* After -EAGAIN: makes the job wait, for `events` of the pipe or for the file.
 * 0 or a negative errno. */
int pco_flow_wait(struct pco_agent *a, pco_job *j, const pco_flow *f,
                  uint32_t events);

#endif /* PCO_FLOW_H */
