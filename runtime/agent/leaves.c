/* SPDX-License-Identifier: MIT */
/*
 * See leaves.h.
 */
#include "leaves.h"

#include "agent.h"
#include "clock.h"
#include "places.h"
#include "rights.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_A_TURN 16

/* ---- questions ---------------------------------------------------------- */

static int send_request(pco_leaves *l, const pco_cgroup_request *q) {
  if (l->keeper.fd < 0)
    return -ENODEV;
  ssize_t n = send(l->keeper.fd, q, sizeof *q, MSG_DONTWAIT | MSG_NOSIGNAL);
  return n == sizeof *q ? 0 : n < 0 && errno != EAGAIN ? -errno : -EAGAIN;
}

/* Numbers go round, since one that was just given back may not be free at the
 * keeper's yet. */
static int find_free(const pco_leaves *l) {
  for (uint32_t i = 1; i <= PCO_CGROUP_MAX_LEAVES; i++) {
    uint32_t leaf = (l->last + i) % PCO_CGROUP_MAX_LEAVES;
    if (!l->leaf[leaf].used)
      return (int)leaf;
  }
  return -EAGAIN;
}

static int send_question(pco_agent *a, uint16_t leaf) {
  pco_leaf *l = &a->leaves.leaf[leaf];
  pco_cgroup_request q = {
      .type = PCO_CGROUP_MAKE, .leaf = leaf, .serial = l->serial};
  pco_request r;
  if (l->own) {
    q.flags = PCO_CGROUP_SUPERVISOR;
  } else if (pco_request_parse_passed(&l->sup->held->frame, &r) == 0) {
    q.memory = pco_request_number(&r, PCO_TAG_LIMIT_MEMORY);
    q.pids = pco_request_number(&r, PCO_TAG_LIMIT_PIDS);
    q.cpus = pco_request_number(&r, PCO_TAG_LIMIT_CPUS);
  }
  int rc = send_request(&a->leaves, &q);
  l->asked = rc == 0;
  return rc;
}

/* Sends what may be on its way.  If the socket is full, answers are to come,
 * and after them there is room. */
static void send_line(pco_agent *a) {
  pco_leaves *l = &a->leaves;
  while (l->n_line > 0 && l->n_ahead < PCO_LEAVES_AHEAD) {
    pco_leaf_question q = l->line[l->first];
    const pco_leaf *leaf = &l->leaf[q.leaf];
    bool wanted = leaf->used && leaf->serial == q.serial && leaf->sup;
    if (wanted && send_question(a, q.leaf) == -EAGAIN)
      return;
    l->n_ahead += wanted;
    l->first = (l->first + 1) % PCO_CGROUP_MAX_LEAVES;
    l->n_line--;
  }
}

int pco_leaves_ask(pco_agent *a, pco_sup *s, bool own) {
  pco_leaves *l = &a->leaves;
  if (l->keeper.fd < 0)
    return -ENODEV;
  int leaf = l->n_line < PCO_CGROUP_MAX_LEAVES ? find_free(l) : -EAGAIN;
  if (leaf < 0)
    return leaf;
  l->last = (uint32_t)leaf;
  l->leaf[leaf] = (pco_leaf){.sup = s,
                             .pid = own ? s->pid : 0,
                             .serial = ++l->serial,
                             .used = true,
                             .own = own};
  l->line[(l->first + l->n_line++) % PCO_CGROUP_MAX_LEAVES] =
      (pco_leaf_question){.serial = l->serial, .leaf = (uint16_t)leaf};
  send_line(a);
  return leaf;
}

uint32_t pco_leaves_wanted(const pco_request *r) {
  return (pco_request_has(r, PCO_TAG_LIMIT_MEMORY) ? PCO_KEEPER_LIMIT_MEMORY
                                                   : 0) |
         (pco_request_has(r, PCO_TAG_LIMIT_PIDS) ? PCO_KEEPER_LIMIT_PIDS : 0) |
         (pco_request_has(r, PCO_TAG_LIMIT_CPUS) ? PCO_KEEPER_LIMIT_CPUS : 0);
}

uint32_t pco_leaves_required(const pco_leaves *l, const pco_request *r) {
  return pco_leaves_wanted(r) & ~l->emulated;
}

/* ---- giving back -------------------------------------------------------- */

static int send_remove(pco_leaves *l, uint32_t leaf) {
  pco_cgroup_request q = {.type = PCO_CGROUP_REMOVE, .leaf = leaf};
  return send_request(l, &q);
}

/* A full socket means that answers are to come, and after them there is room:
 * it is tried again then. */
void pco_leaves_remove(pco_agent *a, int leaf) {
  pco_leaves *l = &a->leaves;
  if (leaf < 0 || !l->leaf[leaf].used)
    return;
  l->leaf[leaf].sup = NULL;
  l->leaf[leaf].pid = 0;
  if (l->leaf[leaf].asked && send_remove(l, (uint32_t)leaf) == -EAGAIN)
    l->removed[l->n_removes++] = (uint16_t)leaf; /* its number stays used */
  else
    l->leaf[leaf].used = false;
}

