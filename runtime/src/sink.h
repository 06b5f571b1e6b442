/* SPDX-License-Identifier: MIT */
/*
 * Sinks: where a plugin's process pushes its output (pco_host.push and eof).
 * A sink is one output stream of one pco__process.
 */
#ifndef PCO_SINK_H
#define PCO_SINK_H

#include "portico/plugin.h"

bool pco__sink_push(const pco_host *host, pco_sink *sink, const void *data,
                    size_t len);
void pco__sink_eof(const pco_host *host, pco_sink *sink, int status);

#endif /* PCO_SINK_H */
