/* SPDX-License-Identifier: MIT */
/*
 * What a plugin does around a door (runtime/agent/door.h), for tests: a state
 * directory with the two files, an agent that is its own keeper, and visits.
 * What should not fail ends the test program when it does.
 */
#ifndef DOOR_CLIENT_H
#define DOOR_CLIENT_H

#include "agent_client.h"

#include "../../runtime/agent/keeper.h"

#define DOOR_NAME "test-box" /* of the files, and of the sandbox */

typedef struct door {
  char path[64]; /* of the state directory, which is removed at the end */
  int dir, listener, info;
  pid_t agent; /* 0: joined, or there was none */
} door;

/* Makes the directory and what is in it. */
void door_make(door *d);
/* Closes what is for who has the door now. */
void door_handed_over(door *d);
/* door_make(), and an agent of it in the directory, with further arguments. */
void door_start(door *d, const char *agent, const char *const *args);
/* Waits for the agent: its wait status, or -1. */
int door_join(door *d, int ms);
/* True if a file of the sandbox is there: "info" or "sock". */
bool door_has(const door *d, const char *suffix);
/* True if a keeper holds the lock of the info. */
bool door_is_held(const door *d);
/* Ends an agent that is still there, removes the directory. */
void door_remove(door *d);

/* A visit: the connection, or -errno. */
int door_connect(const door *d);
void door_order(int visit, uint32_t type, uint32_t grace_ms);
/* The next report: false if none came within ms, or the connection ended.
 * *with is a descriptor that came with it, or -1; NULL: none may. */
bool door_hear(int visit, pco_keeper_report *r, int *with, int ms);
/* True if the connection ended within ms, nothing else having come. */
bool door_ended(int visit, int ms);

/* Becomes the host: the control socket, and c with the stream; or -errno of
 * the refusal.  c is new; its HELLO was answered, and its numbers go on. */
int door_attach(const door *d, client *c);
/* Says HELLO as a new host on c->fd; LAST_OP, or UINT64_MAX if there was none.
 */
uint64_t door_hello(client *c);
/* Leaves: DETACH, DETACHED, the stream and the control are closed. */
void door_detach(int control, client *c);
/* Closes the stream of c and forgets what came. */
void door_drop(client *c);

/* A COMMAND. */
typedef struct told {
  uint64_t op, pid, flags, out, err, room, n_argv;
  long long code, reason; /* -1: it lives */
  char first[64];         /* argument */
  char last[64];
} told;
/* Asks for COMMANDS: how many; -1 for another answer. */
int door_commands(client *c, told *out, int most);

#endif /* DOOR_CLIENT_H */
