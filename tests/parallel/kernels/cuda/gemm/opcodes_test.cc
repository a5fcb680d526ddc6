// What nvcc made of the kernels for Hopper, read out of the machine code: each has wgmma, its
// operands' majors among the instruction's bits, and TMA, for one block and for clusters; and none
// computes in float64, which would wait for the tensor cores.

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/parallel/kernels/cuda/machine_code.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_main.h"

namespace tutti::parallel::cuda {
namespace {

/// From the command line.
std::string object;
const tests::Arguments commandLine{{"OBJECT", &object}};

TEST(Opcodes, HopperKernelsUseItsTensorCoresAndTma) {
  const auto kernels = kernelsIn(tests::contentsOf(object));
  EXPECT_EQ(kernels.size(), 40u);
  std::map<uint64_t, int> kernelsOfMajors;
  for (const auto& [name, code] : kernels) {
    SCOPED_TRACE(name);
    EXPECT_NE(name.find("wgmmaGemm"), std::string::npos);
    const std::vector<uint64_t> products = instructions(code, kWgmma);
    EXPECT_GE(products.size(), 4u);  // 16 of the depth each
    std::set<uint64_t> majors;
    for (const uint64_t word : products) majors.insert(word & (kTurnsA | kTurnsB));
    EXPECT_EQ(majors.size(), 1u);
    for (const uint64_t each : majors) ++kernelsOfMajors[each];
    EXPECT_FALSE(instructions(code, kTensorLoad).empty());
    EXPECT_FALSE(instructions(code, kTensorLoadMulticast).empty());
    EXPECT_EQ(doubleInstructions(code), 0);
  }
  EXPECT_EQ(kernelsOfMajors, (std::map<uint64_t, int>{
                                 {0, 10}, {kTurnsA, 10}, {kTurnsB, 10}, {kTurnsA | kTurnsB, 10}}));
}

}  // namespace
}  // namespace tutti::parallel::cuda

/// usage: opcodes_test OBJECT
