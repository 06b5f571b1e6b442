/* SPDX-License-Identifier: MIT */
/*
 * The keeper of a sandbox; see keeper.h.
 *
 * One thread, one poll, no memory taken after the start.  Order of an end: the
 * host asks (or is gone), or somebody by the door, or the ttl is over, or the
 * launcher ends by itself, or is killed; as it is the first process of a PID
 * namespace, it can be reaped when everything in there is gone; cgroups are
 * removed; the last report is sent.  Each step has a deadline.
 */
#include "keeper.h"

#include "cgroup.h"
#include "cgroup_sweep.h"
#include "clock.h"
#include "door.h"
#include "harden.h"
#include "keeper_shares.h"
#include "keeper_stage.h"
#include "rights.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_MS    30000        /* for each step of the preparation */
#define KILL_TIME   (10 * PCO_S) /* for what was killed to be gone */
#define REMOVE_TIME (5 * PCO_S)  /* for cgroups to be empty */

typedef struct keeper {
  pco_keeper_words words;
  pco_keeper_ids ids;
  int control;  /* -1: the host's end was closed */
  int visits;   /* to the agent: the streams of hosts that came by the door */
  int errors;   /* a pipe: standard error of the launcher; -1: ended */
  int agent;    /* the agent's socket, for cgroups; or -1 */
  int launcher; /* pidfd */
  pid_t launcher_pid;
  pco_door door;
  bool detached; /* the end of the control socket is not the sandbox's */
  bool has_cgroup;
  bool ended;     /* the launcher was reaped */
  bool killed;    /* a signal is on its way to it */
  int64_t end_at; /* when it is killed, or given up if it was; or PCO_NEVER */
  pco_keeper_report report;
  pco_cgroup cgroup; /* last: large, and mostly not touched */
} keeper;

/* ---- reports ------------------------------------------------------------ */

static void send_report(keeper *k, uint32_t type) {
  k->report.type = type;
  if (k->control >= 0)
    send(k->control, &k->report, sizeof k->report, MSG_NOSIGNAL);
}

/* They are empty, or will be in a moment. */
static int remove_cgroup(keeper *k) {
  int64_t until = pco_now() + REMOVE_TIME;
  struct timespec pause = {0, PCO_MS};
  int rc = 0;
  while (k->has_cgroup && (rc = pco_cgroup_remove(&k->cgroup)) == -EBUSY &&
         pco_now() < until)
    nanosleep(&pause, NULL);
  return rc;
}

static int fail(keeper *k, int stage, int error, const char *text) {
  remove_cgroup(k);
  k->report.stage = (uint32_t)stage;
  k->report.error = error;
  snprintf(k->report.text, sizeof k->report.text, "%s", text);
  pco_door_close(&k->door, &k->report);
  send_report(k, PCO_KEEPER_FAILED);
  return 1;
}

/* ---- the start ---------------------------------------------------------- */

static int make_pipe(int *ours, int theirs) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0)
    return -errno;
  *ours = fds[0];
  int rc = dup2(fds[1], theirs) < 0 ? -errno : 0; /* without O_CLOEXEC */
  close(fds[1]);
  if (rc == 0 && fcntl(fds[0], F_SETFL, O_NONBLOCK) < 0)
    rc = -errno;
  return rc;
}

/* The next word of the child: 1; 0 at the end of the stream; or a negative
 * errno when the host wants the end, or the child takes too long: it may hang
 * in a file system. */
static int hear(const keeper *k, int sync, pco_stage_report *r) {
  struct pollfd p[] = {{.fd = sync, .events = POLLIN},
                       {.fd = k->control, .events = POLLIN}};
  int n = poll(p, 2, START_MS);
  if (n <= 0)
    return n == 0 ? -ETIMEDOUT : -errno;
  if (p[1].revents)
    return -ECANCELED;
  return recv(sync, r, sizeof *r, 0) == sizeof *r;
}

/* Answers the child until it has become the launcher or given up. */
static int attend(keeper *k, pid_t child, int sync) {
  pco_stage_report r;
  const char *what = "";
  int heard;
  while ((heard = hear(k, sync, &r)) > 0) {
    if (r.stage >= 0)
      return fail(k, r.stage, r.error, r.text);
    int rc = pco_keeper_ids_map(&k->ids, child, &what);
    if (rc < 0)
      return fail(k, PCO_KEEPER_STAGE_IDS, -rc, what);
    if (send(sync, "", 1, MSG_NOSIGNAL) != 1)
      break;
  }
  if (heard < 0)
    return fail(k, PCO_KEEPER_STAGE_WORDS, -heard, "preparing the sandbox");
  return 0;
}

