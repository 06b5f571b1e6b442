/* SPDX-License-Identifier: MIT */
/* Has an entry of another size. */
#include "minimal.h"

static const pco_backend_info info = MINIMAL_INFO("wrong-size");
static const pco_backend_info *const backends[] = {&info, NULL};

PCO_EXPORT const pco_plugin_entry pco_plugin_entry_v0 = {
    .struct_size = sizeof(pco_plugin_entry) - 8,
    .abi_major = PCO_ABI_MAJOR,
    .abi_minor = PCO_ABI_MINOR,
    .backends = backends};
