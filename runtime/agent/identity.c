/* SPDX-License-Identifier: MIT */
/*
 * See identity.h.
 */
#include "identity.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static pco_user commands;
static const char *alias; /* by which they are known as well */
static bool is_set;
static bool outside;  /* as --groups says: see identity.h */
static bool entered;  /* and is that user */
static uid_t own_uid; /* before it was */

/* Nothing may be inherited by what is executed, nor gained by it.  (Without the
 * capability to do so this is refused, and there is nothing to lose.) */
static void drop_inheritable(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2];
  memset(data, 0, sizeof data);
  for (unsigned long c = 0; prctl(PR_CAPBSET_DROP, c, 0, 0, 0) == 0; c++)
    ;
  if (syscall(SYS_capget, &header, data) != 0)
    return;
  data[0].inheritable = data[1].inheritable = 0;
  /* It was for the bounding set alone. */
  data[0].effective &= ~(1u << CAP_SETPCAP);
  data[0].permitted &= ~(1u << CAP_SETPCAP);
  syscall(SYS_capset, &header, data);
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
}

/* The ids change one by one; the call says what they were, not whether it
 * worked: asking for an id that cannot be tells what they are. */
static int set_fs_ids(void) {
  setfsgid(commands.gid);
  setfsuid(commands.uid);
  return setfsgid((gid_t)-1) == (int)commands.gid &&
                 setfsuid((uid_t)-1) == (int)commands.uid
             ? 0
             : -EPERM;
}

/* "UID:GID[:NAME]": numbers, which no line of /etc/passwd can change. */
static int parse(const char *spec) {
  char text[32];
  unsigned uid, gid;
  size_t first = strcspn(spec, ":");
  const char *rest = spec + first + (spec[first] != 0);
  size_t second = strcspn(rest, ":");
  if (first + second + 2 > sizeof text)
    return -EINVAL;
  snprintf(text, sizeof text, "%.*s", (int)first, spec);
  bool ok = pco_id_parse(text, &uid);
  snprintf(text, sizeof text, "%.*s", (int)second, rest);
  if (!ok || !pco_id_parse(text, &gid))
    return -EINVAL;
  pco_user_of_uid(uid, &commands);
  pco_user_set_group(&commands, gid);
  alias = rest[second] ? rest + second + 1 : NULL;
  return 0;
}

/* The name is the given one: others may have the same number. */
static int set_groups(const char *groups) {
  outside = true;
  if (alias)
    snprintf(commands.name, sizeof commands.name, "%s", alias);
  if (strcmp(groups, "one") == 0)
    return 0;
  return strcmp(groups, "all") == 0 ? pco_user_find_groups(&commands) : -EINVAL;
}

int pco_identity_init(const char *spec, const char *groups) {
  if (!spec)
    return groups ? -EINVAL : 0;
  int rc = parse(spec);
  if (rc < 0)
    return rc;
  is_set = true;
  if (groups)
    return set_groups(groups);
  drop_inheritable();
  if (commands.uid != geteuid() || commands.gid != getegid())
    rc = set_fs_ids();
  /* A change of ids takes this back.  Only the first process of a namespace is
   * the child of a launcher; the others notice the end of their stream. */
  if (rc == 0 && getpid() == 1)
    prctl(PR_SET_PDEATHSIG, SIGKILL);
  return rc;
}

/* A change of the effective id has taken all that were in effect. */
static int keep_capabilities(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2];
  const uint32_t needed = 1u << CAP_SETUID | 1u << CAP_SETGID | 1u << CAP_KILL;
  if (syscall(SYS_capget, &header, data) != 0)
    return -errno;
  data[0].effective = data[0].permitted & needed;
  data[1].effective = 0;
  return syscall(SYS_capset, &header, data) == 0 ? 0 : -errno;
}

int pco_identity_enter(void) {
  if (!outside)
    return 0;
  own_uid = geteuid();
  if (setgroups(commands.n_groups, commands.groups) != 0 ||
      setresgid((gid_t)-1, commands.gid, (gid_t)-1) != 0 ||
      setresuid((uid_t)-1, commands.uid, (uid_t)-1) != 0)
    return -errno;
  entered = true;
  return commands.uid == own_uid ? 0 : keep_capabilities();
}

/* What was permitted is in effect again with root's id. */
void pco_identity_leave(void) {
  if (entered && setresuid((uid_t)-1, own_uid, (uid_t)-1) == 0)
    entered = false;
}

const pco_user *pco_identity_default(void) {
  return is_set ? &commands : NULL;
}

bool pco_identity_differs(const pco_user *u) {
  return is_set ? u->uid != commands.uid || u->gid != commands.gid
                : u->uid != geteuid() || u->gid != getegid();
}

bool pco_identity_is_other(const pco_user *u) {
  return outside || pco_identity_differs(u);
}

int pco_identity_find(const char *spec, pco_user *out) {
  int rc = pco_user_find(spec, out);
  if (!is_set)
    return rc;
  if (rc == -ENOENT && alias && strcmp(spec, alias) == 0) {
    *out = commands;
    return 0;
  }
  if (rc == 0 && pco_identity_differs(out))
    return -EPERM;
  if (rc == 0) {
    out->n_groups = commands.n_groups;
    memcpy(out->groups, commands.groups,
           commands.n_groups * sizeof *commands.groups);
  }
  return rc;
}
