#!/bin/sh
# SPDX-License-Identifier: MIT
#
# consumer_test.sh BUILD: what others build with an installed Portico whose
# prefix was moved: spec/consumer by find_package and by pkg-config,
# plugins/template by portico_add_plugin, and every public header by itself.
# Prints TAP.
set -eu

build=$1
# shellcheck source=spec/support/installed.sh
. "$(dirname "$0")/support/installed.sh"

configure() { # configure SOURCE BUILD OPTION...
  from=$1 to=$2
  shift 2
  cmake -S "$from" -B "$to" -DCMAKE_PREFIX_PATH="$prefix" "$@"
}

# ---- programs ----------------------------------------------------------------

script="local P = require 'portico.sync'
  local sb <close> = P.sandbox({ backend = 'local' })
  print(sb:output('echo hello'))"

says_hello() {
  "$1" "$prefix/share/lua/5.4" "$script" >"$work/said" &&
    [ "$(cat "$work/said")" = "hello
ABI 0.0" ]
}

by_find_package() {
  configure "$top/spec/consumer" "$work/cmake" \
    -DCMAKE_C_FLAGS="-Wall -Wextra -Wpedantic -Werror" &&
    cmake --build "$work/cmake" &&
    says_hello "$work/cmake/consumer"
}

names_its_directories() {
  [ "$(cat "$work/cmake/lua_dir")" = "$prefix/share/lua/5.4" ] &&
    [ "$(cat "$work/cmake/plugin_dir")" = "$plugin_dir" ]
}

refuses_another_version() {
  ! configure "$top/spec/consumer" "$work/newer" -DWANTED="$1" \
    >"$work/said" 2>&1 &&
    grep -F "compatible" "$work/said" | grep -F "\"$1\""
}

with_pkg_config() { # with_pkg_config ARGUMENT... > flags, quoted for eval
  PKG_CONFIG_PATH="$libdir/pkgconfig" pkg-config "$@"
}

lua_package() {
  for name in lua5.4 lua-5.4 lua54 lua; do
    pkg-config --exists "$name >= 5.4 $name < 5.5" && echo "$name" && break
  done
}

by_pkg_config() {
  flags=$(with_pkg_config --cflags --libs portico "$(lua_package)")
  eval "${CC:-cc} -std=c11 -Wall -Wextra -Wpedantic -Werror" \
    "'$top/spec/consumer/consumer.c' $flags -o '$work/consumer'" &&
    LD_LIBRARY_PATH="$libdir" says_hello "$work/consumer"
}

# A program is to be linked with the name that says which ABI it needs.
needs_the_versioned_name() {
  readelf -d "$work/consumer" | grep -F '[libportico.so.0]'
}

# ---- the examples in C -------------------------------------------------------

# Those that were installed, so none of their files is missing there.
builds_the_examples() {
  configure "$(dirname "$(find "$prefix" -path '*/examples/embed_uv.c')")" \
    "$work/examples" -DCMAKE_C_FLAGS="-Wall -Wextra -Wpedantic -Werror" &&
    cmake --build "$work/examples" --parallel 2
}

runs_on_libuv() {
  "$work/examples/embed_uv" local >"$work/said" && sort "$work/said" |
    cmp - "$top/spec/support/embed_uv.txt"
}

runs_on_epoll() {
  echo "return require 'portico'.sandbox{backend = 'local'}:output('echo 1')" |
    "$work/examples/embed_epoll" >"$work/said" && [ "$(cat "$work/said")" = 1 ]
}

plays() { # plays BACKEND BUDGET_US OPTION...: a hundred robots walk twice
  backend=$1 budget=$2
  shift 2
  SDL_VIDEODRIVER=dummy timeout 240 "$work/examples/robots" --rounds 2 \
    --backend "$backend" --budget-us "$budget" "$@" >"$work/said" || return 1
  cat "$work/said"
  said robots 100 && said_at_least rounds 2 && said failures 0 &&
    said_at_least tasks 100
}

# Numbers of the game's report.
number_of() { tr ' ' '\n' <"$work/said" | sed -n "s/^$1=//p"; }
said() { [ "$(number_of "$1")" -eq "$2" ]; }
said_at_least() { [ "$(number_of "$1")" -ge "$2" ]; }

# In processor time, of the whole tick: other programs do not count.
keeps_its_budget() {
  plays local 8000 --picture "$work/last.png" && said over 0 &&
    said lua_over 0
}

# So short that it is over in many frames.  Only a script that was begun before
# its end may take longer.
cuts_what_is_long() {
  plays local 200 && said_at_least cut 1 && said lua_over 0
}

runs_one_slice() {
  plays local 0 && said most_slices 1
}

draws_a_picture() {
  python3 - "$work/last.png" <<'END'
import struct, sys, zlib
data = open(sys.argv[1], "rb").read()
assert data[:8] == b"\x89PNG\r\n\x1a\n"
at, chunks = 8, []
while at < len(data):
    size, kind = struct.unpack(">I4s", data[at:at + 8])
    body = data[at + 8:at + 8 + size]
    crc, = struct.unpack(">I", data[at + 8 + size:at + 12 + size])
    assert crc == zlib.crc32(kind + body), kind
    chunks.append((kind, body))
    at += 12 + size
assert [kind for kind, _ in chunks] == [b"IHDR", b"IDAT", b"IEND"]
width, height = struct.unpack(">II", chunks[0][1][:8])
rows = zlib.decompress(chunks[1][1])
assert (width, height, len(rows)) == (640, 360, 360 * (1 + 3 * 640))
colors = {rows[y * 1921 + 1 + 3 * x:y * 1921 + 4 + 3 * x]
          for y in range(height) for x in range(width)}
teams = {b"\xe8\x70\x50", b"\x60\xb0\xf0", b"\xd8\xc0\x50", b"\xb0\x80\xe0"}
assert teams <= colors, "a team is not seen"
assert {b"\xe0\xb0\x40", b"\xe8\xe8\xe8"} <= colors, "no overlay"
END
}

check_game() {
  if [ ! -x "$work/examples/robots" ]; then
    skip "the game" "there is no SDL2 (libsdl2-dev)"
    return
  fi
  check "no tick of the game is longer than its budget and one slice" \
    keeps_its_budget
  if command -v python3 >/dev/null; then
    check "it leaves a picture, with all teams and the overlay" draws_a_picture
  else
    skip "it leaves a picture" "there is no python3 to read it"
  fi
  check "nor where the budget is over before the work is" cuts_what_is_long
  check "without a budget a tick runs one slice" runs_one_slice
  check_isolated "a hundred brains in bwrap lead their robots" \
    plays bwrap 8000
}

# ---- plugins -----------------------------------------------------------------

plugin_by_cmake() {
  cp -r "$top/plugins/template" "$work/template"
  configure "$work/template" "$work/plugin" \
    -DCMAKE_C_FLAGS="-std=c11 -Wall -Wextra -Wpedantic -Werror" &&
    cmake --build "$work/plugin" &&
    exports_the_entry "$work/plugin/portico-template.so"
}

opens() { # opens CODE: of what names the backend
  plain_lua -e "local P = require 'portico.sync'
    local backend <close> = P.open($1)
    assert(backend.name == 'template')"
}

opens_on_the_path() {
  PORTICO_PLUGIN_PATH="$work/plugin" opens "'template'"
}

opens_where_it_is_installed() {
  cmake --install "$work/plugin" --prefix "$prefix" &&
    "$prefix/bin/portico" backends | grep '^template ' && opens "'template'"
}

refuses() { # refuses TEXT ARGUMENTS: of portico_add_plugin
  mkdir -p "$work/bad"
  cat >"$work/bad/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(bad LANGUAGES C)
find_package(portico REQUIRED)
portico_add_plugin($2)
END
  ! configure "$work/bad" "$work/bad/build" >"$work/said" 2>&1 &&
    tr -s ' \n' '  ' <"$work/said" | grep -F "$1"
}

# ---- headers -----------------------------------------------------------------

# Alone, and twice, so that its guard is one.
compiles() { # compiles COMPILER STANDARD HEADER
  case $2 in
  c++*) language=c++ ;;
  *) language=c ;;
  esac
  include="#include <portico/$3>"
  printf '%s\n%s\nint portico_header;\n' "$include" "$include" |
    "$1" -std="$2" -x "$language" -Wall -Wextra -Wpedantic -Werror \
      -fsyntax-only -I "$prefix/include" -
}

