#!/bin/sh
# Filters that nobody has read, in pipelines of a shell script: each may use so
# much and no more, and says by its exit code how it ended.
# shellcheck disable=SC2016 # the inner shell is to expand that
limits='--timeout 60 --memory 256M --pids 16 --open-files 64 --disk 1M'

# shellcheck disable=SC2086 # several words
seq 1 1000 |
  portico exec $limits -- awk '{ sum += $1 } END { print "sum", sum }' |
  sed 's/sum/the sum is/'

# shellcheck disable=SC2086
portico exec $limits -- sh -c 'head -c 4000000 /dev/zero >out' 2>/dev/null ||
  echo "it wanted more disk than it may have"

# What it prints until its time is over still comes through.
{
  portico exec -q --timeout 0.5 -- sh -c 'echo working; sleep 60' ||
    echo "exit code $?"
} | sed 's/^/> /'
