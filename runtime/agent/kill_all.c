/* SPDX-License-Identifier: MIT */
/* See kill_all.h. */
#include "kill_all.h"

static void add_survivor(pco_kill_all *k, uint64_t pid) {
  if (k->n_survivors < PCO_MAX_SURVIVORS)
    k->survivors[k->n_survivors++] = pid;
}

/* Number 0 is that of a free place. */
static pco_kill_all *find(pco_agent *a, uint64_t op) {
  for (size_t i = 0; i < PCO_MAX_KILL_ALL; i++)
    if (a->commands.kill_all[i].op == op)
      return &a->commands.kill_all[i];
  return NULL;
}

static void end(pco_agent *a, pco_kill_all *k) {
  pco_wire_begin(&a->buf, PCO_WIRE_REPLY, 0, k->op);
  for (size_t i = 0; i < k->n_survivors; i++)
    pco_wire_number(&a->buf, PCO_TAG_SURVIVOR, k->survivors[i]);
  pco_answer(a);
  k->op = 0;
}

pco_kill_all *pco_kill_all_begin(pco_agent *a, uint64_t op) {
  pco_kill_all *k = find(a, 0);
  if (!k)
    return NULL;
  k->op = op;
  k->n_survivors = 0;
  k->waiting = 1; /* the caller */
  return k;
}

/* While some are lost, their orphans may live: pco_kill_all_buried() ends it
 * then. */
void pco_kill_all_step(pco_agent *a, uint64_t op) {
  pco_kill_all *k = find(a, op);
  if (k && --k->waiting == 0 && !a->commands.lost)
    end(a, k);
}

void pco_kill_all_reply(pco_agent *a, const pco_frame *f) {
  pco_kill_all *k = find(a, f->header.op);
  pco_wire_iter it;
  pco_wire_field field;
  pco_wire_iter_init(&it, f->payload, f->header.size);
  while (k && pco_wire_next(&it, &field) == 1)
    if (field.tag == PCO_TAG_SURVIVOR)
      add_survivor(k, field.number);
  pco_kill_all_step(a, f->header.op);
}

void pco_kill_all_orphans(pco_agent *a, const pid_t *pids, size_t n) {
  for (size_t i = 0; i < PCO_MAX_KILL_ALL; i++)
    for (size_t j = 0; a->commands.kill_all[i].op && j < n; j++)
      add_survivor(&a->commands.kill_all[i], (uint64_t)pids[j]);
}

void pco_kill_all_buried(pco_agent *a) {
  pco_commands *c = &a->commands;
  for (size_t i = 0; i < PCO_MAX_KILL_ALL; i++)
    if (c->kill_all[i].op && c->kill_all[i].waiting == 0)
      end(a, &c->kill_all[i]);
}
