/* SPDX-License-Identifier: MIT */
/* Has no entry; its constructor must not run when it is refused. */
#include "minimal.h"

PCO_EXPORT void not_an_entry(void);
void not_an_entry(void) {
  (void)minimal_api;
}

__attribute__((constructor)) static void on_load(void) {
  setenv("PORTICO_SPEC_CONSTRUCTOR_RAN", "1", 1);
}
