#pragma once

// Whether what copies write to a peer arrives there: the probe of pairs whose data go by copy
// engines alone. Each rank copies a pattern into the other's memory and a flag behind it, as every
// message will be; when all have, the other looks at each byte. Also between processes that share a
// device, where a kernel may not wait for the other's.

#include <string>
#include <vector>

#include "transports/p2p/endpoint.h"

namespace tutti::executor::copy {

class CopyProbe {
 public:
  /// Copies to all connected peers that are not kept, and returns when that is done. All ranks do
  /// it, each with the same number, which is new and not 0. The endpoint outlives it.
  CopyProbe(const transports::p2p::P2pEndpoint& endpoint, uint32_t number);

  /// When all ranks have done that. By peer: what is wrong with what came from there, or nothing.
  std::vector<std::string> finish();

 private:
  bool isProbed(int peer) const;
  transports::p2p::ProbeFinding lookAt(int peer);

  const transports::p2p::P2pEndpoint& endpoint_;
  const uint32_t number_;
  const unsigned waitFlags_;
  transports::p2p::SetupStream setup_;
  transports::p2p::DeviceMemory sent_;  // by peer a pattern, then the flag
  transports::p2p::PinnedMemory<uint32_t> seen_;
};

}  // namespace tutti::executor::copy
