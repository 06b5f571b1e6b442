/* SPDX-License-Identifier: MIT */
/* Offers a backend that exists already, behind one that does not. */
#include "minimal.h"

static const pco_backend_info fresh = MINIMAL_INFO("fresh");
static const pco_backend_info again = MINIMAL_INFO("good");
static const pco_backend_info *const backends[] = {&fresh, &again, NULL};

PCO_EXPORT const pco_plugin_entry pco_plugin_entry_v0 = {MINIMAL_ENTRY,
                                                         .backends = backends};
