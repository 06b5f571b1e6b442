/* SPDX-License-Identifier: MIT */
/* Lacks a mandatory function. */
#include "minimal.h"

static const pco_backend_api api = {
    .struct_size = sizeof api,
    .open = minimal_open,
    .close = minimal_close,
    .probe = minimal_probe,
    .destroy = minimal_destroy,
};
static const pco_backend_info info = {
    .struct_size = sizeof info,
    .id = "no-create",
    .summary = "a plugin for tests",
    .version = "0",
    .license = "MIT",
    .api = &api,
};
static const pco_backend_info *const backends[] = {&info, NULL};

PCO_EXPORT const pco_plugin_entry pco_plugin_entry_v0 = {MINIMAL_ENTRY,
                                                         .backends = backends};
