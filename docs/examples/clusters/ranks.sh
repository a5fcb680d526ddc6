#!/bin/sh
# ranks.sh HOSTS NUMBER RANKS PROGRAM [ARGUMENTS]...
# on each of HOSTS hosts or pods, whose NUMBER is 0 on the first; starts RANKS ranks there
set -eu
hosts=$1 number=$2 ranks=$3
shift 3

TUTTI_ADDRESS=${TUTTI_ADDRESS:-$MASTER_ADDR:$MASTER_PORT}
TUTTI_WORLD_SIZE=$((hosts * ranks))
export TUTTI_ADDRESS TUTTI_WORLD_SIZE TUTTI_LOCAL_RANK TUTTI_RANK
pids=
TUTTI_LOCAL_RANK=0
while [ "$TUTTI_LOCAL_RANK" -lt "$ranks" ]; do
  TUTTI_RANK=$((number * ranks + TUTTI_LOCAL_RANK))
  "$@" &
  pids="$pids $!"
  TUTTI_LOCAL_RANK=$((TUTTI_LOCAL_RANK + 1))
done
trap 'kill $pids || true' TERM INT

# When a rank fails, Tutti tells the others, which fail too. So each one can be waited for.
code=0
for pid in $pids; do
  while
    ended=0
    wait "$pid" || ended=$?
    [ "$ended" != 127 ] && kill -0 "$pid" 2>/dev/null # a signal has ended the wait, not the rank
  do :; done
  [ "$ended" = 0 ] || code=$ended
done
exit "$code"
