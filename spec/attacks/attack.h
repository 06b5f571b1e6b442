/* SPDX-License-Identifier: MIT */
/*
 * What attacks share.  An attack is a small static program that is run inside a
 * sandbox and says by its exit code how it went; tries may be several, and one
 * that goes through decides.
 *
 * Some things cannot be had even without the protection in question, since the
 * kernel refuses them for another reason as well.  There an attack asks for
 * what the kernel would refuse differently, and counts as through as soon as it
 * hears that: the request was let in.
 */
#ifndef ATTACK_H
#define ATTACK_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  ATTACK_SUCCEEDED = 0,
  ATTACK_BROKEN = 1, /* neither: the test is wrong; stderr says why */
  ATTACK_REFUSED = 42,
  ATTACK_NOT_HERE = 77 /* this machine has no such door */
};

#define COUNT(a) (sizeof(a) / sizeof *(a))

static int attack_state = ATTACK_REFUSED;

__attribute__((unused)) static void went_through(const char *what) {
  fprintf(stderr, "%s: went through\n", what);
  attack_state = ATTACK_SUCCEEDED;
}

__attribute__((unused)) static void is_broken(const char *what,
                                              const char *why) {
  fprintf(stderr, "%s: broken: %s\n", what, why);
  if (attack_state == ATTACK_REFUSED)
    attack_state = ATTACK_BROKEN;
}

/* Judges one try by its result and errno: refused with `refusal`, or another
 * one that is as good; or let in as far as `inside` (0: only success is). */
__attribute__((unused)) static void
judge2(const char *what, long rc, int refusal, int another, int inside) {
  if (rc >= 0 || errno == inside)
    went_through(what);
  else if (errno != refusal && errno != another)
    is_broken(what, strerror(errno));
}

__attribute__((unused)) static void judge(const char *what, long rc,
                                          int refusal, int inside) {
  judge2(what, rc, refusal, refusal, inside);
}

/* Ends the attack because it cannot be made. */
__attribute__((unused, noreturn)) static void give_up(const char *why) {
  fprintf(stderr, "broken: %s: %s\n", why, strerror(errno));
  exit(ATTACK_BROKEN);
}

/* An attack with several ways in, of which the first argument names one. */
typedef struct way {
  const char *name;
  void (*fn)(void);
} way;

__attribute__((unused)) static int take_way(const way *ways, size_t n,
                                            const char *name) {
  for (size_t i = 0; i < n; i++)
    if (name && strcmp(ways[i].name, name) == 0) {
      ways[i].fn();
      return attack_state;
    }
  fprintf(stderr, "broken: there is no way '%s'\n", name ? name : "");
  return ATTACK_BROKEN;
}

#endif /* ATTACK_H */
