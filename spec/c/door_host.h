/* SPDX-License-Identifier: MIT */
/*
 * Hosts of a real agent with a door, one after the other, for tests: the agent,
 * and the host of the moment, are globals here.
 */
#ifndef DOOR_HOST_H
#define DOOR_HOST_H

#include "door_client.h"

#define MS      20000 /* for what comes at once */
#define RELAYED PCO_STDIO_RELAY, PCO_STDIO_RELAY, PCO_STDIO_RELAY
#define N(a)    ((int)(sizeof(a) / sizeof *(a)))

extern door d;
extern client c;

/* The agent's program, before anything else. */
void door_host_init(const char *agent);
/* Starts an agent: d. */
void host_begin(void);
/* Becomes its host: c; the control socket.  Ends the program if it cannot. */
int host_attach(void);
void host_detach(int control);
/* Ends the sandbox by its host: all is gone afterwards. */
void host_finish(int control);

/* A shell command; its op. */
uint64_t host_sh(const char *script, const spawn *like);
uint64_t host_sh_relayed(const char *script);
/* The same, and waits for the start. */
uint64_t host_start(const char *script, const spawn *like);
uint64_t host_start_relayed(const char *script);
/* Asks until the command is told to have ended: an event cannot be had, since
 * nobody hears of it. */
told host_told_of(uint64_t op, bool ended);

#endif
