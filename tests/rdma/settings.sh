# Sourced by what runs in a guest: UCX over one RDMA transport of rxe0, and whether it was used.

# over TRANSPORT: rc_v (reliable connections) or ud_v (unreliable datagrams). Nothing else: neither
# TCP nor shared memory.
over() {
  export UCX_TLS=$1,self UCX_NET_DEVICES=rxe0:1
  # Else UCX 1.13 takes the headers of Soft-RoCE's datagrams for another kind, and drops them all.
  export UCX_UD_VERBS_ETH_DGID_CHECK=n
  # Patient enough for an emulated processor, and no more.
  export UCX_RC_VERBS_TIMEOUT=200ms UCX_RC_VERBS_RETRY_COUNT=4
}

# What rxe0 has counted: counter sent_pkts
counter() {
  cat "/sys/class/infiniband/rxe0/ports/1/hw_counters/$1"
}

# moved PACKETS COMMAND...: runs it, and fails unless rxe0 has sent and received that many meanwhile.
moved() {
  local least=$1 sent received
  shift
  sent=$(counter sent_pkts) received=$(counter rcvd_pkts)
  "$@" || return
  sent=$(($(counter sent_pkts) - sent)) received=$(($(counter rcvd_pkts) - received))
  echo "== rxe0 sent $sent and received $received packets; $least are the least"
  if [ $sent -lt "$least" ] || [ $received -lt "$least" ]; then
    echo "RDMA was not used" >&2
    return 1
  fi
}
