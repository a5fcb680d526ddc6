// Copies and folds that are enqueued give the bits of the host executor, for the same plan and
// inputs; and operations that are enqueued ahead of peers do not get in each other's way.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include "src/base/check.h"
#include "tests/executor/copy/copy_ranks.h"

namespace tutti::tests {
namespace {

using plan::Collective;

std::string differenceFromHost(CopyRanks& ranks, const Call& call, size_t shift = 0) {
  constexpr uint64_t kSeed = 3;
  return difference(call, hostResult(call, kSeed, kCopyLayout.copySlotBytes),
                    ranks.run(call, kSeed, shift));
}

struct Setting {
  int ranks, devices;
};
std::ostream& operator<<(std::ostream& out, const Setting& s) {
  return out << s.ranks << " ranks on " << s.devices << " devices";
}

class CopyPlans : public testing::TestWithParam<Setting> {};

// Counts of nothing, one element, a part of a vector, and several rounds; the odd ones in place.
TEST_P(CopyPlans, GiveTheHostsBits) {
  const Setting setting = GetParam();
  if (!haveQueues(setting.ranks, setting.devices)) GTEST_SKIP() << "it wants more devices";
  CopyRanks ranks({.ranks = setting.ranks, .devices = setting.devices});
  for (const int channels : {1, 2})
    for (const plan::PlanSpec& spec : stagedPlans(setting.ranks, channels))
      for (const uint64_t count : {0, 1, 77, 3001}) {
        if (channels == 2 && (spec.channels == 1 || count < 100)) continue;
        const Call call{.spec = spec, .count = count, .inPlace = count % 4 == 1};
        ASSERT_EQ(differenceFromHost(ranks, call), "");
      }
}

INSTANTIATE_TEST_SUITE_P(All, CopyPlans,
                         testing::Values(Setting{2, 1}, Setting{3, 4}, Setting{4, 2}, Setting{5, 4},
                                         Setting{8, 4}));

TEST(CopyBlocks, ThatDifferGiveTheHostsBits) {
  CopyRanks ranks({.ranks = 3});
  for (const auto& spec : stagedPlans(3, 1))
    for (const auto& elements :
         {std::array{5, 0, 1000}, std::array{3001, 1, 2}, std::array{0, 0, 0}}) {
      if (!spec.unevenSafe) continue;
      Call call{.spec = spec, .inPlace = elements[1] == 0};
      for (uint64_t at = 3; const int count : elements) {
        call.blocks.push_back({4 * at, 4 * static_cast<uint64_t>(count)});
        at += static_cast<uint64_t>(count) + 1;
      }
      ASSERT_EQ(differenceFromHost(ranks, call), "");
    }
}

// By a ring, which folds two sources a step, and at once, which folds all as a tree.
TEST(CopyNumbers, OfAllTypesAndReductionsAreTheHosts) {
  constexpr int kRanks = 3;
  CopyRanks ranks({.ranks = kRanks});
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
          ASSERT_EQ(differenceFromHost(ranks, call), "");
        }
}

// The first rank's is 1, which leaves integers as they are.
TEST(CopyNumbers, AreScaledByWhatIsInMemory) {
  CopyRanks ranks({.ranks = 3});
  for (int type = 0; type < kDataTypeCount; ++type) {
    Call call = ringCall(3, 997);
    call.type = static_cast<DataType>(type);
    call.op = ReduceOp::PreMulSum;
    call.hasScalarInMemory = true;
    ASSERT_EQ(differenceFromHost(ranks, call), "");
  }
}

TEST(CopyNumbers, LieAnywhere) {
  CopyRanks ranks({.ranks = 2, .devices = 1});
  for (const auto type : {DataType::BFloat16, DataType::Float64})
    for (const auto& spec : stagedPlans(2, 1))
      for (const size_t shift : {1, 2, 8}) {
        const Call call{.spec = spec, .count = 333, .type = type};
        ASSERT_EQ(differenceFromHost(ranks, call, shift), "") << shift;
      }
}

/// Several calls at once, each with buffers and plans of its own.
struct Calls {
  std::vector<Call> calls;
  std::vector<std::vector<std::unique_ptr<executor::PreparedPlan>>> plans{};
  std::vector<std::vector<DeviceBuffer>> buffers{};

