/* SPDX-License-Identifier: MIT */
/* What tasks pass to each other: channels, events, permits. */
#ifndef PCO_LUA_CHANNEL_H
#define PCO_LUA_CHANNEL_H

#include "lua_task.h"

/* Gives the objects their finalizers and metamethods. */
void pco__init_event_classes(lua_State *L);
void pco__init_channel_classes(lua_State *L);

#endif /* PCO_LUA_CHANNEL_H */
