#include "tests/parallel/kernels/cuda/bits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "src/device/cuda.h"
#include "tests/support/run_program.h"

namespace tutti::parallel::cuda {

void Bits::add(const std::vector<char>& bytes) {
  for (const char byte : bytes) hash_ = (hash_ ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
}

void Bits::say() const {
  std::printf("the bits are %016llx\n", static_cast<unsigned long long>(hash_));
}

// Of a GPU one more program will do, which takes seconds to begin there.
void expectTheSameBitsInEveryOrder(const std::string& filter, int results,
                                   const std::string& variables) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  std::string first;
  const bool isEmulated = device::cudaSupport().emulated;
  for (int seed = 0; seed < (isEmulated ? 3 : 2); ++seed) {
    std::printf("a program of seed %d\n", seed);  // who waits for lines sees that it goes on
    std::fflush(stdout);
    const std::string command = variables + " TUTTI_EMULATION_SEED=" + std::to_string(seed) + " " +
                                self + " --gtest_filter=" + filter + " | grep bits.are";
    const std::string lines = tests::runProgram(command).text;
    EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), results) << "seed " << seed;
    if (seed == 0) first = lines;
    EXPECT_EQ(lines, first) << "seed " << seed;
  }
}

}  // namespace tutti::parallel::cuda
