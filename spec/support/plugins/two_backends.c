/* SPDX-License-Identifier: MIT */
/* Nothing is wrong with it: it offers two backends. */
#include "minimal.h"

static const pco_backend_info first = MINIMAL_INFO("first");
static const pco_backend_info second = MINIMAL_INFO("second");
static const pco_backend_info *const backends[] = {&first, &second, NULL};

PCO_EXPORT const pco_plugin_entry pco_plugin_entry_v0 = {MINIMAL_ENTRY,
                                                         .backends = backends};
