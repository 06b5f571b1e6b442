/* SPDX-License-Identifier: MIT */
/*
 * Makes a sandbox whose agent's stream has ended already, and cannot remove it
 * again: creation fails, and so does undoing it.
 */
#include "minimal.h"

#include <sys/socket.h>
#include <unistd.h>

static int half_create(pco_backend *b, const pco_create_opts *opts,
                       pco_op *op) {
  int fds[2];
  (void)opts;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
    return -1;
  close(fds[1]);
  pco_sandbox_result result = {.struct_size = sizeof result,
                               .flags = PCO_SANDBOX_HAS_AGENT,
                               .sandbox = (pco_sandbox *)(void *)b,
                               .id = "half-1",
                               .agent_fd = fds[0]};
  minimal_host->complete(minimal_host, op, &result);
  return 0;
}

static int half_destroy(pco_sandbox *s, pco_op *op) {
  (void)s;
  pco_error err = {.struct_size = sizeof err,
                   .code = PCO_EBACKEND,
                   .source = PCO_SOURCE_PLUGIN,
                   .message = "half-1 could not be removed"};
  minimal_host->fail(minimal_host, op, &err);
  return 0;
}

static const pco_backend_api api = {
    .struct_size = sizeof api,
    .open = minimal_open,
    .close = minimal_close,
    .probe = minimal_probe,
    .create = half_create,
    .destroy = half_destroy,
};
static const pco_backend_info info = {
    .struct_size = sizeof info,
    .id = "half-made",
    .summary = "a plugin for tests",
    .version = "0",
    .license = "MIT",
    .api = &api,
};
static const pco_backend_info *const backends[] = {&info, NULL};

PCO_EXPORT const pco_plugin_entry pco_plugin_entry_v0 = {MINIMAL_ENTRY,
                                                         .backends = backends};
