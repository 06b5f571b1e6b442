/* SPDX-License-Identifier: MIT */
/*
 * From a frame of the host to the part that handles it.
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

static void answer_hello(pco_agent *a, const pco_request *r) {
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
  if (a->hosts.many)
    pco_wire_number(&a->buf, PCO_TAG_LAST_OP, a->hosts.base);
  pco_answer(a);
}

static void on_hello(pco_agent *a, const pco_request *r) {
  answer_hello(a, r);
  a->hosts.greeting = 0;
}

static void on_commands(pco_agent *a, const pco_request *r) {
  if (a->hosts.many)
    pco_records_tell(a, r->op);
  else
    pco_answer_error(a, r->op, EOPNOTSUPP, NULL, "this agent has no door");
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

static void on_ping(pco_agent *a, const pco_request *r) {
  pco_answer_empty(a, r->op);
}

static void on_shutdown(pco_agent *a, const pco_request *r) {
  pco_answer_empty(a, r->op);
  a->ending = true;
}

static void on_kill_all(pco_agent *a, const pco_request *r) {
  pco_commands_kill_all(a, r->op);
}

static void on_cancel(pco_agent *a, const pco_request *r) {
  pco_jobs_cancel(a, r->op);
}

static void on_data(pco_agent *a, const pco_request *r) {
  if (!pco_jobs_data(a, r))
    pco_agent_protocol_error(a);
}

typedef void handler(pco_agent *a, const pco_request *r);

/* Who handles what is in the request alone, or NULL. */
static handler *handler_of(uint16_t type) {
  static const struct {
    uint16_t type;
    handler *fn;
  } handlers[] = {
      {PCO_WIRE_HELLO, on_hello},
      {PCO_WIRE_PING, on_ping},
      {PCO_WIRE_INFO, on_info},
      {PCO_WIRE_SHUTDOWN, on_shutdown},
      {PCO_WIRE_KILL_ALL, on_kill_all},
      {PCO_WIRE_CANCEL, on_cancel},
      {PCO_WIRE_COMMANDS, on_commands},
      {PCO_WIRE_LISTENS, on_listens},
      {PCO_WIRE_RESIZE, pco_relay_resize},
      {PCO_WIRE_CLOSE_OUTPUT, pco_relay_close_output},
      {PCO_WIRE_CREDIT, pco_relay_credit},
      {PCO_WIRE_INPUT, pco_relay_input},
      {PCO_WIRE_CLOSE_INPUT, pco_relay_close_input},
      {PCO_WIRE_STAT, pco_fs_stat},
      {PCO_WIRE_LIST, pco_fs_list},
      {PCO_WIRE_READ, pco_fs_read},
      {PCO_WIRE_WRITE, pco_fs_write},
      {PCO_WIRE_DATA, on_data},
      {PCO_WIRE_MKDIR, pco_fs_mkdir},
      {PCO_WIRE_REMOVE, pco_fs_remove},
      {PCO_WIRE_RENAME, pco_fs_rename},
      {PCO_WIRE_CHMOD, pco_fs_chmod},
      {PCO_WIRE_CHOWN, pco_fs_chown},
      {PCO_WIRE_SYMLINK, pco_fs_symlink},
      {PCO_WIRE_MKTEMP, pco_fs_mktemp},
      {PCO_WIRE_USAGE, pco_fs_usage},
      {PCO_WIRE_COPY, pco_fs_copy},
      {PCO_WIRE_OPEN, pco_fs_open},
      {PCO_WIRE_WATCH, pco_fs_watch},
      {PCO_WIRE_FILE_READ, pco_fs_opened},
      {PCO_WIRE_FILE_WRITE, pco_fs_opened},
      {PCO_WIRE_FILE_TRUNCATE, pco_fs_opened},
      {PCO_WIRE_FILE_SYNC, pco_fs_opened},
      {PCO_WIRE_FILE_STAT, pco_fs_opened},
      {PCO_WIRE_FILE_CLOSE, pco_fs_opened},
      {PCO_WIRE_EVENTS, pco_fs_opened},
  };
  for (size_t i = 0; i < sizeof handlers / sizeof *handlers; i++)
    if (handlers[i].type == type)
      return handlers[i].fn;
  return NULL;
}

/* The frame is passed on, or has descriptors, for a few. */
void pco_dispatch_here(pco_agent *a, pco_frame *f, const pco_request *r) {
  handler *fn = handler_of(r->type);
  if (fn) {
    fn(a, r);
    pco_frame_close_fds(f); /* of a pipe; who uses it has a copy */
  } else if (r->type == PCO_WIRE_SPAWN) {
    pco_commands_spawn(a, f, r);
  } else if (r->type == PCO_WIRE_SIGNAL) {
    pco_commands_signal(a, f, r);
  } else if (r->type == PCO_WIRE_KILL) {
    pco_commands_kill(a, f, r);
  } else if (pco_request_moves_tree(r->type)) {
    pco_fs_transfer(a, f, r);
  } else { /* ADOPT: pco_request_parse() lets no other type through */
    pco_relay_adopt(a, f, r);
  }
}

static bool is_file_request(uint16_t type) {
  return (type >= PCO_WIRE_STAT && type <= PCO_WIRE_RENAME) ||
         (type >= PCO_WIRE_CHMOD && type <= PCO_WIRE_COPY) ||
         type == PCO_WIRE_OPEN || type == PCO_WIRE_WATCH ||
         pco_request_moves_tree(type);
}

/* Of a file or watch that is open. */
static bool is_of_open(uint16_t type) {
  return (type >= PCO_WIRE_FILE_READ && type <= PCO_WIRE_FILE_CLOSE) ||
         type == PCO_WIRE_EVENTS;
}

/* True if it was passed on to a worker. */
static bool pass_on(pco_agent *a, pco_frame *f, const pco_request *r) {
  if (a->is_worker)
    return false;
  if (is_of_open(r->type)) {
    pco_workers_opened(a, f, r);
    return true;
  }
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
  if (pco_request_parse(f, &r) != 0 || !pco_hosts_in_order(a, &r)) {
    pco_agent_protocol_error(a);
    pco_frame_close_fds(f);
    return;
  }
  if (pco_hosts_ignore(a, &r)) {
    pco_frame_close_fds(f);
  } else if (pco_frame_cut(f)) {
    pco_commands_refuse(a, r.op, EMFILE, PCO_LIMIT_NONE, NULL);
    pco_frame_close_fds(f);
  } else if (!pass_on(a, f, &r))
    pco_dispatch_here(a, f, &r);
}