/* A fork into a new PID namespace, and into a new user namespace if we may not
 * make the former without. */
static pid_t fork_into_namespaces(void) {
  unsigned long flags = CLONE_NEWPID | SIGCHLD;
  if (geteuid() != 0)
    flags |= CLONE_NEWUSER;
  pco_shares_leave();
  return (pid_t)syscall(SYS_clone, flags, NULL, NULL, NULL, NULL);
}

/* The launcher's program runs, or never will. */
static int start_launcher(keeper *k) {
  int sync[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sync) != 0)
    return fail(k, PCO_KEEPER_STAGE_WORDS, errno, "socketpair");
  pid_t pid = fork_into_namespaces();
  if (pid < 0)
    return fail(k, PCO_KEEPER_STAGE_NAMESPACE, errno, "clone");
  if (pid == 0) {
    close(sync[0]);
    pco_stage_main(&k->words, &k->ids, sync[1]);
  }
  close(sync[1]);
  k->launcher_pid = pid;
  k->launcher = (int)syscall(SYS_pidfd_open, pid, 0);
  int rc = k->launcher < 0
               ? fail(k, PCO_KEEPER_STAGE_WORDS, errno, "pidfd_open")
               : attend(k, pid, sync[0]);
  close(sync[0]);
  if (rc != 0) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
  }
  return rc;
}

/* Makes the cgroups, and the socket over which the agent asks for leaves. */
static int start_cgroup(keeper *k, char *why, size_t why_size) {
  const pco_keeper_words *w = &k->words;
  const pco_cgroup_limits want = {.memory = w->memory_max,
                                  .pids = w->pids_max,
                                  .cpus = (uint32_t)w->millicpus,
                                  .other_uid = w->two_ids};
  int pair[2];
  int rc = pco_cgroup_init(&k->cgroup, w->cgroup_base, w->cgroup_name, &want,
                           &k->report.limits, why, why_size);
  if (rc < 0)
    return fail(k, PCO_KEEPER_STAGE_CGROUP, -rc, why);
  k->has_cgroup = true;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
    return fail(k, PCO_KEEPER_STAGE_WORDS, errno, "socketpair");
  k->agent = pair[0];
  rc = dup2(pair[1], PCO_KEEPER_AGENT_FD) < 0 ? -errno : 0;
  close(pair[1]);
  if (rc == 0)
    rc = pco_cgroup_greet(&k->cgroup, k->agent);
  return rc < 0 ? fail(k, PCO_KEEPER_STAGE_CGROUP, -rc, "greeting") : 0;
}

/* Only the launcher has what is for it from now on; standard error too, so that
 * the pipe ends with it. */
static void close_launchers(int last_fd) {
  dup2(0, 2);
  syscall(SYS_close_range, (unsigned)PCO_KEEPER_WORDS_FD,
          (unsigned)PCO_KEEPER_AGENT_FD, 0u);
  if (last_fd >= PCO_KEEPER_FIRST_FD)
    syscall(SYS_close_range, (unsigned)PCO_KEEPER_FIRST_FD, (unsigned)last_fd,
            0u);
}

/* Its own from now on, under a number that the launcher's do not reach.  The
 * one that was given stays until close_launchers(), so that nothing else gets
 * its number. */
static int take_away(int fd, int last_fd) {
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  return fcntl(fd, F_DUPFD_CLOEXEC, last_fd + 1);
}

static int start_door(keeper *k, int last_fd) {
  const pco_keeper_words *w = &k->words;
  if (!w->door_name)
    return 0;
  int listener = take_away(w->door_listener, last_fd);
  int dir = take_away(w->door_dir, last_fd);
  int info = take_away(w->door_info, last_fd);
  k->visits = take_away(w->door_agent, last_fd);
  int rc =
      pco_door_init(&k->door, listener, dir, info, w->door_name, w->ttl_ms);
  return rc == 0 && k->visits < 0 ? -EBADF : rc;
}

