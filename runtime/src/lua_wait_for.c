/* SPDX-License-Identifier: MIT */
/*
 * Process:wait_for on the caller's thread; see wait_for.h.
 *
 * Output may come byte by byte, so a look must not cost what all that came
 * before weighs.  A plain text is sought from where it could begin at the
 * earliest; a pattern WINDOW bytes before what is new.  A longer match that
 * comes in pieces is found by looks at everything, which are made as long as
 * they have not cost WHOLE bytes, and when the output has ended, or no more of
 * it is kept.
 */
#include <lualib.h>
#include <stdlib.h>
#include <string.h>

#include "lua_args.h"
#include "lua_error.h"
#include "lua_process.h"
#include "lua_wait.h"
#include "wait_for.h"

#define WINDOW     (16u * 1024)
#define WHOLE      (4u * 1024 * 1024)
#define FIRST_ROOM 4096u

/* ---- the condition ------------------------------------------------------- */

static int one_condition(lua_State *L) {
  return pco__bad_argument(L, "process.wait_for",
                           "the condition must be {output = a Lua pattern} or "
                           "{port = a number} (got %s)",
                           lua_istable(L, 2) ? "both or neither"
                                             : pco__describe(L, 2));
}

static bool is_plain(const char *pattern, size_t len) {
  for (size_t i = 0; i < len; i++)
    if (pattern[i] && strchr("^$*+?.()[%-", pattern[i]))
      return false;
  return true;
}

static void parse_output(lua_State *L, pco__wait_for_op *o) {
  static const char *const streams[] = {"stdout", "stderr", "pty", NULL};
  const char *name = "process.wait_for";
  pco__get_option(L, 2, "output");
  o->pattern = pco__arg_bytes(L, lua_gettop(L), name, "output (a Lua pattern)",
                              &o->base.op.arena, &o->pattern_len);
  lua_pop(L, 1);
  o->plain = is_plain(o->pattern, o->pattern_len);
  int only = pco__opt_choice(L, 2, name, "stream", streams, -1);
  for (int i = 0; i < PCO__N_STREAMS; i++)
    o->looks_at[i] = only < 0 || only == i;
}

static void parse_port(lua_State *L, pco__wait_for_op *o) {
  pco__get_option(L, 2, "port");
  o->port = pco__arg_uint16(L, lua_gettop(L), "process.wait_for", "port");
  lua_pop(L, 1);
}

/* Whether the condition at 2 is about output; raises unless it is about one
 * thing. */
static bool is_about_output(lua_State *L) {
  static const char *const known[] = {"output", "port", "stream", NULL};
  const char *name = "process.wait_for";
  if (!lua_istable(L, 2))
    one_condition(L);
  pco__check_options(L, 2, name, known);
  int top = lua_gettop(L);
  bool output = pco__get_option(L, 2, "output");
  bool port = pco__get_option(L, 2, "port");
  if (output == port)
    one_condition(L);
  if (port && pco__get_option(L, 2, "stream"))
    pco__bad_argument(L, name, "stream goes with output, not with port");
  lua_settop(L, top);
  return output;
}

int pco__process_wait_for(lua_State *L) {
  const char *name = "process.wait_for";
  pco__handle *h = pco__open_self(L, PCO__PROCESS, name);
  lua_settop(L, 3);
  bool output = is_about_output(L);
  const pco__op_class *cls =
      output ? &pco__wait_output_class : &pco__wait_port_class;
  pco__check_options(L, 3, name, pco__timeout_only);
  int64_t timeout = pco__opt_seconds(L, 3, name, "timeout", -1, true);
  if (output)
    pco__check_reader(L, h, name);
  pco__op *op = pco__new_op(L, cls, sizeof(pco__wait_for_op), h->loop);
  pco__wait_for_op *o = PCO_CONTAINER(op, pco__wait_for_op, base.op);
  pco__process_ref(h->process);
  o->base.process = h->process;
  pco__chunks_init(&o->base.chunks);
  pco__chunks_init(&o->arrived);
  op->timeout = timeout;
  if (output)
    parse_output(L, o);
  else
    parse_port(L, o);
  if (!h->sync)
    pco__check_wait(L, cls); /* before anything is given back */
  pco__chunks_move(&o->base.chunks, &h->unread);
  return pco__await(L, 4);
}

