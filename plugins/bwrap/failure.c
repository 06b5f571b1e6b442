/* SPDX-License-Identifier: MIT */
/*
 * Why a keeper is over, in words that say what to do about it.
 *
 * bubblewrap says what went wrong in a line for people; what is recognised of
 * it here only makes that line better, and is shown with it.
 */
#include "bwrap.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- user namespaces ---------------------------------------------------- */

/* A number in a file of /proc/sys, or -1. */
static long read_sysctl(const char *path) {
  char text[32];
  FILE *f = fopen(path, "re");
  long value = f && fgets(text, sizeof text, f) ? strtol(text, NULL, 10) : -1;
  if (f)
    fclose(f);
  return value;
}

static void explain_namespaces(int error, pco_error *err) {
  const char *how = "this kernel, container or security policy forbids it";
  if (read_sysctl("/proc/sys/user/max_user_namespaces") == 0 || error == ENOSPC)
    how = "raise it: sysctl -w user.max_user_namespaces=10000";
  else if (geteuid() != 0 &&
           read_sysctl("/proc/sys/kernel/unprivileged_userns_clone") == 0)
    how = "allow it: sysctl -w kernel.unprivileged_userns_clone=1";
  else if (read_sysctl("/proc/sys/kernel/"
                       "apparmor_restrict_unprivileged_userns") == 1)
    how = "AppArmor restricts it: sysctl -w "
          "kernel.apparmor_restrict_unprivileged_userns=0, or a profile that "
          "allows userns for this program";
  plugin_fail(err, PCO_EUNAVAILABLE,
              "cannot make a user namespace (%s): %s" BWRAP_OTHERWISE,
              strerror(error), how);
}

/* ---- the keeper could not start it -------------------------------------- */

static void explain_failed(const pco_keeper_report *r, pco_error *err) {
  int code = r->error ? -r->error : PCO_EBACKEND;
  const char *reason = strerror(r->error);
  switch (r->stage) {
  case PCO_KEEPER_STAGE_NAMESPACE:
    explain_namespaces(r->error, err);
    break;
  case PCO_KEEPER_STAGE_IDS:
    plugin_fail(
        err, PCO_EUNAVAILABLE,
        "cannot give the sandbox ids of its own (%.200s: %s)" BWRAP_OTHERWISE,
        r->text, reason);
    break;
  case PCO_KEEPER_STAGE_SOURCE:
    plugin_fail(err, code, "cannot show %.300s inside: %s", r->text, reason);
    break;
  case PCO_KEEPER_STAGE_TMPFS:
    plugin_fail(
        err, PCO_EUNAVAILABLE,
        "cannot make a tmpfs for the sandbox (%.200s: %s)" BWRAP_OTHERWISE,
        r->text, reason);
    break;
  case PCO_KEEPER_STAGE_EXEC:
    plugin_fail(err, PCO_EUNAVAILABLE,
                "cannot execute %.300s: %s; is the package bubblewrap "
                "whole?" BWRAP_OTHERWISE,
                r->text, reason);
    break;
  default:
    plugin_fail(err, code, "the keeper could not start: %.300s: %s", r->text,
                reason);
  }
}

/* ---- bubblewrap or the agent ended -------------------------------------- */

/* One line, and the last. */
static void last_line(const char *text, char *out, size_t size) {
  size_t len = strlen(text);
  while (len > 0 && text[len - 1] == '\n')
    len--;
  size_t at = len;
  while (at > 0 && text[at - 1] != '\n')
    at--;
  snprintf(out, size, "%.*s", (int)(len - at), text + at);
}

static bool explain_words(const char *line, pco_error *err) {
  if (!pco_starts_with(line, "bwrap: "))
    return false;
  if (strstr(line, "Unknown option"))
    plugin_fail(err, PCO_EUNAVAILABLE,
                "this bubblewrap is too old (%s): 0.8 or later is "
                "needed" BWRAP_OTHERWISE,
                line);
  else if (strstr(line, "Can't chdir"))
    plugin_fail(err, UV_ENOENT, "cwd is not a directory inside (%s)", line);
  else if (strstr(line, "namespace"))
    plugin_fail(err, PCO_EUNAVAILABLE, "%s" BWRAP_OTHERWISE, line);
  else if (strstr(line, "Can't mkdir") || strstr(line, "Can't create"))
    plugin_fail(
        err, UV_EROFS,
        "a mount has no place: %s (its target must be there already if it is "
        "in a read-only directory)",
        line);
  else
    plugin_fail(err, PCO_EBACKEND, "%s", line);
  return true;
}

static void explain_ended(const pco_keeper_report *r, pco_error *err) {
  char line[300];
  last_line(r->text, line, sizeof line);
  if (explain_words(line, err))
    return;
  int signo = r->signal            ? r->signal
              : r->exit_code > 128 ? r->exit_code - 128
                                   : 0;
  const char *name = signo ? sigabbrev_np(signo) : NULL;
  if (name)
    plugin_fail(err, PCO_EGONE, "the %s was killed by SIG%s",
                r->signal ? "launcher" : "agent", name);
  else
    plugin_fail(err, PCO_EGONE, "the agent ended with status %d%s%s",
                r->exit_code, *line ? ": " : "", line);
}

void bwrap_explain(const bwrap_keeper *k, pco_error *err) {
  const pco_keeper_report *r = &k->last;
  err->code = 0;
  err->message = NULL;
  if (r->type == PCO_KEEPER_FAILED)
    explain_failed(r, err);
  else if (r->type != PCO_KEEPER_ENDED)
    plugin_fail(err, PCO_EGONE, "the sandbox's keeper was killed");
  else if (!r->asked)
    explain_ended(r, err);
}