static int start(keeper *k, int last_fd) {
  const char *wrong;
  int rc = pco_keeper_words_init(&k->words, PCO_KEEPER_WORDS_FD, &wrong);
  if (rc < 0)
    return fail(k, PCO_KEEPER_STAGE_WORDS, -rc, wrong);
  if ((rc = start_door(k, last_fd)) < 0)
    return fail(k, PCO_KEEPER_STAGE_WORDS, -rc, "door");
  if (k->words.two_ids && (rc = pco_keeper_ids_init(&k->ids, &k->words)) < 0)
    return fail(k, PCO_KEEPER_STAGE_IDS, -rc, "no free ids");
  k->report.uid = k->words.two_ids ? k->ids.uid + 1 : geteuid();
  k->report.gid = k->words.two_ids ? k->ids.gid + 1 : getegid();
  char why[sizeof k->report.text] = "";
  if (k->words.cgroup_base && (rc = start_cgroup(k, why, sizeof why)) != 0)
    return rc;
  rc = make_pipe(&k->errors, 2);
  if (rc < 0)
    return fail(k, PCO_KEEPER_STAGE_WORDS, -rc, "pipe");
  rc = start_launcher(k);
  if (rc != 0)
    return rc;
  close_launchers(last_fd);
  k->report.pid = k->launcher_pid;
  snprintf(k->report.text, sizeof k->report.text, "%s", why);
  send_report(k, PCO_KEEPER_STARTED);
  k->report.text[0] = 0;
  return 0;
}

/* ---- what happens ------------------------------------------------------- */

static void end_in(keeper *k, int64_t ms, uint32_t who) {
  int64_t at = pco_now() + ms * PCO_MS;
  if (k->report.asked == PCO_KEEPER_BY_ITSELF)
    k->report.asked = who;
  if (!k->killed && at < k->end_at)
    k->end_at = at;
}

/* The host is gone. */
static void end_control(keeper *k) {
  close(k->control);
  k->control = -1;
  if (!k->detached)
    end_in(k, 0, PCO_KEEPER_BY_HOST);
}

static void on_order(keeper *k, const pco_keeper_order *order) {
  if (order->type == PCO_KEEPER_END) {
    end_in(k, order->grace_ms, PCO_KEEPER_BY_HOST);
  } else if (order->type == PCO_KEEPER_DETACH && k->door.epoll >= 0) {
    k->detached = true;
    send_report(k, PCO_KEEPER_DETACHED);
  } else {
    end_control(k);
  }
}

/* All that there is: who comes by the door is to find the place free that
 * another one has left. */
static void on_control(keeper *k) {
  for (int i = 0; i < 16 && k->control >= 0; i++) {
    pco_keeper_order order;
    ssize_t n = recv(k->control, &order, sizeof order, MSG_DONTWAIT);
    if (n == sizeof order)
      on_order(k, &order);
    else if (n >= 0 || (errno != EAGAIN && errno != EINTR))
      end_control(k);
    else
      break;
  }
}

/* ---- the door ----------------------------------------------------------- */

/* Gives the agent the other end of a new stream: 0 or a negative errno.  It may
 * be hostile: what it does not take is not waited for. */
static int send_stream(const keeper *k, int fd) {
  char byte = 0;
  struct iovec v = {&byte, 1};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
  pco_rights room;
  pco_rights_put(&m, &room, &fd, 1);
  ssize_t n = sendmsg(k->visits, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
  return n < 0 ? -errno : 0;
}

static int make_stream(const keeper *k, int *theirs) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return -errno;
  int rc = send_stream(k, pair[0]);
  close(pair[0]);
  if (rc < 0)
    close(pair[1]);
  *theirs = pair[1];
  return rc;
}

static void on_attach(keeper *k, int fd) {
  int stream = -1;
  on_control(k);
  int rc = k->control >= 0          ? -EBUSY
           : k->end_at != PCO_NEVER ? -ESHUTDOWN
                                    : make_stream(k, &stream);
  if (rc < 0) {
    pco_door_refuse(fd, -rc);
    return;
  }
  k->control = fd;
  k->report.type = PCO_KEEPER_ATTACHED;
  if (pco_door_report(fd, &k->report, stream) < 0)
    end_control(k); /* gone again */
  close(stream);
}

static void on_door(keeper *k) {
  int fd;
  uint32_t grace_ms;
  pco_door_wish wish;
  while ((wish = pco_door_next(&k->door, &fd, &grace_ms)) != PCO_DOOR_NOTHING) {
    if (wish == PCO_DOOR_ATTACH)
      on_attach(k, fd);
    else if (wish == PCO_DOOR_END)
      end_in(k, grace_ms, PCO_KEEPER_BY_DOOR);
    else
      end_in(k, 0, PCO_KEEPER_BY_TTL);
  }
}

/* ---- the launcher ------------------------------------------------------- */

#define TEXT_HEAD 160

/* Appends; when it is full, what lies between the first and the last bytes is
 * left out.  n is at most half of the size. */
