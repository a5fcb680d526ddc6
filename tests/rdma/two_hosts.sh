#!/bin/bash
# In each of two guests: two_hosts.sh TRANSPORT TUTTI. Each is a host with one rank. Their link loses
# a hundredth of the packets, then delays each by 20 ms, and collectives are right; then it goes
# silent, and both ranks name the other's host within 5 s.
set -eu
. "$(dirname "$0")/settings.sh"
over "$1"
tutti=$2
other=$((1 - GUEST))
export TUTTI_RANK=$GUEST TUTTI_WORLD_SIZE=2 TUTTI_ADDRESS=10.7.0.1:29520 TUTTI_JOB_KEY=only-for-this-test

# What this host sends: link loss 1%
link() {
  tc qdisc replace dev eth0 root netem limit 10000 "$@"
}
milliseconds() {
  echo $(($(tr -dc 0-9 <<<"${EPOCHREALTIME}") / 1000))
}

output=$(mktemp)
# Collectives whose every element is right, over RDMA: collectives ITERATIONS
collectives() {
  local collective
  for collective in all_reduce alltoallv; do
    moved $(($1 * 5)) "$tutti" perf $collective -b 64K -e 64K --iters "$1" -w 1 >"$output" 2>&1 || {
      cat "$output"
      exit 1
    }
    cat "$output"
    if [ $GUEST = 0 ]; then
      grep -q 'Out of bounds values : 0 OK' "$output"
      grep -q "on host guest$other) by ucx" "$output"
    fi
  done
}

link loss 1%
collectives 20
tc -s qdisc show dev eth0 | tee "$output"
if ! grep -q 'dropped [1-9]' "$output"; then
  echo "no packet was lost" >&2
  exit 1
fi

link delay 20ms
before=$(milliseconds)
collectives 5
elapsed=$(($(milliseconds) - before))
echo "== $elapsed ms with a delay of 20 ms"
# Two collectives, each called 6 times in place and 6 times out of place, and none ends before the
# other host's data is there.
[ $elapsed -ge $((2 * 2 * 6 * 20)) ]

link loss 0%
before=$(counter rcvd_pkts)
"$tutti" perf all_reduce -b 64K -e 64K --iters 1000000 -w 1 >"$output" 2>&1 &
rank=$!
while kill -0 $rank 2>/dev/null && [ $(($(counter rcvd_pkts) - before)) -lt 500 ]; do sleep 0.1; done
# The second tells the first that it is time.
if [ $GUEST = 0 ]; then
  busybox nc -l -p 29600 >"$output.time" </dev/null
else
  until echo now >/dev/tcp/10.7.0.1/29600; do sleep 0.1; done 2>/dev/null
fi
link loss 100%
cut=$(milliseconds)
# Reliable connections may tell before the control plane does.
names="on host guest$other\\) was lost: its (host does not answer|connection broke)"
while kill -0 $rank 2>/dev/null && ! grep -Eq "$names" "$output"; do sleep 0.1; done
elapsed=$(($(milliseconds) - cut))
status=0
wait $rank || status=$?
cat "$output"
echo "== named after $elapsed ms; the rank ended with $status"
[ $status != 0 ]
grep -Eq "$names" "$output"
[ $elapsed -le 5000 ]
