// What nvcc made of the attention kernels for Hopper, read out of the machine code: wgmma of shared
// memory for scores, and of registers with values turned for sums, and TMA.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/parallel/cuda/machine_code.h"

namespace tutti::parallel::cuda {
namespace {

std::string object;  ///< from the command line

TEST(Opcodes, ForwardUsesHoppersTensorCoresAndTma) {
  const auto kernels = kernelsIn(contentsOf(object));
  EXPECT_EQ(kernels.size(), 8u);
  for (const auto& [name, code] : kernels) {
    SCOPED_TRACE(name);
    EXPECT_NE(name.find("wgmmaAttentionForward"), std::string::npos);
    const std::vector<uint64_t> scores = instructions(code, kWgmma),
                                sums = instructions(code, kWgmmaOfRegisters);
    EXPECT_GE(scores.size(),
              2 * 64u / 16);  // 16 columns of a head each, of the first step and others
    EXPECT_GE(sums.size(), 2 * 128u / 16);  // 16 keys each
    for (const uint64_t word : scores) EXPECT_EQ(word & (kTurnsA | kTurnsB), 0u);
    for (const uint64_t word : sums) EXPECT_EQ(word & kTurnsB, kTurnsB);
    EXPECT_FALSE(instructions(code, kTensorLoad).empty());
  }
}

}  // namespace
}  // namespace tutti::parallel::cuda

/// usage: opcodes_test OBJECT
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1) tutti::parallel::cuda::object = argv[1];
  return RUN_ALL_TESTS();
}
