/* SPDX-License-Identifier: MIT */
/* Scopes: groups of tasks that end before what opened them; see lua_scope.c. */
#ifndef PCO_LUA_SCOPE_H
#define PCO_LUA_SCOPE_H

#include "lua_task.h"

typedef struct pco__scope {
  pco__task *owner;         /* who opened it; NULL once it has ended */
  struct pco__scope *outer; /* the next one of the same task, or NULL */
  lua_State *co;            /* the coroutine that opened it */
  pco__lua *lua;
  const char *operation; /* that opened it: "task.timeout" */
  pco__node children;    /* of pco__task.sibling: not ended */
  pco__node failed; /* of pco__task.sibling: whose errors are to be raised */
  pco__cancel cancel;
  bool shield;
  bool joining; /* its owner waits for the children */
  bool body_failed;
  bool body_first; /* and before any of the children */
  bool cut;        /* a child was cancelled through this scope */
  bool any;        /* the first child that succeeds ends it */
  bool plain;      /* no `<close>` variable is being closed around it */
  bool held;       /* over a yield to a consumer, which is forbidden */
  int64_t grace;   /* ns for cleaning up; negative: that of the outer one */
  int64_t limit;   /* ns until the deadline, when it began */
  pco__timer deadline;
  bool has_deadline;
  pco__task *winner; /* of `any` */
} pco__scope;

/* True for the functions that open a scope, which is on their stack then. */
bool pco__opens_scope(lua_CFunction fn);
#define PCO__AT_SCOPE 3

/* A child has ended.  The userdata's anchor is the scope's to keep or to give
 * up. */
void pco__scope_child_ended(lua_State *L, pco__scope *scope, pco__task *task);
/* Ends all scopes of a task that were opened in co (NULL: in any), without
 * waiting: their children are cancelled and belong to nobody. */
void pco__abandon_scopes(pco__task *task, const lua_State *co);

/* Gives the objects their finalizer. */
void pco__init_scope_class(lua_State *L);

#endif /* PCO_LUA_SCOPE_H */
