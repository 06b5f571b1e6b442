/* SPDX-License-Identifier: MIT */
/*
 * Ending a tree of processes that does not want to end.
 *
 * Killing children until there are none does not end a fork bomb: it forks
 * faster than its orphans arrive.  So the tree is stopped first: pass after
 * pass over the lists of children, each new process gets SIGSTOP, until a pass
 * finds no new one; then nothing forks any more and all of them get SIGKILL.
 * A process that slips through (its parent died while the lists were read) is
 * met in the next round, since it can only have moved up to the caller.
 *
 * A large bomb also takes the processors: with a thousand processes that run,
 * each in a session of its own, the caller gets 3 ms every second, and the bomb
 * grows faster than the lists are read.  In a PID namespace of its own one call
 * stops everybody at once, what has nothing to do with the tree included; the
 * tree is looked up and killed while nothing moves, and the rest goes on.
 *
 * Invariant: a process is signalled only under the pid and start time under
 * which it was seen below the caller.
 */
#include "tree.h"

#include "clock.h"
#include "procfs.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_PROCS (1u << 20)

/* Trees of more processes, or that still grow in the second pass, are looked
 * at with everything stopped.  So many are read in one turn (0.6 ms). */
#define FEW_PROCS 16

/* The processes seen so far, in the order of the walk, and an index by pid
 * (open addressing, at most half full; 0 is free, else place + 1). */
typedef struct set {
  pco_proc *v;
  size_t n, cap;
  uint32_t *index;
  size_t mask;
  const pco_tree_options *o;
  int signo;     /* what each new process gets; 0: nothing */
  bool killing;  /* everything may be stopped for it, */
  bool frozen;   /* and is */
  size_t fresh;  /* new, living ones in this pass */
  pid_t walking; /* whose children are being listed */
  int error;
} set;

/* A process whose first thread ended shows as a zombie while others run, and
 * fork. */
static bool is_dead(const pco_proc *p) {
  return (p->state == 'Z' || p->state == 'X') && p->threads <= 1;
}

static size_t slot_of(const set *s, pid_t pid) {
  size_t i = (size_t)pid * 2654435761u & s->mask;
  while (s->index[i] && s->v[s->index[i] - 1].pid != pid)
    i = (i + 1) & s->mask;
  return i;
}

static int grow(set *s) {
  size_t cap = s->cap ? s->cap * 2 : 64;
  if (cap > MAX_PROCS)
    return -E2BIG;
  pco_proc *v = realloc(s->v, cap * sizeof *v);
  if (!v)
    return -ENOMEM;
  s->v = v;
  uint32_t *index = calloc(cap * 2, sizeof *index);
  if (!index)
    return -ENOMEM;
  free(s->index);
  s->index = index;
  s->cap = cap;
  s->mask = cap * 2 - 1;
  for (size_t i = 0; i < s->n; i++)
    s->index[slot_of(s, s->v[i].pid)] = (uint32_t)i + 1;
  return 0;
}

static void deinit(set *s) {
  free(s->v);
  free(s->index);
}

static pco_proc *find(const set *s, pid_t pid) {
  size_t i = s->cap ? s->index[slot_of(s, pid)] : 0;
  return i ? &s->v[i - 1] : NULL;
}

/* Takes a process into the set, or again if its number was reused. */
static int put(set *s, const pco_proc *p) {
  pco_proc *known = find(s, p->pid);
  if (known) {
    *known = *p;
    return 0;
  }
  if (s->n == s->cap && (s->error = grow(s)) != 0)
    return s->error;
  s->v[s->n] = *p;
  s->index[slot_of(s, p->pid)] = (uint32_t)++s->n;
  return 0;
}

/* Stops all that the caller sees but itself and PID 1, in one call: who is
 * amid a fork gets it, and so does the child (kill(2); the kernel holds the
 * list of processes meanwhile). */
static void freeze(set *s) {
  if (s->killing && s->o->own_system && !s->frozen)
    s->frozen = kill(-1, SIGSTOP) == 0;
}

/* Lets those go on that are no part of the tree; that one is dead now. */
static void thaw(set *s) {
  if (s->frozen)
    kill(-1, SIGCONT);
  s->frozen = false;
}

/* Sees one child of the process that is walked.  Between the listing and the
 * look at it, the child may have moved to another parent of this tree, or have
 * ended and its number have gone to a stranger: then its parent is not the one
 * that listed it, and the next pass will tell. */
static void see(void *arg, pid_t pid) {
  set *s = arg;
  const pco_tree_options *o = s->o;
  pco_proc p;
  if (s->error || pid == getpid() || (o->skip && o->skip(o->arg, pid)))
    return;
  const pco_proc *known = find(s, pid);
  if (pco_procfs_stat(pid, &p) != 0 || p.parent != s->walking ||
      (known && known->start == p.start) || put(s, &p) != 0)
    return;
  if (is_dead(&p))
    return;
  s->fresh++;
  if (s->signo)
    pco_procfs_signal(&p, s->signo);
  if (s->n > FEW_PROCS)
    freeze(s);
}

/* Lists the children of a process, if it still is the one that was seen: the
 * children of a stranger that got its number are none of ours. */
