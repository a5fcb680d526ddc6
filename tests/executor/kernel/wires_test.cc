// By which wire the messages of a call go, and between which devices lines arrive whole.

#include "src/executor/kernel/wires.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "tests/emulation/runtime/peer.h"

namespace tutti::tests {
namespace {

// Lines arrive whole within a device and over NVLink, between all of them, and not where one pair
// is joined by PCIe; then no message goes by LL128.
TEST(Wires, OfLinesAreForThoseThatNvlinkJoins) {
  using executor::kernel::linesArriveWhole;
  const int one[] = {0}, some[] = {0, 1, 2}, all[] = {0, 1, 2, 3};
  EXPECT_TRUE(linesArriveWhole(one));
  EXPECT_TRUE(linesArriveWhole(all));
  emulation::joinByPcie(3, 1);
  EXPECT_TRUE(linesArriveWhole(some));
  EXPECT_FALSE(linesArriveWhole(all));
  EXPECT_FALSE(linesArriveWhole(std::array{1, 3}));
  EXPECT_FALSE(linesArriveWhole(std::array{3, 1}));
}

// Mapped plans' messages are signals.
TEST(Wires, FollowFromTheBytesOfACall) {
  using executor::kernel::wireFor;
  using transports::p2p::Wire;
  constexpr uint64_t kFew = executor::kernel::kMostBytesByLL;
  constexpr uint64_t kMany = executor::kernel::kMostBytesByLL128;
  for (const bool keepsLines : {false, true}) {
    const Wire ofMany = keepsLines ? Wire::LL128 : Wire::Simple;
    EXPECT_EQ(wireFor(kFew, false, keepsLines), Wire::LL);
    EXPECT_EQ(wireFor(kFew + 1, false, keepsLines), ofMany);
    EXPECT_EQ(wireFor(kMany, false, keepsLines), ofMany);
    EXPECT_EQ(wireFor(kMany + 1, false, keepsLines), Wire::Simple);
    EXPECT_EQ(wireFor(kFew, true, keepsLines), Wire::Simple);
  }
}

}  // namespace
}  // namespace tutti::tests
