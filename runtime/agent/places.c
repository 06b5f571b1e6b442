/* SPDX-License-Identifier: MIT */
/*
 * See places.h.
 */
#include "places.h"

#include "agent.h"
#include "lost.h"
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void pco_places_drop(pco_sup *s) {
  if (s->held)
    pco_frame_close_fds(&s->held->frame);
  free(s->held);
  s->held = NULL;
}

/* Keeps the SPAWN until the keeper has answered. */
static int hold(pco_sup *s, pco_frame *f) {
  size_t size = PCO_WIRE_HEADER + f->header.size;
  pco_held *h = malloc(sizeof *h + size);
  if (!h)
    return -ENOMEM;
  memset(h, 0, sizeof *h);
  memcpy(h->bytes, f->payload - PCO_WIRE_HEADER, size);
  h->frame = *f;
  h->frame.payload = h->bytes + PCO_WIRE_HEADER;
  f->header.n_fds = 0;
  s->held = h;
  return 0;
}

/* Answers the SPAWN with an error, and takes no chances with a supervisor of
 * which half a step is not known. */
static void fail_place(pco_agent *a, pco_sup *s, int error) {
  pco_commands_refuse(a, s->op, error, PCO_LIMIT_NONE,
                      error == EAGAIN
                          ? "the sandbox has as many cgroups as it may have"
                          : "the sandbox's keeper makes no cgroup");
  s->final = true;
  pco_lost_add(a, s);
}

void pco_places_begin(pco_agent *a, pco_sup *s, pco_frame *f,
                      const pco_request *r) {
  int rc = hold(s, f);
  if (rc == 0 && a->leaves.limits && s->own_leaf == PCO_NO_LEAF) {
    rc = s->own_leaf = pco_leaves_ask(a, s, true);
    s->placing++;
  }
  if (rc >= 0 && pco_leaves_wanted(r)) {
    rc = s->command_leaf = pco_leaves_ask(a, s, false);
    s->placing++;
  }
  if (rc < 0) {
    fail_place(a, s, -rc);
    return;
  }
  s->limit_at = pco_now() + PCO_PLACE_TIME;
  if (s->limit_at < a->commands.next_silent)
    a->commands.next_silent = s->limit_at;
}

static const char *limit_name(uint32_t bit) {
  return bit == PCO_KEEPER_LIMIT_MEMORY ? "memory"
         : bit == PCO_KEEPER_LIMIT_PIDS ? "pids"
                                        : "cpus";
}

/* Says that a limit cannot be had, the first of them. */
static void refuse_limit(pco_agent *a, uint64_t op, uint32_t limits, int error,
                         const char *why) {
  char text[PCO_CGROUP_TEXT + 256];
  uint32_t bit = limits & -limits;
  int limit = bit == PCO_KEEPER_LIMIT_MEMORY ? PCO_LIMIT_MEMORY
              : bit == PCO_KEEPER_LIMIT_PIDS ? PCO_LIMIT_PIDS
                                             : PCO_LIMIT_CPUS;
  if (error == EOPNOTSUPP)
    snprintf(text, sizeof text,
             "this sandbox cannot do 'limits.%s' for a command: it runs plain "
             "processes; use bwrap",
             limit_name(bit));
  else
    snprintf(text, sizeof text,
             "'limits.%s' of a command needs a cgroup (%s); run as root, or "
             "have an administrator hand over a directory: open(\"bwrap\", "
             "{cgroup = DIRECTORY})",
             limit_name(bit), why);
  pco_commands_refuse(a, op, error, limit, text);
}

void pco_places_refuse(pco_agent *a, uint64_t op, uint32_t limits) {
  refuse_limit(a, op, limits, a->leaves.may_emulate ? ENODEV : EOPNOTSUPP,
               "the setting cgroup is \"none\"");
}

/* Passes a leaf on to its supervisor: first what to enter, then the counters,
 * of which the agent keeps one. */
static int pass_leaf(pco_agent *a, pco_sup *s, bool own,
                     const pco_cgroup_answer *answer, const int *fds,
                     unsigned n_fds) {
  unsigned n = answer->n_procs;
  pco_counter *kills = own ? &s->own_kills : &s->command_kills;
  if (n < n_fds && answer->counters & PCO_KEEPER_LIMIT_MEMORY)
    kills->fd = fcntl(fds[n], F_DUPFD_CLOEXEC, 3);
  for (int i = 0; i < 2; i++) {
    const int *mine = i == 0 ? fds : fds + n;
    unsigned count = i == 0 ? n : n_fds - n;
    if (count == 0)
      continue;
    pco_wire_begin(&a->buf, i == 0 ? PCO_SUP_LEAF : PCO_SUP_COUNTERS, 0, s->op);
    pco_wire_number(&a->buf, PCO_TAG_FLAGS, own);
    pco_wire_bytes(&a->buf, PCO_TAG_DATA, answer, sizeof *answer);
    pco_wire_end(&a->buf, (uint8_t)count);
    int rc = pco_channel_send_fds(&s->chan, &a->buf, mine, count);
    for (unsigned j = n; i == 0 && rc != 0 && j < n_fds; j++)
      close(fds[j]);
    if (rc != 0)
      return rc;
  }
  pco_commands_flush(a, s);
  return 0;
}

/* A command's leaf in which not all that is required holds is none. */
static bool is_good_leaf(const pco_agent *a, pco_held *h, bool own,
                         const pco_cgroup_answer *answer) {
  pco_request r;
  uint32_t required = a->leaves.limits;
  if (!own && pco_request_parse_passed(&h->frame, &r) == 0)
    required = pco_leaves_required(&a->leaves, &r);
  h->refused |= required & ~answer->limits;
  if (h->refused) {
    h->error = own && answer->error != EMFILE ? EAGAIN : (int)answer->error;
    snprintf(h->text, sizeof h->text, "%s", answer->text);
  }
  return h->refused == 0 && answer->n_procs > 0;
}

/* True if it may work a little later. */
static bool is_shortage(int error) {
  return error == EBUSY || error == EAGAIN || error == ENOMEM ||
         error == EMFILE || error == ENFILE;
}

/* Every answer is there. */
static void placed(pco_agent *a, pco_sup *s) {
  pco_held *h = s->held;
  pco_request r;
  s->held = NULL;
  if (h->refused && h->error == EMFILE)
    pco_commands_refuse(a, s->op, EMFILE, PCO_LIMIT_NONE, NULL);
  else if (h->refused && is_shortage(h->error))
    pco_commands_refuse(a, s->op, EAGAIN, PCO_LIMIT_NONE,
                        "no cgroup can be made now");
  else if (h->refused)
    refuse_limit(a, s->op, h->refused, ENODEV, h->text);
  if (!h->refused && pco_request_parse_passed(&h->frame, &r) == 0) {
    pco_commands_start(a, s, &h->frame, &r);
  } else if (a->leaves.limits & ~s->in) {
    s->final = true;
    pco_lost_add(a, s);
  } else {
    pco_commands_idle(a, s);
  }
  pco_frame_close_fds(&h->frame);
  free(h);
}

void pco_places_answer(pco_agent *a, pco_sup *s, bool own,
                       const pco_cgroup_answer *answer, const int *fds,
                       unsigned n_fds) {
  int rc = 0;
  if (is_good_leaf(a, s->held, own, answer))
    rc = pass_leaf(a, s, own, answer, fds, n_fds);
  else
    while (n_fds > 0)
      close(fds[--n_fds]);
  if (own)
    s->in = answer->limits;
  if (rc != 0)
    fail_place(a, s, -rc);
  else if (--s->placing == 0)
    placed(a, s);
}
