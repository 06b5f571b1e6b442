/* SPDX-License-Identifier: MIT */
/*
 * Limits: what the keeper is told to make cgroups for, what the agent is told
 * to emulate, and what was made of it.
 *
 * The agent hears from the keeper which limits its cgroups hold; resource
 * limits take the place of the others.  So it is told of all, before anybody
 * knows.
 */
#include "bwrap.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#define CGROUP_LIMITS (PCO_WANTS_MEMORY | PCO_WANTS_PIDS | PCO_WANTS_CPUS)

static bool has_cgroup(const pco_backend *b, const bwrap_plan *p) {
  return !pco_streq(b->cgroup, "none") && !bwrap_is_weak(p, "cgroup");
}

static void add_limit(bwrap_words *w, const char *what, uint64_t amount) {
  if (amount == 0)
    return;
  bwrap_words_add_all(w, "limit", what, NULL);
  bwrap_words_addf(w, "%llu", (unsigned long long)amount);
}

/* Ids are unique in a process only, and pids in a PID namespace; the pid is for
 * people. */
int bwrap_limits_name(char *out, size_t size, const pco_backend *b,
                      const bwrap_plan *p, const char *id) {
  uint32_t random;
  out[0] = '\0';
  if (!has_cgroup(b, p))
    return 0;
  if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
    return -EAGAIN;
  snprintf(out, size, "%s-%08x-%ld", id, (unsigned)random, (long)getpid());
  return 0;
}

/* More than the commands have, so that there is room for the supervisors. */
uint64_t bwrap_limits_processes(const bwrap_plan *p) {
  uint64_t commands = p->limits.pids ? p->limits.pids : BWRAP_PIDS;
  return commands < UINT32_MAX ? commands + BWRAP_AGENT_PIDS : UINT32_MAX;
}

void bwrap_limits_keeper(bwrap_words *w, const pco_backend *b,
                         const bwrap_plan *p, const char *name) {
  if (!*name)
    return;
  bwrap_words_add_all(w, "cgroup", b->cgroup, name, NULL);
  add_limit(w, "memory", p->limits.memory_bytes);
  add_limit(w, "pids", p->limits.pids);
  add_limit(w, "cpus", (uint64_t)(p->limits.cpus * 1000 + 0.5));
}

/* With one id, descriptors that commands have in flight count together with
 * those of all processes of the user; who may have more open than are in flight
 * can still send.  So commands may open half as many as the host. */
static uint64_t open_files(const bwrap_plan *p) {
  struct rlimit own;
  if (p->limits.open_files || p->two_ids || bwrap_is_weak(p, "open_files"))
    return p->limits.open_files;
  if (getrlimit(RLIMIT_NOFILE, &own) < 0 || own.rlim_cur == RLIM_INFINITY)
    return 0;
  return own.rlim_cur / 2;
}

static size_t append(char *text, size_t size, size_t len, const char *what,
                     uint64_t amount) {
  if (amount == 0)
    return len;
  int n = snprintf(text + len, size - len, "%s%s=%llu", len ? "," : "", what,
                   (unsigned long long)amount);
  return n > 0 ? len + (size_t)n : len;
}

void bwrap_limits_agent(bwrap_words *w, const pco_backend *b,
                        const bwrap_plan *p) {
  char text[128];
  size_t len = 0;
  if (has_cgroup(b, p)) {
    bwrap_words_add(w, "--keeper");
    bwrap_words_addf(w, "%d", PCO_KEEPER_AGENT_FD);
  }
  bwrap_words_add_all(w, "--emulate", p->strict ? "none" : "memory,pids", NULL);
  if (!bwrap_is_weak(p, "cgroup")) {
    len = append(text, sizeof text, len, "memory", p->limits.memory_bytes);
    len = append(text, sizeof text, len, "pids", p->limits.pids);
  }
  if (!p->limits.pids && !bwrap_is_weak(p, "processes"))
    len = append(text, sizeof text, len, "pids", BWRAP_PIDS);
  len = append(text, sizeof text, len, "open_files", open_files(p));
  if (len > 0)
    bwrap_words_add_all(w, "--rlimit", text, NULL);
}

void bwrap_limits_reason(const pco_keeper_report *r, const char *what,
                         char *out, size_t size) {
  size_t len = strlen(what);
  const char *at = r->text;
  while (*at && !(strncmp(at, what, len) == 0 && at[len] == ':')) {
    at += strcspn(at, ";");
    at += strspn(at, "; ");
  }
  if (*at)
    at += len + strspn(at + len, ": ");
  if (!*at)
    at = "the setting cgroup is \"none\"";
  snprintf(out, size, "%.*s", (int)strcspn(at, ";"), at);
}

int bwrap_limits_check(const pco_sandbox *s, const pco_keeper_report *r,
                       pco_error *err) {
  uint32_t held = 0;
  if (r->limits & PCO_KEEPER_LIMIT_MEMORY)
    held |= PCO_WANTS_MEMORY;
  if (r->limits & PCO_KEEPER_LIMIT_PIDS)
    held |= PCO_WANTS_PIDS;
  if (r->limits & PCO_KEEPER_LIMIT_CPUS)
    held |= PCO_WANTS_CPUS;
  uint32_t must = s->flags & PCO_CREATE_STRICT ? CGROUP_LIMITS : PCO_WANTS_CPUS;
  uint32_t missing = s->wants & must & ~held;
  if (!missing || s->is_weak)
    return 0;
  char reason[300];
  const char *what = pco_wants_name(missing);
  bwrap_limits_reason(r, what + sizeof "limits", reason, sizeof reason);
  return pco_error_set(
      err, PCO_EUNAVAILABLE, PCO_SOURCE_PLUGIN,
      "%s needs a cgroup%s, and none can be made here (%s); run as root, or "
      "have an administrator hand over a directory: open(\"bwrap\", {cgroup = "
      "DIRECTORY})",
      what,
      strcmp(what, "limits.cpus") == 0 ? "" : " (strict forbids to emulate it)",
      reason);
}
