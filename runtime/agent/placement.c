/* SPDX-License-Identifier: MIT */
/*
 * See placement.h.
 */
#include "placement.h"

#include "supervisor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int pco_placement_answer(const pco_frame *f, pco_cgroup_answer *out) {
  pco_wire_iter it;
  pco_wire_field field;
  pco_wire_iter_init(&it, f->payload, f->header.size);
  while (pco_wire_next(&it, &field) == 1) {
    if (field.tag != PCO_TAG_DATA || field.len != sizeof *out)
      continue;
    memcpy(out, field.data, sizeof *out);
    return 0;
  }
  return -EPROTO;
}

void pco_placement_init(pco_placement *p) {
  *p = (pco_placement){.memory = {.fd = -1}, .pids = {.fd = -1}};
}

static void close_procs(pco_placement *p) {
  while (p->n_procs > 0)
    close(p->procs[--p->n_procs]);
}

void pco_placement_deinit(pco_placement *p) {
  close_procs(p);
  if (p->memory.fd >= 0)
    close(p->memory.fd);
  if (p->pids.fd >= 0)
    close(p->pids.fd);
  pco_placement_init(p);
}

void pco_placement_take(pco_placement *p, const pco_cgroup_answer *a,
                        pco_frame *f) {
  unsigned n = f->header.n_fds, next = 0;
  f->header.n_fds = 0;
  if (f->header.type == PCO_SUP_LEAF) {
    p->limits = a->limits;
    while (next < n)
      p->procs[p->n_procs++] = f->fds[next++];
    return;
  }
  if (next < n && a->counters & PCO_KEEPER_LIMIT_MEMORY)
    p->memory = (pco_counter){.fd = f->fds[next++]};
  if (next < n && a->counters & PCO_KEEPER_LIMIT_PIDS)
    p->pids = (pco_counter){.fd = f->fds[next++],
                            .shared = a->shared & PCO_KEEPER_LIMIT_PIDS};
  while (next < n)
    close(f->fds[next++]);
}

int pco_placement_enter(pco_placement *p) {
  int rc = 0;
  for (unsigned i = 0; rc == 0 && i < p->n_procs; i++)
    if (write(p->procs[i], "0", 1) != 1)
      rc = -errno;
  close_procs(p);
  return rc;
}

/* memory: "oom_kill N" (a line of memory.oom_control in v1, of memory.events in
 * v2, where "oom_group_kill" is another); pids: "max N". */
uint64_t pco_counter_read(const pco_counter *c, bool of_memory) {
  char text[512];
  const char *name = of_memory ? "oom_kill " : "max ";
  ssize_t n = c->fd >= 0 ? pread(c->fd, text, sizeof text - 1, 0) : -1;
  if (n <= 0)
    return c->seen;
  text[n] = 0;
  const char *at = strstr(text, name);
  return at && (at == text || at[-1] == '\n')
             ? strtoull(at + strlen(name), NULL, 10)
             : c->seen;
}

bool pco_counter_rose(pco_counter *c, bool of_memory) {
  uint64_t value = pco_counter_read(c, of_memory);
  bool rose = value > c->seen;
  c->seen = value;
  return rose;
}
