#!/bin/sh
# SPDX-License-Identifier: MIT
#
# install_test.sh BUILD: installs a build into a prefix, moves the prefix, and
# uses it from there: the command, a plain Lua, the plugins, the agent; then
# builds plugins/template against the installed header and opens it by path.
# Prints TAP.
set -eu

build=$1
# shellcheck source=spec/support/installed.sh
. "$(dirname "$0")/support/installed.sh"

lists_local() { "$prefix/bin/portico" backends | grep '^local '; }

# Debug information may name the sources; what the loader reads may not, nor
# any text.
no_path_of_the_build() {
  for file in "$prefix/bin/portico" "$libdir/libportico.so" "$core_dir"/*/*.so \
    "$plugin_dir"/*.so; do
    readelf -d "$file" | grep -F "$build" && return 1
  done
  ! grep -rIlF "$build" "$prefix"
}

moved_agent_is_static() {
  ! readelf -d "$agent" | grep -q NEEDED
}

one_symbol() {
  for plugin in "$plugin_dir"/*.so; do
    exports_the_entry "$plugin" || return 1
  done
}

# The name that programs are linked with, and the links that lead to it.
has_a_version() {
  readelf -d "$libdir/libportico.so" | grep -F 'soname: [libportico.so.0]' &&
    [ "$(realpath "$libdir/libportico.so")" = \
      "$(realpath "$libdir/libportico.so.0")" ]
}

# It is linked without -z defs, since it takes Lua from the program: a function
# of its own that is missing would be found at run time only.
lacks_only_lua() {
  ! nm -D --undefined-only "$libdir/libportico.so" | grep 'pco_'
}

# As its README says, with the paths of the prefix.
build_template() {
  ${CC:-cc} -std=c11 -fPIC -fvisibility=hidden -shared -Wl,-z,defs \
    -I "$prefix/include" "$top/plugins/template/template.c" \
    -o "$work/portico-template.so"
}

pkg_config_follows() {
  dir=$(PKG_CONFIG_PATH="$libdir/pkgconfig" pkg-config \
    --variable=plugindir portico | sed 's/\\//g')
  [ "$(realpath "$dir")" = "$(realpath "$plugin_dir")" ]
}

# Links between the documents, which lie in folders as in the sources.
links_lead_somewhere() {
  docs=$(dirname "$(find "$prefix" -name CHANGELOG.md)")
  find "$docs" -name '*.md' >"$work/documents"
  [ -s "$work/documents" ] || return 1
  while read -r document; do
    grep -o '](\([^)#]*\))' "$document" | sed 's/^](//; s/)$//' |
      grep -v '^[a-z]*:' | while read -r link; do
        [ -e "$(dirname "$document")/$link" ] || echo "$document: $link"
      done
  done <"$work/documents" >"$work/dangling"
  cat "$work/dangling"
  [ ! -s "$work/dangling" ]
}

open_template() {
  plain_lua -e "local P = require 'portico.sync'
    local backend <close> = P.open('$work/portico-template.so')
    print(backend.name)"
}

install_and_move
code="local P = require 'portico.sync'
  local sb <close> = P.sandbox({ backend = 'local' })
  assert(sb:output('echo hello') == 'hello')"

check "the command runs code" "$prefix/bin/portico" -e "$code"
check "the command lists the backends" \
  lists_local
check "a plain Lua runs it" plain_lua -e "$code"
check "the agent needs no library" moved_agent_is_static
check "a plugin exports its entry only" one_symbol
check "the library has a version" has_a_version
check "the library lacks nothing of its own" lacks_only_lua
check "nothing points at the build tree" no_path_of_the_build
check "links in the documents lead somewhere" links_lead_somewhere
check "pkg-config finds the moved prefix" pkg_config_follows
check "the template plugin builds against the installed header" build_template
check "and opens by its path" open_template
finish
