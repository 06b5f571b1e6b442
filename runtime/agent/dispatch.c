/* SPDX-License-Identifier: MIT */
/*
 * From a frame of the host to the part that handles it.
 *
 * The numbers of requests only grow; that they do is checked here, since it
 * needs the one that came before.
 */
#include "agent.h"
#include "fs.h"
#include "identity.h"
#include "ports.h"
#include "users.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void on_hello(pco_agent *a, const pco_request *r) {
  static pco_user user;
  char cwd[PATH_MAX];
  if (pco_request_number(r, PCO_TAG_VERSION_MIN) > PCO_WIRE_VERSION ||
      pco_request_number(r, PCO_TAG_VERSION_MAX) < PCO_WIRE_VERSION) {
    pco_answer_error(a, r->op, EPROTONOSUPPORT, NULL,
                     "no common version of the protocol");
    return;
  }
  const char *home = getenv("HOME"), *name = getenv("USER");
  const pco_user *commands = pco_identity_default();
  uid_t uid = commands ? commands->uid : geteuid();
  if (!home || !name)
    pco_user_of_uid(uid, &user);
  pco_wire_begin(&a->buf, PCO_WIRE_REPLY, 0, r->op);
  pco_wire_number(&a->buf, PCO_TAG_VERSION, PCO_WIRE_VERSION);
  pco_wire_number(&a->buf, PCO_TAG_PID, (uint64_t)getpid());
  pco_wire_number(&a->buf, PCO_TAG_UID, uid);
  pco_wire_string(&a->buf, PCO_TAG_USER, name ? name : user.name);
  pco_wire_string(&a->buf, PCO_TAG_HOME, home ? home : user.home);
  pco_wire_string(&a->buf, PCO_TAG_CWD, getcwd(cwd, sizeof cwd) ? cwd : "/");
  pco_answer(a);
}

static void on_info(pco_agent *a, const pco_request *r) {
  pco_wire_begin(&a->buf, PCO_WIRE_REPLY, 0, r->op);
  pco_wire_number(&a->buf, PCO_TAG_VERSION, PCO_WIRE_VERSION);
  pco_wire_number(&a->buf, PCO_TAG_PID, (uint64_t)getpid());
  pco_wire_number(&a->buf, PCO_TAG_COUNT, pco_commands_count(&a->commands));
  pco_answer(a);
}

static void on_listens(pco_agent *a, const pco_request *r) {
  int rc = pco_port_listens((unsigned)pco_request_number(r, PCO_TAG_PORT));
  if (rc < 0) {
    pco_answer_error(a, r->op, -rc, NULL,
                     "the list of open ports cannot be read");
    return;
  }
  pco_wire_begin(&a->buf, PCO_WIRE_REPLY, 0, r->op);
  pco_wire_number(&a->buf, PCO_TAG_COUNT, (uint64_t)rc);
  pco_answer(a);
}

/* CANCEL, DATA and the frames of relayed streams belong to an earlier request;
 * every other frame starts one and must have a new number. */
static bool in_order(pco_agent *a, const pco_request *r) {
  if (r->type == PCO_WIRE_CANCEL)
    return true;
  if (r->type == PCO_WIRE_DATA || r->type == PCO_WIRE_CREDIT ||
      r->type == PCO_WIRE_INPUT || r->type == PCO_WIRE_CLOSE_INPUT)
    return r->op <= a->last_op;
  if (r->op <= a->last_op)
    return false;
  a->last_op = r->op;
  return true;
}

void pco_dispatch_here(pco_agent *a, pco_frame *f, const pco_request *r) {
  switch (r->type) {
  case PCO_WIRE_HELLO:
    on_hello(a, r);
    break;
  case PCO_WIRE_PING:
    pco_answer_empty(a, r->op);
    break;
  case PCO_WIRE_INFO:
    on_info(a, r);
    break;
  case PCO_WIRE_SHUTDOWN:
    pco_answer_empty(a, r->op);
    a->ending = true;
    break;
  case PCO_WIRE_KILL_ALL:
    pco_commands_kill_all(a, r->op);
    break;
  case PCO_WIRE_CANCEL:
    pco_jobs_cancel(a, r->op);
    break;
  case PCO_WIRE_SPAWN:
    pco_commands_spawn(a, f, r);
    break;
  case PCO_WIRE_SIGNAL:
    pco_commands_signal(a, f, r);
    break;
  case PCO_WIRE_KILL:
    pco_commands_kill(a, f, r);
    break;
  case PCO_WIRE_LISTENS:
    on_listens(a, r);
    break;
  case PCO_WIRE_RESIZE:
    pco_relay_resize(a, r);
    break;
  case PCO_WIRE_CLOSE_OUTPUT:
    pco_relay_close_output(a, r);
    break;
  case PCO_WIRE_ADOPT:
    pco_relay_adopt(a, f, r);
    break;
  case PCO_WIRE_CREDIT:
    pco_relay_credit(a, r);
    break;
  case PCO_WIRE_INPUT:
    pco_relay_input(a, r);
    break;
  case PCO_WIRE_CLOSE_INPUT:
    pco_relay_close_input(a, r);
    break;
  case PCO_WIRE_STAT:
    pco_fs_stat(a, r);
    break;
  case PCO_WIRE_LIST:
    pco_fs_list(a, r);
    break;
  case PCO_WIRE_READ:
    pco_fs_read(a, r);
    break;
  case PCO_WIRE_WRITE:
    pco_fs_write(a, r);
    break;
  case PCO_WIRE_MKDIR:
    pco_fs_mkdir(a, r);
    break;
  case PCO_WIRE_REMOVE:
    pco_fs_remove(a, r);
    break;
  case PCO_WIRE_RENAME:
    pco_fs_rename(a, r);
    break;
  case PCO_WIRE_CHMOD:
    pco_fs_chmod(a, r);
    break;
  case PCO_WIRE_CHOWN:
    pco_fs_chown(a, r);
    break;
  case PCO_WIRE_SYMLINK:
    pco_fs_symlink(a, r);
    break;
  case PCO_WIRE_MKTEMP:
    pco_fs_mktemp(a, r);
    break;
  case PCO_WIRE_USAGE:
    pco_fs_usage(a, r);
    break;
  case PCO_WIRE_COPY:
    pco_fs_copy(a, r);
    break;
  default: /* PCO_WIRE_DATA: pco_request_parse() lets no other type through */
    if (!pco_jobs_data(a, r))
      pco_agent_protocol_error(a);
  }
}

static bool is_file_request(uint16_t type) {
  return (type >= PCO_WIRE_STAT && type <= PCO_WIRE_RENAME) ||
         (type >= PCO_WIRE_CHMOD && type <= PCO_WIRE_COPY);
}

/* True if it was passed on to a worker. */
static bool pass_on(pco_agent *a, const pco_frame *f, const pco_request *r) {
  if (a->is_worker)
    return false;
  if (r->type == PCO_WIRE_DATA)
    return pco_workers_data(a, f);
  if (r->type == PCO_WIRE_CANCEL)
    return pco_workers_cancel(a, f);
  if (is_file_request(r->type))
    pco_workers_request(a, f, r);
  return is_file_request(r->type);
}

void pco_dispatch(pco_agent *a, pco_frame *f) {
  pco_request r;
  if (pco_request_parse(f, &r) != 0 || !in_order(a, &r)) {
    pco_agent_protocol_error(a);
    pco_frame_close_fds(f);
    return;
  }
  if (!pass_on(a, f, &r))
    pco_dispatch_here(a, f, &r);
}
