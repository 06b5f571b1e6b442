/* SPDX-License-Identifier: MIT */
/* Offers no backend. */
#include "portico/plugin.h"

static const pco_backend_info *const backends[] = {NULL};

PCO_EXPORT const pco_plugin_entry pco_plugin_entry_v0 = {
    .struct_size = sizeof(pco_plugin_entry),
    .abi_major = PCO_ABI_MAJOR,
    .abi_minor = PCO_ABI_MINOR,
    .backends = backends};
