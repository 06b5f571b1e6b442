/* SPDX-License-Identifier: MIT */
/*
 * What all loops of one Lua state share: the async loop, the portals, the log
 * queue, the agent's image, and the mark that a fork leaves.
 *
 * Created with the Lua binding, destroyed by lua_close, after every loop.
 */
#ifndef PCO_RUNTIME_H
#define PCO_RUNTIME_H

#include "log.h"
#include "loop.h"

typedef struct pco__runtime {
  pco__loop loop; /* the async one; opened by its first use */
  bool loop_open;
  pco__log log;
  pthread_mutex_t lock;      /* guards image_fd */
  int image_fd;              /* sealed memfd of the agent, -1 until needed */
  pco__node portals;         /* of pco__portal.node; the state's thread only */
  unsigned char *not_forked; /* a page that reads 0 in a forked child */
  unsigned generation;       /* how often it was renewed */
  /* A host in C, which a portal's thread wakes when it ends: a shutdown may
   * wait for that and for nothing else.  NULL: none. */
  struct pco_runtime *_Atomic host;
  unsigned host_generation;
  bool stdio[3]; /* numbers that are ours: /dev/null where the host has none */
} pco__runtime;

/* Maps a page that reads 1, and 0 in a forked child; 0 or a libuv error. */
int pco__map_fork_page(unsigned char **out);
/* Returns 0 or a libuv error. */
int pco__runtime_init(pco__runtime *rt);
/* Closes every sandbox of the async loop and of every portal (within 20 s),
 * then frees all.  [the state's thread] */
void pco__runtime_deinit(pco__runtime *rt);
/* Gives the async loop, opened at the first call; 0 or a libuv error. */
int pco__runtime_loop(pco__runtime *rt, pco__loop **out);
/* Takes the numbers 0 to 2 that the host has closed, until the runtime ends.
 * What Portico or libuv opens must not get one of them: the host might write
 * into it as its standard output, and libuv aborts when it has to close one.
 * [the state's thread] */
void pco__runtime_occupy_stdio(pco__runtime *rt);
/* True in a child that the host forked: nothing here may be used, until it is
 * renewed. */
bool pco__runtime_forked(const pco__runtime *rt);
/* Begins anew in a forked child, of the next generation.  The loops and all
 * that lives on them are the parent's: they are forgotten, not touched, and
 * their memory and descriptors stay until the child ends.  Returns 0 or a libuv
 * error.  [the state's thread] */
int pco__runtime_renew(pco__runtime *rt);

#endif /* PCO_RUNTIME_H */
