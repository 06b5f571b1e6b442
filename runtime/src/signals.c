/* SPDX-License-Identifier: MIT */
/* Names of signals; see signals.h.  One list, both ways. */
#include "signals.h"

#include <signal.h>
#include <string.h>

static const struct {
  const char *name;
  int signo;
} names[] = {
    {"SIGHUP", SIGHUP},       {"SIGINT", SIGINT},       {"SIGQUIT", SIGQUIT},
    {"SIGILL", SIGILL},       {"SIGTRAP", SIGTRAP},     {"SIGABRT", SIGABRT},
    {"SIGBUS", SIGBUS},       {"SIGFPE", SIGFPE},       {"SIGKILL", SIGKILL},
    {"SIGUSR1", SIGUSR1},     {"SIGSEGV", SIGSEGV},     {"SIGUSR2", SIGUSR2},
    {"SIGPIPE", SIGPIPE},     {"SIGALRM", SIGALRM},     {"SIGTERM", SIGTERM},
    {"SIGSTKFLT", SIGSTKFLT}, {"SIGCHLD", SIGCHLD},     {"SIGCONT", SIGCONT},
    {"SIGSTOP", SIGSTOP},     {"SIGTSTP", SIGTSTP},     {"SIGTTIN", SIGTTIN},
    {"SIGTTOU", SIGTTOU},     {"SIGURG", SIGURG},       {"SIGXCPU", SIGXCPU},
    {"SIGXFSZ", SIGXFSZ},     {"SIGVTALRM", SIGVTALRM}, {"SIGPROF", SIGPROF},
    {"SIGWINCH", SIGWINCH},   {"SIGIO", SIGIO},         {"SIGPWR", SIGPWR},
    {"SIGSYS", SIGSYS},
};

/* Real-time signals have no names of their own; numbers from 32 on. */
static const char *const real_time[] = {
    "SIG32",       "SIG33",       "SIGRTMIN",    "SIGRTMIN+1",  "SIGRTMIN+2",
    "SIGRTMIN+3",  "SIGRTMIN+4",  "SIGRTMIN+5",  "SIGRTMIN+6",  "SIGRTMIN+7",
    "SIGRTMIN+8",  "SIGRTMIN+9",  "SIGRTMIN+10", "SIGRTMIN+11", "SIGRTMIN+12",
    "SIGRTMIN+13", "SIGRTMIN+14", "SIGRTMIN+15", "SIGRTMIN+16", "SIGRTMIN+17",
    "SIGRTMIN+18", "SIGRTMIN+19", "SIGRTMIN+20", "SIGRTMIN+21", "SIGRTMIN+22",
    "SIGRTMIN+23", "SIGRTMIN+24", "SIGRTMIN+25", "SIGRTMIN+26", "SIGRTMIN+27",
    "SIGRTMIN+28", "SIGRTMIN+29", "SIGRTMIN+30"};

#define N_NAMES     (sizeof names / sizeof *names)
#define N_REAL_TIME (sizeof real_time / sizeof *real_time)

const char *pco__signal_name(int signo) {
  for (size_t i = 0; i < N_NAMES; i++)
    if (names[i].signo == signo)
      return names[i].name;
  if (signo >= 32 && (size_t)(signo - 32) < N_REAL_TIME)
    return real_time[signo - 32];
  return "SIG?";
}

int pco__signal_number(const char *name) {
  for (size_t i = 0; i < N_NAMES; i++)
    if (strcmp(names[i].name, name) == 0 ||
        strcmp(names[i].name + 3, name) == 0)
      return names[i].signo;
  for (size_t i = 0; i < N_REAL_TIME; i++)
    if (strcmp(real_time[i], name) == 0 || strcmp(real_time[i] + 3, name) == 0)
      return (int)i + 32;
  return 0;
}
