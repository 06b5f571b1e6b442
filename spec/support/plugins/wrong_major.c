/* SPDX-License-Identifier: MIT */
/* Says another major under the symbol of this one. */
#include "minimal.h"

static const pco_backend_info info = MINIMAL_INFO("wrong-major");
static const pco_backend_info *const backends[] = {&info, NULL};

PCO_EXPORT const pco_plugin_entry pco_plugin_entry_v0 = {
    .struct_size = sizeof(pco_plugin_entry),
    .abi_major = 9,
    .backends = backends};
