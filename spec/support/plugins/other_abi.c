/* SPDX-License-Identifier: MIT */
/* Is built for another major: only pco_plugin_entry_v7 is there. */
#include "minimal.h"

static const pco_backend_info info = MINIMAL_INFO("other-abi");
static const pco_backend_info *const backends[] = {&info, NULL};

PCO_EXPORT extern const pco_plugin_entry pco_plugin_entry_v7;
const pco_plugin_entry pco_plugin_entry_v7 = {MINIMAL_ENTRY,
                                              .backends = backends};
