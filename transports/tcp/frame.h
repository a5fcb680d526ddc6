#pragma once

// Frames: what travels on a stream behind the handshake. A header, and for some a payload. Whatever
// is in them is checked by who gets them.
//
// Data and Goodbye are counted: a stream keeps each until the other end has said that it came, and
// sends those again that a broken connection has lost. The others say what is so at the moment.

#include <cstddef>
#include <cstdint>

namespace tutti::transports::tcp {

enum class FrameType : uint8_t {
  Resume = 1,   ///< the first on a connection: `received` says which the sender has
  Data = 2,     ///< a ring's message; the payload is the message's
  State = 3,    ///< the payload is of CreditWord
  Goodbye = 4,  ///< the sender leaves: nothing of it follows on this stream
};

/// In frame order of bytes as x86 and Arm have them, like all that goes over the wire.
struct TcpFrame {
  /// Of Data and State: tell at once that it came.
  static constexpr uint8_t kTellAtOnce = 1;

  FrameType type = FrameType::State;
  uint8_t flags = 0;
  uint16_t channel = 0;
  uint32_t number = 0;     ///< of the message
  uint32_t callHash = 0;   ///< of the message
  uint32_t operation = 0;  ///< of the message
  uint32_t bytes = 0;      ///< of the payload
  uint32_t note = 0;       ///< of the message
  uint32_t credit = 0;     ///< messages that the sender took from the channel's ring back
  uint32_t received = 0;   ///< counted frames that the sender has had on this stream
};
static_assert(sizeof(TcpFrame) == 32);

/// Messages taken so far from the ring of a channel.
struct CreditWord {
  uint32_t channel = 0;
  uint32_t messages = 0;
};
static_assert(sizeof(CreditWord) == 8);

/// Sealed payloads go in pieces of at most so many bytes, each sealed by itself.
inline constexpr size_t kSealedPiece = 32768;

}  // namespace tutti::transports::tcp