/* ---- looking ------------------------------------------------------------- */

/* Pushes string.match, as the string library made it. */
static void push_match(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_getfield(L, -1, LUA_STRLIBNAME);
  if (lua_istable(L, -1))
    lua_getfield(L, -1, "match");
  else
    lua_pushnil(L);
  lua_replace(L, -3);
  lua_pop(L, 1);
}

/* Calls string.match on a stream's text from `start` on; the status of the
 * call. The byte before goes with it, for %f. */
static int call_match(lua_State *L, const pco__wait_for_op *o, int stream,
                      size_t start, int n_results) {
  const pco__looked_text *t = &o->text[stream];
  size_t before = start > 0 ? 1 : 0;
  push_match(L);
  lua_pushlstring(L, t->bytes ? t->bytes + start - before : "",
                  t->len - start + before);
  lua_pushlstring(L, o->pattern, o->pattern_len);
  lua_pushinteger(L, (lua_Integer)before + 1);
  return lua_pcall(L, 3, n_results, 0);
}

static size_t kept(const pco__wait_for_op *o) {
  size_t n = 0;
  for (int i = 0; i < PCO__N_STREAMS; i++)
    n += o->text[i].len;
  return n;
}

static int reserve(pco__looked_text *t, size_t more) {
  if (t->room - t->len >= more)
    return 0;
  size_t room = t->room ? t->room * 2 : FIRST_ROOM;
  if (room < t->len + more)
    room = t->len + more;
  char *bytes = realloc(t->bytes, room);
  if (!bytes)
    return UV_ENOMEM;
  t->bytes = bytes;
  t->room = room;
  return 0;
}

static int keep(pco__wait_for_op *o, const pco__chunk *c) {
  size_t n = c->len - c->start;
  pco__looked_text *t = &o->text[c->stream];
  int rc = reserve(t, n);
  if (rc == 0 && n) {
    memcpy(t->bytes + t->len, c->data + c->start, n);
    t->len += n;
  }
  return rc;
}

static int failed(pco__wait_for_op *o, pco__error *err) {
  o->complaint = err;
  return PCO__LOOK_FAILED;
}

static int too_much(pco__wait_for_op *o) {
  pco__error *err = pco__error_new(
      PCO_ELIMIT, PCO_SOURCE_HOST, NULL,
      "nothing in %u bytes of unread output matches \"%s\", and no more is "
      "kept: read some (read, chunks, lines) and wait again",
      PCO__QUEUE_BYTES, o->pattern);
  err->limit = "output";
  return failed(o, err);
}

/* Where a match may begin that was not there at the last look. */
static size_t resume_at(const pco__wait_for_op *o, const pco__looked_text *t) {
  size_t back = o->plain ? o->pattern_len - 1 : WINDOW;
  return o->pattern_len && t->seen > back ? t->seen - back : 0;
}

static bool has_plain(const pco__wait_for_op *o, const pco__looked_text *t) {
  size_t start = resume_at(o, t);
  return o->pattern_len == 0 ||
         (t->len > start && memmem(t->bytes + start, t->len - start, o->pattern,
                                   o->pattern_len) != NULL);
}

static int has_pattern(lua_State *L, pco__wait_for_op *o, int stream,
                       size_t start) {
  int top = lua_gettop(L);
  int verdict = PCO__LOOK_ON;
  if (call_match(L, o, stream, start, 1) != LUA_OK)
    verdict =
        failed(o, pco__error_new(PCO_EINVAL, PCO_SOURCE_HOST, NULL,
                                 "the pattern \"%s\" is no good: %s",
                                 o->pattern, luaL_tolstring(L, -1, NULL)));
  else if (!lua_isnil(L, -1))
    verdict = PCO__LOOK_FOUND;
  lua_settop(L, top);
  return verdict;
}

/* Looks at what is new in a stream. */
static int match(lua_State *L, pco__wait_for_op *o, int stream) {
  const pco__looked_text *t = &o->text[stream];
  size_t start = resume_at(o, t);
  if (o->plain)
    return has_plain(o, t) ? PCO__LOOK_FOUND : PCO__LOOK_ON;
  if (o->pattern[0] == '^' && start > 0) /* nothing begins there */
    return PCO__LOOK_ON;
  return has_pattern(L, o, stream, start);
}

