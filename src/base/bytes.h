#pragma once

// Writing and reading the control plane's messages: little-endian integers and length-prefixed
// strings. The reader checks every length before it allocates, and throws Refused with the field's
// name, because its input comes from other processes.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "src/base/check.h"

namespace tutti::base {

using Bytes = std::vector<std::byte>;

/// A plain struct as it lies in memory, for messages of one layout on both sides.
template <class T>
Bytes bytesOf(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto bytes = std::as_bytes(std::span(&value, 1));
  return {bytes.begin(), bytes.end()};
}

/// Two lower-case digits for each byte.
inline std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    const auto value = std::to_integer<unsigned>(byte);
    text += "0123456789abcdef"[value >> 4];
    text += "0123456789abcdef"[value & 15];
  }
  return text;
}

class ByteWriter {
 public:
  template <class T>
  requires std::is_integral_v<T> || std::is_enum_v<T> ByteWriter& put(T value) {
    append(&value, sizeof value);
    return *this;
  }
  ByteWriter& put(std::span<const std::byte> bytes) {
    put(static_cast<uint64_t>(bytes.size()));
    append(bytes.data(), bytes.size());
    return *this;
  }
  ByteWriter& put(const std::string& text) { return put(std::as_bytes(std::span(text))); }
  Bytes take() { return std::move(bytes_); }

 private:
  // Not inlined: GCC 12 takes the growth of a vector that it knows to be empty for an overflow.
  [[gnu::noinline]] void append(const void* data, size_t size) {
    if (size == 0) return;
    const size_t end = bytes_.size();
    bytes_.resize(end + size);
    std::memcpy(bytes_.data() + end, data, size);
  }
  Bytes bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) T get(const char* field) {
    T value;
    std::memcpy(&value, take(sizeof value, field).data(), sizeof value);
    return value;
  }
  /// One of the enumerators from `first` to `last`, which leave no gap.
  template <class T>
  requires std::is_enum_v<T> T getEnum(const char* field, T first, T last) {
    const auto value = get<std::underlying_type_t<T>>(field);
    if (value < static_cast<std::underlying_type_t<T>>(first) ||
        value > static_cast<std::underlying_type_t<T>>(last))
      fail(ErrorCode::Refused, "message field ", field, " is ", +value, ", which it cannot be");
    return static_cast<T>(value);
  }
  bool getFlag(const char* field) {
    const auto value = get<uint8_t>(field);
    if (value > 1) fail(ErrorCode::Refused, "message field ", field, " is ", +value, ", no flag");
    return value == 1;
  }
  Bytes getBytes(const char* field, size_t limit = size_t{1} << 24) {
    const auto size = get<uint64_t>(field);
    if (size > limit) fail(ErrorCode::Refused, "message field ", field, " has ", size, " bytes");
    const auto part = take(size, field);
    return {part.begin(), part.end()};
  }
  std::string getString(const char* field, size_t limit = 65536) {
    const Bytes bytes = getBytes(field, limit);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  bool atEnd() const { return rest_.empty(); }
  void requireEnd() const {
    if (!atEnd()) fail(ErrorCode::Refused, rest_.size(), " bytes are left after the message's end");
  }

 private:
  std::span<const std::byte> take(uint64_t size, const char* field) {
    if (size > rest_.size())
      fail(ErrorCode::Refused, "message ends inside field ", field, ": ", size, " bytes wanted, ",
           rest_.size(), " left");
    const auto part = rest_.first(size);
    rest_ = rest_.subspan(size);
    return part;
  }
  std::span<const std::byte> rest_;
};

}  // namespace tutti::base
