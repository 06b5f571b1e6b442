#!/bin/sh
# SPDX-License-Identifier: MIT
#
# deb_test.sh BUILD: makes the Debian package with CPack, installs it with dpkg
# into a clean root and runs the quick start there.  The root is made of files
# of this machine: those of the packages that the package depends on, of lua5.4
# and of what dpkg and the commands in the sandboxes need, and of nothing else;
# dpkg knows of no others.  So a dependency that is not declared is missed, but
# these packages were unpacked by another dpkg.  Prints TAP.
set -eu

build=$1
# shellcheck source=spec/support/installed.sh
. "$(dirname "$0")/support/installed.sh"
root="$work/root"

for tool in dpkg-deb dpkg-query dpkg-shlibdeps bwrap; do
  if ! command -v "$tool" >/dev/null; then
    skip "the Debian package" "$tool is not here"
    finish
    exit
  fi
done

make_package() {
  cpack -G DEB --config "$build/CPackConfig.cmake" -B "$work/cpack" &&
    deb=$(echo "$work"/cpack/portico_*.deb) && [ -e "$deb" ] &&
    dev=$(echo "$work"/cpack/libportico-dev_*.deb) && [ -e "$dev" ]
}

names_its_parts() {
  dpkg-deb -f "$deb" >"$work/control"
  grep -E '^Package: portico$' "$work/control" &&
    grep -E '^Depends: .*bubblewrap' "$work/control" &&
    grep -E '^Depends: .*libuv1' "$work/control" &&
    grep -E '^Depends: .*liblua5.4-0' "$work/control"
}

# Each file is in one package: what runs, or what is built with.
splits_its_files() {
  dpkg-deb -c "$deb" >"$work/runs" && dpkg-deb -c "$dev" >"$work/builds" &&
    grep 'libportico\.so\.0' "$work/runs" && grep 'portico/core\.so' "$work/runs" &&
    ! grep '/include/\|/pkgconfig/\|libportico\.so -> ' "$work/runs" &&
    grep '/portico/sandbox\.h' "$work/builds" &&
    grep 'libportico\.so -> ' "$work/builds" &&
    dpkg-deb -f "$dev" Depends >"$work/control" &&
    grep 'portico (= ' "$work/control" && grep 'libuv1-dev' "$work/control"
}

# A program is built with both, wherever they are.
builds_a_program() {
  dpkg-deb -x "$deb" "$work/both" && dpkg-deb -x "$dev" "$work/both" &&
    found=$(dirname "$(find "$work/both" -name portico.pc)") &&
    flags=$(PKG_CONFIG_PATH="$found" \
      pkg-config --cflags --libs portico lua5.4) &&
    eval "${CC:-cc} '$top/spec/consumer/consumer.c' $flags" \
      "-o '$work/consumer'" &&
    LD_LIBRARY_PATH=$(dirname "$found") "$work/consumer" \
      "$work/both/usr/share/lua/5.4" "print 'hello'"
}

# ---- the clean root ----------------------------------------------------------

