#include "transports/shm/address.h"

#include <algorithm>

#include "src/base/check.h"

namespace tutti::transports::shm {
namespace {

constexpr uint32_t kMagic = 0x6d687374;  // "tshm"
constexpr uint32_t kVersion = 2;

/// A field of as many bytes as `to` has.
void getAll(base::ByteReader& in, const char* field, std::span<std::byte> to) {
  const base::Bytes bytes = in.getBytes(field, to.size());
  if (bytes.size() != to.size())
    base::fail(ErrorCode::Refused, "message field ", field, " has ", bytes.size(), " bytes");
  std::ranges::copy(bytes, to.begin());
}

}  // namespace

base::Bytes ShmAddressBlob::write() const {
  base::ByteWriter out;
  out.put(kMagic).put(kVersion).put(from).put(to).put(size);
  out.put(static_cast<int32_t>(layout.channels)).put(layout.slotCount);
  out.put(static_cast<uint64_t>(layout.slotBytes));
  out.put(std::span<const std::byte>(token)).put(inbox);
  out.put(nonce.process).put(nonce.address).put(std::span<const std::byte>(nonce.value));
  return out.take();
}

ShmAddressBlob ShmAddressBlob::read(std::span<const std::byte> bytes) {
  base::ByteReader in(bytes);
  const auto magic = in.get<uint32_t>("magic");
  const auto version = in.get<uint32_t>("version");
  if (magic != kMagic || version != kVersion)
    base::fail(ErrorCode::Refused, "not a shared-memory address of version ", kVersion, ": magic ",
               magic, ", version ", version);
  ShmAddressBlob blob;
  blob.from = in.get<int32_t>("from");
  blob.to = in.get<int32_t>("to");
  blob.size = in.get<int32_t>("size");
  blob.layout.channels = in.get<int32_t>("channels");
  blob.layout.slotCount = in.get<uint32_t>("slotCount");
  blob.layout.slotBytes = in.get<uint64_t>("slotBytes");
  getAll(in, "token", blob.token);
  blob.inbox = in.get<uint64_t>("inbox");
  blob.nonce.process = in.get<int32_t>("process");
  blob.nonce.address = in.get<uint64_t>("nonce address");
  getAll(in, "nonce", blob.nonce.value);
  in.requireEnd();
  return blob;
}

}  // namespace tutti::transports::shm
