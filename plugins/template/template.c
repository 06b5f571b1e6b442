/* SPDX-License-Identifier: MIT */
/*
 * A backend to copy.  It makes sandboxes that can do nothing yet: every command
 * is answered with "not written yet".  Seven steps make a backend of it; look
 * for "Step".  plugins/README.md explains the rules, plugins/null/ is a
 * complete small backend without an agent, plugins/local/ one with an agent.
 *
 * Step 1: copy this folder, rename template everywhere, and say here what a
 * sandbox of yours is, who owns what, and what it does not protect from.
 */
#include <errno.h> /* codes are libuv's, which are -errno */
#include <stdlib.h>

#include "portico/plugin.h"
#include "portico/plugin_util.h"

/* ---- Step 2: what a backend and a sandbox are made of ------------------- */

/* One for each loop; only ever touched on its loop. */
struct pco_backend {
  const pco_host *host; /* valid until close() has completed */
  pco_sandbox *sandboxes;
};

struct pco_sandbox {
  pco_sandbox *next;
  pco_backend *backend;
  char id[65];
};

/* ---- Step 3: open and close --------------------------------------------- */

static const char *const known_settings[] = {NULL}; /* {"address", NULL} */

/* Must not block: check the settings, remember the host, connect later. */
static int template_open(const pco_host *host, const pco_pair *settings,
                         size_t n_settings, pco_backend **out, pco_error *err) {
  *out = NULL;
  int rc = pco_settings_check(settings, n_settings, known_settings, err);
  if (rc < 0)
    return rc;
  pco_backend *b = calloc(1, sizeof *b);
  if (!b)
    return pco_error_set(err, -ENOMEM, PCO_SOURCE_PLUGIN, NULL);
  b->host = host;
  *out = b;
  return 0;
}

/* Completes when nothing is left: no process, no uv handle, no thread. */
static int template_close(pco_backend *b, pco_op *op) {
  const pco_host *host = b->host;
  while (b->sandboxes) {
    pco_sandbox *s = b->sandboxes;
    b->sandboxes = s->next;
    free(s);
  }
  free(b);
  host->complete(host, op, NULL);
  return 0;
}

/* ---- Step 4: say what works here, and why the rest does not ------------- */

static int template_probe(pco_backend *b, pco_op *op) {
  static const pco_capability capabilities[] = {
      {"isolation", "there is nothing to isolate yet", PCO_MISSING, 0},
      {"network.none", "commands do not run yet", PCO_MISSING, 0},
  };
  pco_probe_result result = pco_probe_result_init();
  result.capabilities = capabilities;
  result.n_capabilities = sizeof capabilities / sizeof *capabilities;
  b->host->complete(b->host, op, &result);
  return 0;
}

/* ---- Step 5: make a sandbox, all or nothing ----------------------------- */

static int check_create(const pco_create_opts *o, pco_error *err) {
  uint32_t cannot = pco_create_wanted(o) & ~0u; /* & ~(PCO_WANTS_ENV | ...) */
  if (cannot)
    return pco_error_set(err, PCO_EUNSUPPORTED, PCO_SOURCE_PLUGIN,
                         "template cannot do '%s' yet", pco_wants_name(cannot));
  if (o->name && !pco_id_is_valid(o->name))
    return pco_error_set(err, -EINVAL, PCO_SOURCE_PLUGIN, "bad name '%.64s'",
                         o->name);
  return pco_settings_check(o->settings, o->n_settings, known_settings, err);
}

/* A backend that can start a program inside gives the host a stream to a
 * portico-agent (PCO_SANDBOX_HAS_AGENT and agent_fd) and is done: step 7 is
 * then the agent's.  See local_create.c. */
static int template_create(pco_backend *b, const pco_create_opts *o,
                           pco_op *op) {
  char room[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(room, sizeof room);
  int rc = check_create(o, &err);
  pco_sandbox *s = rc == 0 ? calloc(1, sizeof *s) : NULL;
  if (rc == 0 && !s)
    pco_error_set(&err, -ENOMEM, PCO_SOURCE_PLUGIN, NULL);
  if (!s) {
    b->host->fail(b->host, op, &err);
    return 0;
  }
  s->backend = b;
  s->next = b->sandboxes;
  b->sandboxes = s;
  if (o->name)
    snprintf(s->id, sizeof s->id, "%s", o->name);
  else
    snprintf(s->id, sizeof s->id, "template-%lx", (unsigned long)(uintptr_t)s);
  pco_sandbox_result result = pco_sandbox_result_init();
  result.sandbox = s;
  result.id = s->id;
  b->host->complete(b->host, op, &result);
  return 0;
}

/* ---- Step 6: end it, whatever state it is in ---------------------------- */

static int template_destroy(pco_sandbox *s, pco_op *op) {
  pco_backend *b = s->backend;
  pco_sandbox **at = &b->sandboxes;
  while (*at != s)
    at = &(*at)->next;
  *at = s->next;
  free(s);
  b->host->complete(b->host, op, NULL);
  return 0;
}

/* ---- Step 7: commands (without an agent) -------------------------------- */

static int template_spawn(pco_sandbox *s, const pco_spawn_opts *o, pco_op *op) {
  pco_fail_path(s->backend->host, op, PCO_EUNSUPPORTED, PCO_SOURCE_PLUGIN,
                o->argv[0], "template starts no commands: not written yet");
  return 0;
}

/* ---- the entry: the one symbol that is exported ------------------------- */

static const pco_backend_api api = {
    .struct_size = sizeof api,
    .open = template_open,
    .close = template_close,
    .probe = template_probe,
    .create = template_create,
    .destroy = template_destroy,
    .spawn = template_spawn,
};

static const pco_backend_info info = {
    .struct_size = sizeof info,
    .id = "template",
    .summary = "a backend to copy",
    .version = "0",
    .license = "MIT",
    .api = &api,
};

static const pco_backend_info *const backends[] = {&info, NULL};

/* A plugin that calls libuv adds .uv_identity, as plugins/null/null.c does, and
 * links the shared libuv; it then gets host->loop. */
PCO_EXPORT const pco_plugin_entry pco_plugin_entry_v0 = {
    .struct_size = sizeof pco_plugin_entry_v0,
    .abi_major = PCO_ABI_MAJOR,
    .abi_minor = PCO_ABI_MINOR,
    .backends = backends,
};
