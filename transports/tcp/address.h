#pragma once

// What one rank's endpoint tells a peer's. It comes over the control plane, which has made sure of
// who sent it and that nobody else reads it: so it carries half of the secret by which the two know
// each other's connections.

#include <cstdint>
#include <span>
#include <string>

#include "src/wire/address.h"
#include "src/wire/cipher.h"
#include "src/wire/secrets.h"
#include "transports/connection.h"

namespace tutti::transports::tcp {

struct TcpAddressBlob {
  int32_t from = 0, to = 0, size = 0;
  RingLayout layout;
  uint64_t door = 0;     ///< by which `to` asks for `from` at the place
  wire::Key half{};      ///< of the two ends' secret
  wire::Key keyCheck{};  ///< keyCheckOf() of `half` and the pre-shared key of `from`
  uint32_t streams = 1;  ///< connections between the two
  bool encrypts = false;
  bool hasAes = false;      ///< the processor of `from`
  wire::Address place;      ///< where `from` listens
  std::string device = {};  ///< that it goes by, in words; cut where it is long

  base::Bytes write() const;
  /// Throws Refused when it is malformed or of another version.
  static TcpAddressBlob read(std::span<const std::byte> bytes);
};

/// Equal at both ends if they have the same pre-shared key, which it does not show.
wire::Key keyCheckOf(const wire::Key& half, const std::string& preSharedKey);
/// By which two ranks know each other's connections: of the half of the lower and of the higher
/// rank, and of what both were given by another way.
wire::Key secretOf(const wire::Key& lower, const wire::Key& higher,
                   const std::string& preSharedKey);

}  // namespace tutti::transports::tcp
