/* SPDX-License-Identifier: MIT */
/*
 * Where tests of a real agent happen: a temporary directory that goes with the
 * test, and processes with a mark in their arguments, so that one that got away
 * is found, makes the test fail, and is killed.
 *
 * One place a program: what is here are its globals.
 */
#ifndef AGENT_PLACE_H
#define AGENT_PLACE_H

#include "agent_client.h"
#include "test_dir.h"

#define S  UINT64_C(1000000000)
#define MS UINT64_C(1000000)

extern const char *agent;
extern char mark[64]; /* in the arguments of what must not survive */

/* Makes the place for the agent of that path, and this process the parent of
 * what an agent that is killed leaves behind; false, and said, if it cannot. */
bool place_init(const char *path);
/* Tests that nothing is left, and removes the directory; the exit status. */
int place_done(void);

/* ---- processes ---------------------------------------------------------- */

/* Living processes whose arguments hold the text; kills them if asked. */
int count_processes(const char *text, bool end_them);
/* Waits until no process of the test runs; how many do after that time. */
int processes_left(int ms);
/* Waits until `want` processes of the test run. */
bool processes_come(int want, int ms);
int children_of(int pid);
/* KiB that it has in memory. */
long resident_kib(int pid);
double seconds(void);

/* ---- commands ----------------------------------------------------------- */

/* In new sessions, below parents that have ended, deaf to TERM. */
extern const char ESCAPER[];
/* A shell command with the mark as its $0. */
uint64_t start_sh(client *c, const char *script, uint64_t timeout,
                  uint64_t grace);
ending sh(client *c, const char *script);
ending sh_output(client *c, const char *script, const char *const *env,
                 unsigned flags, char *out, size_t size);

#endif
