// What nvcc made of the attention kernels for Hopper, read out of the machine code: wgmma of shared
// memory for scores, and of registers with a right factor that is turned for sums, and TMA.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/parallel/kernels/cuda/machine_code.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_main.h"

namespace tutti::parallel::cuda {
namespace {

/// From the command line: of backward in one pass, of forward, and of backward.
std::string onePass, forward, backward;
const tests::Arguments commandLine{
    {"ONE_PASS_OBJECT", &onePass}, {"FORWARD_OBJECT", &forward}, {"BACKWARD_OBJECT", &backward}};

/// `products` of a head's columns and `sums` of rows, 16 at a time.
void expectHopper(const std::string& object, const char* kernel, size_t kernelCount,
                  size_t products, size_t sums) {
  const auto kernels = kernelsIn(tests::contentsOf(object));
  EXPECT_EQ(kernels.size(), kernelCount);
  for (const auto& [name, code] : kernels) {
    SCOPED_TRACE(name);
    EXPECT_NE(name.find(kernel), std::string::npos);
    const std::vector<uint64_t> ofShared = instructions(code, kWgmma),
                                ofRegisters = instructions(code, kWgmmaOfRegisters);
    EXPECT_GE(ofShared.size(), products * 64 / 16);
    EXPECT_GE(ofRegisters.size(), sums);
    for (const uint64_t word : ofShared) EXPECT_EQ(word & (kTurnsA | kTurnsB), 0u);
    for (const uint64_t word : ofRegisters) EXPECT_EQ(word & kTurnsB, kTurnsB);
    EXPECT_FALSE(instructions(code, kTensorLoad).empty());
  }
}

// Scores of the first step and of others; sums of the last, and of those before. Heads of 64
// columns have tiles of two sizes.
TEST(Opcodes, ForwardUsesHoppersTensorCoresAndTma) {
  expectHopper(forward, "wgmmaAttentionForward", 10, 2, 2 * 128 / 16);
}

TEST(Opcodes, BackwardUsesHoppersTensorCoresAndTma) {
  expectHopper(backward, "wgmmaAttentionGradient", 16, 2, 64 / 16);
}

// Scores, and sums of 64 queries, and sums of 128 keys, of which both factors are turned.
TEST(Opcodes, OnePassUsesHoppersTensorCoresAndTma) {
  size_t count = 0;
  for (const auto& [name, code] : kernelsIn(tests::contentsOf(onePass))) {
    SCOPED_TRACE(name);
    if (name.find("finishQueryGradients") != std::string::npos) continue;
    EXPECT_NE(name.find("onePassAttentionGradient"), std::string::npos);
    ++count;
    size_t turned = 0, others = 0;
    for (const uint64_t word : instructions(code, kWgmma)) {
      turned += (word & (kTurnsA | kTurnsB)) == (kTurnsA | kTurnsB);
      others += (word & (kTurnsA | kTurnsB)) == 0;
    }
    EXPECT_GE(turned, 128u / 16);
    EXPECT_GE(others, 2u * 64 / 16);
    EXPECT_GE(instructions(code, kWgmmaOfRegisters).size(), 2u * 64 / 16);
    EXPECT_FALSE(instructions(code, kTensorLoad).empty());
  }
  EXPECT_EQ(count, 8u);
}

}  // namespace
}  // namespace tutti::parallel::cuda

/// usage: opcodes_test ONE_PASS FORWARD BACKWARD
