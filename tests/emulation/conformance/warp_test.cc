// Lanes of a warp and threads of a block together.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/emulation/conformance/golden.h"
#include "tests/emulation/conformance/warp_device.cuh"

namespace tutti::emulation::conformance {
namespace {

constexpr unsigned kThreads = 64;

/// The lane that a shuffle reads, from the PTX ISA's pseudo code for shfl.sync.
unsigned shuffled(const char* mode, unsigned lane, unsigned operand, unsigned width) {
  const unsigned segment = ~(width - 1) & 31, clamp = width - 1;
  const unsigned bval = operand & 31, maxLane = (lane & segment) | (clamp & ~segment);
  const unsigned minLane = lane & segment;
  if (std::string(mode) == "up") return int(lane - bval) >= int(minLane) ? lane - bval : lane;
  if (std::string(mode) == "down") return lane + bval <= maxLane ? lane + bval : lane;
  if (std::string(mode) == "xor") return (lane ^ bval) <= maxLane ? lane ^ bval : lane;
  return minLane | (bval & ~segment & 31);
}

template <class Test>
uint32_t count(const uint32_t* values, unsigned lanes, Test test) {
  return uint32_t(std::count_if(values, values + lanes, test));
}

std::vector<uint32_t> expectedOf(const std::vector<uint32_t>& in, unsigned operand,
                                 unsigned width) {
  std::vector<uint32_t> out(16 * kThreads);
  for (unsigned thread = 0; thread < kThreads; ++thread) {
    const uint32_t* const warp = in.data() + thread / 32 * 32;
    uint32_t* const mine = out.data() + 16 * thread;
    const unsigned lane = thread % 32;
    const char* const modes[] = {"idx", "xor", "up", "down"};
    for (int i = 0; i < 4; ++i) mine[i] = warp[shuffled(modes[i], lane, operand, width)];
    for (unsigned i = 0; i < 32; ++i) {
      mine[4] |= uint32_t(warp[i] % 3 == 0) << i;
      mine[7] |= uint32_t(warp[i] % 5 == warp[lane] % 5) << i;
      mine[8] += warp[i];
    }
    mine[5] = count(warp, 32, [](uint32_t v) { return v % 64 == 0; }) > 0;
    mine[6] = count(warp, 32, [](uint32_t v) { return v % 64 != 0; }) == 32;
    mine[9] = *std::max_element(warp, warp + 32);
    mine[10] = *std::min_element(warp, warp + 32);
    mine[11] =
        *std::max_element(warp, warp + 32, [](uint32_t a, uint32_t b) { return int(a) < int(b); });
    mine[12] = count(in.data(), kThreads, [](uint32_t v) { return v % 7 == 0; });
    mine[13] = count(in.data(), kThreads, [](uint32_t v) { return v != 0; }) == kThreads;
    mine[14] = count(in.data(), kThreads, [](uint32_t v) { return v % 128 == 5; }) > 0;
    mine[15] = warp[lane / 16 * 16];
  }
  return out;
}

TEST(Warp, CollectivesGiveEachLaneItsResult) {
  for (const unsigned width : {32u, 16u, 4u})
    for (const unsigned operand : {0u, 1u, 3u, 16u, 31u}) {
      const auto in = randomWords<uint32_t>(kThreads, width * 100 + operand);
      const auto out =
          outputOf<uint32_t>(16 * kThreads, collectives, {.block = dim3(kThreads)},
                             DeviceArray<uint32_t>(in).get(), int(operand), int(width));
      ASSERT_EQ(out, expectedOf(in, operand, width)) << operand << " of " << width;
      expectGolden("collectives_" + std::to_string(width) + "_" + std::to_string(operand), out);
    }
}

TEST(Warp, NamedBarriersOrderHalvesOfABlock) {
  const auto in = randomWords<uint32_t>(64, 2);
  const auto out =
      outputOf<uint32_t>(256, namedBarriers, {.block = dim3(128)}, DeviceArray<uint32_t>(in).get());
  for (uint32_t i = 0; i < 256; ++i) ASSERT_EQ(out[i], in[63 - i % 64] + i / 64);
  expectGolden("named_barriers", out);
}

TEST(Warp, ClocksGoOn) { EXPECT_EQ(outputOf<uint32_t>(1, clocks, {}), std::vector<uint32_t>{1}); }

}  // namespace
}  // namespace tutti::emulation::conformance
