/* SPDX-License-Identifier: MIT */
/*
 * Who is cancelled, and how a wait hears of it.
 *
 * Cancellation is a state, not an event: a task is cancelled while it, or a
 * scope around what it does, is.  Each wait looks; so an error that was caught
 * is raised again by the next wait.  A shield hides what is outside of it.
 *
 * What can still be had beats cancellation: a wait whose result is there gives
 * it.  A cancellation by somebody beats a deadline.
 *
 * Closing `<close>` variables is how a cancelled task ends, so waits in there
 * are let through, for a grace, and so are those of tasks in scopes that the
 * closing opens.  Whether a task is in there is seen on its stack, and only
 * looked for when it is cancelled.
 *
 * A cancelled task that does nothing but catch the errors of its waits would
 * never end, and never let others run: after MAX_REFUSED of them, the error
 * is raised by a hook, wherever it is.
 */
#include "lua_cancel.h"

#include <stdlib.h>
#include <string.h>

#include "lua_args.h"
#include "lua_coroutine.h"
#include "lua_error.h"
#include "lua_table.h"

#define DEFAULT_GRACE INT64_C(5000000000)
#define MAX_REFUSED   1000
#define MAX_DEAF      1003 /* errors of the hook among them */
#define HOOK_STEP     1000 /* instructions */
#define MAX_LEVELS    1000 /* of a stack; looking costs their square */

/* A cancelled task that cleans up, and how long it may. */
typedef struct pco__grace {
  pco__timer timer;
  pco__task *task;
  bool over;
} pco__grace;

/* ---- looking ------------------------------------------------------------- */

/* Takes note of a cancellation further out; true: it counts more than any
 * other. */
static bool consider(const pco__cancel *c, const pco__cancel **found) {
  if (c->code == 0)
    return false;
  if (c->code == PCO_ECALLTIMEOUT) {
    if (!*found)
      *found = c;
    return false;
  }
  *found = c;
  return true;
}

const pco__cancel *pco__cancelled(pco__task *task) {
  const pco__cancel *found = NULL;
  pco__scope *s = task->scopes;
  if (task->lua->n_cancelled == 0)
    return NULL;
  for (;;) {
    for (; s; s = s->outer) {
      if (consider(&s->cancel, &found) || s->shield)
        return found;
    }
    if (consider(&task->cancel, &found) || !task->scope)
      return found;
    s = task->scope;
    task = s->owner;
    if (!task)
      return found;
  }
}

/* True if the frame runs the __close of a value whose block an error has left.
 * Lua calls it from the frame of the C function that catches the error, above
 * the value and the error, which so are the last values of that frame. */
static bool closes_after_error(lua_State *co, lua_Debug *frame, int level) {
  lua_Debug caller;
  int top = lua_gettop(co);
  int n = 0;
  bool is = false;
  if (!lua_getstack(co, level + 1, &caller) || !lua_getinfo(co, "S", &caller) ||
      *caller.what != 'C')
    return false;
  while (lua_getlocal(co, &caller, n + 1)) {
    lua_settop(co, top);
    n++;
  }
  if (n >= 2 && lua_getlocal(co, &caller, n - 1) && lua_getmetatable(co, -1)) {
    lua_pushliteral(co, "__close");
    lua_rawget(co, -2);
    lua_getinfo(co, "f", frame);
    is = lua_rawequal(co, -1, -2);
  }
  lua_settop(co, top);
  return is;
}

/* The scope that the function of this frame has opened, or NULL. */
static const pco__scope *opened_by(lua_State *co, lua_Debug *frame) {
  int top = lua_gettop(co);
  const pco__scope *scope = NULL;
  lua_getinfo(co, "f", frame);
  if (pco__opens_scope(lua_tocfunction(co, -1)) &&
      lua_getlocal(co, frame, PCO__AT_SCOPE))
    scope = (const pco__scope *)pco__userdata_at(co, -1, PCO__SCOPE);
  lua_settop(co, top);
  return scope;
}

typedef enum closing { NOT_FOUND, CLOSING, NOT_CLOSING } closing;

static bool closes(lua_State *co, lua_Debug *frame, int level) {
  lua_getinfo(co, "n", frame);
  return (frame->name && strcmp(frame->namewhat, "metamethod") == 0 &&
          strcmp(frame->name, "close") == 0) ||
         closes_after_error(co, frame, level);
}

/* Whether a `<close>` variable is being closed on the stack of co, without a
 * cancelled scope that was opened by the closing itself.  Lua says so where a
 * block is left without an error.  A closing that is deeper than MAX_LEVELS is
 * not found, and has no grace.  Only what is around the scope *from counts,
 * which becomes NULL once it is found; NULL: everything. */
