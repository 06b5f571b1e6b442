/* SPDX-License-Identifier: MIT */
/* Offers one backend twice. */
#include "minimal.h"

static const pco_backend_info one = MINIMAL_INFO("twice");
static const pco_backend_info two = MINIMAL_INFO("twice");
static const pco_backend_info *const backends[] = {&one, &two, NULL};

PCO_EXPORT const pco_plugin_entry pco_plugin_entry_v0 = {MINIMAL_ENTRY,
                                                         .backends = backends};
