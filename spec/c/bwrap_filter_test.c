/* SPDX-License-Identifier: MIT */
/*
 * The system call filter of bwrap (plugins/bwrap/filter.c), three times: as an
 * interpreter of the programs sees it, for every number and a great many
 * arguments; against the same rules written down plainly here; and as the
 * kernel sees it, by system calls of children that have loaded the programs,
 * each of which answers differently in a child that has not.
 *
 * filter.c is here twice: below as it is shipped, and linked in as the build
 * that can be weakened.
 */
#define bwrap_filters shipped_filters
#include "../../plugins/bwrap/filter.c"
#undef bwrap_filters

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tap.h"

int bwrap_filters(const char *weaken, int out[BWRAP_N_FILTERS], pco_error *err);

#define MAX_NUMBER 1024 /* of a system call */

#if defined(__x86_64__)
#  define NATIVE  AUDIT_ARCH_X86_64
#  define FOREIGN AUDIT_ARCH_I386
#elif defined(__aarch64__)
#  define NATIVE  AUDIT_ARCH_AARCH64
#  define FOREIGN AUDIT_ARCH_ARM
#endif

/* ---- the programs, and what they say ------------------------------------ */

typedef struct program {
  struct sock_filter code[4096];
  size_t n;
} program;

typedef struct filter {
  program programs[BWRAP_N_FILTERS];
} filter;

static void read_program(int fd, program *p) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  int own = open(path, O_RDONLY | O_CLOEXEC);
  REQUIRE(own >= 0);
  ssize_t n = read(own, p->code, sizeof p->code);
  REQUIRE(n > 0 && (size_t)n < sizeof p->code && n % 8 == 0);
  p->n = (size_t)n / 8;
  close(own);
}

static filter *get(const char *weaken) {
  int fds[BWRAP_N_FILTERS];
  filter *f = (filter *)calloc(1, sizeof *f);
  REQUIRE(f && bwrap_filters(weaken, fds, NULL) == 0);
  for (int i = 0; i < BWRAP_N_FILTERS; i++)
    read_program(fds[i], &f->programs[i]);
  return f;
}

static bool jumps(const struct sock_filter *i, uint32_t a) {
  switch (BPF_OP(i->code)) {
  case BPF_JEQ:
    return a == i->k;
  case BPF_JGT:
    return a > i->k;
  case BPF_JGE:
    return a >= i->k;
  default:
    REQUIRE(BPF_OP(i->code) == BPF_JSET);
    return (a & i->k) != 0;
  }
}

/* Only the instructions that libseccomp writes. */
static uint32_t run(const program *p, const struct seccomp_data *data) {
  uint32_t a = 0;
  for (size_t pc = 0; pc < p->n; pc++) {
    const struct sock_filter *i = &p->code[pc];
    switch (BPF_CLASS(i->code)) {
    case BPF_LD:
      REQUIRE(i->code == (BPF_LD | BPF_W | BPF_ABS) && i->k < sizeof *data);
      memcpy(&a, (const char *)data + i->k, sizeof a);
      break;
    case BPF_ALU:
      REQUIRE(i->code == (BPF_ALU | BPF_AND | BPF_K));
      a &= i->k;
      break;
    case BPF_JMP:
      if (BPF_OP(i->code) == BPF_JA)
        pc += i->k;
      else
        pc += jumps(i, a) ? i->jt : i->jf;
      break;
    default:
      REQUIRE(i->code == (BPF_RET | BPF_K));
      return i->k;
    }
  }
  REQUIRE(!"the end of a program");
  return 0;
}

/* The strictest answer holds; among refusals that of the last one loaded. */
static uint32_t decide(const filter *f, const struct seccomp_data *data) {
  uint32_t answer = SECCOMP_RET_ALLOW;
  for (int i = BWRAP_N_FILTERS - 1; i >= 0; i--) {
    uint32_t r = run(&f->programs[i], data);
    if ((int32_t)(r & SECCOMP_RET_ACTION_FULL) <
        (int32_t)(answer & SECCOMP_RET_ACTION_FULL))
      answer = r;
  }
  return answer;
}

static uint32_t refusal(int error) {
  return SECCOMP_RET_ERRNO | (uint32_t)error;
}

