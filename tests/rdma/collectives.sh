#!/bin/bash
# In a guest: collectives.sh TRANSPORT PROGRAM TUTTI. Every collective over 3 ranks, every element
# checked; and `tutti perf`, as people run it.
set -euo pipefail
. "$(dirname "$0")/settings.sh"
over "$1"
# What the largest blocks alone are, in packets of 4 KiB.
moved 1500 "$2"
output=$(mktemp)
moved 5000 "$3" perf all_reduce -n 3 --transport ucx --memory ordinary -b 1M -e 1M --iters 2 -w 1 |
  tee "$output"
grep -q 'Out of bounds values : 0 OK' "$output"
grep -q 'by ucx' "$output"
