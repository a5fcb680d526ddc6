#include "transports/tcp/address.h"

#include "src/base/check.h"
#include "src/base/printable.h"

namespace tutti::transports::tcp {
namespace {

constexpr uint32_t kMagic = 0x70637474;  // "ttcp"
constexpr uint32_t kVersion = 2;
constexpr size_t kLongestDevice = 256;

wire::Key checksumOf(std::span<const std::byte> bytes) {
  wire::Key sum;
  wire::digestInto(sum, "tcp address", bytes);
  return sum;
}

wire::Key readKey(base::ByteReader& in, const char* field) {
  wire::Key key;
  const base::Bytes bytes = in.getBytes(field, key.size());
  if (bytes.size() != key.size())
    base::fail(ErrorCode::Refused, "a TCP address has a ", field, " of ", bytes.size(), " bytes");
  std::copy(bytes.begin(), bytes.end(), key.begin());
  return key;
}

}  // namespace

base::Bytes TcpAddressBlob::write() const {
  base::ByteWriter out;
  out.put(kMagic).put(kVersion).put(from).put(to).put(size);
  out.put(static_cast<int32_t>(layout.channels)).put(layout.slotCount);
  out.put(static_cast<uint64_t>(layout.slotBytes)).put(door);
  out.put(std::span<const std::byte>(half)).put(std::span<const std::byte>(keyCheck));
  out.put(streams);
  out.put(static_cast<uint8_t>(encrypts)).put(static_cast<uint8_t>(hasAes));
  wire::write(out, place);
  out.put(device.substr(0, kLongestDevice));
  base::Bytes bytes = out.take();
  const wire::Key sum = checksumOf(bytes);
  bytes.insert(bytes.end(), sum.begin(), sum.end());
  return bytes;
}

TcpAddressBlob TcpAddressBlob::read(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(wire::Key))
    base::fail(ErrorCode::Refused, "a TCP address of ", bytes.size(), " bytes");
  const std::span<const std::byte> text = bytes.first(bytes.size() - sizeof(wire::Key));
  base::ByteReader in(text);
  const auto magic = in.get<uint32_t>("magic");
  const auto version = in.get<uint32_t>("version");
  if (magic != kMagic || version != kVersion)
    base::fail(ErrorCode::Refused, "not a TCP address of version ", kVersion, ": magic ", magic,
               ", version ", version);
  const wire::Key sum = checksumOf(text);
  if (!std::equal(sum.begin(), sum.end(), bytes.end() - sizeof sum))
    base::fail(ErrorCode::Refused, "a TCP address came garbled: its digest is wrong");
  TcpAddressBlob blob;
  blob.from = in.get<int32_t>("from");
  blob.to = in.get<int32_t>("to");
  blob.size = in.get<int32_t>("size");
  blob.layout.channels = in.get<int32_t>("channels");
  blob.layout.slotCount = in.get<uint32_t>("slotCount");
  blob.layout.slotBytes = in.get<uint64_t>("slotBytes");
  blob.door = in.get<uint64_t>("door");
  blob.half = readKey(in, "secret");
  blob.keyCheck = readKey(in, "check of the key");
  blob.streams = in.get<uint32_t>("streams");
  blob.encrypts = in.getFlag("encryption");
  blob.hasAes = in.getFlag("AES");
  blob.place = wire::readAddress(in);
  blob.device = base::printable(in.getString("device", kLongestDevice));
  in.requireEnd();
  return blob;
}

wire::Key keyCheckOf(const wire::Key& half, const std::string& preSharedKey) {
  base::ByteWriter text;
  text.put(std::span<const std::byte>(half)).put(preSharedKey);
  wire::Key check;
  wire::digestInto(check, "tutti tcp pre-shared key", text.take());
  return check;
}

wire::Key secretOf(const wire::Key& lower, const wire::Key& higher,
                   const std::string& preSharedKey) {
  base::ByteWriter text;
  text.put(std::span<const std::byte>(lower)).put(std::span<const std::byte>(higher));
  text.put(preSharedKey);
  wire::Key secret;
  wire::digestInto(secret, "tutti tcp", text.take());
  return secret;
}

}  // namespace tutti::transports::tcp
