// Long messages between hosts go from device to device: where their payloads lie, and where not.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "tests/emulation/runtime/device.h"
#include "tests/executor/kernel/calls.h"
#include "tests/executor/kernel/networks.h"

namespace tutti::tests {
namespace {

using transports::p2p::kLine;
using transports::p2p::P2pLink;

constexpr uint32_t kDirectBytes = 1024;
/// Of a NaN, in every type.
constexpr unsigned char kUntouched = 0xff;

/// All payloads of one kind that two ranks have for each other, at both ends.
class Payloads {
 public:
  Payloads(DeviceRanks& ranks, bool isDirect) : layout_(ranks.endpoint(0).layout()) {
    for (int r = 0; r < 2; ++r)
      for (int channel = 0; channel < layout_.rings.channels; ++channel) {
        const P2pLink link = ranks.endpoint(r).hostLink(1 - r, channel);
        add(isDirect ? link.directSendSlots : link.sendSlots);
        add(isDirect ? link.directReceiveSlots : link.receiveSlots);
      }
  }
  void clear() const {
    for (unsigned char* const at : payloads_) std::memset(at, kUntouched, size());
  }
  /// Bytes from `begin` on that were written in any slot.
  size_t touched(size_t begin = 0) const {
    size_t bytes = 0;
    for (const unsigned char* const at : payloads_)
      bytes += size() - begin - std::count(at + begin, at + size(), kUntouched);
    return bytes;
  }

 private:
  size_t size() const { return layout_.rings.slotBytes; }
  void add(unsigned char* slots) {
    for (uint32_t i = 0; i < layout_.rings.slotCount; ++i)
      payloads_.push_back(slots + i * slotStride(Wire::Simple, size()) + kLine);
  }
  const transports::p2p::P2pLayout layout_;
  std::vector<unsigned char*> payloads_;
};

class RemoteDirect : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!networksReach()) GTEST_SKIP() << "no network of this test reaches memory of GPUs";
  }
  static DeviceRanksOptions options() {
    return {.ranks = 2,
            .hosts = {0, 1},
            .network = std::string(GetParam()) == "sim" ? badSimNetwork(1) : ucxNetwork(),
            .directBytes = kDirectBytes};
  }
};

// Slots hold 4096 bytes: each message of the first call is one of 1024, of the second of 896.
TEST_P(RemoteDirect, OnlyLongMessagesLieInMemoryOfTheDevice) {
  DeviceRanks ranks(options());
  const Payloads pinned(ranks, false), direct(ranks, true);
  const auto run = [&](uint64_t count) {
    pinned.clear();
    direct.clear();
    return differenceFromHost(ranks, ringCall(2, count), Wire::Simple);
  };
  const auto flushes = [&] {
    return std::pair(emulation::deviceAt(ranks.deviceOf(0)).flushes.load(),
                     emulation::deviceAt(ranks.deviceOf(1)).flushes.load());
  };
  const auto before = flushes();
  ASSERT_EQ(run(512), "");
  EXPECT_EQ(pinned.touched(), 0U);
  EXPECT_GT(direct.touched(), 1024U);
  EXPECT_EQ(direct.touched(1024), 0U) << "behind the messages";
  const auto after = flushes();
  EXPECT_GT(after.first, before.first);
  EXPECT_GT(after.second, before.second);
  ASSERT_EQ(run(448), "");
  EXPECT_EQ(direct.touched(), 0U);
  EXPECT_GT(pinned.touched(), 896U);
  EXPECT_EQ(flushes(), after);
}

INSTANTIATE_TEST_SUITE_P(Networks, RemoteDirect, testing::Values("sim", "ucx"));

// Who cannot reach memory of devices is found out when ranks are joined.
TEST(RemoteDirectSetUp, NeedsATransportThatReachesDevices) {
  if (!networksReach()) GTEST_SKIP() << "no network of this test reaches memory of GPUs";
  try {
    DeviceRanks ranks(
        {.ranks = 2, .hosts = {0, 1}, .network = shmNetwork(), .directBytes = kDirectBytes});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    EXPECT_STREQ(error.what(),
                 "shm, which joins rank 0 with rank 1, does not reach memory of devices");
  }
}

// What does not fill a line travels in one.
TEST(RemoteDirectSetUp, IsNotForMessagesOfALine) {
  if (!networksReach()) GTEST_SKIP() << "no network of this test reaches memory of GPUs";
  EXPECT_THROW(DeviceRanks({.ranks = 2,
                            .hosts = {0, 1},
                            .network = badSimNetwork(1),
                            .directBytes = executor::kernel::kLeastTravel}),
               Error);
}

}  // namespace
}  // namespace tutti::tests
