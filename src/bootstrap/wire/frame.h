#pragma once

// Frames: control messages on a stream socket. A 32-byte header, the payload, and descriptors that
// ride with the header's first byte.

#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "src/bootstrap/control_plane.h"

namespace tutti::bootstrap {

enum class FrameKind : uint32_t { Message = 1, Leave = 2 };

struct FrameHeader {
  static constexpr uint32_t kMagic = 0x46545554;  // "TUTF"
  uint32_t magic = kMagic;
  FrameKind kind = FrameKind::Message;
  uint64_t channel = 0;
  uint64_t payloadBytes = 0;
  uint32_t type = 0;
  uint32_t descriptors = 0;
};
static_assert(sizeof(FrameHeader) == 32);

struct Frame {
  FrameKind kind = FrameKind::Message;
  ControlMessage message;
};

/// Puts together what arrives on one socket. Every limit is checked before memory is had.
class FrameReader {
 public:
  void feed(std::span<const std::byte> bytes);
  void feed(base::FileDescriptor descriptor);
  /// The next whole frame. Throws Refused when the peer breaks the protocol.
  std::optional<Frame> next();

 private:
  void readHeader();
  std::optional<FrameHeader> header_;  // of the frame that is not whole yet
  base::Bytes pending_;
  size_t taken_ = 0;  // bytes of pending_ that are done with
  std::deque<base::FileDescriptor> descriptors_;
};

}  // namespace tutti::bootstrap