/* ---- the same rules, plainly -------------------------------------------- */

static bool is_one_of(uint64_t x, const uint64_t *list, size_t n) {
  while (n > 0)
    if (x == list[--n])
      return true;
  return false;
}

#define ONE_OF(x, ...)                                                         \
  is_one_of(x, (const uint64_t[]){__VA_ARGS__},                                \
            sizeof((const uint64_t[]){__VA_ARGS__}) / 8)

static int socket_error(const char *name, const uint64_t a[6]) {
  if (!ONE_OF(a[0], AF_UNIX, AF_INET, AF_INET6, AF_NETLINK) ||
      (a[0] == AF_NETLINK && a[2] != 0))
    return EAFNOSUPPORT;
  if (strcmp(name, "socket") != 0 || !ONE_OF(a[0], AF_INET, AF_INET6))
    return 0;
  bool bad = a[2] == IPPROTO_DCCP || a[2] > IPPROTO_ICMPV6;
  switch (a[1] & 15) {
  case SOCK_PACKET:
    return bad ? -1 : EAFNOSUPPORT;
  case SOCK_SEQPACKET:
  case SOCK_DCCP:
    return bad ? -1 : ESOCKTNOSUPPORT;
  default:
    return bad ? EPROTONOSUPPORT : 0;
  }
}

/* What a call that the first program allows is refused with; -1: two rules
 * with different errors, either will do. */
static int argument_error(const char *name, const uint64_t a[6]) {
  uint32_t low0 = (uint32_t)a[0], low1 = (uint32_t)a[1];
  bool is_1 = low1 == 1;
  if (strcmp(name, "ioctl") == 0)
    return ONE_OF(low1, 0x5412, 0x541c, 0x5423) ? EPERM : 0;
  if (strcmp(name, "prlimit64") == 0)
    return a[0] ? EPERM : 0;
  if (strcmp(name, "setpriority") == 0)
    return low0 == 2 || (is_1 && ONE_OF(low0, 0, 1)) ? EPERM : 0;
  if (strcmp(name, "ioprio_set") == 0)
    return low0 == 3 || (is_1 && ONE_OF(low0, 1, 2)) ? EPERM : 0;
  if (strncmp(name, "sched_set", 9) == 0)
    return low0 == 1 ? EPERM : 0;
  if (strcmp(name, "clone") == 0)
    return low0 & 0x7e020000 ? EPERM : 0;
  if (strcmp(name, "personality") == 0)
    return ONE_OF(low0, 0, 8, 0x20000, 0x20008, 0x40000, 0xffffffff) ? 0
                                                                     : ENOSYS;
  if (strcmp(name, "shmget") == 0)
    return a[1] > 16384 ? ENOSPC : 0;
  if (strcmp(name, "semget") == 0)
    return a[1] > 16 ? ENOSPC : 0;
  if (strncmp(name, "socket", 6) == 0)
    return socket_error(name, a);
  return 0;
}

/* ---- every number ------------------------------------------------------- */

#define EITHER UINT32_MAX

static const char *const by_argument_only[] = {"personality"};

static uint32_t expected(int number, const uint64_t args[6]) {
  char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, number);
  uint32_t answer = refusal(ENOSYS);
  if (name && is_in(refused, COUNT(refused), name))
    answer = refusal(EPERM);
  else if (name && (is_in(allowed, COUNT(allowed), name) ||
                    is_in(by_argument_only, 1, name))) {
    int error = argument_error(name, args);
    answer = error < 0   ? EITHER
             : error > 0 ? refusal(error)
                         : SECCOMP_RET_ALLOW;
  }
  free(name);
  return answer;
}

static bool is_right(const filter *f, int number, const uint64_t args[6]) {
  struct seccomp_data data = {.nr = number, .arch = NATIVE};
  memcpy(data.args, args, sizeof data.args);
  uint32_t answer = decide(f, &data), right = expected(number, args);
  if (answer == right ||
      (right == EITHER && (answer & SECCOMP_RET_ACTION) == SECCOMP_RET_ERRNO))
    return true;
  printf("# %d(%llx, %llx, %llx) gives %x, should %x\n", number,
         (unsigned long long)args[0], (unsigned long long)args[1],
         (unsigned long long)args[2], answer, right);
  return false;
}

