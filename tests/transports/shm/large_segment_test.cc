// A segment whose size needs more than 32 bits. Under the label `long`: having four gigabytes of
// pages takes seconds.

#include <gtest/gtest.h>

#include "transports/shm/memory_limits.h"
#include "transports/shm/segment.h"

namespace tutti::transports::shm {
namespace {

TEST(Segment, GigabytesAreAddressed) {
  const uint64_t bytes = (uint64_t{4} << 30) + Segment::pageBytes();
  const auto room = memoryRoom();
  if (room && room->bytes < bytes + (uint64_t{1} << 30))
    GTEST_SKIP() << "needs 5 GiB of memory, there are " << room->bytes << " bytes in "
                 << room->within;
  const Segment owner = Segment::create(bytes, "a test");
  const Segment peer = Segment::open(owner.duplicate(), bytes);
  owner.data()[bytes - 1] = std::byte{3};
  EXPECT_EQ(peer.data()[bytes - 1], std::byte{3});
}

}  // namespace
}  // namespace tutti::transports::shm
