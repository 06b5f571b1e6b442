/* SPDX-License-Identifier: MIT */
/* Is built against another minor. */
#include "minimal.h"

static const pco_backend_info info = MINIMAL_INFO("wrong-minor");
static const pco_backend_info *const backends[] = {&info, NULL};

PCO_EXPORT const pco_plugin_entry pco_plugin_entry_v0 = {
    .struct_size = sizeof(pco_plugin_entry),
    .abi_major = PCO_ABI_MAJOR,
    .abi_minor = PCO_ABI_MINOR + 1,
    .backends = backends};
