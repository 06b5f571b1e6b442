/* SPDX-License-Identifier: MIT */
/* Core functions of portico.portal: portals that a script opens to share. */
#include "lua_args.h"
#include "lua_error.h"
#include "lua_state.h"

/* core.portal_open(options) */
static int portal_open(lua_State *L) {
  static const char *const known[] = {NULL};
  pco__lua *lua = pco__lua_of(L);
  pco__portal *portal = NULL;
  lua_settop(L, 1);
  pco__check_options(L, 1, "portal.open", known);
  pco__check_caller(L, "portal.open", false);
  pco__collect_unclosed(L, lua);
  int rc = pco__portal_open(&lua->runtime, true, &portal);
  if (rc < 0)
    pco__raise(L,
               pco__error_new(rc, PCO_SOURCE_HOST, NULL, "making a portal: %s",
                              pco__code_text(rc)),
               "portal.open", 0);
  pco__push_object(L, PCO__PORTAL, lua, &portal->loop, true);
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "closed");
  return 1;
}

/* core.portal_close(self, options) */
static int portal_close(lua_State *L) {
  static const char *const known[] = {NULL};
  pco__handle *h = pco__self_to_close(L, PCO__PORTAL, "portal.close");
  pco__check_options(L, 2, "portal.close", known);
  if (h->closed) {
    lua_pushboolean(L, 0);
    return 1;
  }
  if (h->portal->users > 0)
    return pco__raise_new(L, PCO_EBUSY, "portal.close",
                          "%d backends or sandboxes use this portal: close "
                          "them first",
                          h->portal->users);
  pco__mark_closed(L, 1);
  pco__portal_stop(h->portal);
  pco__portal_join(h->portal);
  lua_pushboolean(L, 1);
  return 1;
}

const pco__core_function pco__portal_functions[] = {
    {"portal_open", portal_open}, {"portal_close", portal_close}, {NULL, NULL}};
