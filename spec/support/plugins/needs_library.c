/* SPDX-License-Identifier: MIT */
/* Is linked with a library (nope.c) that is not where it is looked for. */
#include "minimal.h"

static const pco_backend_info info = MINIMAL_INFO("needs-library");
static const pco_backend_info *const backends[] = {&info, NULL};

int portico_spec_nope(void);

static int init(pco_error *err) {
  (void)err;
  return portico_spec_nope();
}

PCO_EXPORT const pco_plugin_entry pco_plugin_entry_v0 = {
    MINIMAL_ENTRY, .backends = backends, .init = init};