static void keep_text(char *text, size_t size, const char *bytes, size_t n) {
  static const char gap[] = "...";
  const size_t tail = TEXT_HEAD + sizeof gap - 1;
  size_t len = strlen(text);
  if (len + n >= size) {
    size_t over = len + n - size + 1;
    memcpy(text + TEXT_HEAD, gap, sizeof gap - 1);
    memmove(text + tail, text + tail + over, len - tail - over);
    len -= over;
  }
  memcpy(text + len, bytes, n);
  text[len + n] = 0;
}

/* Keeps the first and the last bytes. */
static void on_errors(keeper *k) {
  char buf[256];
  ssize_t n = read(k->errors, buf, sizeof buf);
  if (n <= 0) {
    if (n == 0 || errno != EAGAIN) {
      close(k->errors);
      k->errors = -1;
    }
    return;
  }
  for (ssize_t i = 0; i < n; i++)
    buf[i] = buf[i] ? buf[i] : '?';
  keep_text(k->report.text, sizeof k->report.text, buf, (size_t)n);
}

static void on_launcher(keeper *k) {
  int status;
  if (waitpid(k->launcher_pid, &status, WNOHANG) != k->launcher_pid)
    return;
  k->ended = true;
  k->report.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  k->report.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* The agent may be hostile: see cgroup.h. */
static void on_agent(keeper *k) {
  if (pco_cgroup_serve(&k->cgroup, k->agent) < 0) {
    close(k->agent);
    k->agent = -1;
  }
}

/* What does not die within a while never will: it hangs in the kernel. */
static void on_time(keeper *k) {
  if (k->killed) {
    k->ended = true;
    k->report.error = EBUSY;
    return;
  }
  kill(k->launcher_pid, SIGKILL);
  k->killed = true;
  k->end_at = pco_now() + KILL_TIME;
}

/* ---- the loop ----------------------------------------------------------- */

/* In a poll a negative descriptor is skipped. */
static void turn(keeper *k) {
  struct pollfd p[] = {{.fd = k->control, .events = POLLIN},
                       {.fd = k->errors, .events = POLLIN},
                       {.fd = k->launcher, .events = POLLIN},
                       {.fd = k->agent, .events = POLLIN},
                       {.fd = k->door.epoll, .events = POLLIN}};
  struct timespec t = {0, 0};
  if (k->end_at != PCO_NEVER)
    t = pco_until(k->end_at);
  if (ppoll(p, sizeof p / sizeof *p, k->end_at == PCO_NEVER ? NULL : &t, NULL) <
      0)
    return;
  if (p[1].revents)
    on_errors(k);
  if (p[0].revents)
    on_control(k);
  if (p[2].revents)
    on_launcher(k);
  if (p[3].revents)
    on_agent(k);
  if (p[4].revents)
    on_door(k);
  if (k->end_at != PCO_NEVER && pco_now() >= k->end_at)
    on_time(k);
}

static void finish(keeper *k) {
  struct pollfd p = {.fd = k->errors, .events = POLLIN};
  /* As much as a pipe holds: somebody may write without an end. */
  for (int i = 0; i < 256 && k->errors >= 0 && poll(&p, 1, 0) > 0; i++)
    on_errors(k);
  int rc = remove_cgroup(k);
  if (rc < 0 && !k->report.error)
    k->report.error = -rc;
  k->report.type = PCO_KEEPER_ENDED;
  pco_door_close(&k->door, &k->report);
  if (k->control >= 0)
    pco_door_last_report(k->control, &k->report);
}

/* The number of the last descriptor that the plugin gave. */
static int last_fd(void) {
  int fd = PCO_KEEPER_FIRST_FD;
  while (fcntl(fd, F_GETFD) >= 0)
    fd++;
  return fd - 1;
}

int pco_keeper_main(void) {
  static keeper k; /* most of its pages are never touched */
  k.errors = k.agent = k.launcher = k.visits = -1;
  pco_door_init_none(&k.door);
  k.control = PCO_KEEPER_CONTROL_FD;
  k.end_at = PCO_NEVER;
  k.ids.lock = -1;
  k.ids.keeper_uid = geteuid();
  k.ids.keeper_gid = getegid();
  int last = last_fd();
  fcntl(PCO_KEEPER_CONTROL_FD, F_SETFD, FD_CLOEXEC);
  fcntl(PCO_KEEPER_WORDS_FD, F_SETFD, FD_CLOEXEC);
  pco_harden_signals();
  pco_harden_turns();
  prctl(PR_SET_NAME, "portico-keeper");
  prctl(PR_SET_DUMPABLE, 0);
  int rc = start(&k, last);
  if (rc != 0)
    return rc;
  pco_cgroup_sweep(&k.cgroup); /* the sandbox runs: nobody waits for it */
  while (!k.ended)
    turn(&k);
  finish(&k);
  return 0;
}
