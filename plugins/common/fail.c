/* SPDX-License-Identifier: MIT */
/*
 * See fail.h.
 */
#include "fail.h"

int plugin_fail(pco_error *err, int code, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  pco_error_vset(err, code, PCO_SOURCE_PLUGIN, fmt, args);
  va_end(args);
  return code;
}