static void test_numbers(const filter *f) {
  const uint64_t nothing[6] = {0};
  bool all = true;
  for (int number = 0; number < MAX_NUMBER; number++)
    all = is_right(f, number, nothing) && all;
  check(all, "every number gets what the lists say");
  all = is_right(f, -1, nothing);
  check(all, "number -1 is ENOSYS");
}

static void test_architectures(const filter *f) {
  bool all = true;
  for (int number = -1; number < MAX_NUMBER; number++) {
    struct seccomp_data data = {.nr = number, .arch = FOREIGN};
    all = all && decide(f, &data) == SECCOMP_RET_KILL_PROCESS;
  }
  check(all, "a foreign architecture is killed, whatever the number");
#ifdef __x86_64__
  for (int number = 0; number < MAX_NUMBER; number++) {
    struct seccomp_data data = {.nr = number | 0x40000000, .arch = NATIVE};
    all = all && decide(f, &data) == SECCOMP_RET_KILL_PROCESS;
  }
  check(all, "and x32");
#endif
}

static void test_lists(void) {
  bool once = true, known = true;
  for (size_t i = 0; i < COUNT(allowed); i++)
    once = once &&
           !is_in(allowed + i + 1, COUNT(allowed) - i - 1, allowed[i]) &&
           !is_in(refused, COUNT(refused), allowed[i]);
  for (size_t i = 0; i < COUNT(refused); i++)
    once = once && !is_in(refused + i + 1, COUNT(refused) - i - 1, refused[i]);
  check(once, "no name is there twice");
  /* A name that was misspelt would be passed over. */
  for (size_t i = 0; i < COUNT(refused); i++)
    if (seccomp_syscall_resolve_name(refused[i]) == __NR_SCMP_ERROR) {
      printf("# libseccomp does not know %s\n", refused[i]);
      known = known && strcmp(refused[i], "open_tree_attr") == 0;
    }
  check(known, "what is refused by name is known, but for the newest");
}

/* ---- a great many arguments --------------------------------------------- */

static uint64_t state = 1;

static uint32_t next_random(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33);
}

/* Small numbers, single bits, what the rules speak of, with and without
 * something in the upper half. */
static uint64_t random_argument(void) {
  static const uint64_t spoken_of[] = {
      0x5401,  0x5412,  0x541c,  0x5423,     0x20000,    0x20008,
      0x40000, 0x40008, 0x60000, 0xffffffff, 0xfffffffe, 16384,
      16385,   SIGCHLD, 132,     262,        1000};
  uint64_t low = 0;
  switch (next_random() % 4) {
  case 0:
  case 1:
    low = next_random() % 70;
    break;
  case 2:
    low = UINT64_C(1) << next_random() % 32 | next_random() % 20;
    break;
  default:
    low = spoken_of[next_random() % COUNT(spoken_of)];
  }
  switch (next_random() % 4) {
  case 0:
    return low | (uint64_t)next_random() << 32;
  case 1:
    return next_random() % 8 ? low : (uint64_t)(int64_t)(int32_t)low;
  default:
    return low;
  }
}

static const char *const looked_at[] = {
    "clone",         "ioctl",      "ioprio_set",
    "personality",   "prlimit64",  "sched_setaffinity",
    "sched_setattr", "semget",     "sched_setparam",
    "setpriority",   "shmget",     "sched_setscheduler",
    "socket",        "socketpair", "read"};

static void test_arguments(const filter *f) {
  for (size_t i = 0; i < COUNT(looked_at); i++) {
    int number = seccomp_syscall_resolve_name(looked_at[i]);
    bool all = number >= 0;
    for (int n = 0; all && n < 100000; n++) {
      uint64_t args[6];
      for (int j = 0; j < 6; j++)
        args[j] = random_argument();
      all = is_right(f, number, args);
    }
    char text[80];
    snprintf(text, sizeof text, "arguments of %s", looked_at[i]);
    check(all, text);
  }
}

/* ---- weaker programs ---------------------------------------------------- */

typedef struct weak {
  const char *name;
  const char *calls[8]; /* that may change; none: any */
} weak;

