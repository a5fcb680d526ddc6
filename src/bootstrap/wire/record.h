#pragma once

// Records: what the rendezvous and a rank say to each other after the handshake. On the wire:
// length (4 bytes), payload, and an HMAC under the session key over direction, number and payload,
// so that nothing can be changed, repeated, left out or reflected.

#include <optional>

#include "src/wire/secrets.h"

namespace tutti::bootstrap {

enum class RecordDirection : uint8_t { ToRendezvous = 1, FromRendezvous = 2 };

class RecordWriter {
 public:
  RecordWriter(const wire::Key& key, RecordDirection direction)
      : key_(key), direction_(direction) {}
  base::Bytes seal(std::span<const std::byte> payload);

 private:
  wire::Key key_;
  RecordDirection direction_;
  uint64_t number_ = 0;
};

class RecordReader {
 public:
  /// `limit`: most bytes of one payload; a longer one is refused before memory is had for it.
  RecordReader(const wire::Key& key, RecordDirection direction, size_t limit)
      : key_(key), direction_(direction), limit_(limit) {}
  void feed(std::span<const std::byte> bytes);
  /// The next whole record. Throws Refused when it is too long or not authentic.
  std::optional<base::Bytes> next();

 private:
  wire::Key key_;
  RecordDirection direction_;
  size_t limit_;
  uint64_t number_ = 0;
  base::Bytes pending_;
};

}  // namespace tutti::bootstrap
