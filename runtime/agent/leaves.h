/* SPDX-License-Identifier: MIT */
/*
 * The agent's side of cgroups: leaves, asked of the keeper (cgroup.h).
 *
 * Nothing waits here: questions go in line, of which PCO_LEAVES_AHEAD are on
 * their way (the keeper stops listening to who does not take its answers), and
 * an answer comes in a later turn (pco_places_answer).  A leaf is named by a
 * number that the agent chooses; an answer whose leaf was given back meanwhile
 * is thrown away.
 */
#ifndef PCO_LEAVES_H
#define PCO_LEAVES_H

#include "cgroup.h"
#include "request.h"
#include "source.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct pco_agent;
struct pco_sup;

#define PCO_NO_LEAF      (-1)
#define PCO_LEAVES_AHEAD 32

typedef struct pco_leaf {
  struct pco_sup *sup; /* who waits for the answer, or NULL */
  pid_t pid;           /* the supervisor that is in it, or 0 */
  uint32_t serial;     /* of the question */
  bool used;
  bool asked; /* the question was sent */
  bool own;   /* of the supervisor itself */
} pco_leaf;

/* A question in line; it was taken back if the leaf has another serial. */
typedef struct pco_leaf_question {
  uint32_t serial;
  uint16_t leaf;
} pco_leaf_question;

typedef struct pco_leaves {
  pco_source keeper; /* fd -1: there is none */
  uint32_t limits;   /* of the sandbox: every supervisor needs a leaf */
  uint32_t serial;   /* of the last question */
  uint32_t last;     /* the leaf that was taken last */
  bool may_emulate;  /* an --emulate was given: else nothing was thought of */
  uint32_t emulated; /* PCO_KEEPER_LIMIT_* that may be resource limits */
  int64_t heard;     /* when the last answer came */
  uint32_t n_ahead;  /* questions on their way */
  uint32_t first, n_line;
  pco_leaf_question line[PCO_CGROUP_MAX_LEAVES]; /* a ring */
  uint32_t n_leaving; /* leaves whose supervisor was let go */
  uint32_t n_removes; /* of removed[], which the socket did not take */
  uint16_t removed[PCO_CGROUP_MAX_LEAVES];
  pco_leaf leaf[PCO_CGROUP_MAX_LEAVES];
} pco_leaves;

/* `fd` is the agent's end of the keeper's socket, or -1. */
int pco_leaves_init(struct pco_agent *a, int fd);
void pco_leaves_deinit(struct pco_agent *a);

/* The limits of a SPAWN that only a cgroup can enforce well. */
uint32_t pco_leaves_wanted(const pco_request *r);
/* Those of them that must not be had by other means. */
uint32_t pco_leaves_required(const pco_leaves *l, const pco_request *r);

/* Asks for the leaf of a supervisor, or of the command that it holds: its
 * number, or -errno (-EAGAIN: no leaf is free; -ENODEV: there is no keeper). */
int pco_leaves_ask(struct pco_agent *a, struct pco_sup *s, bool own);
/* Gives a leaf back, which must be empty; PCO_NO_LEAF is allowed. */
void pco_leaves_remove(struct pco_agent *a, int leaf);
/* The supervisor is lost: no answer is for it any more, and the leaf is removed
 * later, once what it left behind is dead. */
void pco_leaves_forget(struct pco_agent *a, int leaf);
/* The supervisor is let go: its leaf goes when its process has. */
void pco_leaves_leave(struct pco_agent *a, int leaf);
/* That process was reaped. */
void pco_leaves_reaped(struct pco_agent *a, pid_t pid);

#endif /* PCO_LEAVES_H */
