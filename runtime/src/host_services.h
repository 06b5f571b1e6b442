/* SPDX-License-Identifier: MIT */
/*
 * What the host does for plugins beside the core vtable: starting programs of
 * the host without forking it ("pco.host.spawn/1") and handing out the agent
 * ("pco.host.agent/1").
 */
#ifndef PCO_HOST_SERVICES_H
#define PCO_HOST_SERVICES_H

#include "portico/plugin.h"

struct pco__runtime;

/* The vtable of a host extension, or NULL.  [any] */
const void *pco__host_extension(const pco_host *host, const char *id);
/* The agent's program, as a descriptor (O_CLOEXEC, the caller's), or a negative
 * code.  [any] */
int pco__shared_image(struct pco__runtime *rt);

#endif /* PCO_HOST_SERVICES_H */
