/* SPDX-License-Identifier: MIT */
/* Uses a function that nobody has; built without -z defs. */
#include "minimal.h"

static const pco_backend_info info = MINIMAL_INFO("undefined-symbol");
static const pco_backend_info *const backends[] = {&info, NULL};

int portico_spec_missing_fn(void);

static int init(pco_error *err) {
  (void)err;
  return portico_spec_missing_fn();
}

PCO_EXPORT const pco_plugin_entry pco_plugin_entry_v0 = {
    MINIMAL_ENTRY, .backends = backends, .init = init};
