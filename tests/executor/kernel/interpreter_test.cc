// The kernel gives the bits of the host executor, for the same plan and inputs.

#include <gtest/gtest.h>

#include "tests/executor/kernel/calls.h"
#include "tests/support/sanitized.h"

namespace tutti::tests {
namespace {

using plan::Collective;

constexpr uint64_t kCounts[] = {0, 1, 77, 3001};

struct Setting {
  int ranks, devices;
  Wire wire;
};
std::ostream& operator<<(std::ostream& out, const Setting& s) {
  return out << s.ranks << " ranks on " << s.devices << " devices by " << toString(s.wire);
}

class Plans : public testing::TestWithParam<Setting> {};

// Counts of nothing, one element, a part of a vector, and several rounds; the odd ones in place.
TEST_P(Plans, GiveTheHostsBits) {
  const Setting setting = GetParam();
  DeviceRanks devices({.ranks = setting.ranks, .devices = setting.devices});
  for (const int channels : {1, 2})
    for (const plan::PlanSpec& spec : allPlans(setting.ranks, channels))
      for (const uint64_t count : kCounts) {
        if (channels == 2 && (spec.channels == 1 || count < 100)) continue;
        const Call call{.spec = spec, .count = count, .inPlace = count % 4 == 1};
        ASSERT_EQ(differenceFromHost(devices, call, setting.wire), "");
      }
}

/// By this wire; of 8 ranks, which take minutes there, not under a sanitizer.
std::vector<Setting> settings(Wire wire, std::initializer_list<std::pair<int, int>> shapes) {
  std::vector<Setting> all;
  for (const auto& [ranks, devices] : shapes)
    if (!kSanitized || ranks < 8) all.push_back({ranks, devices, wire});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Simple, Plans,
                         testing::ValuesIn(settings(Wire::Simple,
                                                    {{2, 1}, {3, 4}, {4, 2}, {5, 4}, {8, 4}})));
INSTANTIATE_TEST_SUITE_P(LL, Plans,
                         testing::ValuesIn(settings(Wire::LL,
                                                    {{2, 2}, {3, 2}, {4, 4}, {5, 4}, {8, 4}})));
INSTANTIATE_TEST_SUITE_P(LL128, Plans,
                         testing::ValuesIn(settings(Wire::LL128,
                                                    {{2, 2}, {3, 2}, {4, 4}, {5, 4}, {8, 4}})));

// By a ring, which folds two sources a step, and at once, which folds all as a tree; in every type
// and reduction, whose inputs are random bits: NaN, infinities, subnormals and overflows among
// them.
TEST(Numbers, OfAllTypesAndReductionsAreTheHosts) {
  constexpr int kRanks = 3;
  DeviceRanks devices({.ranks = kRanks});
  const plan::PlanSpec specs[] = {
      ringCall(kRanks, 0).spec,
      planOf(plan::Algorithm::OneShot, Collective::AllReduce, plan::Protocol::Simple, kRanks)};
  for (int type = 0; type < kDataTypeCount; ++type)
    for (int op = 0; op < kReduceOpCount; ++op)
      for (const bool deterministic : {false, true})
        for (const auto& spec : specs) {
          const Call call{.spec = spec,
                          .count = 997,
                          .type = static_cast<DataType>(type),
                          .op = static_cast<ReduceOp>(op),
                          .deterministic = deterministic};
          if (!isDefined(call.op, call.type)) continue;
          const Wire wire = static_cast<Wire>((type + op) % 3);
          ASSERT_EQ(differenceFromHost(devices, call, wire), "") << toString(wire);
        }
}

// The first rank's is 1, which leaves integers as they are.
TEST(Numbers, AreScaledByWhatIsInMemory) {
  constexpr int kRanks = 3;
  DeviceRanks devices({.ranks = kRanks});
  for (int type = 0; type < kDataTypeCount; ++type)
    for (const Wire wire : kWires) {
      Call call = ringCall(kRanks, 997);
      call.deterministic = type % 2 != 0;
      call.type = static_cast<DataType>(type);
      call.op = ReduceOp::PreMulSum;
      call.hasScalarInMemory = true;
      ASSERT_EQ(differenceFromHost(devices, call, wire), "") << toString(wire);
    }
}

// Buffers off their alignment, by elements and by single bytes, and other ranks' slots aligned.
TEST(Numbers, LieAnywhere) {
  DeviceRanks devices({.ranks = 2, .devices = 1});
  for (const auto type : {DataType::BFloat16, DataType::Float32, DataType::Float64})
    for (const auto& spec : allPlans(2, 1))
      for (const size_t shift : {1, 2, 4, 8}) {
        const Call call{.spec = spec, .count = 333, .type = type};
        for (const Wire wire : kWires)
          ASSERT_EQ(differenceFromHost(devices, call, wire, shift), "") << shift;
      }
}

// Nothing comes back from the last rank but credits, and there are more messages than slots: what
// it reads is not overwritten before.
TEST(Messages, ThatGoOneWayAreWrittenOverWhenTheyWereRead) {
  DeviceRanks devices({.ranks = 3});
  for (const plan::PlanSpec& spec : allPlans(3, 1))
    for (const Wire wire : kWires) {
      if (spec.collective != Collective::Broadcast) continue;
      ASSERT_EQ(differenceFromHost(devices, {.spec = spec, .count = 15000}, wire), "");
    }
}

// Numbers of messages wrap, and credits with them.
TEST(Messages, AreCountedAcrossTheWrap) {
  DeviceRanks devices({.ranks = 3, .firstMessage = 0xfffffff0});
  for (int i = 0; i < 4; ++i)
    for (const Wire wire : kWires)
      ASSERT_EQ(differenceFromHost(devices, ringCall(3, 9000), wire), "");
}

}  // namespace
}  // namespace tutti::tests
