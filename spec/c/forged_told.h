/* SPDX-License-Identifier: MIT */
/*
 * What a forged agent says of its commands when a host attaches to it, and what
 * the host makes of them; for the tests of attaching and of leaving.
 */
#ifndef FORGED_TOLD_H
#define FORGED_TOLD_H

#include "forged_request.h"

/* The last number that the host before is said to have used. */
#define LAST_OP 50u

typedef struct told {
  uint64_t target;
  uint64_t flags;
  uint64_t offset[2];
  uint64_t in_credit;
  bool ended;
  uint64_t code;
  size_t arg_bytes; /* of a second argument */
  int offsets;      /* instead of 2, less 2 */
  bool no_argv, no_pid, twice_target;
} told;

/* One that runs, one that has ended, one that is relayed. */
extern const told some[3];

void put_command(box *b, const told *t);
/* In a frame of its own. */
void say_command(box *b, uint64_t op, const told *t);
/* An attach whose COMMANDS is asked; gives its number. */
box *attach_asked(uint64_t *op);
/* A whole one. */
box *attach_to(const told *list, size_t n);
/* The handle of a command, which must be there. */
pco__process *claim(box *b, int64_t pid);
void let_go(pco__process *p);
size_t count_commands(box *b, bool all);

#endif /* FORGED_TOLD_H */
