#pragma once

#include <cstdint>
#include <map>

namespace tutti::transports::ucx {

struct SocketTraffic {
  uint64_t bytes = 0;      ///< carried so far, both ways
  bool isWaiting = false;  ///< for the other end to acknowledge some
};

/// What the TCP connections that this process has now, whoever has made them, have carried, by the
/// other end's address of IPv4, as the network orders its bytes. Nothing where the kernel does not
/// tell; sockets of IPv6 are left out.
std::map<uint32_t, SocketTraffic> socketTraffic();

}  // namespace tutti::transports::ucx