/* Looks at everything, for a match that is longer than a window; unless it is
 * the last look, only if that was not too often. */
static int match_whole(lua_State *L, pco__wait_for_op *o, int stream,
                       bool last) {
  size_t len = o->text[stream].len;
  if (o->plain || len <= WINDOW || (!last && o->whole + len > WHOLE))
    return PCO__LOOK_ON;
  o->whole += len;
  return has_pattern(L, o, stream, 0);
}

static int match_each(lua_State *L, pco__wait_for_op *o, bool first,
                      bool last) {
  for (int i = 0; i < PCO__N_STREAMS; i++) {
    pco__looked_text *t = &o->text[i];
    if (!o->looks_at[i])
      continue;
    int verdict = PCO__LOOK_ON;
    bool new = t->len > t->seen;
    if (first || new)
      verdict = match(L, o, i);
    if (verdict == PCO__LOOK_ON && !first && (new || last))
      verdict = match_whole(L, o, i, last);
    t->seen = t->len;
    o->found_in = i;
    if (verdict != PCO__LOOK_ON)
      return verdict;
  }
  return PCO__LOOK_ON;
}

/* Looks at what there is; the verdict. */
static int look(lua_State *L, pco__wait_for_op *o) {
  pco__chunks news;
  pco__chunks_init(&news);
  pthread_mutex_lock(&o->base.op.loop->lock);
  bool begun = o->begun;
  pco__chunks_move(&news, &o->arrived);
  bool ended = o->ended;
  bool full = o->full;
  pthread_mutex_unlock(&o->base.op.loop->lock);
  int rc = 0;
  bool first = !o->looked;
  o->looked = begun;
  for (pco__chunk *c; (c = pco__chunks_shift(&news)) != NULL; free(c))
    if (rc == 0)
      rc = keep(o, c);
  if (rc < 0)
    return failed(o, pco__error_no_memory());
  if (!begun)
    return PCO__LOOK_ON;
  full = full || kept(o) >= PCO__QUEUE_BYTES;
  int verdict = match_each(L, o, first, ended || full);
  if (verdict == PCO__LOOK_ON && ended)
    return PCO__LOOK_IN_VAIN;
  if (verdict == PCO__LOOK_ON && full)
    return too_much(o);
  return verdict;
}

/* What was found counts more than that the op was ended for it, or by its time;
 * not more than an interrupt. */
static void settle(pco__wait_for_op *o) {
  pco__op *op = &o->base.op;
  bool ours = op->error && (op->error->code == PCO_ECANCELED ||
                            op->error->code == UV_ECANCELED ||
                            op->error->code == PCO_ECALLTIMEOUT);
  if (!ours || o->verdict == PCO__LOOK_ON || o->verdict == PCO__LOOK_IN_VAIN)
    return;
  pco__error_free(op->error);
  op->error = o->complaint;
  o->complaint = NULL;
}

void pco__look_at_output(lua_State *L, pco__op *op, bool completed) {
  pco__wait_for_op *o = PCO_CONTAINER(op, pco__wait_for_op, base.op);
  int top = L ? lua_gettop(L) : 0;
  if (L)
    luaL_checkstack(L, 8, "out of stack");
  if (o->verdict == PCO__LOOK_ON) { /* only written here */
    int verdict = look(L, o);
    pthread_mutex_lock(&op->loop->lock);
    o->verdict = verdict;
    pthread_mutex_unlock(&op->loop->lock);
    if (verdict != PCO__LOOK_ON && !completed)
      pco__op_cancel(op, PCO_ECANCELED);
  }
  if (completed)
    settle(o);
  if (L)
    lua_settop(L, top);
}

/* The captures of the pattern, as string.match gives them; or the port. */
int pco__push_wait_for(lua_State *L, pco__op *op) {
  pco__wait_for_op *o = PCO_CONTAINER(op, pco__wait_for_op, base.op);
  if (!o->pattern) {
    lua_pushinteger(L, o->port);
    return 1;
  }
  int top = lua_gettop(L);
  if (call_match(L, o, o->found_in, 0, LUA_MULTRET) != LUA_OK)
    return lua_error(L);
  return lua_gettop(L) - top;
}
