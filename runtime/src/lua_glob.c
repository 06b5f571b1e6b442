/* SPDX-License-Identifier: MIT */
/* FileSystem:glob; see fs_glob.h. */
#include "fs_glob.h"
#include "lua_args.h"
#include "lua_error.h"
#include "lua_fs.h"
#include "lua_wait.h"
#include "lua_walk.h"

static int push_found(lua_State *L, const struct pco__glob *g) {
  size_t n = pco__glob_count(g);
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0; i < n; i++) {
    lua_pushstring(L, pco__glob_path(g, i));
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

int pco__push_glob(lua_State *L, pco__op *op) {
  pco__fs_op *o = PCO_CONTAINER(op, pco__fs_op, op);
  pco__error *err = NULL;
  int rc = pco__glob_take(o, &err);
  if (rc < 0)
    return pco__raise(L, err, op->cls->name, 1);
  return rc > 0 ? PCO__OP_AGAIN : push_found(L, o->glob);
}

int pco__fs_glob(lua_State *L) {
  static const char *const known[] = {"hidden", "timeout", NULL};
  const char *name = pco__fs_glob_class.name;
  pco__handle *h = pco__open_self(L, PCO__FILESYSTEM, name);
  lua_settop(L, 3);
  pco__check_options(L, 3, name, known);
  const char *pattern = pco__check_path(L, 2, name, "the pattern");
  bool hidden = pco__opt_boolean(L, 3, name, "hidden", false);
  pco__op *op =
      pco__new_op(L, &pco__fs_glob_class, sizeof(pco__fs_op), h->loop);
  pco__fs_op *o = PCO_CONTAINER(op, pco__fs_op, op);
  pco__sandbox_ref(h->sandbox);
  o->sandbox = h->sandbox;
  op->timeout = pco__opt_seconds(L, 3, name, "timeout", -1, true);
  int rc = pco__glob_begin(o, pattern, hidden);
  if (rc == PCO_EINVAL)
    pco__bad_argument(L, name, "the pattern has more than %d components",
                      PCO__GLOB_MAX_PARTS);
  if (rc < 0)
    pco__raise(L, pco__error_no_memory(), name, 1);
  return pco__await(L, 4);
}
