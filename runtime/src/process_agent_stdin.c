/* SPDX-License-Identifier: MIT */
/*
 * The stdin of a command of an agent's: our end of its pipe, written when it
 * takes something, or a relay.
 */
#include "process_agent.h"

#include <errno.h>
#include <unistd.h>

#include "sys/quiet_write.h"

/* Writes what the pipe takes: 1 when all is gone, 0 to be continued, or an
 * error. */
static int write_some(pco__process *p) {
  pco__input *in = &p->input;
  while (in->done < in->len) {
    ssize_t n = pco__quiet_write(p->agent->in_fd, in->data + in->done,
                                 in->len - in->done);
    if (n >= 0)
      in->done += (size_t)n;
    else if (errno == EAGAIN)
      return 0;
    else if (errno != EINTR)
      return -errno;
  }
  return 1;
}

static void input_done(pco__process *p, int rc, const char *what) {
  pco__process_input_done(p, rc > 0 ? NULL
                                    : pco__error_new(rc, PCO_SOURCE_HOST, NULL,
                                                     "%s: %s", what,
                                                     pco__code_text(rc)));
}

void pco__agent_write(pco__process *p) {
  pco__agent_process *a = p->agent;
  const char *what = "the process reads no more";
  if (a->relay) {
    pco__relay_write(a->relay);
    return;
  }
  int rc = a->in_fd < 0 ? UV_EPIPE : write_some(p);
  if (rc == 0) {
    rc = pco__watch_start(&a->in_watch);
    if (rc == 0)
      return;
    what = "waiting for the process to read";
  }
  pco__watch_stop(&a->in_watch);
  input_done(p, rc, what);
}

/* Whatever the status is, the next write says it better. */
static void on_writable(pco__watch *watch, int status) {
  pco__agent_process *a = PCO_CONTAINER(watch, pco__agent_process, in_watch);
  pco__process *p = a->process;
  (void)status;
  pco__process_ref(p);
  if (p->input.busy)
    pco__agent_write(p);
  else
    pco__watch_stop(watch);
  pco__process_unref(p);
}

void pco__agent_stdin_open(pco__process *p, int fd) {
  pco__agent_process *a = p->agent;
  pco__watch_init(&a->in_watch, p->loop, fd, UV_WRITABLE, on_writable);
  a->in_fd = fd;
  p->stdin_open = fd >= 0;
}

int pco__agent_stdin_take(pco__agent_process *a) {
  int fd = a->in_fd;
  if (fd >= 0)
    pco__watch_close(&a->in_watch);
  a->in_fd = -1;
  return fd;
}

int pco__agent_take_stdin(pco__process *p) {
  p->stdin_open = false;
  return pco__agent_stdin_take(p->agent);
}

/* A terminal's input stays open. */
void pco__agent_close_stdin(pco__process *p) {
  if (p->agent->relay) {
    pco__relay_close_input(p->agent->relay);
    return;
  }
  int fd = pco__agent_take_stdin(p);
  if (fd >= 0)
    close(fd);
}