static void list_children(set *s, const pco_proc *p) {
  pco_proc now;
  if (pco_procfs_stat(p->pid, &now) != 0 || now.start != p->start)
    return;
  s->walking = p->pid;
  if (pco_procfs_children(&now, see, s) == -ENOSYS)
    s->error = -ENOSYS;
}

/* A pass over the lists of children.  The set grows while it is walked, so one
 * pass reaches every depth; processes of earlier passes are walked again. */
static void walk_lists(set *s, int64_t deadline) {
  pco_proc self;
  if (pco_procfs_stat(getpid(), &self) != 0)
    return;
  list_children(s, &self);
  for (size_t i = 0; i < s->n && !s->error && pco_now() < deadline; i++) {
    pco_proc p = s->v[i]; /* the array moves when it grows */
    list_children(s, &p);
  }
}

/* The slow way: adds each process whose parent is in the tree.  Children are
 * mostly younger than their parents, so one pass finds nearly all, and what it
 * missed is found by the next one. */
static void see_any(void *arg, pid_t pid) {
  set *s = arg;
  pco_proc p;
  if (pco_procfs_stat(pid, &p) != 0)
    return;
  if (p.parent == getpid() || find(s, p.parent)) {
    s->walking = p.parent;
    see(s, pid);
  }
}

static void pass(set *s, int64_t deadline) {
  s->fresh = 0;
  if (!s->o->whole_system)
    walk_lists(s, deadline);
  if (s->o->whole_system || s->error == -ENOSYS) {
    s->error = 0;
    pco_procfs_all(see_any, s);
  }
}

void pco_tree_signal(const pco_tree_options *o, int signo) {
  set s = {.o = o, .signo = signo};
  int64_t deadline = pco_now() + PCO_S / 2;
  do
    pass(&s, deadline);
  while (s.fresh > 0 && !s.error && pco_now() < deadline);
  for (size_t i = 0; i < s.n; i++)
    pco_procfs_signal(&s.v[i], SIGCONT);
  deinit(&s);
}

int pco_tree_reap(const pco_tree_options *o, int most) {
  int flags = WNOHANG | __WALL | (o->stopped ? WUNTRACED : 0);
  for (int i = 0; i < most; i++) {
    int status;
    pid_t pid = waitpid(-1, &status, flags);
    if (pid == 0)
      return 0;
    if (pid < 0)
      return -ECHILD;
    if (o->reaped)
      o->reaped(o->arg, pid, status);
  }
  return 1;
}

/* Waits for SIGCHLD, or a little. */
static void wait_for_death(int64_t most) {
  sigset_t chld;
  sigemptyset(&chld);
  sigaddset(&chld, SIGCHLD);
  struct timespec t = {.tv_sec = 0, .tv_nsec = (long)most};
  sigtimedwait(&chld, NULL, &t);
}

/* Stops all, kills all; leaves the set of the last look in s. */
static void stop_and_kill(set *s, int64_t deadline) {
  pass(s, deadline);
  for (bool again = false; s->fresh > 0 && !s->error; again = true) {
    if (pco_now() >= deadline)
      break;
    if (again)
      freeze(s);
    pass(s, deadline);
  }
  for (size_t i = 0; i < s->n; i++)
    if (!is_dead(&s->v[i]))
      pco_procfs_signal(&s->v[i], SIGKILL);
  thaw(s);
}

/* Counts what lives; pids up to the limit. */
static size_t living(const pco_tree_options *o, pid_t *pids) {
  set s = {.o = o};
  size_t n = 0;
  pass(&s, pco_now() + PCO_S / 10);
  for (size_t i = 0; i < s.n && n < PCO_MAX_SURVIVORS; i++)
    if (!is_dead(&s.v[i]))
      pids[n++] = s.v[i].pid;
  deinit(&s);
  return n;
}

/* True once the tree is dead and reaped; up to 20 ms are given to dying. */
static bool reap_all(const pco_tree_options *o) {
  for (int i = 0; i < 10; i++) {
    int rc;
    while ((rc = pco_tree_reap(o, 1024)) == 1)
      ;
    if (rc == -ECHILD)
      return true;
    pid_t pids[PCO_MAX_SURVIVORS];
    if (o->skip && living(o, pids) == 0)
      return true;
    wait_for_death(2 * PCO_MS);
  }
  return false;
}

size_t pco_tree_kill(const pco_tree_options *o, int64_t deadline,
                     pid_t survivors[PCO_MAX_SURVIVORS]) {
  if (pco_tree_reap(o, 1024) == -ECHILD)
    return 0;
  /* A bomb competes for the processors: go first, where that is allowed. */
  int nice = getpriority(PRIO_PROCESS, 0);
  bool boosted = setpriority(PRIO_PROCESS, 0, -20) == 0;
  bool dead = false;
  do {
    set s = {.o = o, .signo = SIGSTOP, .killing = true};
    stop_and_kill(&s, deadline);
    deinit(&s);
    dead = reap_all(o);
  } while (!dead && pco_now() < deadline);
  if (boosted)
    setpriority(PRIO_PROCESS, 0, nice);
  return dead ? 0 : living(o, survivors);
}
