/* SPDX-License-Identifier: MIT */
/* Needs what this machine does not have. */
#include "minimal.h"

static const pco_backend_info info = MINIMAL_INFO("init-fails");
static const pco_backend_info *const backends[] = {&info, NULL};

static int init(pco_error *err) {
  return pco_error_set(err, PCO_EUNAVAILABLE, PCO_SOURCE_PLUGIN, "needs %s",
                       "/dev/kvm");
}

PCO_EXPORT const pco_plugin_entry pco_plugin_entry_v0 = {
    MINIMAL_ENTRY, .backends = backends, .init = init};
