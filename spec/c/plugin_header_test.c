/* SPDX-License-Identifier: MIT */
/*
 * The ABI header as C: it stands alone, may be included twice, and its structs
 * have the layout that a plugin built elsewhere expects.  Everything is checked
 * by the compiler; running it only prints so.  plugin_header_test.cc is the
 * same as C++.
 */
#include "portico/plugin.h"
#include "portico/plugin_lock.h"
#include "portico/plugin_util.h"

#include "plugin_header_test.h"

int main(void) {
  puts("1..1\nok 1 - plugin.h has the layout of ABI 0 as C");
  return 0;
}
