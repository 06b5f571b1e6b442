/* SPDX-License-Identifier: MIT */
/*
 * Errors that a plugin itself finds.
 */
#ifndef PLUGIN_FAIL_H
#define PLUGIN_FAIL_H

#include "portico/plugin_util.h"

/* Fills err with what the plugin has to say; fmt may be NULL: the code's own
 * text.  Returns code. */
PCO_PRINTF(3, 4)
int plugin_fail(pco_error *err, int code, const char *fmt, ...);

#endif /* PLUGIN_FAIL_H */
