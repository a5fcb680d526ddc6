// What nvcc made of the kernels for Hopper, read out of the machine code: each has wgmma, its
// operands' majors among the instruction's bits, and TMA, for one block and for clusters.

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/parallel/cuda/machine_code.h"

namespace tutti::parallel::cuda {
namespace {

/// From the command line: the object, and what else is searched.
std::string object;
std::vector<std::string> libraries;

TEST(Opcodes, HopperKernelsUseItsTensorCoresAndTma) {
  const auto kernels = kernelsIn(contentsOf(object));
  EXPECT_EQ(kernels.size(), 24u);
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
  }
  EXPECT_EQ(kernelsOfMajors,
            (std::map<uint64_t, int>{{0, 6}, {kTurnsA, 6}, {kTurnsB, 6}, {kTurnsA | kTurnsB, 6}}));
}

TEST(Opcodes, LibrariesHaveNothingOfOtherLibrariesOfProducts) {
  ASSERT_FALSE(libraries.empty());
  for (const std::string& library : libraries) {
    const std::string bytes = contentsOf(library);
    EXPECT_GT(bytes.size(), 1000u);
    for (const char* const name : {"cublas", "cudnn", "cutlass", "cute4"})
      EXPECT_EQ(bytes.find(name), std::string::npos) << name << " in " << library;
  }
}

}  // namespace
}  // namespace tutti::parallel::cuda

/// usage: opcodes_test OBJECT LIBRARY...
int main(int argc, char** argv) {
  using namespace tutti::parallel::cuda;
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1) object = argv[1];
  for (int i = 2; i < argc; ++i) libraries.push_back(argv[i]);
  return RUN_ALL_TESTS();
}
