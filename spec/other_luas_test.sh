#!/bin/sh
# SPDX-License-Identifier: MIT
#
# other_luas_test.sh BUILD: a Lua that is no 5.4 gets a text that says so, from
# each module that it may load first.  Prints TAP.
set -eu

build=$1
# shellcheck source=spec/support/installed.sh
. "$(dirname "$0")/support/installed.sh"

refuses() { # refuses PROGRAM NAME MODULE
  LUA_PATH="$top/lua/?.lua;$top/lua/?/init.lua" \
    LUA_CPATH="$build/lib/lua/5.4/?.so" "$1" -e "
      local ok, err = pcall(require, '$3')
      assert(not ok)
      err = tostring(err)
      local wanted = 'Portico needs Lua 5.4, and this program has $2: '
      assert(err:find(wanted, 1, true), err)
      assert(err:find('run the script by lua5.4', 1, true), err)"
}

check_program() { # check_program PROGRAM NAME
  if ! command -v "$1" >/dev/null; then
    skip "$1 is refused" "$1 is not here"
    return
  fi
  for module in portico portico.sync portico.errors portico.task \
    portico.portal portico.coroutine portico.core; do
    check "$1 is refused by $module" refuses "$1" "$2" "$module"
  done
}

accepts() {
  LUA_PATH="$top/lua/?.lua;$top/lua/?/init.lua" \
    LUA_CPATH="$build/lib/lua/5.4/?.so" "$lua" -e "require('portico')"
}

# The library that the module loads is told, not a symbol of it.
tells_a_missing_library() {
  mkdir -p "$work/alone/portico"
  cp "$build/lib/lua/5.4/portico/core.so" "$work/alone/portico/"
  ! LUA_CPATH="$work/alone/?.so" "$lua" -e "require('portico.core')" \
    >"$work/said" 2>&1 &&
    grep "Portico's library cannot be loaded: libportico.so" "$work/said"
}

check_program lua5.1 "Lua 5.1"
check_program luajit "LuaJIT (Lua 5.1)"
check_program lua5.2 "Lua 5.2"
check_program lua5.3 "Lua 5.3"
check_program lua5.5 "Lua 5.5"
check "Lua 5.4 is not" accepts
check "a library that is not there is named" tells_a_missing_library
finish
