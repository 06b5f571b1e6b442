#!/bin/sh
# SPDX-License-Identifier: MIT
#
# rock_test.sh BUILD: makes the rock with LuaRocks into a private tree, without
# any server, moves the tree and runs the quick start from there; removing the
# rock leaves none of its files.  Prints TAP.
set -eu

build=$1
# shellcheck source=spec/support/installed.sh
. "$(dirname "$0")/support/installed.sh"

if ! command -v luarocks >/dev/null; then
  skip "the rock" "luarocks is not here"
  finish
  exit
fi

rocks() {
  HOME="$work" luarocks --lua-version 5.4 --only-server "file://$work/none" \
    --tree "$tree" "$@"
}

# Quickly: how it is optimised is not the question.
make_rock() {
  cd "$top" && rocks make lua/portico-scm-1.rockspec CFLAGS="-O1 -fPIC"
}

# In the words of its own manual: eval "$(luarocks path)".
lua_of_the_tree() {
  (
    eval "$(rocks path)"
    LUA_PATH=${LUA_PATH%;;} LUA_CPATH=${LUA_CPATH%;;} exec "$lua" "$@"
  )
}

runs_local() {
  lua_of_the_tree -e "local P = require 'portico.sync'
    assert(package.searchpath('portico.core', package.cpath)
      :find('$tree', 1, true))
    local sb <close> = P.sandbox({ backend = 'local' })
    assert(sb:output('echo hello') == 'hello')"
}

points_into_the_tree_only() {
  grep -rlF "$work/first" "$tree" --include=*.so --include=portico && return 1
  find "$tree" -name '*.so' -exec readelf -d {} + >"$work/dynamic"
  # shellcheck disable=SC2016 # it stands so in the file
  grep -F '[$ORIGIN' "$work/dynamic" &&
    ! grep -E 'R(UN)?PATH' "$work/dynamic" | grep -vF '[$ORIGIN'
}

leaves_nothing() {
  rocks remove portico
  ! find "$tree" -name '*portico*' | grep .
}

tree="$work/first"
check "luarocks makes the rock" make_rock
[ "$bad" = 0 ] || {
  finish
  exit 1
}
mv "$tree" "$work/moved here"
tree="$work/moved here"
check "a plain Lua finds it in the moved tree" runs_local
check "no file of it points elsewhere" points_into_the_tree_only
check_isolated "the quick start runs in a plain Lua" \
  runs_the_quick_start lua_of_the_tree
check_isolated "and by the command" runs_the_quick_start "$tree/bin/portico"
check "removing the rock removes its files" leaves_nothing
finish
