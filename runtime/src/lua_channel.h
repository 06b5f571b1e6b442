/* SPDX-License-Identifier: MIT */
/* What tasks pass to each other: channels, events, permits. */
#ifndef PCO_LUA_CHANNEL_H
#define PCO_LUA_CHANNEL_H

#include "lua_task.h"

/* Gives the objects their finalizers and metamethods. */
void pco__set_finalizer(lua_State *L, int kind, lua_CFunction gc);
/* What tasks wait for is collected: their coroutines, which held it, were
 * closed by somebody, which the scheduler finds out. */
void pco__strand(pco__node *queue);
void pco__init_event_classes(lua_State *L);
void pco__init_channel_classes(lua_State *L);

#endif /* PCO_LUA_CHANNEL_H */
