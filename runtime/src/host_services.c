/* SPDX-License-Identifier: MIT */
/* What the host does for plugins; see host_services.h. */
#include "host_services.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/utsname.h>

#include "backend.h"
#include "runtime.h"
#include "sys/agent_image.h"
#include "sys/spawn.h"

#ifndef PCO_AGENT_RELPATH
#  define PCO_AGENT_RELPATH "../libexec/portico/portico-agent"
#endif

static int set_error(pco_error *err, int code, const char *message) {
  if (err) {
    err->code = code;
    err->source = PCO_SOURCE_HOST;
    err->message = message;
  }
  return code;
}

/* One image for all sandboxes of a runtime: its pages are shared by them. */
int pco__shared_image(pco__runtime *rt) {
  pthread_mutex_lock(&rt->lock);
  int rc = rt->image_fd;
  if (rc < 0) {
    char path[PATH_MAX];
    rc = pco__own_path(PCO_AGENT_RELPATH, path, sizeof path);
    if (rc == 0)
      rc = pco__agent_image_open(path);
    rt->image_fd = rc < 0 ? -1 : rc;
  }
  if (rc >= 0) {
    rc = fcntl(rc, F_DUPFD_CLOEXEC, 3);
    rc = rc < 0 ? uv_translate_sys_error(errno) : rc;
  }
  pthread_mutex_unlock(&rt->lock);
  return rc;
}

/* What there is to say besides the code's own text; or NULL. */
static const char *image_text(int code) {
  switch (code) {
  case UV_ENOENT:
  case UV_EACCES:
    return "cannot read the program portico-agent, which belongs beside this "
           "library";
  case UV_EFBIG:
    return "the copy of portico-agent would be longer than files of this "
           "program may be (raise that, ulimit -f)";
  default:
    return NULL;
  }
}

static int open_image(const pco_host *host, const char *machine,
                      pco_error *err) {
  pco__backend *b = (pco__backend *)host->host_data;
  struct utsname name;
  if (machine && uname(&name) == 0 && strcmp(machine, name.machine) != 0)
    return set_error(err, PCO_EUNAVAILABLE,
                     "there is no agent for that machine here");
  int rc = pco__shared_image(b->loop->runtime);
  return rc < 0 ? set_error(err, rc, image_text(rc)) : rc;
}

static int host_spawn(const pco_host *host, const pco_host_spawn_opts *opts,
                      int32_t *pidfd, pco_error *err) {
  (void)host;
  int fd = -1;
  int rc = pco__spawn(opts->exec_fd < 0 ? opts->argv[0] : NULL, opts->exec_fd,
                      (char *const *)(uintptr_t)opts->argv,
                      (char *const *)(uintptr_t)opts->env, opts->cwd, opts->fds,
                      opts->n_fds, &fd);
  *pidfd = fd;
  return rc < 0 ? set_error(err, rc, NULL) : 0;
}

static const pco_host_agent_api agent_api = {.struct_size = sizeof agent_api,
                                             .open_image = open_image};
static const pco_host_spawn_api spawn_api = {.struct_size = sizeof spawn_api,
                                             .spawn = host_spawn};

const void *pco__host_extension(const pco_host *host, const char *id) {
  (void)host;
  if (strcmp(id, "pco.host.agent/1") == 0)
    return &agent_api;
  if (strcmp(id, "pco.host.spawn/1") == 0)
    return &spawn_api;
  return NULL;
}
