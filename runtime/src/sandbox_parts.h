/* SPDX-License-Identifier: MIT */
/*
 * What the files of a sandbox tell each other: sandbox.c has its life,
 * sandbox_attach.c how it is taken over, sandbox_detach.c how it is left.
 */
#ifndef PCO_SANDBOX_PARTS_H
#define PCO_SANDBOX_PARTS_H

#include "process_agent.h"

/* A PING, behind which the agent has taken all that was sent. */
typedef struct pco__barrier {
  pco__link_request request;
  pco__sandbox *sandbox; /* a reference */
} pco__barrier;

struct pco__sandbox_calls {
  pco_op create; /* or attach */
  pco_op destroy;
  pco_op detach;
  pco_op death;
  pco__link_request hello;
  pco__link_request commands; /* attach */
  pco__sandbox *sandbox;
  int agent_fd;
  bool no_memory;      /* for what the plugin said of it */
  pco__error *failure; /* creation: what to tell when all is undone */
  pco__sandbox **out;  /* creation: where the op wants it */
  pco__timer death_timer;
  pco__error *why_dead;  /* of the link, until the plugin was asked */
  pco__error *told;      /* what the plugin said then */
  bool destroying;       /* the plugin's destroy() runs */
  pco__error *left;      /* of a dead one: what its destroy() left behind */
  pco__found found;      /* attach: what runs there, so far */
  pco__op *detach_op;    /* who waits for DETACHING, or NULL */
  pco__barrier *barrier; /* DETACHING: its answer is awaited */
  bool detaching;        /* the plugin's detach() runs */
  bool close_wished;     /* DETACHING: should that fail */
};

/* ---- sandbox.c ----------------------------------------------------------- */

pco__sandbox *pco__sandbox_new(pco__backend *b, pco__op *op,
                               pco__sandbox **out);
/* Copies a string, or NULL; false without memory. */
bool pco__sandbox_copy(char **to, const char *s);
/* Copies what they name; 0 or UV_ENOMEM. */
int pco__sandbox_set_labels(pco__sandbox *sb, const pco_pair *labels, size_t n);
/* What create() and attach() of a plugin give. */
void pco__sandbox_take(pco__sandbox *sb, const pco_sandbox_result *r);
/* They have completed. */
void pco__sandbox_made(pco_op *op, pco__error *err);
/* The sandbox runs, and its op completes. */
void pco__sandbox_ready(pco__sandbox *sb);
/* Everybody who waits for something in it is told that it is closed, for the
 * reason `text`; nothing is sent to its agent any more. */
void pco__sandbox_part(pco__sandbox *sb, const char *text);
/* The plugin's is gone: CLOSED, or a little later.  Takes err. */
void pco__sandbox_end(pco__sandbox *sb, pco__error *err);
/* Begins to close one that runs. */
void pco__sandbox_begin_close(pco__sandbox *sb);
/* Its link is dead: of why, which is borrowed. */
void pco__sandbox_link_died(pco__sandbox *sb, const pco__error *why);
/* The plugin's destroy(). */
void pco__sandbox_destroy(pco__sandbox *sb);

/* ---- sandbox_attach.c ---------------------------------------------------- */

/* The HELLO of one that is taken over was answered: asks what runs there.  0 or
 * -EPROTO. */
int pco__sandbox_ask_commands(pco__sandbox *sb, const pco_wire_header *h,
                              const uint8_t *payload);

/* ---- sandbox_detach.c ---------------------------------------------------- */

/* Undoes an attach: it stays as it was. */
void pco__sandbox_give_back(pco__sandbox *sb);
/* Its link died; true: it is DETACHING, and that is looked at later. */
bool pco__sandbox_detach_later(pco__sandbox *sb, const pco__error *why);
/* The op that waits for DETACHING, if any, fails, and it is RUNNING again;
 * takes err. */
void pco__sandbox_detach_fail(pco__sandbox *sb, pco__error *err);

#endif /* PCO_SANDBOX_PARTS_H */
