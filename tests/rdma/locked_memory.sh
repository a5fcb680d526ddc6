#!/bin/bash
# In a guest: locked_memory.sh TRANSPORT TUTTI
#
# Ranks that may lock too little memory say so, each by itself, before UCX would try for ever; without
# RDMA they need none.
set -u
. "$(dirname "$0")/settings.sh"
tutti=$2
over "$1"
export TUTTI_SETUP_TIMEOUT_MS=30000 TUTTI_TIMEOUT_MS=30000

# perf KIBIBYTES: by a process that may lock so much, without the right to lock more.
perf() (
  ulimit -l "$1"
  exec timeout -k 1 90 setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock "$tutti" perf \
    all_reduce -n 2 --transport ucx --memory ordinary -b 64K -e 64K --iters 2 -w 1 2>&1
)

for limit in 0 8192; do
  said=$(perf $limit)
  status=$?
  echo "== $limit KiB: ended with $status: $said"
  [ $status != 0 ] && [ $status != 124 ] || exit 1
  for part in "RDMA device rxe0" "may lock $((limit * 1024)) " "ulimit -l unlimited" UCX_TLS; do
    grep -qF "$part" <<<"$said" || exit 1
  done
done
UCX_TLS=tcp,self UCX_NET_DEVICES=lo perf 0 || exit

# With several devices each rank takes the one that is near, but not where it goes without RDMA.
ip link add wire1 type dummy
ip link set wire1 mtu 4200 up
ip address add 10.8.0.1/24 dev wire1
rdma link add rxe1 type rxe netdev wire1 || exit
unset UCX_NET_DEVICES
UCX_TLS=tcp,self perf 0
