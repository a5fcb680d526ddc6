#pragma once

// RDMA devices read and write locked memory alone. UCX 1.13 that may not lock enough does not fail:
// it asks again and again, says so in its log alone, and jobs outlived their deadlines in it. So
// this is asked before it begins.

#include <cstdint>

#include "transports/ucx/settings.h"

namespace tutti::transports::ucx {

/// What a worker locks at least: UCX's first pool of datagrams is 20 MiB, and there are several.
inline constexpr uint64_t kLeastLockedBytes = uint64_t{64} << 20;

/// Throws System, with the limit and how to raise it, where a worker with these settings would use
/// an RDMA device and this process may not lock that much (RLIMIT_MEMLOCK, without CAP_IPC_LOCK).
/// `devices` and `tls` are what counts of UCX_NET_DEVICES and UCX_TLS.
void requireLockableMemory(const Setting& devices, const Setting& tls);

}  // namespace tutti::transports::ucx
