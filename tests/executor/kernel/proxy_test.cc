// Ranks as on different hosts: what leaves a host goes through pinned memory, the proxy and a
// transport, and what does not through p2p. The bits are the host executor's.

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "collectives/algorithms.h"
#include "tests/executor/kernel/calls.h"
#include "tests/executor/kernel/networks.h"
#include "tests/executor/kernel/replays.h"

namespace tutti::tests {
namespace {

constexpr uint64_t kCounts[] = {0, 1, 77, 3001};
constexpr DataType kTypes[] = {DataType::Float32, DataType::Int8, DataType::BFloat16,
                               DataType::Float64};

/// Slots of each wire have another distance.
const transports::p2p::P2pLayout kLayout{
    .rings = {.channels = 2, .slotCount = 4, .slotBytes = 4096}, .lowLatencyBytes = 1024};

struct Setting {
  const char* network;
  std::vector<int> hosts;
  Wire wire;
  uint64_t seed = 1;
  uint32_t directBytes = transports::p2p::kNoMessage;

  RemoteNetwork make() const {
    const std::string name = network;
    return name == "sim"   ? badSimNetwork(seed)
           : name == "ucx" ? ucxNetwork()
           : name == "tcp" ? tcpNetwork()
                           : shmNetwork();
  }
  DeviceRanksOptions options() const {
    return {.ranks = static_cast<int>(hosts.size()),
            .layout = kLayout,
            .hosts = hosts,
            .network = make(),
            .directBytes = directBytes};
  }
};
std::ostream& operator<<(std::ostream& out, const Setting& s) {
  out << "hosts";
  for (const int host : s.hosts) out << " " << host;
  out << " joined by " << s.network << ", " << toString(s.wire) << ", seed " << s.seed;
  return s.directBytes == transports::p2p::kNoMessage ? out : out << ", direct";
}

class RemotePlans : public testing::TestWithParam<Setting> {};

// All staged plans, those that know hosts among them, each with another type, in which counts of
// nothing, one element, a part of a vector and several rounds are sent; in place by Simple alone,
// for flags in data order nothing in ThreadSanitizer's eyes, and a lane may write what another one
// has sent by them (a double tree on one host shows the same).
TEST_P(RemotePlans, GiveTheHostsBits) {
  const Setting setting = GetParam();
  DeviceRanks ranks(setting.options());
  size_t number = 0;
  for (const plan::PlanSpec& spec : allPlans(ranks.size(), 1, setting.hosts)) {
    if (spec.mapped.any()) continue;
    for (const uint64_t count : kCounts) {
      const Call call{
          .spec = spec,
          .count = count,
          .type = kTypes[number++ % std::size(kTypes)],
          .inPlace = (setting.wire == Wire::Simple || !kThreadSanitized) && count % 4 == 1};
      ASSERT_EQ(differenceFromHost(ranks, call, setting.wire), "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sim, RemotePlans,
                         testing::Values(Setting{"sim", {0, 1}, Wire::Simple, 1},
                                         Setting{"sim", {0, 1, 2}, Wire::LL, 2},
                                         Setting{"sim", {0, 0, 1, 1}, Wire::LL128, 3},
                                         Setting{"sim", {0, 1, 0, 2, 1}, Wire::Simple, 2}));
INSTANTIATE_TEST_SUITE_P(Tcp, RemotePlans,
                         testing::Values(Setting{"tcp", {0, 1}, Wire::LL128},
                                         Setting{"tcp", {0, 0, 1, 1}, Wire::Simple},
                                         Setting{"tcp", {0, 0, 1, 1, 1}, Wire::LL}));
INSTANTIATE_TEST_SUITE_P(Ucx, RemotePlans,
                         testing::Values(Setting{"ucx", {0, 1}, Wire::LL128},
                                         Setting{"ucx", {0, 0, 1, 1}, Wire::Simple},
                                         Setting{"ucx", {0, 0, 1, 1, 1}, Wire::LL}));
// So small that most plans have messages on both sides of it.
constexpr uint32_t kDirectBytes = 300;
INSTANTIATE_TEST_SUITE_P(Direct, RemotePlans,
                         testing::Values(Setting{"sim", {0, 0, 1}, Wire::LL, 4, kDirectBytes},
                                         Setting{
                                             "sim", {0, 1, 1, 0}, Wire::Simple, 5, kDirectBytes},
                                         Setting{"ucx", {0, 1}, Wire::Simple, 1, kDirectBytes},
                                         Setting{"ucx", {0, 1, 1}, Wire::LL128, 1, kDirectBytes}));
INSTANTIATE_TEST_SUITE_P(Copied, RemotePlans,
                         testing::Values(Setting{"shm", {0, 1, 1}, Wire::Simple}));

// Wires take turns on one ring; the numbers of messages and of the ring wrap, at other messages.
TEST(Remote, WiresTakeTurnsAcrossTheWrap) {
  for (const uint32_t directBytes : {transports::p2p::kNoMessage, kDirectBytes}) {
    auto network = simNetwork({.seed = 3, .reorder = 0.1, .firstNumber = UINT32_MAX - 51});
    DeviceRanks ranks({.ranks = 3,
                       .layout = kLayout,
                       .firstMessage = 0xfffffff0,
                       .hosts = {0, 1, 1},
                       .network = network,
                       .directBytes = directBytes});
    for (int i = 0; i < 4; ++i)
      for (const Wire wire : kWires)
        ASSERT_EQ(differenceFromHost(ranks, ringCall(3, 5000), wire), "") << toString(wire);
  }
}

// Messages of several chunks, which end before the chunk's room does: gaps travel as well. Of some
// the bytes are fewer than direct ones have, and their reach is not.
TEST(Remote, ChunksOfOneMessageMayBeApart) {
  for (const uint32_t directBytes : {transports::p2p::kNoMessage, kDirectBytes, 700U}) {
    DeviceRanks ranks({.ranks = 4,
                       .hosts = {0, 1, 2, 3},
                       .network = badSimNetwork(1),
                       .directBytes = directBytes});
    for (const auto& spec : allPlans(4, 1)) {
      if (spec.mapped.any() || spec.messageChunks < 2) continue;
      for (const uint64_t count : {3, 33, 81, 159, 1027})
        ASSERT_EQ(differenceFromHost(ranks, {.spec = spec, .count = count}, Wire::Simple), "");
    }
  }
}

// On channels of their own, with gaps of their own.
TEST(Remote, SlicesGiveTheHostsBits) {
  const std::vector<int> hosts{0, 1, 1};
  auto layout = kLayout;
  layout.rings.channels = 4;  // some plans have two
  DeviceRanks ranks({.ranks = 3, .layout = layout, .hosts = hosts, .network = badSimNetwork(1)});
  DeviceRanks direct({.ranks = 3,
                      .layout = layout,
                      .hosts = hosts,
                      .network = badSimNetwork(1),
                      .directBytes = kDirectBytes});
  for (const plan::PlanSpec& spec : allPlans(3, 1, hosts))
    for (const Wire wire : kWires) {
      if (spec.mapped.any()) continue;
      ASSERT_EQ(differenceFromHost(direct, {.spec = spec, .count = 3001}, wire, 0, 2), "");
      for (const uint64_t count : {77, 3001})
        ASSERT_EQ(differenceFromHost(ranks, {.spec = spec, .count = count}, wire, 0, 2), "");
    }
}

// Graphs need nothing of the host but the proxy, which follows memory.
class RemoteGraphs : public testing::TestWithParam<Setting> {};
TEST_P(RemoteGraphs, Replay) {
  const Setting setting = GetParam();
  const Call call = ringCall(static_cast<int>(setting.hosts.size()), 700);
  EXPECT_EQ(replayMany(setting.options(), call, setting.wire, 30), "");
}
INSTANTIATE_TEST_SUITE_P(All, RemoteGraphs,
                         testing::Values(Setting{"sim", {0, 0, 1}, Wire::Simple, 1},
                                         Setting{"sim", {0, 1, 1}, Wire::LL, 2},
                                         Setting{"ucx", {0, 1, 0}, Wire::LL128},
                                         Setting{"sim", {0, 1, 1}, Wire::LL128, 3, kDirectBytes},
                                         Setting{"ucx", {0, 1, 0}, Wire::Simple, 1, kDirectBytes}));

/// Both rings of a link and the kernel's slots at both ends are full of it when its root is
/// through.
constexpr uint64_t kMostUnreceived = 12 * 4096 / sizeof(float);
/// Of direct ones there is no second place at the receiver.
constexpr uint64_t kMostUnreceivedDirect = 8 * 4096 / sizeof(float);

Call broadcast(uint64_t count) {
  return {
      .spec = planOf(plan::Algorithm::Ring, plan::Collective::Broadcast, plan::Protocol::Simple, 2),
      .count = count};
}

// A rank that leaves when its own launch has ended has handed over what the others still need.
TEST(Remote, ARankMayLeaveFirst) {
  const Setting settings[] = {{"sim", {0, 1}, Wire::Simple},
                              {"ucx", {0, 1}, Wire::Simple},
                              {"shm", {0, 1}, Wire::Simple},
                              {"sim", {0, 1}, Wire::Simple, 1, kDirectBytes},
                              {"ucx", {0, 1}, Wire::Simple, 1, kDirectBytes}};
  for (const Setting& setting : settings) {
    const bool isDirect = setting.directBytes == kDirectBytes;
    DeviceRanks ranks(setting.options());
    const Call call = broadcast(isDirect ? kMostUnreceivedDirect : kMostUnreceived);
    const auto expected = hostResult(call, 1, ranks.slotBytes(Wire::Simple));
    ranks.begin(call, Wire::Simple, 1);
    const int root = call.spec.root;
    ranks.launch(root);
    ranks.wait(root);
    std::thread leaving([&] { ranks.destroy(root); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ranks.launch(1 - root);
    ranks.wait(1 - root);
    leaving.join();
    ASSERT_FALSE(ranks.executor(1 - root).failure()) << setting;
    EXPECT_EQ(ranks.buffer(1 - root).download(), expected[1 - root].bytes) << setting;
  }
}

// Nobody reads the memory of a rank that has gone, though the network would send much of it again.
TEST(Remote, ARankThatIsAbortedCancelsItsZeroCopySends) {
  for (const uint32_t directBytes : {transports::p2p::kNoMessage, kDirectBytes}) {
    DeviceRanks ranks({.ranks = 2,
                       .hosts = {0, 1},
                       .network = simNetwork({.loss = 0.99}),
                       .directBytes = directBytes});
    const Call call = broadcast(4096 / sizeof(float));
    ranks.begin(call, Wire::Simple, 1);
    const int root = call.spec.root;
    ranks.launch(root);
    ranks.wait(root);
    ranks.executor(root).abort();
    ranks.destroy(root);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(ranks.executor(1 - root).failure());
  }
}

TEST(Remote, MappedPlansAndWrongTransportsAreRefused) {
  DeviceRanks ranks({.ranks = 2, .hosts = {0, 1}, .network = badSimNetwork(1)});
  const auto spec = mappedCall(2, 10).spec;
  EXPECT_THROW(ranks.executor(0).prepareProgram(spec, collectives::build(spec, 0)), Error);
  const transports::RingLayout layout{.channels = 2, .slotCount = 4, .slotBytes = 4096};
  for (const bool isThere : {false, true}) {
    auto remote = isThere ? std::move(badSimNetwork(1)(2, layout)[0]) : nullptr;
    EXPECT_THROW(
        KernelExecutor(ranks.endpoint(0), ranks.residency(), {.blocks = 1}, std::move(remote)),
        Error);
  }
}

}  // namespace
}  // namespace tutti::tests
