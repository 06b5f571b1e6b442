/* SPDX-License-Identifier: MIT */
/*
 * What the small plugins here share: a backend that opens and closes and does
 * nothing else.  Each of them is right but for the one thing in its name;
 * spec/c/loader_test.c loads them all.
 */
#ifndef PCO_SPEC_MINIMAL_H
#define PCO_SPEC_MINIMAL_H

#include "portico/plugin.h"
#include "portico/plugin_util.h"

static const pco_host *minimal_host;

__attribute__((unused)) static int minimal_open(const pco_host *host,
                                                const pco_pair *settings,
                                                size_t n, pco_backend **out,
                                                pco_error *err) {
  (void)settings;
  (void)n;
  (void)err;
  minimal_host = host;
  *out = (pco_backend *)&minimal_host;
  return 0;
}

__attribute__((unused)) static int minimal_close(pco_backend *b, pco_op *op) {
  (void)b;
  minimal_host->complete(minimal_host, op, NULL);
  return 0;
}

__attribute__((unused)) static int minimal_probe(pco_backend *b, pco_op *op) {
  (void)b;
  pco_probe_result result = pco_probe_result_init();
  minimal_host->complete(minimal_host, op, &result);
  return 0;
}

__attribute__((unused)) static int
minimal_create(pco_backend *b, const pco_create_opts *o, pco_op *op) {
  (void)b;
  (void)o;
  pco_fail(minimal_host, op, PCO_EUNSUPPORTED, PCO_SOURCE_PLUGIN, NULL);
  return 0;
}

__attribute__((unused)) static int minimal_destroy(pco_sandbox *s, pco_op *op) {
  (void)s;
  minimal_host->complete(minimal_host, op, NULL);
  return 0;
}

__attribute__((unused)) static const pco_backend_api minimal_api = {
    .struct_size = sizeof minimal_api,
    .open = minimal_open,
    .close = minimal_close,
    .probe = minimal_probe,
    .create = minimal_create,
    .destroy = minimal_destroy,
};

#define MINIMAL_INFO(name)                                                     \
  {                                                                            \
    .struct_size = sizeof(pco_backend_info), .id = (name),                     \
    .summary = "a plugin for tests", .version = "0", .license = "MIT",         \
    .api = &minimal_api                                                        \
  }

#define MINIMAL_ENTRY                                                          \
  .struct_size = sizeof(pco_plugin_entry), .abi_major = PCO_ABI_MAJOR,         \
  .abi_minor = PCO_ABI_MINOR

#endif /* PCO_SPEC_MINIMAL_H */
