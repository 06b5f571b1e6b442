#!/bin/sh
# SPDX-License-Identifier: MIT
#
# abi_test.sh BUILD [--record]: what programs and plugins are compiled against
# is what spec/abi/ has recorded: the library's symbols and their types, the
# structs of the public headers, the values of their constants.  What differs
# fails, however harmless; --record (./dev abi --record) writes it down anew,
# so that a change is seen in the commit that makes it.  Prints TAP.
set -eu

build=$1
# shellcheck source=spec/support/installed.sh
. "$(dirname "$0")/support/installed.sh"
include="$top/runtime/include"
library="$build/lib/libportico.so"
abi="$top/spec/abi"
machine=$(uname -m)

dump() { # dump FILE INCLUDE_DIR, without what is nobody's business or differs
  abidw --exported-interfaces-only --headers-dir "$2/portico" \
    --drop-private-types --no-corpus-path --no-comp-dir-path --no-show-locs \
    --no-elf-needed "$1" | sed "s|path='[^']*/|path='|"
}

# A library that points to each struct of the headers.
dump_headers() { # dump_headers INCLUDE_DIR
  {
    (cd "$1" && printf '#include "%s"\n' portico/*.h)
    cat "$1"/portico/*.h | sed -n \
      's/^typedef struct \(pco_[a-z0-9_]*\) {.*/const \1 *to_\1;/p
       s/^struct \(pco_[a-z0-9_]*\) {.*/const struct \1 *to_\1;/p'
  } >"$work/structs.c"
  ${CC:-cc} -std=c11 -D_DEFAULT_SOURCE -g -O0 -fPIC -shared -I "$1" "$work/structs.c" \
    -o "$work/structs.so" && dump "$work/structs.so" "$1"
}

# Macros without parameters as they are written, enumerators by value.
list_constants() { # list_constants INCLUDE_DIR
  (cd "$1" && printf '#include "%s"\n' portico/*.h) >"$work/headers.c"
  {
    cat "$work/headers.c"
    echo '#include <stdio.h>'
    echo 'int main(void) {'
    ${CC:-cc} -std=c11 -D_DEFAULT_SOURCE -E -P -I "$1" "$work/headers.c" | tr '\n' ' ' |
      grep -o 'enum[a-z_ ]*{[^}]*}' | grep -o '\bPCO_[A-Z0-9_]*' | sort -u |
      sed 's/.*/printf("%s %lld\\n", "&", (long long)(&));/'
    echo 'return 0; }'
  } >"$work/constants.c"
  ${CC:-cc} -std=c11 -D_DEFAULT_SOURCE -I "$1" "$work/constants.c" -o "$work/constants" &&
    {
      "$work/constants"
      ${CC:-cc} -std=c11 -D_DEFAULT_SOURCE -E -dM -I "$1" "$work/headers.c" |
        sed -n 's/^#define \(PCO_[A-Z0-9_]*\) \(.*\)/\1 \2/p'
    } | LC_ALL=C sort
}

list_exports() { exports_of "$library" | LC_ALL=C sort; }

record() {
  list_exports >"$abi/exports.txt"
  list_constants "$include" >"$abi/constants.txt"
  dump "$library" "$include" >"$abi/libportico-$machine.abi"
  dump_headers "$include" >"$abi/headers-$machine.abi"
}

# ---- the checks --------------------------------------------------------------

same_types() { # same_types RECORDED NEW
  abidiff --no-show-locs "$1" "$2"
}

types_of_the_library() {
  dump "$library" "$include" >"$work/library.abi" &&
    same_types "$abi/libportico-$machine.abi" "$work/library.abi"
}

types_of_the_headers() {
  dump_headers "$include" >"$work/headers.abi" &&
    same_types "$abi/headers-$machine.abi" "$work/headers.abi"
}

# No struct of a header slips by: each is in the dump, with its fields.
every_struct_is_looked_at() {
  sed -n 's/^\(typedef \)\{0,1\}struct \(pco_[a-z0-9_]*\) {.*/\2/p' \
    "$include"/portico/*.h >"$work/names"
  [ -s "$work/names" ] || return 1
  while read -r struct; do
    grep "<class-decl name='$struct' size-in-bits" "$work/headers.abi" ||
      { echo "$struct is not in the dump" && return 1; }
  done <"$work/names"
}

constants() {
  list_constants "$include" >"$work/constants.txt" &&
    diff -u "$abi/constants.txt" "$work/constants.txt"
}

exports() { list_exports | diff -u "$abi/exports.txt" -; }

# The checks themselves, with headers that were changed.
changed_headers() { # changed_headers SED_COMMAND
  rm -rf "$work/changed"
  cp -r "$include" "$work/changed"
  sed -i "$1" "$work/changed/portico/plugin.h"
  ! cmp -s "$include/portico/plugin.h" "$work/changed/portico/plugin.h"
}

tells_a_new_field() {
  changed_headers 's/^typedef struct pco_iov {/& int added;/' &&
    dump_headers "$work/changed" >"$work/changed.abi" &&
    ! same_types "$abi/headers-$machine.abi" "$work/changed.abi" &&
    abidiff "$abi/headers-$machine.abi" "$work/changed.abi" | grep pco_iov
}

tells_a_new_constant() {
  changed_headers 's/\bPCO_EMULATED,/PCO_ADDED, &/' &&
    list_constants "$work/changed" | diff "$abi/constants.txt" - |
    grep '^> PCO_NATIVE 3'
}

check_types() { # check_types REASON: to skip, or none
  for check in types_of_the_library types_of_the_headers \
    every_struct_is_looked_at tells_a_new_field; do
    name=$(echo $check | tr _ ' ')
    if [ -n "$1" ]; then
      skip "$name" "$1"
    else
      check "$name" "$check"
    fi
  done
}

why_not() {
  if ! command -v abidw >/dev/null; then
    echo "abidw is not here (Debian: abigail-tools)"
  elif [ ! -e "$abi/headers-$machine.abi" ]; then
    echo "nothing is recorded for $machine"
  elif ! readelf -S "$library" | grep -q '\.debug_info'; then
    echo "the build has no debug information"
  fi
}

if [ "${2:-}" = --record ]; then
  record
  exit
fi
check "exports" exports
check "constants" constants
check "tells a new constant" tells_a_new_constant
check_types "$(why_not)"
if [ "$bad" != 0 ]; then
  echo "# if the change is meant, ./dev abi --record writes it down"
fi
finish
