/* SPDX-License-Identifier: MIT */
/*
 * What works on this machine: the exact profile is tried, once for each probe,
 * with the agent's program as the first process; all it does is print its
 * version.
 */
#include "bwrap.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct probe {
  bwrap_keeper keeper;
  pco_backend *backend;
  pco_op *op;
  bwrap_plan plan;
  bool cancelled;
} probe;

/* ---- the answer --------------------------------------------------------- */

#define N_CAPABILITIES 18

static void answer(pco_backend *b, pco_op *op, const pco_error *err,
                   const bwrap_keeper *k, bool two_ids) {
  uint32_t limits = k ? k->start.limits : 0;
  bool works = err->code == 0;
  uint32_t level = works ? PCO_NATIVE : PCO_MISSING;
  const char *why = works ? NULL : err->message;
  const char *no_cgroup =
      works ? "no cgroup can be made here: a resource limit of each process"
            : why;
  const pco_capability capabilities[N_CAPABILITIES] = {
      {"isolation",
       !works    ? why
       : two_ids ? "agent and commands have two ids that no account has"
                 : "agent and commands share your id; uids = \"two\" and a "
                   "range in /etc/subuid part them",
       level, 0},
      {"network.none", why, level, 0},
      {"limits.memory",
       limits & PCO_KEEPER_LIMIT_MEMORY ? "a cgroup" : no_cgroup,
       !works                             ? PCO_MISSING
       : limits & PCO_KEEPER_LIMIT_MEMORY ? PCO_NATIVE
                                          : PCO_EMULATED,
       0},
      {"limits.pids", limits & PCO_KEEPER_LIMIT_PIDS ? "a cgroup" : no_cgroup,
       !works                           ? PCO_MISSING
       : limits & PCO_KEEPER_LIMIT_PIDS ? PCO_NATIVE
                                        : PCO_EMULATED,
       0},
      {"limits.cpus",
       !works                           ? why
       : limits & PCO_KEEPER_LIMIT_CPUS ? "a cgroup"
                                        : "no cgroup can be made here",
       works && limits & PCO_KEEPER_LIMIT_CPUS ? PCO_NATIVE : PCO_MISSING, 0},
      {"limits.disk", works ? "the size of a tmpfs" : why, level, 0},
      {"limits.open_files", why, level, 0},
      {"pty", "the agent makes no terminals yet", PCO_MISSING, 0},
      {"signals", why, level, 0},
      {"list", "the sandboxes of this process", PCO_NATIVE, 0},
      {"user", "all commands run as the user '" BWRAP_USER "'", PCO_MISSING, 0},
      {"image", why, level, 0},
      {"mounts", why, level, 0},
      {"attach", "a sandbox ends with the process that made it", PCO_MISSING,
       0},
      {"detach", "a sandbox ends with the process that made it", PCO_MISSING,
       0},
      {"pause", "not yet", PCO_MISSING, 0},
      {"snapshot", "not yet", PCO_MISSING, 0},
      {"forward", "not yet", PCO_MISSING, 0},
  };
  pco_probe_result result = pco_probe_result_init();
  result.caps = PCO_CAP_LIST | PCO_CAP_SIGNALS;
  result.capabilities = capabilities;
  result.n_capabilities = N_CAPABILITIES;
  b->host->complete(b->host, op, &result);
}

static void on_ended(bwrap_keeper *k) {
  probe *p = BWRAP_CONTAINER(k, probe, keeper);
  pco_backend *b = p->backend;
  char room[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(room, sizeof room);
  if (k->last.type != PCO_KEEPER_ENDED || k->last.exit_code != 0)
    bwrap_explain(k, &err);
  if (p->cancelled)
    pco_fail(b->host, p->op, UV_ECANCELED, PCO_SOURCE_PLUGIN, NULL);
  else
    answer(b, p->op, &err, k, p->plan.two_ids);
  bwrap_plan_deinit(&p->plan);
  free(p);
  b->work--;
  bwrap_settle(b);
}

/* ---- the try ------------------------------------------------------------ */

static void on_report(bwrap_keeper *k) {
  if (k->over)
    bwrap_keeper_end(k, 0, on_ended);
}

static void cancel(void *arg) {
  probe *p = arg;
  p->cancelled = true;
  bwrap_keeper_end(&p->keeper, 0, on_ended);
}

static int start(probe *p, pco_error *err) {
  static const char *const command[] = {BWRAP_AGENT_PROGRAM, "--version", NULL};
  int rc = bwrap_plan_init_command(&p->plan, p->backend, command, err);
  return rc == 0 ? bwrap_launch(&p->keeper, p->backend, &p->plan, "probe", -1,
                                on_report, err)
                 : rc;
}

int bwrap_probe(pco_backend *b, pco_op *op) {
  char room[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(room, sizeof room);
  probe *p = calloc(1, sizeof *p);
  int rc = UV_ENOMEM;
  if (p) {
    p->backend = b;
    p->op = op;
    rc = start(p, &err);
  }
  if (rc == 0) {
    b->work++;
    b->host->set_cancel(b->host, op, cancel, p);
    return 0;
  }
  if (p)
    bwrap_plan_deinit(&p->plan);
  free(p);
  err.code = rc;
  if (!err.message)
    pco_error_set(&err, rc, PCO_SOURCE_PLUGIN, "%s", uv_strerror(rc));
  answer(b, op, &err, NULL, false);
  return 0;
}
