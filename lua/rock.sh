#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What portico-scm-1.rockspec calls, in the top folder:
#
#   rock.sh build PREFIX CFLAGS
#   rock.sh install PREFIX
#
# PREFIX is the rock's directory, TREE/lib/luarocks/rocks-5.4/portico/scm-1.
# LuaRocks moves PREFIX/lua, lib and bin to TREE/share/lua/5.4, lib/lua/5.4 and
# bin.  So the whole tree is the prefix that Portico is built for, and its files
# are put where LuaRocks takes them from.
set -eu

build=build/rock
rock=lib/luarocks/rocks-5.4/portico/${2##*/}
modules=share/lua/5.4
c_modules=lib/lua/5.4

build() { # build CFLAGS
  cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DPCO_BUILD_TESTS=OFF \
    -DCMAKE_C_FLAGS="$1" -DCMAKE_C_FLAGS_RELEASE=-DNDEBUG -DPCO_HARDEN=ON -DCMAKE_INSTALL_BINDIR=bin \
    -DCMAKE_INSTALL_LIBDIR="$rock/portico/lib" \
    -DCMAKE_INSTALL_LIBEXECDIR="$rock/portico/libexec" \
    -DCMAKE_INSTALL_INCLUDEDIR="$rock/portico/include" \
    -DCMAKE_INSTALL_DOCDIR="$rock/doc" \
    -DPCO_LUA_MODULE_DIR="$modules" -DPCO_LUA_CMODULE_DIR="$c_modules"
  cmake --build "$build" --parallel "$(getconf _NPROCESSORS_ONLN)"
}

install() { # install PREFIX
  stage=$1/stage
  cmake --install "$build" --prefix "$stage" --strip
  mkdir -p "$1/lua" "$1/lib"
  mv "$stage/$modules/portico" "$1/lua/"
  mv "$stage/$c_modules/portico" "$1/lib/"
  mv "$stage/bin" "$1/"
  mv "$stage/$rock"/* "$1/"
  rm -r "$stage"
}

case $1 in
build) build "$3" ;;
install) install "$2" ;;
*)
  echo "usage: rock.sh build PREFIX CFLAGS, rock.sh install PREFIX" >&2
  exit 2
  ;;
esac
