#pragma once

// What one rank's endpoint tells a peer's, beside the descriptor of its inbox.

#include <span>

#include "transports/connection.h"
#include "transports/shm/peer_memory.h"
#include "transports/shm/process_inboxes.h"

namespace tutti::transports::shm {

struct ShmAddressBlob {
  int32_t from = 0, to = 0, size = 0;
  RingLayout layout;
  ProcessToken token{};  ///< of the process that holds the inbox
  uint64_t inbox = 0;    ///< its number there
  NoncePlace nonce;      ///< by which the peer knows the process's memory

  base::Bytes write() const;
  /// Throws Refused when it is malformed or of another version.
  static ShmAddressBlob read(std::span<const std::byte> bytes);
};

}  // namespace tutti::transports::shm
