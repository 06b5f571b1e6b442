#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Run by newest_lua.sh: checks that plain Lua, the portico command and a program
# with a state of its own are run with the Lua that it made, and says which one
# that is.  Prints TAP.
set -eu
echo 1..3
lib=${LD_LIBRARY_PATH%%:*}
# shellcheck disable=SC2016 # Lua is to see that
maps='local f = assert(io.open("/proc/self/maps")); print(f:read("a"))'
count=0
script=$(mktemp)
trap 'rm -f "$script"' EXIT
printf '%s\n' "$maps" >"$script"
check() {
  count=$((count + 1))
  if "$@" "$script" | grep -q "$lib/liblua5.4.so.0"; then
    echo "ok $count - ${1##*/} is run with $(lua5.4 -v | cut -d' ' -f1-2)"
  else
    echo "not ok $count - ${1##*/} is run with $lib/liblua5.4.so.0"
  fi
}
check lua5.4
check "$PORTICO_BIN"
check "$PORTICO_BUILD/test/host_state" alone
