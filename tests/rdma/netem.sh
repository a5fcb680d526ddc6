#!/bin/bash
# In a guest: netem.sh PROGRAM. Over TCP between namespaces; here it may not skip.
set -euo pipefail
# It would be seen in all namespaces, and leads from none to another.
rdma link delete rxe0
output=$(mktemp)
"$1" 2>&1 | tee "$output"
if grep -q SKIPPED "$output"; then
  echo "the guest was to have what this test needs" >&2
  exit 1
fi
