/* SPDX-License-Identifier: MIT */
/* Hosts of a real agent with a door; see door_host.h. */
#include "door_host.h"

#include <stdlib.h>
#include <unistd.h>

door d;
client c;
static const char *program;

void door_host_init(const char *agent) {
  program = agent;
}

uint64_t host_sh(const char *script, const spawn *like) {
  const char *const argv[] = {"/bin/sh", "-c", script, NULL};
  spawn s = *like;
  s.argv = argv;
  return client_spawn(&c, &s);
}

uint64_t host_sh_relayed(const char *script) {
  return host_sh(script, &(spawn){.kind = {RELAYED}});
}

uint64_t host_start(const char *script, const spawn *like) {
  uint64_t op = host_sh(script, like);
  frame *f = client_take(&c, op, MS);
  OK(f && f->header.type == PCO_WIRE_STARTED, "started: %.40s", script);
  free(f);
  return op;
}

uint64_t host_start_relayed(const char *script) {
  return host_start(script, &(spawn){.kind = {RELAYED}});
}

int host_attach(void) {
  int control = door_attach(&d, &c);
  OK(control >= 0, "a host attaches (%d)", control);
  if (control < 0)
    exit(tap_done()); /* nothing that follows makes sense */
  return control;
}

void host_detach(int control) {
  door_detach(control, &c);
}

told host_told_of(uint64_t op, bool ended) {
  static told all[400];
  for (int i = 0; i < MS / 10; i++) {
    int n = door_commands(&c, all, N(all));
    for (int j = 0; j < n && j < N(all); j++)
      if (all[j].op == op && (!ended || all[j].code >= 0))
        return all[j];
    if (!ended)
      break;
    usleep(10000);
  }
  return (told){.code = -2};
}

void host_finish(int control) {
  pco_keeper_report r;
  door_order(control, PCO_KEEPER_END, 0);
  OK(door_hear(control, &r, NULL, MS) && r.type == PCO_KEEPER_ENDED,
     "its host ends it, and is told");
  IS(r.asked, PCO_KEEPER_BY_HOST, "by whom it was ended");
  OK(door_ended(control, MS), "the control socket ends");
  OK(!door_has(&d, "info") && !door_has(&d, "sock"), "both files are gone");
  IS(door_join(&d, MS), 0, "the agent ends by itself");
  close(control);
  door_drop(&c);
  door_remove(&d);
}

void host_begin(void) {
  door_start(&d, program, NULL);
}
