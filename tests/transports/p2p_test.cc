// How p2p connects: what an address may say, devices that are not joined, and pairs that lie.

#include <cuda.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "src/device/cuda/driver.h"
#include "tests/emulation/runtime/peer.h"
#include "transports/p2p/endpoint.h"

namespace tutti::tests {
namespace {

using transports::Address;
using transports::p2p::CopyMark;
using transports::p2p::Endpoint;
using transports::p2p::Handles;
using transports::p2p::kLine;
using transports::p2p::kProbeBytes;
using transports::p2p::Layout;
using transports::p2p::MemoryLayout;
using transports::p2p::Wire;

const Layout kLayout{.rings = {.channels = 2, .slotCount = 2, .slotBytes = 4096},
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
    Endpoint* const both[] = {&first_, &second_};
    probeInProcess(both, kSoon);
    for (Endpoint* endpoint : both) {
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

  Endpoint first_{0, 0, 2, kLayout}, second_{1, 1, 2, kLayout};
  Endpoint decoy_{0, 0, 2, kLayout};
};

TEST_F(LyingPair, WhoseBytesNeverComeIsNotUsed) { expectDropped("did not arrive at rank 0"); }

TEST_F(LyingPair, WhoseBytesAreOthersIsNotUsed) {
  std::thread wire([this] { forward(kProbeBytes - 3); });
  expectDropped("from byte 16380 of 16384");
  wire.join();
}

TEST(Connecting, NamesDevicesThatAreNotJoined) {
  emulation::forbidPeerAccess(2, 3);
  Endpoint here(2, 0, 2, kLayout), there(3, 1, 2, kLayout);
  Endpoint* const both[] = {&here, &there};
  connectInProcess(both, kSoon);
  for (Endpoint* endpoint : both) {
    const int peer = 1 - endpoint->rank();
    EXPECT_FALSE(endpoint->isConnected(peer));
    EXPECT_EQ(endpoint->reason(peer), "device 2 has no peer access to device 3");
    EXPECT_THROW(endpoint->requireConnected(), Error);
  }
}

TEST(Connecting, HonestPairsStay) {
  Endpoint a(0, 0, 3, kLayout), b(1, 1, 3, kLayout), c(0, 2, 3, kLayout);
  Endpoint* const all[] = {&a, &b, &c};
  connectInProcess(all, 30'000'000'000);
  for (Endpoint* endpoint : all) EXPECT_NO_THROW(endpoint->requireConnected());
}

/// Whether kernels of `device` may touch virtual memory that starts there.
bool mayTouch(int device, const void* start) {
  const auto ask = device::driverFunction<decltype(cuMemGetAccess)>("cuMemGetAccess", 10020);
  const CUmemLocation there{CU_MEM_LOCATION_TYPE_DEVICE, device};
  unsigned long long access = 0;
  EXPECT_EQ(ask(&access, &there, reinterpret_cast<CUdeviceptr>(start)), CUDA_SUCCESS);
  return access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

// Those of one process need no descriptor, but whatever it was made for the memory is there for
// them.
TEST(Connecting, RanksOfOneProcessMeetWhateverTheirHandlesAre) {
  Endpoint a(0, 0, 3, kLayout, 0, Handles::Descriptors), b(1, 1, 3, kLayout, 0, Handles::Ipc),
      c(1, 2, 3, kLayout, 0, Handles::Descriptors);
  Endpoint* const all[] = {&a, &b, &c};
  connectInProcess(all, 30'000'000'000);
  for (Endpoint* endpoint : all) EXPECT_NO_THROW(endpoint->requireConnected());
  EXPECT_TRUE(mayTouch(1, a.memory()) && mayTouch(0, c.memory()));
  EXPECT_EQ(a.address().descriptors.size(), 1U);
  EXPECT_EQ(b.address().descriptors.size(), 0U);
}

TEST(Connecting, RefusesMoreThanOneDescriptor) {
  Endpoint a(0, 0, 2, kLayout), b(1, 1, 2, kLayout, 0, Handles::Descriptors);
  Address address = b.address();
  address.descriptors.push_back(std::move(b.address().descriptors[0]));
  EXPECT_THROW(a.connect(1, address.blob, address.descriptors), Error);
}

TEST(Connecting, RefusesOtherLayoutsAndAddressesOfOthers) {
  Endpoint a(0, 0, 3, kLayout);
  Layout other = kLayout;
  other.rings.slotBytes = 8192;
  EXPECT_THROW(a.connect(1, Endpoint(1, 1, 3, other).address().blob), Error);
  other = kLayout;
  other.lowLatencyBytes = 2048;
  EXPECT_THROW(a.connect(1, Endpoint(1, 1, 3, other).address().blob), Error);
  other = kLayout;
  other.copySlotBytes = 2048;
  EXPECT_THROW(a.connect(1, Endpoint(1, 1, 3, other).address().blob), Error);
  const base::Bytes address = Endpoint(1, 1, 3, kLayout).address().blob;
  EXPECT_THROW(a.connect(2, address), Error);
  for (size_t bytes = 0; bytes < address.size(); ++bytes)
    EXPECT_THROW(a.connect(1, base::Bytes(address.begin(), address.begin() + bytes)), Error);
  EXPECT_THROW(Endpoint(0, 0, 2, {.rings = kLayout.rings, .lowLatencyBytes = 8192}), Error);
}

// An address that names nothing alive would have kernels write anywhere.
TEST(Connecting, RefusesAddressesOfEndpointsThatAreGone) {
  Endpoint a(0, 0, 2, kLayout);
  auto b = std::make_unique<Endpoint>(1, 1, 2, kLayout);
  const base::Bytes address = b->address().blob;
  b.reset();
  try {
    a.connect(1, address);
    FAIL() << "it is connected";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Refused);
    EXPECT_NE(std::string(error.what()).find("rank 1 names memory of device 1"), std::string::npos)
        << error.what();
  }
  EXPECT_FALSE(a.isConnected(1));
}

TEST(MemoryLayout, PartsDoNotOverlap) {
  Layout all = kLayout;
  all.copySlotBytes = 512;
  const MemoryLayout layout(all, 3);
  size_t end = layout.words() + kLine;
  const auto follows = [&](size_t begin, size_t bytes) {
    EXPECT_EQ(begin, end);
    EXPECT_EQ(begin % std::min<size_t>(bytes, kLine), 0U);
    end = begin + bytes;
  };
  const auto eachSlot = [&](auto offset, size_t bytes) {
    for (int channel = 0; channel < 2; ++channel)
      for (int peer = 0; peer < 3; ++peer)
        for (uint32_t slot = 0; slot < 2; ++slot) follows(offset(channel, peer, slot), bytes);
  };
  for (int peer = 0; peer < 3; ++peer) follows(layout.entries(peer), kLine);
  for (const Wire wire : {Wire::Simple, Wire::LL, Wire::LL128})
    for (int channel = 0; channel < 2; ++channel)
      for (int peer = 0; peer < 3; ++peer) follows(layout.credit(wire, channel, peer), kLine);
  for (int peer = 0; peer < 3; ++peer) follows(layout.probe(peer), kLine + kProbeBytes);
  for (const Wire wire : {Wire::Simple, Wire::LL, Wire::LL128})
    for (int channel = 0; channel < 2; ++channel)
      for (int peer = 0; peer < 3; ++peer)
        follows(layout.slots(wire, channel, peer), 2 * slotStride(wire, kLayout.slotBytes(wire)));
  EXPECT_EQ(end, MemoryLayout(kLayout, 3).totalBytes());
  follows(layout.copyPoison(), kLine);
  for (int peer = 0; peer < 3; ++peer) follows(layout.copyNotice(peer), kLine);
  eachSlot([&](auto... at) { return layout.copyMark(at...); }, sizeof(CopyMark));
  eachSlot([&](auto... at) { return layout.copyCredit(at...); }, sizeof(uint32_t));
  end = (end + kLine - 1) / kLine * kLine;
  eachSlot([&](auto... at) { return layout.copySlot(at...); }, all.copySlotBytes);
  EXPECT_EQ(end, layout.totalBytes());
}

TEST(HostMemoryLayout, PartsDoNotOverlap) {
  const transports::p2p::HostMemoryLayout layout(kLayout);
  size_t end = layout.poison() + kLine;
  const auto follows = [&](size_t begin, size_t bytes) {
    EXPECT_EQ(begin, end);
    end = begin + bytes;
  };
  for (int channel = 0; channel < 2; ++channel) {
    follows(layout.credit(channel), kLine);
    follows(layout.peerCredit(channel), kLine);
  }
  for (int channel = 0; channel < 2; ++channel) {
    follows(layout.sendSlots(channel), 2 * slotStride(Wire::Simple, 4096));
    follows(layout.receiveSlots(channel), 2 * slotStride(Wire::Simple, 4096));
  }
  EXPECT_EQ(end, layout.totalBytes());
}

// Near pairs are probed and far ones are not; a rank is joined with all.
TEST(Connecting, JoinsFarPeersThroughTheHost) {
  Endpoint a(0, 0, 3, kLayout), b(1, 1, 3, kLayout), c(0, 2, 3, kLayout, 7);
  a.connect(1, b.address().blob);
  b.connect(0, a.address().blob);
  for (Endpoint* endpoint : {&a, &b}) {
    EXPECT_THROW(endpoint->requireConnected(), Error);
    endpoint->connectThroughHost(2);
    c.connectThroughHost(endpoint->rank());
  }
  Endpoint* const all[] = {&a, &b, &c};
  probeInProcess(all, 30'000'000'000);
  for (Endpoint* endpoint : all) EXPECT_NO_THROW(endpoint->requireConnected());
  EXPECT_TRUE(a.sharesProcess(1) && !a.isThroughHost(1));
  EXPECT_TRUE(!a.sharesProcess(2) && a.isThroughHost(2));
  EXPECT_EQ(*c.hostLink(0, 1).credit, 7U);
  a.disconnect(2, "it was lost");
  EXPECT_FALSE(a.isConnected(2));
  EXPECT_EQ(a.reason(2), "it was lost");
}

// The caller's device is current again after every call.
TEST(Connecting, LeavesTheCurrentDevice) {
  TUTTI_CUDA(cudaSetDevice(1));
  {
    Endpoint a(0, 0, 2, kLayout), b(2, 1, 2, kLayout);
    Endpoint* const both[] = {&a, &b};
    connectInProcess(both, 30'000'000'000);
  }
  int device = -1;
  TUTTI_CUDA(cudaGetDevice(&device));
  EXPECT_EQ(device, 1);
  TUTTI_CUDA(cudaSetDevice(0));
}

}  // namespace
}  // namespace tutti::tests
