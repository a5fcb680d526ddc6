#pragma once

// FrameWriter: sends frames on a nonblocking socket, several in one call, and what the socket does
// not take later. Plain payloads go from where they lie; sealed ones are sealed piece by piece into
// a buffer that stays in the cache.

#include <sys/uio.h>

#include <array>
#include <optional>

#include "src/base/bytes.h"
#include "src/wire/cipher.h"
#include "transports/tcp/frame.h"

namespace tutti::transports::tcp {

class FrameWriter {
 public:
  enum class Outcome { Done, Full, Broken };

  /// For a new connection: forgets what was not sent.
  void reset(std::optional<wire::Cipher> cipher);
  bool hasRoom() const { return count_ < kFrames; }
  bool empty() const { return count_ == 0; }
  /// Frames of which something is left to read from where it lies.
  size_t unsent() const { return count_ - first_; }
  /// Takes a frame, if hasRoom(). `payload` stays as it is until it is sent.
  void add(const TcpFrame& frame, const std::byte* payload);
  /// Sends what the socket takes: Done when all is sent. Broken leaves the reason in errno. Throws
  /// System once the connection's key has sealed all that it may.
  Outcome write(int socket);

 private:
  static constexpr size_t kFrames = 16;
  struct Item {
    TcpFrame frame;
    const std::byte* payload = nullptr;
    size_t bytes() const { return sizeof frame + frame.bytes; }
  };
  Outcome writePlain(int socket);
  Outcome writeSealed(int socket);
  void sealMore();

  std::array<Item, kFrames> items_;
  size_t count_ = 0;
  size_t first_ = 0;   // the item that is not sent, or not sealed
  size_t offset_ = 0;  // bytes of it that are
  std::optional<wire::Cipher> cipher_;
  base::Bytes sealed_;
  size_t sealedSent_ = 0, sealedBytes_ = 0;
};

}  // namespace tutti::transports::tcp