static const weak weaker[] = {
    {"ptrace", {"ptrace"}},
    {"clone3", {"clone3"}},
    {"io_setup", {"io_setup"}},
    {"ioctl", {"ioctl"}},
    {"socket", {"socket", "socketpair"}},
    {"prlimit64", {"prlimit64"}},
    {"priority",
     {"setpriority", "ioprio_set", "sched_setaffinity", "sched_setattr",
      "sched_setparam", "sched_setscheduler"}},
    {"clone", {"clone"}},
    {"personality", {"personality"}},
    {"sysvipc", {"shmget", "semget"}},
    {"x,ptrace,y", {"ptrace"}}};

static bool may_change(const weak *w, int number) {
  for (const char *const *call = w->calls; *call; call++)
    if (seccomp_syscall_resolve_name(*call) == number)
      return true;
  return false;
}

/* Whatever is asked, only the calls that the name is about answer otherwise,
 * and each of them does, by letting pass what was refused. */
static bool changes_just(const filter *strict, const weak *w) {
  filter *f = get(w->name);
  bool changed[MAX_NUMBER] = {false}, right = true;
  for (int n = 0; n < 400000; n++) {
    struct seccomp_data data = {.nr = n % 500, .arch = NATIVE};
    for (int j = 0; j < 3; j++)
      data.args[j] = random_argument();
    uint32_t before = decide(strict, &data), after = decide(f, &data);
    changed[data.nr] |= before != after;
    right = right && (before == after || after == SECCOMP_RET_ALLOW);
    data.arch = FOREIGN;
    right = right && decide(f, &data) == SECCOMP_RET_KILL_PROCESS;
  }
  for (int number = 0; number < MAX_NUMBER; number++)
    right = right && changed[number] == may_change(w, number);
  free(f);
  return right;
}

static void test_weaker(const filter *strict) {
  for (size_t i = 0; i < COUNT(weaker); i++) {
    char text[80];
    snprintf(text, sizeof text, "weakened by '%s', only that", weaker[i].name);
    check(changes_just(strict, &weaker[i]), text);
  }
  filter *f = get("arch");
  struct seccomp_data data = {.nr = 1, .arch = FOREIGN};
  check(decide(f, &data) == SECCOMP_RET_ALLOW, "weakened by 'arch'");
  free(f);
  f = get("default");
  data = (struct seccomp_data){.nr = 600, .arch = NATIVE};
  check(decide(f, &data) == SECCOMP_RET_ALLOW, "weakened by 'default'");
  data.nr = SYS_ptrace;
  check(decide(f, &data) == refusal(EPERM),
        "which keeps what is refused by name");
  free(f);
  f = get("ptrac,trace,ptrace2,");
  check(decide(f, &data) == refusal(EPERM), "a part of a name is not the name");
  free(f);
}

/* ---- how they are handed out -------------------------------------------- */

