/* SPDX-License-Identifier: MIT */
/* The option `limits`, of create and of commands. */
#ifndef PCO_LUA_LIMITS_H
#define PCO_LUA_LIMITS_H

#include "lua_state.h"

/* Takes the option from the table at idx; an absent one leaves *out zero.  A
 * command has no `disk`, which raises UnsupportedError.  True if it is given.
 */
bool pco__opt_limits(lua_State *L, int idx, const char *operation,
                     bool of_command, pco_limits *out);

#endif /* PCO_LUA_LIMITS_H */
