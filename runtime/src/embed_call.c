/* SPDX-License-Identifier: MIT */
/* Calls of a host in C on sandboxes: there are none yet. */
#include "embed.h"

bool pco__embed_tell_calls(pco_runtime *rt) {
  (void)rt;
  return false;
}

void pco__embed_cancel_calls(pco_runtime *rt) {
  (void)rt;
}