static closing look_for_close(lua_State *co, const pco__scope **from) {
  lua_Debug ar;
  if ((*from && (*from)->co != co) || !lua_checkstack(co, 8))
    return *from ? NOT_FOUND : NOT_CLOSING;
  for (int level = 0; level < MAX_LEVELS && lua_getstack(co, level, &ar);
       level++) {
    const pco__scope *scope = opened_by(co, &ar);
    if (*from) {
      *from = scope == *from ? NULL : *from;
      continue;
    }
    if (scope && scope->owner && scope->cancel.code)
      return NOT_CLOSING;
    if (closes(co, &ar, level))
      return CLOSING;
  }
  return NOT_FOUND;
}

/* The same for a waiting coroutine and those inside of it, from the innermost.
 * As deep as C calls of Lua can be, some 200. */
static closing look_inside(lua_State *co, const pco__scope **from) {
  lua_State *inner = pco__inner(co);
  closing found = inner ? look_inside(inner, from) : NOT_FOUND;
  return found == NOT_FOUND ? look_for_close(co, from) : found;
}

/* Whether the task cleans up, be it the running one or one that waits: around
 * that scope of its own, or (NULL) anywhere. */
static closing look_at(pco__task *task, const pco__scope *from) {
  closing found = NOT_FOUND;
  if (task != task->lua->current)
    return look_inside(task->co, &from);
  for (const pco__level *l = task->lua->level; l && found == NOT_FOUND;
       l = l->outer)
    found = look_for_close(l->co, &from);
  return found;
}

/* The same around a scope.  What is around it does not change while it is open,
 * but that scopes are cancelled: nothing is looked for twice. */
static closing look_around(pco__scope *scope) {
  if (!scope->plain) {
    closing found = look_at(scope->owner, scope);
    scope->plain = found == NOT_FOUND;
    return found;
  }
  for (const pco__scope *s = scope->outer; s; s = s->outer)
    if (s->cancel.code)
      return NOT_CLOSING;
  return NOT_FOUND;
}

/* Who cleans up, if the cancelled task does, or is part of how another one
 * does: it is in a scope that a closing has opened.  Else NULL. */
static pco__task *who_cleans_up(pco__task *task) {
  closing found = look_at(task, NULL);
  while (found == NOT_FOUND && !task->cancel.code) {
    pco__scope *scope = task->scope;
    if (!scope || !scope->owner || scope->cancel.code)
      return NULL;
    task = scope->owner;
    found = look_around(scope);
  }
  return found == CLOSING ? task : NULL;
}

/* ---- grace --------------------------------------------------------------- */

static void interrupt_all(pco__task *task);

static void on_grace(pco__timer *timer) {
  pco__grace *grace = PCO_CONTAINER(timer, pco__grace, timer);
  grace->over = true;
  grace->task->lua->n_outside--;
  interrupt_all(grace->task);
}

static uint64_t grace_of(const pco__task *task) {
  const pco__scope *s = task->scopes;
  while (s || task->scope) {
    for (; s; s = s->outer)
      if (s->grace >= 0)
        return (uint64_t)s->grace;
    s = task->scope;
    if (!s || !s->owner)
      break;
    task = s->owner;
  }
  return DEFAULT_GRACE;
}

/* Lets the cancelled task clean up; false if it does not, or had its time. */
static bool give_grace(pco__task *task) {
  task = who_cleans_up(task);
  if (!task)
    return false;
  if (task->grace)
    return !task->grace->over;
  pco__grace *grace = calloc(1, sizeof *grace);
  if (!grace)
    return false;
  grace->task = task;
  grace->timer.fn = on_grace;
  if (pco__timer_start(&task->lua->runtime.loop, &grace->timer,
                       grace_of(task)) < 0) {
    free(grace);
    return false;
  }
  task->lua->n_outside++;
  task->grace = grace;
  return true;
}

void pco__end_grace(pco__task *task) {
  pco__grace *grace = task->grace;
  if (!grace)
    return;
  task->grace = NULL;
  if (!grace->over)
    task->lua->n_outside--;
  pco__timer_stop(&task->lua->runtime.loop, &grace->timer);
  free(grace);
}

/* ---- raising ------------------------------------------------------------- */

const pco__cancel *pco__refusal(lua_State *L, pco__task *task) {
  (void)L;
  const pco__cancel *c = pco__cancelled(task);
  if (!c || give_grace(task))
    return NULL;
  return c;
}

int pco__cancel_code(const pco__cancel *c) {
  return c->code == PCO_ECALLTIMEOUT ? PCO_ECANCELED : c->code;
}

static const char *default_text(const pco__cancel *c) {
  switch (c->code) {
  case PCO_ECALLTIMEOUT:
    return "the time limit of a scope is over";
  case PCO_EINTERRUPTED:
    return "interrupted";
  case PCO_EDEADLOCK:
    return "nothing is left that could wake this task";
  default:
    return "the task was cancelled";
  }
}

