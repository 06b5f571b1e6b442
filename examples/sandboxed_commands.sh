#!/bin/sh
# Commands in sandboxes, from a shell script: in place of the command, in a
# pipe, with a time limit, and by exit code.
# shellcheck disable=SC2016 # the inner shell is to expand that
portico exec -- uname -s

printf 'pear\napple\nfig\n' | portico exec -- sort | head -n 1

portico exec --quiet --timeout 0.5 -- sh -c 'echo so far; sleep 60'
echo "exit code $?"

portico exec --env NAME=you --cwd /tmp -- sh -c 'echo "$NAME, in $PWD"'

if ! portico exec -- grep -q root /etc/shadow 2>/dev/null; then
  echo "no secrets here"
fi
