#!/bin/bash
# In a guest: collectives.sh TRANSPORT TUTTI. Every collective over 3 ranks, every element checked.
set -eu
. "$(dirname "$0")/settings.sh"
over "$1"
tutti=$2
ranks=3 iterations=2 sizes=3

# A call begins with a message from each rank but one at the least.
calls=$((sizes * iterations))
least=$((calls * (ranks - 1)))

perf() {
  local output
  output=$("$tutti" perf "$@" --transport ucx --iters $iterations -w 1) || {
    echo "$output"
    return 1
  }
  echo "$output" | grep -v '^#  *size\|^# time'
  grep -q 'Out of bounds values : 0 OK' <<<"$output" && grep -q 'by ucx' <<<"$output"
}

for collective in all_reduce all_gather reduce_scatter broadcast reduce gather scatter alltoall scan \
  sendrecv alltoallv; do
  moved $least perf $collective -n $ranks -b 8 -e 64K -f 90
done
moved $((iterations * (ranks - 1))) perf barrier -n $ranks
# Powers of two of ranks only.
moved $((calls * 2)) perf hypercube -n 2 -b 8 -e 64K -f 90
# Long enough for UCX's rendezvous.
moved 256 perf all_reduce -n $ranks -b 1M -e 1M
