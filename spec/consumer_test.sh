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
check_headers
finish
