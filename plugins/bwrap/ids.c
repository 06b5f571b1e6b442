/* SPDX-License-Identifier: MIT */
/*
 * Which ids of the host a sandbox gets.
 *
 * As root: two of a range above everything that accounts, containers and
 * dynamic users are given by convention (systemd's list of ranges ends below
 * 0x70000000), if this process's own user namespace maps it; else of the upper
 * half of the largest range that it maps.  As an ordinary user: its own, or on
 * request two of its range in /etc/subuid.  The keeper takes a pair that no
 * other keeper holds.
 */
#include "bwrap.h"

#include "../common/user.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST     0x70000000u
#define COUNT     0x0ffe0000u
#define MAX_LINES 65536

/* ---- root --------------------------------------------------------------- */

/* Chooses from what the own namespace maps: all of what is wanted, or half of
 * its largest part. */
static void choose_mapped(uint32_t *first, uint32_t *count) {
  FILE *f = fopen("/proc/self/uid_map", "re");
  unsigned long inside, outside, n, best = 0, start = 0;
  bool all = !f;
  while (f && fscanf(f, "%lu %lu %lu", &inside, &outside, &n) == 3) {
    if (inside <= FIRST && inside + n >= (unsigned long)FIRST + COUNT)
      all = true;
    if (n > best) {
      best = n;
      start = inside;
    }
  }
  if (f)
    fclose(f);
  *first = all ? FIRST : (uint32_t)(start + best / 2);
  *count = all ? COUNT : (uint32_t)(best / 2);
}

/* No sum of a range that it takes is root, or no id at all. */
static bool parse_range(const char *text, uint32_t *first, uint32_t *count) {
  unsigned long long a, n;
  char *end;
  if (*text < '0' || *text > '9')
    return false;
  a = strtoull(text, &end, 10);
  if (*end != ':' || end[1] < '0' || end[1] > '9')
    return false;
  n = strtoull(end + 1, &end, 10);
  if (*end || a < 1 || a >= UINT32_MAX || n < 2 || n >= UINT32_MAX - a)
    return false;
  *first = (uint32_t)a;
  *count = (uint32_t)n;
  return true;
}

static int choose_as_root(const pco_backend *b, bwrap_plan *p, pco_error *err) {
  if (b->id_range) {
    if (!parse_range(b->id_range, &p->first_uid, &p->n_ids))
      return plugin_fail(
          err, UV_EINVAL,
          "id_range is not \"FIRST:COUNT\", of ids from 1 on that "
          "fit into 32 bits");
  } else {
    choose_mapped(&p->first_uid, &p->n_ids);
  }
  p->first_gid = p->first_uid;
  if (p->n_ids >= 2 && p->first_uid > 0)
    return 0;
  return plugin_fail(
      err, PCO_EUNAVAILABLE,
      "root of this container has no ids to spare for sandboxes "
      "(/proc/self/uid_map); give it a range, or run as an ordinary "
      "user" BWRAP_OTHERWISE);
}

/* ---- an ordinary user --------------------------------------------------- */

/* Finds the user's first range of at least two in /etc/subuid or subgid. */
static bool find_range(const char *path, const char *name, uint32_t *first,
                       uint32_t *count) {
  char line[1024], number[16];
  bool found = false;
  snprintf(number, sizeof number, "%u", (unsigned)geteuid());
  FILE *f = fopen(path, "re");
  for (int n = 0; f && !found && n < MAX_LINES && fgets(line, sizeof line, f);
       n++) {
    char *rest = line, *who = strsep(&rest, ":");
    if (!rest || (strcmp(who, name) != 0 && strcmp(who, number) != 0))
      continue;
    found = sscanf(rest, "%u:%u", first, count) == 2 && *count >= 2;
  }
  if (f)
    fclose(f);
  return found;
}

static int choose_sub_ids(bwrap_plan *p, pco_error *err) {
  char name[256];
  uint32_t n_uids, n_gids;
  plugin_user_name(geteuid(), name, sizeof name);
  if (!find_range("/etc/subuid", name, &p->first_uid, &n_uids) ||
      !find_range("/etc/subgid", name, &p->first_gid, &n_gids))
    return plugin_fail(
        err, PCO_EUNAVAILABLE,
        "uids = \"two\" needs a range of this user in /etc/subuid and "
        "/etc/subgid (usermod --add-subuids, --add-subgids)");
  if (access("/usr/bin/newuidmap", X_OK) < 0 ||
      access("/usr/bin/newgidmap", X_OK) < 0)
    return plugin_fail(err, PCO_EUNAVAILABLE,
                       "uids = \"two\" needs /usr/bin/newuidmap and newgidmap "
                       "(package uidmap)");
  p->n_ids = n_uids < n_gids ? n_uids : n_gids;
  return 0;
}

int bwrap_choose_ids(const pco_backend *b, bwrap_plan *p, pco_error *err) {
  bool root = geteuid() == 0;
  if (root && b->uids == BWRAP_UIDS_ONE)
    return plugin_fail(
        err, PCO_EUNSUPPORTED,
        "uids = \"one\" cannot be done as root: commands would run as "
        "root of this machine");
  p->two_ids = root || b->uids == BWRAP_UIDS_TWO;
  if (root)
    return choose_as_root(b, p, err);
  if (b->id_range)
    return plugin_fail(
        err, PCO_EUNSUPPORTED,
        "id_range is for root: the sandboxes of an ordinary user have its own "
        "id or, with uids = \"two\", a part of its range in /etc/subuid");
  return p->two_ids ? choose_sub_ids(p, err) : 0;
}
