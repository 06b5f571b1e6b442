/* SPDX-License-Identifier: MIT */
/*
 * What plugins of processes need of the host: its services, and with them the
 * agent's program.
 */
#ifndef PLUGIN_HOST_H
#define PLUGIN_HOST_H

#include "portico/plugin.h"

typedef struct plugin_host {
  const pco_host *host;
  const pco_host_spawn_api *spawner;
  const pco_host_agent_api *agents;
} plugin_host;

/* Takes the services; `name` is the backend's.  0, or PCO_EUNAVAILABLE and
 * *err. */
int plugin_host_init(plugin_host *h, const pco_host *host, const char *name,
                     pco_error *err);
/* Starts the agent's program.  fds has n descriptors, 0 first.  Returns 0 and
 * *pidfd, or a negative code, *err and *pidfd = -1. */
int plugin_start_agent(const plugin_host *h, const char *const *argv,
                       const char *const *env, const char *cwd,
                       const int32_t *fds, size_t n, int32_t *pidfd,
                       pco_error *err);

#endif /* PLUGIN_HOST_H */
