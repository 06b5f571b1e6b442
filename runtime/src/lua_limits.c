/* SPDX-License-Identifier: MIT */
/* See lua_limits.h.  math.huge is no limit, as it is no timeout; for disk it is
 * refused. */
#include "lua_limits.h"

#include <math.h>

#include "limit_bounds.h"
#include "lua_args.h"
#include "lua_error.h"

static const char *const known[] = {"memory", "pids",       "cpus",
                                    "disk",   "open_files", NULL};

/* An integer of 1 or more; 0 if it is not given or without end. */
static uint64_t integer(lua_State *L, int at, const char *operation,
                        const char *name, uint64_t max) {
  int exact = 0;
  if (!pco__get_option(L, at, name))
    return 0;
  lua_Integer n =
      lua_type(L, -1) == LUA_TNUMBER ? lua_tointegerx(L, -1, &exact) : 0;
  bool endless =
      lua_type(L, -1) == LUA_TNUMBER && lua_tonumber(L, -1) == HUGE_VAL;
  if (!endless && (!exact || n < 1))
    pco__bad_argument(L, operation,
                      "limits.%s must be an integer, 1 or more (got %s)", name,
                      pco__describe(L, -1));
  lua_pop(L, 1);
  if (endless)
    return 0;
  return (uint64_t)n < max ? (uint64_t)n : max;
}

/* The memory of a command; what a sandbox needs is for its backend to say. */
static uint64_t memory(lua_State *L, int at, const char *operation,
                       bool of_command) {
  uint64_t bytes = integer(L, at, operation, "memory", INT64_MAX);
  if (of_command && bytes && bytes < PCO__LEAST_MEMORY)
    pco__bad_argument(L, operation,
                      "limits.memory of a command must be 4 MiB (%d) or more "
                      "(got %d)",
                      PCO__LEAST_MEMORY, (int)bytes);
  return bytes;
}

/* It has a bound everywhere, often in memory, so that without end is no wish
 * that could be granted. */
static uint64_t disk(lua_State *L, int at, const char *operation,
                     bool of_command) {
  uint64_t bytes = integer(L, at, operation, "disk", INT64_MAX);
  if (!pco__get_option(L, at, "disk"))
    return 0;
  if (of_command)
    pco__raise_new(L, PCO_EUNSUPPORTED, operation,
                   "limits.disk is not for one command: it bounds the whole "
                   "sandbox and belongs to its creation");
  if (bytes == 0)
    pco__bad_argument(
        L, operation,
        "limits.disk must be a number of bytes: a sandbox's disk "
        "always has a bound (without limits.disk, the backend's)");
  lua_pop(L, 1);
  return bytes;
}

static double processors(lua_State *L, int at, const char *operation) {
  if (!pco__get_option(L, at, "cpus"))
    return 0;
  double n = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : 0;
  if (!(n >= PCO__LEAST_CPUS)) /* NaN, too */
    pco__bad_argument(L, operation,
                      "limits.cpus must be a number, %g or more (got %s)",
                      PCO__LEAST_CPUS, pco__describe(L, -1));
  lua_pop(L, 1);
  return n > PCO__MOST_CPUS ? 0 : n;
}

bool pco__opt_limits(lua_State *L, int idx, const char *operation,
                     bool of_command, pco_limits *out) {
  *out = (pco_limits){.struct_size = sizeof *out};
  if (!pco__get_option(L, idx, "limits"))
    return false;
  int at = lua_gettop(L);
  if (!lua_istable(L, at))
    pco__bad_argument(L, operation, "limits must be a table (got %s)",
                      pco__describe(L, at));
  pco__check_options_of(L, at, operation, "limits.", known);
  out->memory_bytes = memory(L, at, operation, of_command);
  out->disk_bytes = disk(L, at, operation, of_command);
  out->pids = integer(L, at, operation, "pids", INT64_MAX);
  out->open_files =
      (uint32_t)integer(L, at, operation, "open_files", UINT32_MAX);
  out->cpus = processors(L, at, operation);
  lua_pop(L, 1);
  return true;
}
