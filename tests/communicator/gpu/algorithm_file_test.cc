// Plans from files on emulated GPUs: they serve calls by kernels and by copies, and where one
// cannot serve, all ranks know.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/communicator/gpu/ranks.h"
#include "tests/communicator/plan_file.h"
#include "tests/support/local_ranks.h"
#include "tests/support/outcome.h"
#include "tests/support/temporary_folder.h"

namespace tutti::tests {
namespace {

class GpuPlanFile : public CudaTest, public testing::WithParamInterface<bool> {
 protected:
  Setting settingWith(const plan::WholePlan& whole, size_t count, int blocks = 0) const {
    return Setting(4, 4, count,
                   {.algorithmFile = writePlan(whole, folder_.path() / "plan.json"),
                    .gpuBlocks = blocks,
                    .gpuCopies = GetParam()});
  }
  const TemporaryFolder folder_;
};

void sumOnAll(Setting& s, size_t count, const CallOptions& options = {}) {
  Group group;
  for (int r = 0; r < 4; ++r) {
    AllReduceArgs args = s.args(r, count);
    args.options = options;
    s.ranks[r].allReduce(args, s.streams[r]);
  }
  group.end();
  for (Stream& stream : s.streams) stream.synchronize();
}

bool isByFile(const Communicator& c) { return lastCall(c).find("by file") != std::string::npos; }

TEST_P(GpuPlanFile, ServesItsCalls) {
  constexpr size_t kCount = 5000;
  Setting s = settingWith(starOf4(), kCount);
  float sum = 10;
  for (const CallOptions& options : {CallOptions{}, CallOptions{.algorithm = "file"}}) {
    sumOnAll(s, kCount, options);
    for (int r = 0; r < 4; ++r) {
      EXPECT_TRUE(s.values[r].are(sum)) << r;
      EXPECT_TRUE(isByFile(s.ranks[r])) << lastCall(s.ranks[r]);
    }
    sum *= 4;
  }
  sumOnAll(s, kCount, {.algorithm = "ring"});
  for (int r = 0; r < 4; ++r) {
    EXPECT_TRUE(s.values[r].are(sum)) << r;
    EXPECT_FALSE(isByFile(s.ranks[r])) << lastCall(s.ranks[r]);
  }
}

TEST_P(GpuPlanFile, MayMapBuffers) {
  constexpr size_t kCount = 100000;
  Setting s = settingWith(planOf(plan::Algorithm::TwoShot,
                                 {plan::Collective::AllReduce, plan::Protocol::Mapped, 4, 0, 1}),
                          kCount);
  sumOnAll(s, kCount);
  for (int r = 0; r < 4; ++r) {
    EXPECT_TRUE(s.values[r].are(10)) << r;
    // Copies map nothing.
    EXPECT_EQ(isByFile(s.ranks[r]), !GetParam()) << lastCall(s.ranks[r]);
  }
}

// One rank alone has them: the others must not wait for it.
TEST_P(GpuPlanFile, WithTooManyLanesServesNobody) {
  constexpr size_t kCount = 100;
  plan::WholePlan whole = starOf4();
  const size_t lanes = GetParam() ? 257 : 16;
  whole.programs[2].lanes.resize(lanes);
  Setting s = settingWith(whole, kCount, 1);
  sumOnAll(s, kCount);
  for (int r = 0; r < 4; ++r) {
    EXPECT_TRUE(s.values[r].are(10)) << r;
    EXPECT_FALSE(isByFile(s.ranks[r])) << lastCall(s.ranks[r]);
    AllReduceArgs args = s.args(r, kCount);
    args.options.algorithm = "file";
    expectError(outcomeOf([&] { s.ranks[r].allReduce(args, s.streams[r]); }),
                ErrorCode::InvalidArgument,
                "has " + std::to_string(lanes) + " lanes on a rank, and the blocks of a GPU hold " +
                    std::to_string(lanes - 1));
  }
}

INSTANTIATE_TEST_SUITE_P(By, GpuPlanFile, testing::Bool(), [](const auto& kind) {
  return std::string(kind.param ? "Copies" : "Kernels");
});

}  // namespace
}  // namespace tutti::tests
