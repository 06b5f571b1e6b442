/* SPDX-License-Identifier: MIT */
/* Has an id that is a path. */
#include "minimal.h"

static const pco_backend_info info = MINIMAL_INFO("../x");
static const pco_backend_info *const backends[] = {&info, NULL};

PCO_EXPORT const pco_plugin_entry pco_plugin_entry_v0 = {MINIMAL_ENTRY,
                                                         .backends = backends};
