#pragma once

// What ranks do in a conformance test: small resumable parts, since one thread may have to drive
// all ranks. Every payload byte follows from a seed and is compared on arrival.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transports/connection.h"

namespace tutti::tests {

using transports::Endpoint;

enum class Poll { Idle, Moved, Done };

/// Part of one rank's work. poll() never blocks, is called until Done, and throws what is wrong.
class Actor {
 public:
  virtual ~Actor() = default;
  virtual Poll poll(Endpoint& endpoint) = 0;
  virtual std::string describe() const = 0;  ///< what it was doing, for time-outs
};
using Actors = std::vector<std::unique_ptr<Actor>>;

/// Thrown by departure(): the rank is to vanish now.
struct Departure {};

/// One direction of one ring. The size of message i, which both ends compute.
struct Stream {
  int peer = 0;
  int channel = 0;
  uint64_t messages = 0;
  std::function<uint32_t(uint64_t index)> bytes;
  uint64_t seed = 0;  ///< equal at both ends, different between streams
  /// Only the ends of each payload are written and compared, when the volume is the point.
  bool endsOnly = false;
};

std::unique_ptr<Actor> sender(const Stream& stream);
std::unique_ptr<Actor> receiver(const Stream& stream);
/// A sender of zero-copy messages, where the transport has them, from a few buffers. It spoils each
/// buffer as soon as its message is completed.
std::unique_ptr<Actor> zeroCopySender(const Stream& stream);

/// One large message in pieces that fill slots, put together and compared as a whole.
std::unique_ptr<Actor> fragmentSender(int peer, uint64_t bytes, uint64_t seed);
std::unique_ptr<Actor> fragmentReceiver(int peer, uint64_t bytes, uint64_t seed);

/// Sends until `least` messages are sent and the ring has then stayed full for many polls; more
/// than `most` are an error.
std::unique_ptr<Actor> flood(int peer, int channel, uint64_t least, uint64_t most);

/// Receives `messages` and then vanishes.
std::unique_ptr<Actor> departure(int peer, int channel, uint64_t messages);

/// Sizes at which slots behave differently, then random ones up to a whole slot.
std::function<uint32_t(uint64_t)> oddSizes(uint64_t seed, size_t slotBytes);
inline std::function<uint32_t(uint64_t)> always(uint32_t bytes) {
  return [bytes](uint64_t) { return bytes; };
}

/// A random number for a seed and an index.
uint64_t scramble(uint64_t seed, uint64_t index);

}  // namespace tutti::tests