static void retry_removes(pco_leaves *l) {
  while (l->n_removes > 0) {
    uint16_t leaf = l->removed[l->n_removes - 1];
    if (send_remove(l, leaf) == -EAGAIN)
      return;
    l->leaf[leaf].used = false;
    l->n_removes--;
  }
}

void pco_leaves_forget(pco_agent *a, int leaf) {
  if (leaf < 0)
    return;
  a->leaves.leaf[leaf].sup = NULL;
  a->leaves.leaf[leaf].pid = 0;
}

void pco_leaves_leave(pco_agent *a, int leaf) {
  if (leaf < 0)
    return;
  a->leaves.leaf[leaf].sup = NULL;
  a->leaves.n_leaving++;
}

void pco_leaves_reaped(pco_agent *a, pid_t pid) {
  pco_leaves *l = &a->leaves;
  for (int i = 0; l->n_leaving && i < (int)PCO_CGROUP_MAX_LEAVES; i++) {
    if (!l->leaf[i].used || l->leaf[i].pid != pid || l->leaf[i].sup)
      continue;
    pco_leaves_remove(a, i);
    l->n_leaving--;
    return;
  }
}

/* ---- answers ------------------------------------------------------------ */

_Static_assert(PCO_CGROUP_MAX_FDS <= PCO_RIGHTS_MAX, "there is room for them");

/* An answer and its descriptors. */
static ssize_t receive(int fd, pco_cgroup_answer *answer,
                       int fds[PCO_RIGHTS_MAX], unsigned *n_fds) {
  struct iovec v = {answer, sizeof *answer};
  pco_rights room;
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
  pco_rights_expect(&m, &room);
  ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  *n_fds = n < 0 ? 0 : pco_rights_take(&m, fds);
  if (n >= 0 && (m.msg_flags & MSG_CTRUNC)) { /* no room for them here */
    while (*n_fds > 0)
      close(fds[--*n_fds]);
    answer->n_procs = answer->limits = answer->counters = 0;
    answer->error = EMFILE;
  }
  return n < 0 ? -errno : n;
}

/* The one who waits for it, or NULL. */
static pco_sup *asker(pco_leaves *l, const pco_cgroup_answer *answer,
                      bool *own) {
  if (answer->leaf >= PCO_CGROUP_MAX_LEAVES)
    return NULL;
  pco_leaf *leaf = &l->leaf[answer->leaf];
  if (!leaf->used || leaf->serial != answer->serial)
    return NULL;
  *own = leaf->own;
  return leaf->sup;
}

/* The keeper is gone, or talks nonsense: whoever waits runs out of time. */
static void lose_keeper(pco_agent *a) {
  pco_leaves *l = &a->leaves;
  pco_source_remove(a->epoll, &l->keeper);
  close(l->keeper.fd);
  l->keeper.fd = -1;
}

static bool on_answer(pco_agent *a) {
  pco_cgroup_answer answer;
  int fds[PCO_RIGHTS_MAX];
  unsigned n;
  bool own = false;
  ssize_t got = receive(a->leaves.keeper.fd, &answer, fds, &n);
  if (got == -EAGAIN || got == -EINTR)
    return false;
  bool good = got == sizeof answer && answer.type == PCO_CGROUP_MADE &&
              answer.n_procs <= PCO_CGROUP_MAX_TREES && answer.n_procs <= n &&
              n <= PCO_CGROUP_MAX_FDS;
  if (good && a->leaves.n_ahead > 0)
    a->leaves.n_ahead--;
  a->leaves.heard = pco_now();
  pco_sup *s = good ? asker(&a->leaves, &answer, &own) : NULL;
  if (s) {
    answer.text[sizeof answer.text - 1] = 0;
    pco_places_answer(a, s, own, &answer, fds, n);
    return true;
  }
  while (n > 0)
    close(fds[--n]);
  if (!good)
    lose_keeper(a);
  return good;
}

static void on_keeper(void *arg, uint32_t events) {
  pco_agent *a = arg;
  (void)events;
  for (int i = 0; i < MAX_A_TURN && on_answer(a); i++)
    ;
  retry_removes(&a->leaves);
  send_line(a);
}

/* ---- start and end ------------------------------------------------------ */

/* The greeting was sent before the agent was started. */
int pco_leaves_init(pco_agent *a, int fd) {
  pco_leaves *l = &a->leaves;
  pco_cgroup_answer hello;
  l->keeper = (pco_source){.fd = fd, .fn = on_keeper, .arg = a};
  if (fd < 0)
    return 0;
  ssize_t n = recv(fd, &hello, sizeof hello, MSG_DONTWAIT);
  if (n != sizeof hello || hello.type != PCO_CGROUP_GREETING)
    return n < 0 ? -errno : -EPROTO;
  l->limits = hello.limits;
  return pco_source_add(a->epoll, &l->keeper, EPOLLIN);
}

void pco_leaves_deinit(pco_agent *a) {
  if (a->leaves.keeper.fd >= 0)
    close(a->leaves.keeper.fd);
}