is_installed() {
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Of each dependency the first alternative that is installed here.
resolve() { # resolve < "a (>= 1), b | c"
  tr ',' '\n' | sed 's/([^)]*)//g; s/:any//g; s/|/ /g' |
    while read -r alternatives; do
      for package in $alternatives; do
        is_installed "$package" && echo "$package" && break
      done
    done
}

closure() { # closure PACKAGE...
  printf '%s\n' "$@" | sort -u >"$work/new"
  : >"$work/packages"
  while [ -s "$work/new" ]; do
    sort -u "$work/packages" "$work/new" >"$work/all"
    mv "$work/all" "$work/packages"
    # shellcheck disable=SC2046,SC2016
    dpkg-query -W -f '${Depends}\n${Pre-Depends}\n' $(cat "$work/new") |
      resolve | sort -u | comm -23 - "$work/packages" >"$work/next"
    mv "$work/next" "$work/new"
  done
}

# Their files, but documents; /lib and the like are links into /usr, as in any
# Debian of today.
copy_files() {
  mkdir -p "$root/usr" "$root/etc" "$root/tmp" "$root/proc" "$root/dev" \
    "$root/home" "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates"
  for dir in bin sbin lib lib64; do
    mkdir "$root/usr/$dir"
    ln -s "usr/$dir" "$root/$dir"
  done
  # shellcheck disable=SC2046
  dpkg-query -L $(cat "$work/packages") | grep -v '/share/\(doc\|man\|locale\)' |
    sed -E 's|^/(bin\|sbin\|lib\|lib64)/|/usr/\1/|' | sort -u |
    while read -r file; do
      if [ -f "$file" ] || [ -L "$file" ]; then
        if [ -r "$file" ]; then echo "$file"; fi
      fi
    done >"$work/files"
  tar -cf - -P -T "$work/files" | tar -C "$root" --strip-components=0 -xf -
  echo "root:x:0:0:root:/root:/bin/sh" >"$root/etc/passwd"
  echo "root:x:0:" >"$root/etc/group"
}

tell_dpkg() {
  # shellcheck disable=SC2046
  dpkg-query -s $(cat "$work/packages") >"$root/var/lib/dpkg/status"
  while read -r package; do
    for list in /var/lib/dpkg/info/"$package".list \
      /var/lib/dpkg/info/"$package":*.list; do
      if [ -e "$list" ]; then cp "$list" "$root/var/lib/dpkg/info/"; fi
    done
  done <"$work/packages"
}

make_root() {
  # shellcheck disable=SC2046
  closure lua5.4 dash coreutils libc-bin \
    $(dpkg-deb -f "$deb" Depends | resolve) &&
    copy_files && tell_dpkg &&
    ! grep -x 'cmake\|portico\|libuv1-dev' "$work/packages"
}

# dpkg wants to be root; in a namespace of its own anybody is.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  else
    unshare --map-root-user "$@"
  fi
}

install_package() { as_root dpkg --root="$root" -i "$deb"; }

# dpkg installs even so, but leaves it unconfigured and fails.
misses_a_dependency() {
  cp -a "$root" "$work/lacking"
  sed -i 's/^Package: libuv1$/Package: libuv0/' \
    "$work/lacking/var/lib/dpkg/status"
  ! as_root dpkg --root="$work/lacking" -i "$deb" >"$work/said" 2>&1 &&
    grep 'portico depends on libuv1' "$work/said"
}

# Its capabilities are what a root has without a container; bwrap makes a
# namespace when it is an ordinary user.  The machine's /proc, since only where
# one is wholly visible may a sandbox mount its own.
inside() {
  if [ "$(id -u)" = 0 ]; then
    set -- --cap-add ALL "$@"
  fi
  bwrap --die-with-parent --bind "$root" / --bind /proc /proc --dev /dev \
    --tmpfs /tmp --ro-bind "$top/examples" "$top/examples" \
    --clearenv --setenv PATH /usr/sbin:/usr/bin:/sbin:/bin "$@"
}

knows_its_backends() {
  inside portico backends >"$work/said" &&
    for backend in bwrap local null; do
      grep "^$backend " "$work/said" || return 1
    done
}

runs_local() {
  inside lua5.4 -e "local P = require 'portico.sync'
    local sb <close> = P.sandbox({ backend = 'local' })
    assert(sb:output('echo hello') == 'hello')"
}

leaves_nothing() {
  as_root dpkg --root="$root" -P portico &&
    ! find "$root" -name '*portico*' | grep .
}

check "cpack makes a package" make_package
check "it names what it needs" names_its_parts
check "what programs are built with is a package of its own" splits_its_files
if command -v pkg-config >/dev/null && pkg-config --exists lua5.4; then
  check "with which one is built" builds_a_program
else
  skip "with which one is built" "pkg-config does not know lua5.4"
fi
if [ "$bad" = 0 ] && as_root true 2>"$work/log"; then
  check "a clean root can be made" make_root
  check "dpkg refuses it where a dependency is missing" misses_a_dependency
  check "dpkg installs it" install_package
  check "the command lists the backends" knows_its_backends
  check "a plain Lua finds the modules" runs_local
  check_isolated "the quick start runs in a plain Lua" \
    runs_the_quick_start inside lua5.4
  check_isolated "and by the command" runs_the_quick_start inside portico
  check "removing it removes its files" leaves_nothing
else
  skip "installing it" "no root in a namespace: $(tail -n 1 "$work/log")"
fi
finish
