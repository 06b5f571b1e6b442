/* SPDX-License-Identifier: MIT */
/* Has a libuv of its own, it says. */
#include "minimal.h"

static const pco_backend_info info = MINIMAL_INFO("second-libuv");
static const pco_backend_info *const backends[] = {&info, NULL};

static const void *uv_identity(void) {
  return "1.99.0";
}

PCO_EXPORT const pco_plugin_entry pco_plugin_entry_v0 = {
    MINIMAL_ENTRY, .backends = backends, .uv_identity = uv_identity};