  void prepare(CopyRanks& ranks) {
    for (uint64_t i = 0; i < calls.size(); ++i) {
      plans.emplace_back();
      buffers.emplace_back();
      for (int r = 0; r < ranks.size(); ++r) {
        plans[i].push_back(ranks.executor(r).prepare(calls[i].spec, programsOf(calls[i].spec)));
        buffers[i].emplace_back(ranks.deviceOf(r), memoryOf(calls[i], r, i).bytes, 0);
      }
    }
  }
  void launch(CopyRanks& ranks, int rank) {
    for (uint64_t i = 0; i < calls.size(); ++i) {
      const Memory memory = memoryOf(calls[i], rank, i);
      auto call = calls[i].on(rank, buffers[i][rank].data() + memory.in,
                              buffers[i][rank].data() + memory.out);
      call.callHash = static_cast<uint32_t>(i % 3);
      ranks.launch(rank, {plans[i][rank].get(), call});
    }
  }
  void expectRight() {
    for (uint64_t i = 0; i < calls.size(); ++i) {
      std::vector<Buffer> results;
      for (const DeviceBuffer& buffer : buffers[i]) results.push_back(buffer.download());
      EXPECT_EQ(difference(calls[i], hostResult(calls[i], i, kCopyLayout.copySlotBytes), results),
                "")
          << "operation " << i;
    }
  }
};

// A rank that is ahead has enqueued all of them before the next one comes: their messages use the
// same slots, and some the same fingerprints.
TEST(CopyOperations, DoNotOvertakeEachOther) {
  constexpr int kRanks = 3;
  CopyRanks ranks({.ranks = kRanks, .devices = 2});
  Calls calls;
  for (const auto& spec : stagedPlans(kRanks, 1))
    for (const uint64_t count : {500, 3001}) calls.calls.push_back({.spec = spec, .count = count});
  for (int i = 0; i < 4; ++i) calls.calls.push_back(calls.calls[0]);
  calls.prepare(ranks);
  std::vector<std::jthread> threads;  // a stream may be full before the others begin
  for (int r = 0; r < kRanks; ++r) {
    threads.emplace_back([&, r] { calls.launch(ranks, r); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  threads.clear();
  ranks.finish();
  for (int r = 0; r < kRanks; ++r) ASSERT_EQ(std::string(ranks.failureOf(r).what()), "");
  calls.expectRight();
}

// In several rounds; rank 1 has enqueued all of it before the first message comes.
TEST(CopyOperations, WaitForOtherLanes) {
  CopyRanks ranks({.ranks = 2});
  const plan::PlanSpec spec{.collective = Collective::AllGather, .ranks = 2, .channels = 2};
  const Call call{.spec = spec, .count = 3001};
  std::vector<Memory> memory;
  std::vector<DeviceBuffer> buffers;
  std::vector<std::unique_ptr<executor::PreparedPlan>> plans;
  for (int r = 0; r < 2; ++r) {
    memory.push_back(memoryOf(call, r, 1));
    buffers.emplace_back(ranks.deviceOf(r), memory[r].bytes, 0);
    plans.push_back(ranks.executor(r).prepare(spec, echoProgram));
  }
  for (const int r : {1, 0}) {
    ranks.launch(r, {plans[r].get(), call.on(r, buffers[r].data() + memory[r].in,
                                             buffers[r].data() + memory[r].out)});
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ranks.finish();
  const Buffer result = buffers[0].download();
  const auto own = result.begin() + static_cast<std::ptrdiff_t>(memory[0].in);
  const auto back =
      result.begin() + static_cast<std::ptrdiff_t>(memory[0].out + call.blockOf(0).bytes);
  EXPECT_TRUE(std::equal(back, back + static_cast<std::ptrdiff_t>(call.blockOf(0).bytes), own));
}

TEST(CopyOperations, ThatTakeTooManyCopiesAreRefusedBeforeAnythingIsEnqueued) {
  CopyRanksOptions options{.ranks = 2};
  options.executor.mostOperations = 200;
  CopyRanks ranks(options);
  ranks.begin(ringCall(2, 100'000), 1);
  try {
    ranks.launch(0);
    FAIL() << "too many operations";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    const std::string text = error.what();
    for (const char* part : {"49 rounds", "200 are allowed", "4096 bytes"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  EXPECT_EQ(differenceFromHost(ranks, ringCall(2, 3000)), "");
}

// What is enqueued cannot be taken back from a peer's buffers.
TEST(CopyOperations, OnMappedBuffersAreRefused) {
  CopyRanks ranks({.ranks = 2});
  const auto spec = mappedCall(2, 1).spec;
  try {
    ranks.executor(0).prepare(spec, programsOf(spec));
    FAIL() << "a mapped plan";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Unsupported);
  }
}

}  // namespace
}  // namespace tutti::tests
