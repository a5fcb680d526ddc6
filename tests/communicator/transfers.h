#pragma once

// Sends and receives of bytes, for tests of several files.

#include <cstdint>
#include <random>
#include <vector>

#include <tutti/tutti.h>

namespace tutti::tests {

using Bytes = std::vector<uint8_t>;

/// The bytes of one transfer, different for each.
inline Bytes content(uint64_t transfer, size_t bytes) {
  std::mt19937_64 random(transfer * 7919 + 1);
  Bytes made(bytes);
  for (uint8_t& b : made) b = static_cast<uint8_t>(random());
  return made;
}

inline void give(Communicator& c, const Bytes& data, int peer, StreamRef stream = {}) {
  c.send({.send = data.data(), .count = data.size(), .type = DataType::UInt8, .peer = peer},
         stream);
}
inline void take(Communicator& c, Bytes& data, int peer, StreamRef stream = {}) {
  c.receive({.recv = data.data(), .count = data.size(), .type = DataType::UInt8, .peer = peer},
            stream);
}

}  // namespace tutti::tests
