#!/bin/sh
# start_ranks.sh N [NAME=VALUE]... -- PROGRAM [ARGUMENTS]...
# Starts N processes with these variables, in whose values {} stands for the number of the process,
# and waits for all: what is left of a launcher without the launcher. The code is that of the last
# one that failed.
ranks=$1
shift
variables=
while [ "$1" != -- ]; do
  variables="$variables $1"
  shift
done
shift
pids=
rank=0
while [ "$rank" -lt "$ranks" ]; do
  # The values have no spaces.
  env $(echo "$variables" | sed "s/{}/$rank/g") "$@" &
  pids="$pids $!"
  rank=$((rank + 1))
done
code=0
for pid in $pids; do
  wait "$pid" || code=$?
done
exit "$code"