static bool is_sealed(int fd) {
  struct stat st;
  const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
  return fstat(fd, &st) == 0 && st.st_size > 0 && st.st_size % 8 == 0 &&
         (fcntl(fd, F_GET_SEALS) & seals) == seals &&
         (fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

static void test_descriptors(void) {
  int first[BWRAP_N_FILTERS], second[BWRAP_N_FILTERS];
  char room[200];
  pco_error err = pco_error_in(room, sizeof room);
  REQUIRE(shipped_filters(NULL, first, &err) == 0);
  check(is_sealed(first[0]) && is_sealed(first[1]),
        "sealed, and not inherited");
  check(shipped_filters(NULL, second, &err) == 0 && first[0] == second[0] &&
            first[1] == second[1],
        "the second time the same");
  check(shipped_filters("ioctl", second, &err) == UV_EINVAL && err.message,
        "what is shipped cannot be weakened");
  check(bwrap_filters("ioctl", first, &err) == 0 &&
            bwrap_filters("ioctl", second, &err) == 0 && first[0] == second[0],
        "a weak one is made once as well");
  check(bwrap_filters("socket", second, &err) == 0 && first[0] != second[0],
        "and another for another name");
}

/* ---- the kernel --------------------------------------------------------- */

static void load(const filter *f) {
  REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  for (int i = 0; i < BWRAP_N_FILTERS; i++) {
    struct sock_fprog prog = {(unsigned short)f->programs[i].n,
                              (struct sock_filter *)f->programs[i].code};
    REQUIRE(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) == 0);
  }
}

/* What a call gives in a child that has loaded f (NULL: nothing): its error, 0,
 * or minus the signal that ended it. */
static int try(const filter *f, long number, const uint64_t a[6]) {
  fflush(stdout);
  pid_t pid = fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    if (f)
      load(f);
    long rc = syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    _exit(rc < 0 ? errno : 0);
  }
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

typedef struct attempt {
  const char *text;
  long number;
  uint64_t args[6];
  int with, without;
} attempt;

#define HIGH UINT64_C(0x100000000)

static const attempt attempts[] = {
    {"TIOCSTI", SYS_ioctl, {-1u, 0x5412}, EPERM, EBADF},
    {"TIOCSTI, high bits", SYS_ioctl, {-1u, HIGH | 0x5412}, EPERM, EBADF},
    {"TIOCLINUX", SYS_ioctl, {-1u, 0x541c}, EPERM, EBADF},
    {"another ioctl", SYS_ioctl, {-1u, 0x5401}, EBADF, EBADF},
    {"a Unix socket", SYS_socket, {1, 1, 0}, 0, 0},
    {"high bits", SYS_socket, {HIGH | 1, 1, 0}, EAFNOSUPPORT, 0},
    {"NETLINK_ROUTE", SYS_socket, {16, 3, 0}, 0, 0},
    {"uevents", SYS_socket, {16, 3, 15}, EAFNOSUPPORT, 0},
    {"own limits", SYS_prlimit64, {0, 0}, 0, 0},
    {"limits of no process", SYS_prlimit64, {0x7ffffff0, 0}, EPERM, ESRCH},
    {"priorities of a user", SYS_setpriority, {2, 0x7ffffff0}, EPERM, ESRCH},
    {"own priority", SYS_setpriority, {0, 0, 19}, 0, 0},
    {"PID 1's policy", SYS_sched_setparam, {1, 0}, EPERM, EINVAL},
    {"own policy", SYS_sched_setparam, {0, 0}, EINVAL, EINVAL},
    {"clone", SYS_clone, {CLONE_NEWNS | CLONE_FS}, EPERM, EINVAL},
    {"clone3", SYS_clone3, {0, 0}, ENOSYS, EINVAL},
    {"unshare", SYS_unshare, {0}, EPERM, 0},
    {"setns", SYS_setns, {-1u, 0}, EPERM, EBADF},
    {"mount", SYS_mount, {0}, EPERM, EFAULT},
    {"ptrace", SYS_ptrace, {16, 0x7ffffff0}, EPERM, ESRCH},
    {"personality", SYS_personality, {0x400000}, ENOSYS, 0},
    {"which personality", SYS_personality, {0xffffffff}, 0, 0},
    {"a segment", SYS_shmget, {0x706f7274, 1 << 20, 0}, ENOSPC, ENOENT},
    {"io_setup", SYS_io_setup, {0, 0}, ENOSYS, EFAULT},
    {"a number of the future", 999, {0}, ENOSYS, ENOSYS},
#ifdef __x86_64__
    {"x32", SYS_getppid | 0x40000000, {0}, -SIGSYS, ENOSYS},
#endif
};

static void test_kernel(const filter *f) {
  for (size_t i = 0; i < COUNT(attempts); i++) {
    const attempt *a = &attempts[i];
    int with = try(f, a->number, a->args);
    int without = try(NULL, a->number, a->args);
    /* x32 may be there. */
    bool good = with == a->with &&
                (without == a->without || (with < 0 && without >= 0));
    if (!good)
      printf("# with: %d, without: %d\n", with, without);
    char text[80];
    snprintf(text, sizeof text, "%s: %d, %d without", a->text, a->with,
             a->without);
    check(good, text);
  }
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  filter *f = get(NULL);
  printf("# instructions: %zu and %zu\n", f->programs[0].n, f->programs[1].n);
  test_descriptors();
  test_lists();
  test_numbers(f);
  test_architectures(f);
  test_arguments(f);
  test_weaker(f);
  test_kernel(f);
  free(f);
  return tap_end();
}
