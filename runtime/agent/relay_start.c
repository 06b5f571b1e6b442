/* SPDX-License-Identifier: MIT */
/*
 * How a relay comes to its descriptors: made for a SPAWN (pipes, a terminal),
 * or the host's own, handed over by ADOPT.
 */
#include "agent.h"
#include "relay_parts.h"
#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* ---- made for a SPAWN ---------------------------------------------------- */

/* Makes the terminal; *theirs is the command's end. */
static int open_terminal(pco_relay *r, const pco_request *q, int *theirs) {
  pco_terminal t;
  bool echo = !(pco_request_number(q, PCO_TAG_FLAGS) & PCO_SPAWN_FLAG_NO_ECHO);
  int rc =
      pco_terminal_open(&t, (uint16_t)pco_request_number(q, PCO_TAG_COLS),
                        (uint16_t)pco_request_number(q, PCO_TAG_ROWS), echo);
  if (rc != 0)
    return rc;
  r->terminal = true;
  r->slave = t.slave;
  pco_relay_out_open(&r->out[0], t.master);
  rc = pco_relay_in_open(&r->in, fcntl(t.master, F_DUPFD_CLOEXEC, 3));
  *theirs = rc == 0 ? fcntl(t.slave, F_DUPFD_CLOEXEC, 3) : -1;
  return rc == 0 && *theirs < 0 ? -errno : rc;
}

/* Makes the pipe of stream i; a command of another id must be allowed to open
 * its /dev/stdout again. */
static int open_pipe(pco_relay *r, int i, int *theirs) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0)
    return -errno;
  int ours = fds[i == 0 ? 1 : 0];
  *theirs = fds[i == 0 ? 0 : 1];
  if (i > 0)
    pco_relay_out_open(&r->out[i - 1], ours);
  int rc = i == 0 ? pco_relay_in_open(&r->in, ours) : 0;
  if (rc == 0 &&
      (fcntl(ours, F_SETFL, O_NONBLOCK) != 0 || fchmod(ours, 0666) != 0))
    rc = -errno;
  return rc;
}

/* The descriptors of f in the order of STDIO, with those of the relay. */
static int open_streams(pco_relay *r, pco_frame *f, const pco_request *q) {
  int fds[PCO_WIRE_MAX_FDS] = {-1, -1, -1};
  uint8_t n = 0, given = 0;
  int rc = 0;
  if (q->stdio[0] == PCO_STDIO_TERMINAL)
    rc = open_terminal(r, q, &fds[n++]);
  for (int i = 0; i < 3 && rc == 0; i++) {
    if (q->stdio[i] == PCO_STDIO_FD) {
      fds[n++] = f->fds[given++];
    } else if (q->stdio[i] == PCO_STDIO_RELAY) {
      rc = open_pipe(r, i, &fds[n++]);
    }
  }
  while (rc != 0 && given < f->header.n_fds)
    fds[n++] = f->fds[given++];
  memcpy(f->fds, fds, n * sizeof *fds);
  f->header.n_fds = n;
  return rc;
}

static bool wants_relay(const pco_request *q) {
  for (int i = 0; i < 3; i++)
    if (q->stdio[i] == PCO_STDIO_RELAY || q->stdio[i] == PCO_STDIO_TERMINAL)
      return true;
  return false;
}

int pco_relay_open(pco_agent *a, pco_frame *f, const pco_request *q) {
  if (!wants_relay(q))
    return 0;
  pco_relay *r = pco_relay_create(a, q->op);
  if (r && pco_request_number(q, PCO_TAG_FLAGS) & PCO_SPAWN_FLAG_UNREAD)
    r->out[0].credit = r->out[1].credit = 0;
  int rc = r ? open_streams(r, f, q) : -ENOMEM;
  if (rc == 0)
    return 0;
  pco_frame_close_fds(f);
  pco_relay_drop(a, q->op);
  return rc;
}

/* ---- handed over -------------------------------------------------------- */

/* Takes the descriptors of an ADOPT. */
static int adopt_streams(pco_relay *r, pco_frame *f, uint64_t bits) {
  int rc = 0;
  uint8_t n = 0;
  for (int i = 0; i < 3; i++) {
    if (!(bits >> i & 1))
      continue;
    int fd = f->fds[n++];
    fcntl(fd, F_SETFL, O_NONBLOCK);
    if (i > 0)
      pco_relay_out_open(&r->out[i - 1], fd);
    else
      rc = pco_relay_in_open(&r->in, fd);
  }
  f->header.n_fds = 0;
  for (int i = 0; i < 2; i++)
    rc = pco_relay_out_adopt(&r->out[i]) == 0 ? rc : -ENOMEM;
  return rc;
}

/* What is relayed already is so from the start: it brings no descriptors. */
void pco_relay_adopt(pco_agent *a, pco_frame *f, const pco_request *q) {
  uint64_t target = pco_request_number(q, PCO_TAG_TARGET);
  uint64_t bits = pco_request_number(q, PCO_TAG_FLAGS);
  pco_relay *r = pco_relay_find(a, target);
  int rc = r ? 0 : -ESRCH;
  if (r && bits) {
    pco_agent_protocol_error(a);
  } else if (r) {
    rc = adopt_streams(r, f, 0);
  } else if (bits && pco_commands_has(a, target)) {
    r = pco_relay_create(a, target);
    rc = r ? adopt_streams(r, f, bits) : -ENOMEM;
  }
  pco_frame_close_fds(f);
  if (rc == 0) {
    pco_answer_empty(a, q->op);
    pco_relay_started(a, target);
    return;
  }
  pco_relay_drop(a, target);
  pco_answer_error(a, q->op, -rc, NULL, NULL);
}
