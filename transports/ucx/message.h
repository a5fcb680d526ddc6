#pragma once

// What travels: two kinds of UCP active messages. Whatever is in them is checked by who gets them.

#include <cstddef>
#include <cstdint>

namespace tutti::transports::ucx {

/// Ids of active messages, from 0 without a gap: UCX 1.13 calls what it finds in a gap.
enum class Kind : unsigned { Data = 0, Notice = 1 };

/// Header of a ring's message. Its data are the payload.
struct DataHeader {
  uint64_t sink;  ///< the receiver's number for what this sender sends it
  uint32_t number, callHash, operation, bytes;
  uint32_t credit;  ///< messages taken by the sender from the ring that leads back
  uint32_t channel;
  uint32_t note, unused;
};
static_assert(sizeof(DataHeader) == 40);

/// Header of a notice: that the sender gives back slots, or leaves, or, with neither, that it is
/// there. Its data are the credits.
struct NoticeHeader {
  uint64_t sink;
  uint32_t credits;  ///< entries that follow
  uint32_t goodbye;  ///< 1: this is the last message
};
struct CreditEntry {
  uint32_t channel;
  uint32_t messages;  ///< taken so far
};

/// The data of a message that has arrived.
struct Arrived {
  void* data = nullptr;  ///< or UCX's description of them, when they have to be fetched
  size_t bytes = 0;
  bool rendezvous = false;
};

}  // namespace tutti::transports::ucx
