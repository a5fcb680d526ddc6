#pragma once

// What one rank's endpoint tells a peer's. It comes over the control plane, which has made sure of
// who sent it; the digest finds what was garbled, before UCX, which checks little, sees any of it.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "transports/connection.h"
#include "transports/ucx/probe_responder.h"
#include "transports/ucx/source_filter.h"

namespace tutti::transports::ucx {

struct UcxAddressBlob {
  int32_t from = 0, to = 0, size = 0;
  RingLayout layout;
  uint64_t sink = 0;                        ///< where `to` sends what it has for `from`
  base::Bytes worker;                       ///< UCP's address of the worker that serves `from`
  std::string devices = {};                 ///< that it goes by, in words; cut where it is long
  ProbeAddress responder = {};              ///< where one can ask whether these lead to `from`
  std::vector<SourceAddress> sources = {};  ///< from which `from` may connect

  base::Bytes write() const;
  /// Throws Refused when it is malformed or of another version.
  static UcxAddressBlob read(std::span<const std::byte> bytes);
};

}  // namespace tutti::transports::ucx
