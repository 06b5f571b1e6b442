/* SPDX-License-Identifier: MIT */
/*
 * See host.h.
 */
#include "host.h"

#include <unistd.h>

#include "fail.h"

int plugin_host_init(plugin_host *h, const pco_host *host, const char *name,
                     pco_error *err) {
  h->host = host;
  h->spawner = host->get_extension(host, PCO_HOST_SPAWN_ID);
  h->agents = host->get_extension(host, PCO_HOST_AGENT_ID);
  if (host->loop && h->spawner && h->agents)
    return 0;
  return plugin_fail(err, PCO_EUNAVAILABLE,
                     "%s needs a host with a loop, " PCO_HOST_SPAWN_ID
                     " and " PCO_HOST_AGENT_ID,
                     name);
}

int plugin_start_agent(const plugin_host *h, const char *const *argv,
                       const char *const *env, const char *cwd,
                       const int32_t *fds, size_t n, int32_t *pidfd,
                       pco_error *err) {
  *pidfd = -1;
  int image = h->agents->open_image(h->host, NULL, err);
  if (image < 0)
    return image;
  pco_host_spawn_opts opts = pco_host_spawn_opts_init();
  opts.exec_fd = image;
  opts.argv = argv;
  opts.env = env;
  opts.cwd = cwd;
  opts.fds = fds;
  opts.n_fds = n;
  int rc = h->spawner->spawn(h->host, &opts, pidfd, err);
  close(image);
  return rc;
}
