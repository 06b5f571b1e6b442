#!/bin/sh
# A sandbox that outlives the commands that use it: made once, files copied in
# and out, commands run in it, one after the other.
set -e
here=$(mktemp -d)
box=$(portico create --ttl 1h)
trap 'portico rm "$box"; rm -r "$here"' EXIT

echo "sort me: pear apple fig" >"$here/list"
portico cp "$here/list" "$box:in/"
portico exec --in "$box" -- sh -c 'tr " " "\n" <in/list | sort >sorted'
portico ls "$box:"
portico cp "$box:sorted" "$here/"
head -n 1 "$here/sorted"
portico cat "$box:in/list"
