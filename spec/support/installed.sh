# shellcheck shell=sh disable=SC2034,SC2154
# SPDX-License-Identifier: MIT
#
# What tests of the installed tree share; to be sourced with the build tree in
# $build.  Sets $top, $work (removed at the end), $lua, and after
# install_and_move $prefix and the directories in it.  Prints TAP.

top=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
lua=$(command -v lua5.4 || command -v lua)

# Nothing of the build tree may help.
unset LUA_PATH LUA_CPATH LUA_PATH_5_4 LUA_CPATH_5_4 LD_LIBRARY_PATH \
  PORTICO_PLUGIN_PATH

count=0 bad=0
check() { # check NAME COMMAND...
  count=$((count + 1))
  name=$1
  shift
  if "$@" >"$work/log" 2>&1; then
    echo "ok $count - $name"
  else
    bad=$((bad + 1))
    echo "not ok $count - $name"
    sed 's/^/# /' "$work/log"
  fi
}

skip() { # skip NAME REASON
  count=$((count + 1))
  echo "ok $count - $1 # SKIP $2"
}

# The last line of a test: its plan, and how it went.
finish() {
  echo "1..$count"
  [ "$bad" = 0 ]
}

bail_out() { # bail_out TEXT
  sed 's/^/# /' "$work/log"
  echo "Bail out! $1"
  exit 1
}

install_and_move() {
  cmake --install "$build" --prefix "$work/first" >"$work/log" 2>&1 ||
    bail_out "cmake --install failed"
  prefix="$work/moved here"
  mv "$work/first" "$prefix"
  libdir=$(dirname "$(find "$prefix" -name libportico.so)")
  core_dir=$(dirname "$(dirname "$(find "$prefix" -name core.so)")")
  plugin_dir="$libdir/portico/plugins"
  agent=$(find "$prefix" -name portico-agent)
}

# The module directories of Lua, wherever the prefix has its libraries.
plain_lua() {
  LUA_PATH="$prefix/share/lua/5.4/?.lua;$prefix/share/lua/5.4/?/init.lua;;" \
    LUA_CPATH="$core_dir/?.so;;" "$lua" "$@"
}

exports_of() { nm -D --defined-only "$1" | awk '$2 != "A" { print $3 }'; }

# A plugin exports its entry and nothing else.
exports_the_entry() {
  [ "$(exports_of "$1")" = pco_plugin_entry_v0 ] || {
    exports_of "$1"
    return 1
  }
}

# Skips NAME where the default backend cannot work.
check_isolated() { # check_isolated NAME COMMAND...
  if "$build/bin/portico" exec -- true >"$work/isolated" 2>&1; then
    check "$@"
  else
    skip "$1" "bwrap cannot work here: $(tail -n 1 "$work/isolated")"
  fi
}

# What both quick starts of the README print.
runs_the_quick_start() { # runs_the_quick_start PROGRAM...
  for facade in async sync; do
    "$@" "$top/examples/quickstart_$facade.lua" >"$work/said" || return 1
    cmp "$work/said" - <<'END' || return 1
exit 0: Linux
stdout: 1
stdout: 2
stdout: 3
hello
hello.txt	5
END
  done
}
