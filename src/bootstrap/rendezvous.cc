#include "src/bootstrap/rendezvous.h"

#include <algorithm>
#include <cstring>

namespace tutti::bootstrap {
namespace {

constexpr std::array<char, 8> kMagic{'T', 'U', 'T', 'T', 'I', 'I', 'D', '\0'};
constexpr uint8_t kSameUser = 1, kOpenedByRankZero = 2, kNetworkIsIpv6 = 4, kHasZone = 8,
                  kMayBeAnothersToo = 16;

struct IdLayout {
  std::array<char, 8> magic;
  uint32_t version;
  uint8_t family, flags;
  uint16_t port;
  std::array<std::byte, 16> ip;
  std::array<char, wire::Address::kNameBytes> name;
  wire::JobId job;
  wire::Key secret;
  std::array<std::byte, 16> checksum;
};
static_assert(sizeof(IdLayout) == 128 && std::is_trivially_copyable_v<IdLayout>);

std::array<std::byte, 16> checksumOf(const IdLayout& layout) {
  std::array<std::byte, 16> sum;
  wire::digestInto(sum, "unique id",
                   std::as_bytes(std::span(&layout, 1)).first(offsetof(IdLayout, checksum)));
  return sum;
}

}  // namespace

UniqueId encode(const Rendezvous& point) {
  const wire::Address& at = point.address;
  IdLayout layout{.magic = kMagic,
                  .version = wire::kProtocolVersion,
                  .family = static_cast<uint8_t>(at.family),
                  .flags = 0,
                  .port = point.network ? point.network->port : at.port,
                  .ip = point.network ? point.network->ip : at.ip,
                  .name = at.name,
                  .job = point.credentials.job,
                  .secret = point.credentials.secret,
                  .checksum = {}};
  if (point.credentials.sameUser) layout.flags |= kSameUser;
  if (point.openedByRankZero) layout.flags |= kOpenedByRankZero;
  if (point.mayBeAnothersToo) layout.flags |= kMayBeAnothersToo;
  if (point.network && point.network->family == wire::Family::Ipv6) layout.flags |= kNetworkIsIpv6;
  if (at.zone != 0) {
    layout.flags |= kHasZone;
    std::memcpy(layout.name.data(), &at.zone, sizeof at.zone);
  }
  layout.checksum = checksumOf(layout);
  UniqueId id;
  std::memcpy(id.bytes.data(), &layout, sizeof layout);
  return id;
}

Rendezvous decode(const UniqueId& id) {
  TUTTI_REQUIRE(id != UniqueId{}, "the unique id is empty: UniqueId::create() makes one");
  IdLayout layout;
  std::memcpy(&layout, id.bytes.data(), sizeof layout);
  TUTTI_REQUIRE(layout.magic == kMagic, "these 128 bytes are not a unique id of Tutti");
  TUTTI_REQUIRE(layout.version == wire::kProtocolVersion, "the unique id has version ",
                layout.version, ", and this library speaks version ", wire::kProtocolVersion);
  TUTTI_REQUIRE(layout.checksum == checksumOf(layout),
                "the unique id is damaged: its checksum is wrong");
  Rendezvous point{.address = {.family = static_cast<wire::Family>(layout.family),
                               .port = layout.port,
                               .ip = layout.ip,
                               .name = layout.name},
                   .credentials = {.secret = layout.secret,
                                   .job = layout.job,
                                   .sameUser = (layout.flags & kSameUser) != 0},
                   .openedByRankZero = (layout.flags & kOpenedByRankZero) != 0,
                   .mayBeAnothersToo = (layout.flags & kMayBeAnothersToo) != 0};
  if (layout.flags & kHasZone) {
    std::memcpy(&point.address.zone, layout.name.data(), sizeof point.address.zone);
    point.address.name = {};
  }
  if (point.address.family == wire::Family::Unix && layout.port != 0) {
    const bool six = (layout.flags & kNetworkIsIpv6) != 0;
    point.network = wire::Address{.family = six ? wire::Family::Ipv6 : wire::Family::Ipv4,
                                  .port = layout.port,
                                  .ip = layout.ip};
    point.address.port = 0;
    point.address.ip = {};
  }
  // An id has one spelling: flags and fields without a meaning are not there.
  TUTTI_REQUIRE(
      valid(point.address) && (!point.network || valid(*point.network)) && encode(point) == id,
      "the unique id holds no address");
  return point;
}

Rendezvous randomRendezvous() {
  return {.address = wire::randomUnixAddress(),
          .credentials = {.secret = wire::randomBytes<32>(), .job = wire::randomBytes<16>()}};
}

std::string describeAddresses(const Rendezvous& point) {
  if (!point.network) return point.address.describe();
  return base::message(point.address.describe(), " and ", point.network->describe());
}

}  // namespace tutti::bootstrap
