#define XXH_INLINE_ALL
#include "transports/ucx/address.h"

#include <xxhash.h>

#include <algorithm>
#include <span>

#include "src/base/check.h"
#include "src/base/printable.h"

namespace tutti::transports::ucx {
namespace {

constexpr uint32_t kMagic = 0x78637574;  // "tucx"
constexpr uint32_t kVersion = 6;
// A machine with dozens of devices has a few kilobytes.
constexpr size_t kLongestWorkerAddress = 65536;
constexpr size_t kLongestDevices = 512, kMostPlaces = 64;

uint64_t digest(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace

base::Bytes UcxAddressBlob::write() const {
  base::ByteWriter out;
  out.put(kMagic).put(kVersion).put(from).put(to).put(size);
  out.put(static_cast<int32_t>(layout.channels)).put(layout.slotCount);
  out.put(static_cast<uint64_t>(layout.slotBytes)).put(sink);
  out.put(std::span<const std::byte>(worker));
  out.put(devices.substr(0, kLongestDevices)).put(responder.number);
  const size_t places = responder.places.size() <= kMostPlaces ? responder.places.size() : 0;
  out.put(static_cast<uint32_t>(places));
  for (size_t i = 0; i < places; ++i)
    out.put(responder.places[i].address).put(responder.places[i].port);
  out.put(std::as_bytes(std::span(sources)));
  base::Bytes bytes = out.take();
  const base::Bytes sum = base::bytesOf(digest(bytes));
  bytes.insert(bytes.end(), sum.begin(), sum.end());
  return bytes;
}

UcxAddressBlob UcxAddressBlob::read(std::span<const std::byte> bytes) {
  base::ByteReader in(bytes);
  const auto magic = in.get<uint32_t>("magic");
  const auto version = in.get<uint32_t>("version");
  if (magic != kMagic || version != kVersion)
    base::fail(ErrorCode::Refused, "not a UCX address of version ", kVersion, ": magic ", magic,
               ", version ", version);
  UcxAddressBlob blob;
  blob.from = in.get<int32_t>("from");
  blob.to = in.get<int32_t>("to");
  blob.size = in.get<int32_t>("size");
  blob.layout.channels = in.get<int32_t>("channels");
  blob.layout.slotCount = in.get<uint32_t>("slotCount");
  blob.layout.slotBytes = in.get<uint64_t>("slotBytes");
  blob.sink = in.get<uint64_t>("sink");
  blob.worker = in.getBytes("worker", kLongestWorkerAddress);
  blob.devices = base::printable(in.getString("devices", kLongestDevices));
  blob.responder.number = in.get<uint64_t>("responder's number");
  const auto places = in.get<uint32_t>("number of places");
  if (places > kMostPlaces) base::fail(ErrorCode::Refused, "a UCX address has ", places, " of IP");
  for (uint32_t i = 0; i < places; ++i) {
    const auto address = in.get<uint32_t>("place's address");
    blob.responder.places.push_back({address, in.get<uint16_t>("place's port")});
  }
  const base::Bytes sources = in.getBytes("sources", kMostSources * sizeof(SourceAddress));
  if (sources.size() % sizeof(SourceAddress) != 0)
    base::fail(ErrorCode::Refused, "a UCX address has sources of ", sources.size(), " bytes");
  blob.sources.resize(sources.size() / sizeof(SourceAddress));
  std::ranges::copy(sources, std::as_writable_bytes(std::span(blob.sources)).begin());
  const auto sum = in.get<uint64_t>("digest");
  in.requireEnd();
  if (sum != digest(bytes.first(bytes.size() - sizeof sum)))
    base::fail(ErrorCode::Refused, "a UCX address came garbled: its digest is wrong");
  return blob;
}

}  // namespace tutti::transports::ucx
