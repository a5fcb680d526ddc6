// The probe of pairs by copies: what is wrong, late or right is told as that.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "src/executor/copy/probe.h"
#include "tests/emulation/runtime/peer.h"
#include "tests/executor/copy/copy_ranks.h"

namespace tutti::tests {
namespace {

using executor::copy::CopyProbe;

/// Three ranks, of which one shares another's device.
class CopyProbes : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<DeviceEndpoint*> endpoints;
    for (int r = 0; r < 3; ++r) {
      endpoints_.push_back(std::make_unique<DeviceEndpoint>(r % devicesOf(2), r, 3, kCopyLayout));
      endpoints.push_back(endpoints_.back().get());
    }
    connectInProcess(endpoints, 20'000'000'000);
  }
  /// By rank and peer, of those that probe. The first number was that of a kernel.
  std::vector<std::vector<std::string>> probe(const std::vector<int>& ranks, uint32_t number) {
    std::vector<std::unique_ptr<CopyProbe>> probes(3);
    for (const int r : ranks) probes[r] = std::make_unique<CopyProbe>(*endpoints_[r], number);
    std::vector<std::vector<std::string>> faults(3);
    for (const int r : ranks) faults[r] = probes[r]->finish();
    return faults;
  }
  std::vector<std::unique_ptr<DeviceEndpoint>> endpoints_;
};

const std::vector<std::string> kNone(3);

TEST_F(CopyProbes, OfHonestPairsTellNothing) {
  for (const uint32_t number : {2, 3, 4})
    for (const auto& faults : probe({0, 1, 2}, number)) EXPECT_EQ(faults, kNone);
}

TEST_F(CopyProbes, OfAPeerThatDoesNotProbeTellThatItIsLate) {
  for (const uint32_t number : {2, 3}) {
    const auto faults = probe({0, 2}, number);
    for (const int r : {0, 2})
      for (int peer = 0; peer < 3; ++peer)
        EXPECT_EQ(faults[r][peer], peer != 1 ? ""
                                             : "what rank 1 wrote did not arrive at rank " +
                                                   std::to_string(r) + " on device 0 in time");
  }
}

// Last: the pair lies from now on.
TEST_F(CopyProbes, OfAPairThatLiesTellTheOneEnd) {
  if (devicesOf(2) < 2) GTEST_SKIP() << "it wants two devices";
  emulation::corruptCopies(1, 0);
  const auto faults = probe({0, 1, 2}, 2);
  EXPECT_EQ(faults[1], kNone);
  for (const int r : {0, 2})
    EXPECT_EQ(faults[r][1], "what rank 1 wrote arrived wrong at rank " + std::to_string(r) +
                                " on device 0, from byte 0 of 16384");
}

}  // namespace
}  // namespace tutti::tests