/* Sets the message of the error object below the reason on top: the reason, if
 * that is a text, before what the error says for itself. */
static void set_message(lua_State *L, const pco__cancel *c) {
  int reason = lua_gettop(L);
  bool is_text =
      lua_type(L, reason) == LUA_TSTRING || lua_type(L, reason) == LUA_TNUMBER;
  if (is_text)
    lua_pushvalue(L, reason);
  else
    lua_pushstring(L, default_text(c));
  lua_getfield(L, reason - 1, "message");
  const char *own = lua_tostring(L, -1);
  if (!own || strcmp(own, pco__code_text(pco__cancel_code(c))) == 0) {
    lua_pop(L, 1);
  } else if (is_text) {
    lua_pushliteral(L, ": ");
    lua_insert(L, -2);
    lua_concat(L, 3);
  }
  lua_tostring(L, -1); /* a number becomes a text */
  lua_setfield(L, reason - 1, "message");
  lua_settop(L, reason);
}

/* Sets the reason on the error object on top: a text is its message, any value
 * the field `reason` and, if it is an error, the cause. */
static void set_reason(lua_State *L, const pco__cancel *c) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, c);
  set_message(L, c);
  if (pco__is_error(L, -1)) {
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "cause");
  }
  if (c->code == PCO_EDEADLOCK)
    lua_pop(L, 1);
  else
    lua_setfield(L, -2, "reason");
}

void pco__push_cancel_error(lua_State *L, const pco__cancel *c,
                            const char *operation) {
  ((pco__cancel *)c)->seen = true;
  pco__push_error(
      L, pco__error_new(pco__cancel_code(c), PCO_SOURCE_HOST, NULL, NULL),
      operation);
  set_reason(L, c);
}

void pco__add_reason(lua_State *L, pco__task *task) {
  const pco__cancel *c = task ? pco__cancelled(task) : NULL;
  if (!c || !pco__is_cancel_error(L, -1, task))
    return;
  ((pco__cancel *)c)->seen = true;
  set_reason(L, c);
}

/* A task that does not listen: see above.  If it catches this in a loop, each
 * instruction raises in the end, also those outside of what catches. */
static void on_deaf(lua_State *L, lua_Debug *ar) {
  pco__lua *lua = pco__lua_find(L);
  pco__task *task = lua->current;
  const pco__cancel *c = task ? pco__refusal(L, task) : NULL;
  bool hard = c && task->n_refused >= MAX_DEAF;
  lua_sethook(L, on_deaf, LUA_MASKCOUNT, hard ? 1 : HOOK_STEP);
  if (!c) { /* it has left what was cancelled */
    if (lua->slice_hook)
      lua->slice_hook(L, ar); /* which takes this place again */
    return;
  }
  task->n_refused = (unsigned short)(task->n_refused + !hard);
  pco__push_cancel_error(L, c, "task");
  lua_error(L);
}

/* Once: setting it again would begin to count again. */
void pco__raise_until_heard(lua_State *L) {
  if (lua_gethook(L) != on_deaf)
    lua_sethook(L, on_deaf, LUA_MASKCOUNT, HOOK_STEP);
}

void pco__check_cancelled(lua_State *L, const char *operation) {
  pco__task *task = pco__lua_of(L)->current;
  const pco__cancel *c = pco__refusal(L, task);
  if (!c)
    return;
  if (task->n_refused < MAX_REFUSED)
    task->n_refused++;
  else
    pco__raise_until_heard(L);
  pco__push_cancel_error(L, c, operation);
  lua_error(L);
}

bool pco__is_cancel_error(lua_State *L, int idx, pco__task *task) {
  const pco__cancel *c = pco__cancelled(task);
  idx = lua_absindex(L, idx);
  if (!c || !pco__is_error(L, idx))
    return false;
  int top = lua_gettop(L);
  lua_pushliteral(L, "code");
  lua_rawget(L, idx);
  const char *code = lua_tostring(L, -1);
  bool is = code && (strcmp(code, pco__code_name(pco__cancel_code(c))) == 0 ||
                     strcmp(code, pco__code_name(PCO_ECANCELED)) == 0);
  lua_settop(L, top);
  return is;
}

/* ---- cancelling ---------------------------------------------------------- */

/* The task's wait ends, if it is cancelled and the wait hears of it. */
static void interrupt(pco__task *task) {
  const pco__cancel *c =
      task->wait == PCO__NO_WAIT ? NULL : pco__cancelled(task);
  if (!c || (task->op && task->op->cls->shielded) ||
      task->wait == PCO__WAITS_SCOPE || task->wait == PCO__WAITS_TURN)
    return;
  if (give_grace(task))
    return;
  if (task->wait == PCO__WAITS_OP) {
    if (task->op)
      pco__op_cancel(task->op, pco__cancel_code(c));
    return;
  }
  pco__task_ready(task);
}

