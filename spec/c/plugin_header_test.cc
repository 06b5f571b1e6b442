/* SPDX-License-Identifier: MIT */
/*
 * The ABI header as C++17; see plugin_header_test.c.  The layout must be the
 * same, and an entry can be defined in C++.
 */
#include "portico/plugin.h"
#include "portico/plugin_lock.h"
#include "portico/plugin_util.h"

#include "plugin_header_test.h"

static const pco_backend_info *const backends[] = {nullptr};

const pco_plugin_entry pco_plugin_entry_v0 = {sizeof(pco_plugin_entry),
                                              PCO_ABI_MAJOR,
                                              PCO_ABI_MINOR,
                                              backends,
                                              nullptr,
                                              nullptr,
                                              nullptr};

int main() {
  puts("1..1\nok 1 - plugin.h has the layout of ABI 0 as C++");
  return 0;
}
