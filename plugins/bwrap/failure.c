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

#define LINE_HEAD 160
#define LINE_TAIL 120

/* Where the last line begins, or where bubblewrap begins to speak: a path in
 * its words may have newlines. */
static size_t words_begin(const char *text, size_t len) {
  size_t line = len;
  while (line > 0 && text[line - 1] != '\n')
    line--;
  for (size_t i = len; i-- > 0;)
    if ((i == 0 || text[i - 1] == '\n') && pco_starts_with(text + i, "bwrap: "))
      return i;
  return line;
}

/* Of long words the middle is left out. */
static void last_words(const char *text, char *out, size_t size) {
  size_t len = strlen(text);
  while (len > 0 && text[len - 1] == '\n')
    len--;
  size_t at = words_begin(text, len);
  if (len - at <= LINE_HEAD + LINE_TAIL)
    snprintf(out, size, "%.*s", (int)(len - at), text + at);
  else
    snprintf(out, size, "%.*s...%.*s", LINE_HEAD, text + at, LINE_TAIL,
             text + len - LINE_TAIL);
}

/* The errno that ends the words, as a code; or `otherwise`.  bubblewrap starts
 * without an environment, so they are the C locale's. */
static int code_of(const char *line, int otherwise) {
  const char *at = strrchr(line, ':');
  if (!at || at[1] != ' ')
    return otherwise;
  for (int error = 1; error < 200; error++)
    if (pco_streq(strerrordesc_np(error), at + 2))
      return -error;
  return otherwise;
}

static bool explain_mount(const char *line, const char *words, pco_error *err) {
  static const char *const begins[] = {"Can't mkdir",    "Can't create",
                                       "Can't bind",     "Can't find source",
                                       "Can't get type", NULL};
  int code = code_of(line, PCO_EBACKEND);
  size_t i = 0;
  while (begins[i] && !pco_starts_with(words, begins[i]))
    i++;
  if (!begins[i])
    return false;
  plugin_fail(err, code, "a mount has no place: %s%s", line,
              code == UV_EROFS ? " (its target must be there already if it is "
                                 "in a read-only directory)"
              : code == UV_EISDIR || code == UV_ENOTDIR
                  ? " (a directory can only be shown at a directory, a file at "
                    "a file)"
                  : "");
  return true;
}

static bool explain_words(const char *line, pco_error *err) {
  if (!pco_starts_with(line, "bwrap: "))
    return false;
  const char *words = line + strlen("bwrap: ");
  if (pco_starts_with(words, "Can't chdir"))
    plugin_fail(err, code_of(line, UV_ENOENT),
                "cwd is not a directory inside that can be entered (%s)", line);
  else if (explain_mount(line, words, err))
    return true;
  else if (pco_starts_with(words, "execvp") && code_of(line, 0) == UV_E2BIG)
    plugin_fail(err, UV_E2BIG,
                "env: the environment is too large to start a program with");
  else if (strstr(line, "Unknown option"))
    plugin_fail(err, PCO_EUNAVAILABLE,
                "this bubblewrap is too old (%s): 0.8 or later is "
                "needed" BWRAP_OTHERWISE,
                line);
  else if (strstr(line, "namespace"))
    plugin_fail(err, PCO_EUNAVAILABLE, "%s" BWRAP_OTHERWISE, line);
  else
    plugin_fail(err, PCO_EBACKEND, "%s", line);
  return true;
}

/* An agent that ends by itself says why, or ends with 3; so this was none. */
static bool is_no_agent(const pco_keeper_report *r, const char *line) {
  return r->exit_code >= 0 && r->exit_code <= 128 && r->exit_code != 3 &&
         !pco_starts_with(line, "portico-agent: ");
}

static void explain_ended(const bwrap_keeper *k, pco_error *err) {
  const pco_keeper_report *r = &k->last;
  char line[300];
  last_words(r->text, line, sizeof line);
  if (explain_words(line, err))
    return;
  if (is_no_agent(r, line)) {
    plugin_fail(err, PCO_EUNAVAILABLE,
                "%.200s is not bubblewrap, or is broken: it ended with status "
                "%d and no sandbox%s%s" BWRAP_OTHERWISE,
                k->program, r->exit_code, *line ? ": " : "", line);
    return;
  }
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
  else if (r->asked == PCO_KEEPER_BY_TTL)
    plugin_fail(err, PCO_EGONE, "its time was over (ttl)");
  else if (r->asked == PCO_KEEPER_BY_DOOR)
    plugin_fail(err, PCO_EGONE, "it was ended by its id, by another program");
  else if (r->asked == PCO_KEEPER_BY_ITSELF)
    explain_ended(k, err);
}