/* Tasks to be looked at; none can end meanwhile, since no Lua runs. */
typedef struct visits {
  pco__task *first;
  pco__task **last;
} visits;

static void add(visits *v, pco__task *task) {
  task->visit = NULL;
  *v->last = task;
  v->last = &task->visit;
}

static void add_children(visits *v, pco__scope *scope) {
  for (pco__node *n = scope->children.next; n != &scope->children; n = n->next)
    add(v, PCO_CONTAINER(n, pco__task, sibling));
}

/* Tells those tasks, and the ones in scopes of theirs. */
static void deliver(visits *v) {
  for (pco__task *task = v->first; task; task = task->visit) {
    interrupt(task);
    for (pco__scope *s = task->scopes; s; s = s->outer)
      add_children(v, s);
  }
}

/* Sets why; false if something is cancelled already.  A deadline of which
 * nobody heard yet gives way to a cancellation by somebody. */
static bool may_cancel(const pco__cancel *c, int code) {
  bool late = c->code == PCO_ECALLTIMEOUT && !c->seen;
  return !c->code || (late && code != PCO_ECALLTIMEOUT);
}

static bool set_cancel(pco__lua *lua, pco__cancel *c, int code) {
  if (!may_cancel(c, code))
    return false;
  if (!c->code)
    lua->n_cancelled++;
  c->code = (short)code;
  return true;
}

static void interrupt_all(pco__task *task) {
  visits v = {.last = &v.first};
  add(&v, task);
  deliver(&v);
}

bool pco__task_cancel_plain(pco__task *task, int code) {
  if (task->ended || !set_cancel(task->lua, &task->cancel, code))
    return false;
  interrupt_all(task);
  return true;
}

bool pco__scope_cancel_plain(pco__scope *scope, int code) {
  if (!scope->owner || !set_cancel(scope->lua, &scope->cancel, code))
    return false;
  visits v = {.last = &v.first};
  /* Its owner may have opened further ones inside. */
  for (pco__scope *s = scope->owner->scopes; s != scope; s = s->outer)
    add_children(&v, s);
  add_children(&v, scope);
  deliver(&v);
  interrupt(scope->owner);
  return true;
}

/* Keeps the reason on top of L, which is popped. */
static void keep_reason(lua_State *L, const pco__cancel *c) {
  if (lua_isnil(L, -1))
    lua_pop(L, 1);
  else
    lua_rawsetp(L, LUA_REGISTRYINDEX, c);
}

void pco__forget_reason(lua_State *L, const pco__cancel *c) {
  if (!c->code)
    return;
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, c);
}

/* The reason is kept first: nothing after that can fail. */
bool pco__task_cancel(lua_State *L, pco__task *task, int code) {
  if (task->ended || task->cancel.code) {
    lua_pop(L, 1);
    return false;
  }
  keep_reason(L, &task->cancel);
  return pco__task_cancel_plain(task, code);
}

bool pco__scope_cancel(lua_State *L, pco__scope *scope, int code) {
  if (!scope->owner || !may_cancel(&scope->cancel, code)) {
    lua_pop(L, 1);
    return false;
  }
  keep_reason(L, &scope->cancel);
  return pco__scope_cancel_plain(scope, code);
}

/* (the pco__cancel as a light userdata, reason) */
static int keep_at(lua_State *L) {
  lua_rawsetp(L, LUA_REGISTRYINDEX, lua_touserdata(L, 1));
  return 0;
}

/* keep_reason without memory: there is none then. */
static void keep_if_possible(lua_State *L, pco__cancel *c) {
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    return;
  }
  lua_pushlightuserdata(L, c);
  lua_insert(L, -2);
  if (!pco__protected(L, keep_at, 2, 0))
    lua_pop(L, 1);
}

void pco__task_cancel_anyhow(lua_State *L, pco__task *task, int code) {
  if (task->ended || task->cancel.code) {
    lua_pop(L, 1);
    return;
  }
  keep_if_possible(L, &task->cancel);
  pco__task_cancel_plain(task, code);
}

void pco__scope_cancel_anyhow(lua_State *L, pco__scope *scope, int code) {
  if (!scope->owner || !may_cancel(&scope->cancel, code)) {
    lua_pop(L, 1);
    return;
  }
  keep_if_possible(L, &scope->cancel);
  pco__scope_cancel_plain(scope, code);
}

void pco__force(pco__task *task, int code) {
  if (task->wait == PCO__NO_WAIT || task->wait == PCO__WAITS_SCOPE ||
      task->wait == PCO__WAITS_OP)
    return;
  task->forced = (short)code;
  pco__task_ready(task);
}
