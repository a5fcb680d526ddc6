#include "src/bootstrap/wire/record.h"

#include <algorithm>
#include <cstring>

namespace tutti::bootstrap {
namespace {

wire::Mac macOf(const wire::Key& key, RecordDirection direction, uint64_t number,
                std::span<const std::byte> payload) {
  base::ByteWriter text;
  text.put(direction).put(number).put(payload);
  return wire::authenticate(key, text.take());
}

}  // namespace

base::Bytes RecordWriter::seal(std::span<const std::byte> payload) {
  const wire::Mac mac = macOf(key_, direction_, number_++, payload);
  const auto size = static_cast<uint32_t>(payload.size());
  base::Bytes record(sizeof size + payload.size() + mac.size());
  std::memcpy(record.data(), &size, sizeof size);
  std::copy(payload.begin(), payload.end(), record.begin() + sizeof size);
  std::copy(mac.begin(), mac.end(), record.end() - mac.size());
  return record;
}

void RecordReader::feed(std::span<const std::byte> bytes) {
  pending_.insert(pending_.end(), bytes.begin(), bytes.end());
}

std::optional<base::Bytes> RecordReader::next() {
  uint32_t size = 0;
  if (pending_.size() < sizeof size) return std::nullopt;
  std::memcpy(&size, pending_.data(), sizeof size);
  if (size > limit_)
    base::fail(ErrorCode::Refused, "a record of ", size, " bytes is over the limit of ", limit_);
  const size_t whole = sizeof size + size + sizeof(wire::Mac);
  if (pending_.size() < whole) return std::nullopt;
  const auto payload = std::span<const std::byte>(pending_).subspan(sizeof size, size);
  wire::Mac mac;
  std::memcpy(mac.data(), payload.data() + size, mac.size());
  if (!wire::equal(mac, macOf(key_, direction_, number_, payload)))
    base::fail(ErrorCode::Refused, "record ", number_, " of a set-up connection is not authentic");
  ++number_;
  base::Bytes result(payload.begin(), payload.end());
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<ptrdiff_t>(whole));
  return result;
}

}  // namespace tutti::bootstrap
