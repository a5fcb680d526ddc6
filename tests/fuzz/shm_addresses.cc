// Addresses of the transport `shm`: their bytes, and connecting by them.
//
// First byte: bit 0 the rest is laid over a good address, else it is the address; bits 1 and 2 how
// many descriptors come with it; bits 3 and 4 of which kind: the right one, one of another size, a
// file that is no segment, none at all.

#include "transports/shm/address.h"

#include <fcntl.h>

#include "tests/fuzz/fuzz.h"
#include "transports/shm/endpoint.h"
#include "transports/shm/segment.h"

namespace tutti::fuzz {
namespace {

constexpr transports::RingLayout kLayout{.channels = 1, .slotCount = 2, .slotBytes = 64};

base::FileDescriptor descriptorOf(uint8_t kind) {
  using transports::shm::Segment;
  static const uint64_t bytes = transports::shm::inboxBytes(2, kLayout);
  switch (kind) {
    case 0: return Segment::create(bytes, "a test").duplicate();
    case 1: return Segment::create(bytes + Segment::pageBytes(), "a test").duplicate();
    case 2: return base::FileDescriptor(::memfd_create("tutti-fuzz", MFD_CLOEXEC));
    default: return base::FileDescriptor(::open("/dev/null", O_RDWR | O_CLOEXEC));
  }
}

void run(Input input) {
  const uint8_t choice = input.byte();
  const auto own = transports::shm::makeShmEndpoint(0, 2, kLayout);
  const auto other = transports::shm::makeShmEndpoint(1, 2, kLayout);
  const base::Bytes good = other->address(0).blob;
  const base::Bytes blob = (choice & 1) != 0 ? input.over(good) : input.bytes();
  const bool isRead = takes({ErrorCode::Refused}, [&] {
    expect(transports::shm::ShmAddressBlob::read(blob).write() == blob,
           "an address has one spelling");
  });
  transports::EndpointAddress address{.blob = blob, .descriptors = {}};
  for (int i = 0; i < (choice >> 1 & 3); ++i)
    address.descriptors.push_back(descriptorOf(choice >> 3 & 3));
  const bool isConnected =
      takes({ErrorCode::Refused}, [&] { own->connect(1, std::move(address)); });
  expect(isRead || !isConnected, "nobody connects by what is no address");
  if (!isConnected) return;
  // The memory behind it is there.
  transports::SendRing& ring = own->sendRing(1, 0);
  expect(ring.ready(), "a new ring has free slots");
  std::fill_n(ring.payload(kLayout.slotBytes), kLayout.slotBytes, std::byte{1});
  ring.publish(1, 1, kLayout.slotBytes);
}

}  // namespace
}  // namespace tutti::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tutti::fuzz::run({data, size});
  return 0;
}
