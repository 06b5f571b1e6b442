#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Builds the examples in C with nothing but the public headers and the library
# of this build, and runs them.
#
#   embed_examples_test.sh SOURCE_DIR
set -eu
src=$1
lib=$PORTICO_BUILD/lib
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
n=0
ok() { n=$((n + 1)); echo "ok $n - $1"; }
is() {
  [ "$1" = "$2" ] || {
    printf 'not ok %d - %s\n' $((n + 1)) "$3"
    printf '%s\n' "$1" | sed 's/^/# got: /'
    echo "1..$((n + 1))"
    exit 1
  }
  ok "$3"
}

# A library with a sanitizer wants a program that has it, too.
flags=
symbols=$(nm -D --undefined-only "$lib/libportico.so")
case $symbols in
*__asan_init*) flags=-fsanitize=address ;;
*__tsan_init*) flags=-fsanitize=thread ;;
esac

for example in embed_epoll embed_uv; do
  # shellcheck disable=SC2046,SC2086
  ${CC:-cc} -std=c11 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Werror $flags \
    -I "$src/runtime/include" "$src/examples/$example.c" -o "$out/$example" \
    $(pkg-config --cflags lua5.4 libuv) -Wl,--no-as-needed -L "$lib" \
    -Wl,-rpath,"$lib" -lportico $(pkg-config --libs lua5.4 libuv)
  ok "$example builds with the public headers alone"
done

backends=local
if PATH="$PORTICO_BUILD/bin:$PATH" portico exec true >/dev/null 2>&1; then
  backends='local bwrap'
else
  n=$((n + 1))
  echo "ok $n - # SKIP examples in C on bwrap, which cannot run here"
fi
for backend in $backends; do
  is "$("$out/embed_uv" "$backend" | sort)" "C: hello
script: done
script: the answer is 42" "embed_uv says what it should [$backend]"
  is "$(for i in 1 2 3; do
    echo "local s <close> = require 'portico'.sandbox{backend = '$backend'}" \
      "return s:output{'echo', '$i'}"
  done | "$out/embed_epoll" | sort)" "1
2
3" "embed_epoll serves three scripts [$backend]"
done
is "$(printf '%s\n' 'return 1 +' 'error("x", 0)' 'io.open()' 'return 7' |
  "$out/embed_epoll" | cut -c 1-29)" "failed: input:1: unexpected s
failed: x
failed: input:1: attempt to i
7" "embed_epoll tells what fails, and goes on"
echo "1..$n"
