// How p2p connects: what an address may say, and who is joined.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "tests/device/access.h"
#include "tests/device/cuda_test.h"
#include "transports/p2p/endpoint.h"

namespace tutti::tests {
namespace {

using transports::EndpointAddress;
using transports::p2p::CopyMark;
using transports::p2p::kLine;
using transports::p2p::kProbeBytes;
using transports::p2p::MemoryLayout;
using transports::p2p::P2pEndpoint;
using transports::p2p::P2pHandles;
using transports::p2p::P2pLayout;
using transports::p2p::Wire;

const P2pLayout kLayout{.rings = {.channels = 2, .slotCount = 2, .slotBytes = 4096},
                        .lowLatencyBytes = 1024};

/// Of a device, another one for another number where there are so many.
int deviceAt(int number) { return someGpu(number).index; }

TEST(Connecting, HonestPairsStay) {
  P2pEndpoint a(0, 0, 3, kLayout), b(deviceAt(1), 1, 3, kLayout), c(0, 2, 3, kLayout);
  P2pEndpoint* const all[] = {&a, &b, &c};
  connectInProcess(all, 30'000'000'000);
  for (P2pEndpoint* endpoint : all) EXPECT_NO_THROW(endpoint->requireConnected());
}

// Those of one process need no descriptor, but whatever it was made for the memory is there for
// them.
TEST(Connecting, RanksOfOneProcessMeetWhateverTheirHandlesAre) {
  P2pEndpoint a(0, 0, 3, kLayout, 0, P2pHandles::Descriptors),
      b(deviceAt(1), 1, 3, kLayout, 0, P2pHandles::Ipc),
      c(deviceAt(1), 2, 3, kLayout, 0, P2pHandles::Descriptors);
  P2pEndpoint* const all[] = {&a, &b, &c};
  connectInProcess(all, 30'000'000'000);
  for (P2pEndpoint* endpoint : all) EXPECT_NO_THROW(endpoint->requireConnected());
  EXPECT_TRUE(mayTouch(deviceAt(1), a.memory()) && mayTouch(0, c.memory()));
  EXPECT_EQ(a.address().descriptors.size(), 1U);
  EXPECT_EQ(b.address().descriptors.size(), 0U);
}

TEST(Connecting, RefusesMoreThanOneDescriptor) {
  P2pEndpoint a(0, 0, 2, kLayout), b(deviceAt(1), 1, 2, kLayout, 0, P2pHandles::Descriptors);
  EndpointAddress address = b.address();
  address.descriptors.push_back(std::move(b.address().descriptors[0]));
  EXPECT_THROW(a.connect(1, address.blob, address.descriptors), Error);
}

TEST(Connecting, RefusesOtherLayoutsAndAddressesOfOthers) {
  P2pEndpoint a(0, 0, 3, kLayout);
  P2pLayout other = kLayout;
  other.rings.slotBytes = 8192;
  EXPECT_THROW(a.connect(1, P2pEndpoint(deviceAt(1), 1, 3, other).address().blob), Error);
  other = kLayout;
  other.lowLatencyBytes = 2048;
  EXPECT_THROW(a.connect(1, P2pEndpoint(deviceAt(1), 1, 3, other).address().blob), Error);
  other = kLayout;
  other.copySlotBytes = 2048;
  EXPECT_THROW(a.connect(1, P2pEndpoint(deviceAt(1), 1, 3, other).address().blob), Error);
  const base::Bytes address = P2pEndpoint(deviceAt(1), 1, 3, kLayout).address().blob;
  EXPECT_THROW(a.connect(2, address), Error);
  for (size_t bytes = 0; bytes < address.size(); ++bytes)
    EXPECT_THROW(a.connect(1, base::Bytes(address.begin(), address.begin() + bytes)), Error);
  EXPECT_THROW(P2pEndpoint(0, 0, 2, {.rings = kLayout.rings, .lowLatencyBytes = 8192}), Error);
}

// An address that names nothing alive would have kernels write anywhere.
TEST(Connecting, RefusesAddressesOfEndpointsThatAreGone) {
  P2pEndpoint a(0, 0, 2, kLayout);
  auto b = std::make_unique<P2pEndpoint>(deviceAt(1), 1, 2, kLayout);
  const base::Bytes address = b->address().blob;
  b.reset();
  try {
    a.connect(1, address);
    FAIL() << "it is connected";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Refused);
    EXPECT_NE(std::string(error.what())
                  .find("rank 1 names memory of device " + std::to_string(deviceAt(1))),
              std::string::npos)
        << error.what();
  }
  EXPECT_FALSE(a.isConnected(1));
}

TEST(MemoryLayout, PartsDoNotOverlap) {
  P2pLayout all = kLayout;
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
TEST(Connecting, JoinsRemotePeersThroughTheHost) {
  P2pEndpoint a(0, 0, 3, kLayout), b(deviceAt(1), 1, 3, kLayout), c(0, 2, 3, kLayout, 7);
  a.connect(1, b.address().blob);
  b.connect(0, a.address().blob);
  for (P2pEndpoint* endpoint : {&a, &b}) {
    EXPECT_THROW(endpoint->requireConnected(), Error);
    endpoint->connectThroughHost(2);
    c.connectThroughHost(endpoint->rank());
  }
  P2pEndpoint* const all[] = {&a, &b, &c};
  probeInProcess(all, 30'000'000'000);
  for (P2pEndpoint* endpoint : all) EXPECT_NO_THROW(endpoint->requireConnected());
  EXPECT_TRUE(a.sharesProcess(1) && !a.isThroughHost(1));
  EXPECT_TRUE(!a.sharesProcess(2) && a.isThroughHost(2));
  EXPECT_EQ(*c.hostLink(0, 1).credit, 7U);
  a.disconnect(2, "it was lost");
  EXPECT_FALSE(a.isConnected(2));
  EXPECT_EQ(a.reason(2), "it was lost");
}

// The caller's device is current again after every call.
TEST(Connecting, LeavesTheCurrentDevice) {
  TUTTI_CUDA(cudaSetDevice(deviceAt(1)));
  {
    P2pEndpoint a(0, 0, 2, kLayout), b(deviceAt(2), 1, 2, kLayout);
    P2pEndpoint* const both[] = {&a, &b};
    connectInProcess(both, 30'000'000'000);
  }
  int device = -1;
  TUTTI_CUDA(cudaGetDevice(&device));
  EXPECT_EQ(device, deviceAt(1));
  TUTTI_CUDA(cudaSetDevice(0));
}

}  // namespace
}  // namespace tutti::tests
