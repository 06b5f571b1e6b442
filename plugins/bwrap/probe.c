/* SPDX-License-Identifier: MIT */
/*
 * What works on this machine: the exact profile is tried, once for each probe,
 * with the agent's program as the first process; all it does is end with a
 * status that nobody else has.
 */
#include "bwrap.h"

#include <stdatomic.h>
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

#define N_TRIED 10 /* those that the try is about come first */

/* A limit that a cgroup holds, or a resource limit if it can be emulated.
 * `room` keeps the text. */
static pco_capability limit(const char *name, const bwrap_keeper *k,
                            uint32_t bit, bool emulated, char room[512]) {
  char reason[300];
  if (k->start.limits & bit)
    return (pco_capability){name, "a cgroup", PCO_NATIVE, 0};
  bwrap_limits_reason(&k->start, name + sizeof "limits", reason, sizeof reason);
  snprintf(room, 512, "no cgroup can be made (%s)%s", reason,
           emulated ? ": a resource limit of each process" : "");
  return (pco_capability){name, room, emulated ? PCO_EMULATED : PCO_MISSING, 0};
}

/* The same for pids, of which there is a bound in any case. */
static pco_capability limit_of_pids(const bwrap_keeper *k, char room[512]) {
  char reason[512];
  pco_capability c =
      limit("limits.pids", k, PCO_KEEPER_LIMIT_PIDS, true, reason);
  snprintf(room, 512, "%.440s; %u processes if nothing is asked for", c.reason,
           BWRAP_PIDS);
  c.reason = room;
  return c;
}

/* Sets what the try has found out in a list that says that all works. */
static void judge(pco_capability *c, size_t n, const pco_error *err) {
  for (size_t i = 0; i < n && err->code != 0; i++)
    c[i] = (pco_capability){c[i].name, err->message, PCO_MISSING, 0};
}

static void answer(pco_backend *b, pco_op *op, const pco_error *err,
                   const bwrap_keeper *k, bool two_ids) {
  static const bwrap_keeper nothing;
  char memory[512], pids[512], cpus[512];
  const char *ids = two_ids
                        ? "agent and commands have two ids that no account has"
                        : "agent and commands share your id; uids = \"two\" "
                          "and a range in /etc/subuid part them";
  k = k ? k : &nothing;
  pco_capability capabilities[] = {
      {"isolation", ids, PCO_NATIVE, 0},
      {"network.none", NULL, PCO_NATIVE, 0},
      limit("limits.memory", k, PCO_KEEPER_LIMIT_MEMORY, true, memory),
      limit_of_pids(k, pids),
      limit("limits.cpus", k, PCO_KEEPER_LIMIT_CPUS, false, cpus),
      {"limits.disk", "the size of a tmpfs", PCO_NATIVE, 0},
      {"limits.open_files", NULL, PCO_NATIVE, 0},
      {"signals", NULL, PCO_NATIVE, 0},
      {"image", NULL, PCO_NATIVE, 0},
      {"mounts", NULL, PCO_NATIVE, 0},
      {"list",
       "the sandboxes of this process, and the detachable ones of this user's",
       PCO_NATIVE, 0},
      {"user",
       "all commands run as the user '" BWRAP_USER "' (1000), which may be "
       "named",
       PCO_MISSING, 0},
      {"pty", NULL, PCO_NATIVE, 0},
      {"attach", NULL, PCO_NATIVE, 0},
      {"detach", "of sandboxes made with detachable = true", PCO_NATIVE, 0},
      {"pause", "not yet", PCO_MISSING, 0},
      {"snapshot", "not yet", PCO_MISSING, 0},
      {"forward", "not yet", PCO_MISSING, 0},
  };
  judge(capabilities, N_TRIED, err);
  pco_probe_result result = pco_probe_result_init();
  result.caps = PCO_CAP_LIST | PCO_CAP_SIGNALS | PCO_CAP_PTY | PCO_CAP_ATTACH |
                PCO_CAP_DETACHED;
  result.capabilities = capabilities;
  result.n_capabilities = sizeof capabilities / sizeof *capabilities;
  result.detail = err->code != 0 ? err->message : k->program;
  b->host->complete(b->host, op, &result);
}

static void on_ended(bwrap_keeper *k) {
  probe *p = BWRAP_CONTAINER(k, probe, keeper);
  pco_backend *b = p->backend;
  char room[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(room, sizeof room);
  if (k->last.type != PCO_KEEPER_ENDED ||
      k->last.exit_code != PCO_KEEPER_PROBED)
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
  static atomic_uint count;
  char id[32];
  snprintf(id, sizeof id, "probe%u", atomic_fetch_add(&count, 1));
  static const char *const command[] = {BWRAP_AGENT_PROGRAM, "--probe", NULL};
  int rc = bwrap_plan_init_command(&p->plan, p->backend, command, err);
  p->plan.limits.memory_bytes = UINT64_C(1) << 30;
  p->plan.limits.pids = 1000;
  p->plan.limits.cpus = 1;
  return rc == 0 ? bwrap_launch(&p->keeper, p->backend, &p->plan, id, -1,
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