check_headers() {
  for header in "$prefix"/include/portico/*.h; do
    header=$(basename "$header")
    for standard in c11 c17; do
      check "$header is whole as $standard" \
        compiles "${CC:-cc}" "$standard" "$header"
    done
    for standard in c++17 c++20; do
      if command -v "${CXX:-c++}" >/dev/null; then
        check "$header is whole as $standard" \
          compiles "${CXX:-c++}" "$standard" "$header"
      else
        skip "$header is whole as $standard" "there is no C++ compiler"
      fi
    done
  done
}

install_and_move
check "a program finds it by find_package" by_find_package
check "and learns where modules and plugins are" names_its_directories
check "a version to come is refused" refuses_another_version 0.2
check "a version that was is refused" refuses_another_version 0.0.9
check "a program finds it by pkg-config" by_pkg_config
check "and needs the library by its versioned name" needs_the_versioned_name
check "portico_add_plugin builds the template" plugin_by_cmake
check "which opens from PORTICO_PLUGIN_PATH" opens_on_the_path
check "and by name where cmake installs it" opens_where_it_is_installed
check "a bad name of a plugin is refused" \
  refuses '"My_Plugin" is no name of a backend' "My_Plugin a.c"
check "a plugin without sources is refused" refuses 'has no sources' "mine UV"
check "the examples in C build by find_package alone" builds_the_examples
check "the one with a libuv loop runs" runs_on_libuv
check "the one on epoll runs" runs_on_epoll
check_game
check_headers
finish
