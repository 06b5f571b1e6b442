/* SPDX-License-Identifier: MIT */
/*
 * Arguments of core functions: checked strictly, refused with an
 * InvalidArgumentError that names the argument and what would be right.
 */
#ifndef PCO_LUA_ARGS_H
#define PCO_LUA_ARGS_H

#include "lua_state.h"

/* Raises InvalidArgumentError for `operation`. */
int pco__bad_argument(lua_State *L, const char *operation, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* A table of options at idx (or nil): raises for another type, and for a key
 * that is not in the NULL-terminated list, naming the nearest one. */
void pco__check_options(lua_State *L, int idx, const char *operation,
                        const char *const *known);
/* The same of a table that is the value of an option: `of` is that one's name
 * and a dot. */
void pco__check_options_of(lua_State *L, int idx, const char *operation,
                           const char *of, const char *const *known);
/* The list of a call that takes nothing but `timeout`. */
extern const char *const pco__timeout_only[];
/* Pushes the option, false if it is not given (then nothing is pushed). */
bool pco__get_option(lua_State *L, int idx, const char *name);

/* Seconds as nanoseconds; `name` is "timeout" and the like.  none: what an
 * absent or infinite value means. */
int64_t pco__opt_seconds(lua_State *L, int idx, const char *operation,
                         const char *name, int64_t none, bool may_be_zero);
/* The same for a span that may be without end: `otherwise` if absent, the
 * longest there is if infinite. */
int64_t pco__opt_span(lua_State *L, int idx, const char *operation,
                      const char *name, int64_t otherwise);
bool pco__opt_boolean(lua_State *L, int idx, const char *operation,
                      const char *name, bool otherwise);
/* A non-negative integer up to max. */
uint64_t pco__opt_size(lua_State *L, int idx, const char *operation,
                       const char *name, uint64_t otherwise, uint64_t max);
/* The integer at idx, from 1 to 65535. */
uint16_t pco__arg_uint16(lua_State *L, int idx, const char *operation,
                         const char *name);
/* A string without NUL, copied to the arena; NULL if absent. */
const char *pco__opt_string(lua_State *L, int idx, const char *operation,
                            const char *name, pco__arena *arena);
/* One of the NULL-terminated choices: its index, or `otherwise`. */
int pco__opt_choice(lua_State *L, int idx, const char *operation,
                    const char *name, const char *const *choices,
                    int otherwise);
/* True if the option is a function; raises for another type but nil. */
bool pco__opt_function(lua_State *L, int idx, const char *operation,
                       const char *name);

/* Checks a string argument that is a path: no NUL, not empty; gives it. */
const char *pco__check_path(lua_State *L, int idx, const char *operation,
                            const char *name);
/* A string argument without NUL, not empty, copied to the arena. */
const char *pco__arg_path(lua_State *L, int idx, const char *operation,
                          const char *name, pco__arena *arena);
/* Any string argument, copied to the arena. */
const char *pco__arg_bytes(lua_State *L, int idx, const char *operation,
                           const char *name, pco__arena *arena, size_t *len);
/* Duration in seconds (argument): ns, finite, not negative. */
int64_t pco__arg_seconds(lua_State *L, int idx, const char *operation,
                         const char *name);

/* The value at idx for a message: itself where that helps, else its type.  It
 * may be left on the stack. */
const char *pco__describe(lua_State *L, int idx);

/* The nearest name in a NULL-terminated list, or NULL if none is near. */
const char *pco__nearest(const char *name, const char *const *known);

/* The length of a table that must have the keys 1 .. n and no others. */
lua_Integer pco__arg_sequence(lua_State *L, int idx, const char *operation,
                              const char *what);
/* A command: {argv} or a string for /bin/sh -c, copied to the arena. */
void pco__arg_command(lua_State *L, int idx, const char *operation,
                      pco__arena *arena, pco__spawn_opts *opts);
/* The option env: {K = "V" | integer | false}, as NULL-terminated "K=V" and
 * "K"; NULL if absent. */
char **pco__opt_env(lua_State *L, int idx, const char *operation,
                    pco__arena *arena);
/* A table of settings at idx (or nil): strings, numbers, booleans as text. */
pco_pair *pco__arg_settings(lua_State *L, int idx, const char *operation,
                            const char *name, pco__arena *arena, size_t *n);
/* A signal: "TERM", "SIGTERM" or 15. */
int pco__arg_signal(lua_State *L, int idx, const char *operation);
/* Raises LimitError if an allocation of the arena failed. */
void pco__check_arena(lua_State *L, const char *operation,
                      const pco__arena *arena);

#endif /* PCO_LUA_ARGS_H */
