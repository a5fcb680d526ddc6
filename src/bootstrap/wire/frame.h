#pragma once

// Frames: what goes over an authenticated stream socket, of set-up and of the control plane. A
// sealed header, the sealed payload where there is one, and descriptors that ride with the header's
// first byte. A key is of one connection and one direction, and whatever is sealed has a number of
// its own. So nothing can be read, changed, repeated, left out or reflected by others.

#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "src/bootstrap/control_plane.h"
#include "src/wire/cipher.h"

namespace tutti::bootstrap {

enum class FrameKind : uint32_t { Message = 1, Leave = 2 };

struct FrameHeader {
  FrameKind kind = FrameKind::Message;
  uint32_t type = 0;
  uint64_t channel = 0;
  uint64_t payloadBytes = 0;
  uint32_t descriptors = 0;
  uint32_t unused = 0;
};
static_assert(sizeof(FrameHeader) == 32);
inline constexpr size_t kSealedHeaderBytes = sizeof(FrameHeader) + wire::kSealBytes;

struct Frame {
  FrameKind kind = FrameKind::Message;
  ControlMessage message;
};

class SealedFrameWriter {
 public:
  explicit SealedFrameWriter(const wire::Key& key);
  /// Seals the next frame to be sent: returns its header, with the payload's size in it, and seals
  /// the payload where it is.
  base::Bytes seal(FrameHeader header, base::Bytes& payload);

 private:
  wire::Cipher cipher_;
};

/// Puts together what arrives on one socket. Whatever it believes is authentic, lengths too, and
/// every limit is checked before memory is had.
class SealedFrameReader {
 public:
  explicit SealedFrameReader(const wire::Key& key, size_t limitBytes = kMaxPayloadBytes);
  void feed(std::span<const std::byte> bytes);
  void feed(base::FileDescriptor descriptor);
  /// The next whole frame. Throws Refused when it is not what the peer sealed, or the peer breaks
  /// the protocol.
  std::optional<Frame> next();

 private:
  bool has(size_t bytes) const { return pending_.size() - taken_ >= bytes; }
  std::span<const std::byte> open(size_t bytes);
  void readHeader();
  void giveRoom();

  wire::Cipher cipher_;
  size_t limitBytes_;
  std::optional<FrameHeader> header_;  // of the frame that is not whole yet
  base::Bytes pending_;
  size_t taken_ = 0;  // bytes of pending_ that are done with
  std::deque<base::FileDescriptor> descriptors_;
};

}  // namespace tutti::bootstrap
