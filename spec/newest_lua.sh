#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Runs a command with the newest Lua 5.4 that can be had, in place of the
# system's: as lua5.4, and as the library that the portico command and programs
# that embed Lua load.
#
#   newest_lua.sh FOLDER COMMAND...
#
# Its sources come from the newest Debian, by apt and the system's own list of
# sources, and are built in FOLDER, once; nothing of the system is changed.
# PORTICO_NEWEST_LUA may name a tar file of sources, lua-5.4.N.tar.gz.  Where
# none can be had, one skipped test is reported in place of the command's.
set -eu
folder=$1
shift
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

# For some time: each test would ask again.
skip() {
  printf '%s\n' "$1" >"$folder/unavailable"
  printf '1..1\nok 1 - the newest Lua # SKIP %s\n' "$1"
  exit 0
}

# The newest Debian's sources, asked for in a place of our own.
apt_for_us() {
  apt-get -q -o Dir::Etc::SourceList="$folder/apt/sid.sources" \
    -o Dir::Etc::SourceParts=/dev/null -o Dir::State="$folder/apt/state" \
    -o Dir::Cache="$folder/apt/cache" -o Acquire::Languages=none \
    -o APT::Sandbox::User="$(id -un)" "$@"
}

download() {
  mkdir -p "$folder/apt/state/lists/partial" \
    "$folder/apt/cache/archives/partial" "$folder/apt/src"
  # Of the first entry that is Debian's: the same place and key.
  awk 'BEGIN { RS = ""; ORS = "\n" } /Suites: [a-z]+ [a-z]+-updates/ {
         gsub(/(^|\n)#[^\n]*/, ""); print; exit }' \
    /etc/apt/sources.list.d/*.sources |
    sed -e 's/^Types:.*/Types: deb-src/' -e 's/^Suites:.*/Suites: sid/' \
      -e 's/^Components:.*/Components: main/' >"$folder/apt/sid.sources"
  [ -s "$folder/apt/sid.sources" ] &&
    apt_for_us update &&
    (cd "$folder/apt/src" &&
      apt_for_us source --download-only --tar-only lua5.4)
}

fetch() {
  if [ -n "${PORTICO_NEWEST_LUA:-}" ]; then
    tar=$PORTICO_NEWEST_LUA
    [ -r "$tar" ] || {
      echo "PORTICO_NEWEST_LUA names $tar, which cannot be read" >&2
      exit 1
    }
    return
  fi
  command -v apt-get >/dev/null ||
    skip "there is no apt here; PORTICO_NEWEST_LUA may name its sources"
  rm -rf "$folder/apt"
  download >"$folder/apt.log" 2>&1 </dev/null ||
    skip "apt gives no sources of a newer Debian's lua5.4"
  tar=$(ls "$folder"/apt/src/lua5.4_5.4.*.orig.tar.*)
}

build() {
  rm -rf "$folder/src" "$folder/new"
  mkdir -p "$folder/src" "$folder/new/bin" "$folder/new/lib"
  tar -C "$folder/src" --strip-components=1 -xf "$tar"
  (
    cd "$folder/src/src"
    rm -f luac.c
    mv lua.c ..
    echo 'LUA_5.4 { *; };' >map # as Debian's, which programs ask for
    ${CC:-cc} -O2 -fPIC -shared -DLUA_USE_LINUX -DLUA_COMPAT_5_3 \
      -Wl,-soname,liblua5.4.so.0,--version-script=map -o ../../new/lib/liblua5.4.so.0 ./*.c -lm
    # shellcheck disable=SC2016 # the loader is to see that
    ${CC:-cc} -O2 -I. -DLUA_USE_LINUX -o ../../new/bin/lua5.4 ../lua.c \
      -L../../new/lib -l:liblua5.4.so.0 -Wl,-rpath,'$ORIGIN/../lib'
  ) >"$folder/build.log" 2>&1 || {
    cat "$folder/build.log" >&2
    exit 1
  }
  mv "$folder/new/bin" "$folder/new/lib" "$folder"
}

if [ ! -x "$folder/bin/lua5.4" ]; then
  if [ -n "$(find "$folder/unavailable" -mmin -60 2>/dev/null)" ]; then
    skip "$(cat "$folder/unavailable")"
  fi
  fetch
  build
fi
# Where the system's Lua looks for modules, busted among them.
defaults() { env -u LUA_PATH -u LUA_CPATH lua5.4 -e "print(package.$1)"; }
LUA_PATH="${LUA_PATH:-;;};$(defaults path)"
LUA_CPATH="${LUA_CPATH:-;;};$(defaults cpath)"
export LUA_PATH LUA_CPATH PATH="$folder/bin:$PATH"
export LD_LIBRARY_PATH="$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec "$@"
