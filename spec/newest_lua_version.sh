#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Run by newest_lua.sh: checks that plain Lua and the portico command are run
# with the Lua that it made, and says which one that is.  Prints TAP.
set -eu
echo 1..2
lib=${LD_LIBRARY_PATH%%:*}
# shellcheck disable=SC2016 # Lua is to see that
maps='local f = assert(io.open("/proc/self/maps")); print(f:read("a"))'
count=0
for program in lua5.4 "$PORTICO_BIN"; do
  count=$((count + 1))
  if "$program" -e "$maps" | grep -q "$lib/liblua5.4.so.0"; then
    echo "ok $count - ${program##*/} is run with $(lua5.4 -v | cut -d' ' -f1-2)"
  else
    echo "not ok $count - ${program##*/} is run with $lib/liblua5.4.so.0"
  fi
done
