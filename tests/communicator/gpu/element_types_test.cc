// CUDA's types of 16 and 8 bits say their DataType.

#include <gtest/gtest.h>

#include <type_traits>
#include <vector>

#include <tutti/cuda/element_types.h>
#include <tutti/tutti.h>

#include "tests/support/local_ranks.h"

namespace tutti::tests {
namespace {

static_assert(ConstBuffer(static_cast<const __half*>(nullptr)).type() == DataType::Float16);
static_assert(MutableBuffer(static_cast<__nv_bfloat16*>(nullptr)).type() == DataType::BFloat16);
static_assert(MutableBuffer(static_cast<__nv_fp8_e4m3*>(nullptr)).type() == DataType::Float8E4M3);
static_assert(MutableBuffer(static_cast<__nv_fp8_e5m2*>(nullptr)).type() == DataType::Float8E5M2);

TEST(ElementTypes, OfCudaAreReducedAsWhatTheyAre) {
  auto ranks = Communicator::createLocal(2);
  runRanks(ranks, [](Communicator& c) {
    const float own = c.rank() == 0 ? 1.5f : -4.0f;
    std::vector<__half> half(3, __float2half(own));
    c.allReduce({.send = half, .recv = half});
    EXPECT_EQ(__half2float(half[2]), -2.5f);
    std::vector<__nv_bfloat16> brain(3, __float2bfloat16(own));
    c.allReduce({.send = brain, .recv = brain});
    EXPECT_EQ(__bfloat162float(brain[2]), -2.5f);
  });
}

}  // namespace
}  // namespace tutti::tests
