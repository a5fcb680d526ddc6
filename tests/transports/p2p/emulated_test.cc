// How p2p connects where the emulation stands in for devices that are not joined, and for pairs
// that lie.

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "tests/device/cuda_test.h"
#include "tests/emulation/runtime/peer.h"
#include "transports/p2p/endpoint.h"

namespace tutti::tests {
namespace {

using transports::p2p::kLine;
using transports::p2p::kProbeBytes;
using transports::p2p::MemoryLayout;
using transports::p2p::P2pEndpoint;
using transports::p2p::P2pLayout;

const P2pLayout kLayout{.rings = {.channels = 2, .slotCount = 2, .slotBytes = 4096},
                        .lowLatencyBytes = 1024};
constexpr uint64_t kSoon = 300'000'000;

/// Two ranks on two devices; what rank 1 writes to rank 0 goes to a decoy.
class LyingPair : public testing::Test {
 protected:
  void SetUp() override {
    first_.connect(1, second_.address().blob);
    second_.connect(0, decoy_.address().blob);
  }
  void expectDropped(const char* why) {
    P2pEndpoint* const both[] = {&first_, &second_};
    probeInProcess(both, kSoon);
    for (P2pEndpoint* endpoint : both) {
      const int peer = 1 - endpoint->rank();
      EXPECT_FALSE(endpoint->isConnected(peer));
      EXPECT_NE(endpoint->reason(peer).find(why), std::string::npos) << endpoint->reason(peer);
      EXPECT_NE(endpoint->reason(peer).find("rank 1 wrote"), std::string::npos);
    }
  }
  /// Passes on what arrives at the decoy, as rank 1's pattern to rank 0; one bit of it is another.
  void forward(size_t wrongByte) {
    const size_t at = MemoryLayout(kLayout, 2).probe(1);
    auto* const from = reinterpret_cast<uint32_t*>(reinterpret_cast<char*>(decoy_.words()) + at);
    auto* const to = reinterpret_cast<uint32_t*>(reinterpret_cast<char*>(first_.words()) + at);
    uint32_t flag = 0;
    while ((flag = std::atomic_ref(*from).load(std::memory_order_acquire)) == 0)
      std::this_thread::yield();
    std::memcpy(to + kLine / 4, from + kLine / 4, kProbeBytes);
    reinterpret_cast<unsigned char*>(to)[kLine + wrongByte] ^= 4;
    std::atomic_ref(*to).store(flag, std::memory_order_release);
  }

  P2pEndpoint first_{0, 0, 2, kLayout}, second_{someGpu(1).index, 1, 2, kLayout};
  P2pEndpoint decoy_{0, 0, 2, kLayout};
};

TEST_F(LyingPair, WhoseBytesNeverComeIsNotUsed) { expectDropped("did not arrive at rank 0"); }

TEST_F(LyingPair, WhoseBytesAreOthersIsNotUsed) {
  std::thread wire([this] { forward(kProbeBytes - 3); });
  expectDropped("from byte 16380 of 16384");
  wire.join();
}

TEST(Joining, NamesDevicesThatAreNotJoined) {
  if (devices() < 4) GTEST_SKIP() << "it parts two devices that no other test uses";
  emulation::forbidPeerAccess(2, 3);
  P2pEndpoint here(2, 0, 2, kLayout), there(3, 1, 2, kLayout);
  P2pEndpoint* const both[] = {&here, &there};
  connectInProcess(both, kSoon);
  for (P2pEndpoint* endpoint : both) {
    const int peer = 1 - endpoint->rank();
    EXPECT_FALSE(endpoint->isConnected(peer));
    EXPECT_EQ(endpoint->reason(peer), "device 2 has no peer access to device 3");
    EXPECT_THROW(endpoint->requireConnected(), Error);
  }
}

// What was refused is joined by memory of the host, and is probed there; other pairs are not again.
TEST_F(LyingPair, IsJoinedByTheHost) {
  expectDropped("did not arrive at rank 0");
  P2pEndpoint* const both[] = {&first_, &second_};
  for (P2pEndpoint* endpoint : both) {
    endpoint->keepPairs();
    EXPECT_FALSE(endpoint->isKept(1 - endpoint->rank()));
    EXPECT_EQ(endpoint->hostMemoryBytes(), 0U);
    endpoint->openHostMemory({1 - endpoint->rank()});
    EXPECT_GE(endpoint->hostMemoryBytes(), endpoint->layout().rings.slotBytes);
  }
  first_.connectByHost(1, second_.hostAddress().blob);
  second_.connectByHost(0, first_.hostAddress().blob);
  probeInProcess(both, 30 * kSoon);
  for (P2pEndpoint* endpoint : both) {
    const int peer = 1 - endpoint->rank();
    EXPECT_TRUE(endpoint->isConnected(peer) && endpoint->isByHost(peer));
    EXPECT_FALSE(endpoint->sharesProcess(peer));
    EXPECT_NO_THROW(endpoint->requireTogether());
    endpoint->keepPairs();
    EXPECT_TRUE(endpoint->isKept(peer));
  }
}

TEST(ByHost, RefusesAddressesOfOthers) {
  P2pEndpoint a(0, 0, 3, kLayout), b(someGpu(1).index, 1, 3, kLayout), c(0, 2, 3, kLayout);
  a.openHostMemory({1, 2});
  b.openHostMemory({2});  // not for rank 0
  c.openHostMemory({0, 1});
  EXPECT_THROW(a.connectByHost(1, b.hostAddress().blob), Error);
  EXPECT_THROW(a.connectByHost(1, c.hostAddress().blob), Error);
  const base::Bytes address = c.hostAddress().blob;
  for (size_t bytes = 0; bytes < address.size(); ++bytes)
    EXPECT_THROW(a.connectByHost(2, base::Bytes(address.begin(), address.begin() + bytes)), Error);
  base::Bytes longer = address;
  longer[longer.size() - 8] ^= std::byte{1};  // of its bytes
  EXPECT_THROW(a.connectByHost(2, longer), Error);
  EXPECT_FALSE(a.isConnected(1) || a.isConnected(2));
  a.connectByHost(2, address);
  EXPECT_TRUE(a.isByHost(2));
  a.disconnect(2, "it was lost");
  EXPECT_FALSE(a.isConnected(2) || a.isByHost(2));
}

}  // namespace
}  // namespace tutti::tests
