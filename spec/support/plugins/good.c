/* SPDX-License-Identifier: MIT */
/* Nothing is wrong with it. */
#include "minimal.h"

static const pco_backend_info info = MINIMAL_INFO("good");
static const pco_backend_info *const backends[] = {&info, NULL};

PCO_EXPORT const pco_plugin_entry pco_plugin_entry_v0 = {MINIMAL_ENTRY,
                                                         .backends = backends};
