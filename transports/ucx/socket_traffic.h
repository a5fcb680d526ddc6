#pragma once

#include <cstdint>
#include <map>

namespace tutti::transports::ucx {

/// Bytes that the TCP connections which this process has now have carried, both ways, by the other
/// end's address of IPv4, as the network orders its bytes. Nothing where the kernel does not tell.
std::map<uint32_t, uint64_t> socketTraffic();

}  // namespace tutti::transports::ucx
