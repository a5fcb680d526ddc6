// Row 16: NaN and infinities of any rank reach every rank, through every reduction that could lose
// them, in every type that has them, by small messages and large ones.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <tutti/tutti.h>

#include "tests/numbers/reference.h"
#include "tests/support/local_ranks.h"

namespace tutti::tests {
namespace {

namespace reference = numbers::reference;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

bool hasInfinity(DataType type) { return type != DataType::Float8E4M3; }

void store(DataType type, std::byte* data, size_t index, double value) {
  switch (type) {
    case DataType::Float32:
      return reference::storeBits(type, data, index,
                                  std::bit_cast<uint32_t>(static_cast<float>(value)));
    case DataType::Float64:
      return reference::storeBits(type, data, index, std::bit_cast<uint64_t>(value));
    default: return reference::storeBits(type, data, index, reference::encodeReduced(type, value));
  }
}

// What `rank` of `size` contributes to case `index`; without infinities only NaN is special.
constexpr int kCases = 7;
double valueOf(int rank, int size, size_t index, bool infinities) {
  const int last = size - 1;
  const auto inf = [&](double sign) { return infinities ? sign * kInf : sign * 3; };
  switch (index % kCases) {
    case 0: return rank == last ? kNan : rank;
    case 1: return rank == 0 ? kNan : rank;
    case 2: return kNan;
    case 3: return rank == last ? inf(1) : rank;
    case 4: return rank == 0 ? inf(-1) : rank;
    case 5: return rank == 0 ? inf(1) : rank == last ? inf(-1) : 1;
    default: return rank == last ? kNan : inf(1);
  }
}

double reduce(ReduceOp op, double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return kNan;
  return op == ReduceOp::Sum ? a + b : op == ReduceOp::Min ? std::min(a, b) : std::max(a, b);
}

class SpecialValues : public testing::TestWithParam<int> {};

TEST_P(SpecialValues, ReachEveryRank) {
  for (const bool deterministic : {false, true}) {
    auto ranks = Communicator::createLocal(GetParam(), {.deterministic = deterministic});
    runRanks(ranks, [](Communicator& c) {
      for (const DataType type : {DataType::Float16, DataType::BFloat16, DataType::Float32,
                                  DataType::Float64, DataType::Float8E4M3, DataType::Float8E5M2})
        for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Min, ReduceOp::Max})
          for (const size_t count : {size_t{kCases}, size_t{50000}}) {
            const bool infinities = hasInfinity(type);
            std::vector<std::byte> data(count * sizeOf(type));
            for (size_t i = 0; i < count; ++i)
              store(type, data.data(), i, valueOf(c.rank(), c.size(), i, infinities));
            c.allReduce(
                {.send = data.data(), .recv = data.data(), .count = count, .type = type, .op = op});
            for (size_t i = 0; i < count; ++i) {
              double expected = valueOf(0, c.size(), i, infinities);
              for (int r = 1; r < c.size(); ++r)
                expected = reduce(op, expected, valueOf(r, c.size(), i, infinities));
              const double got = reference::valueAt(type, data.data(), i);
              ASSERT_TRUE(std::isnan(expected) ? std::isnan(got) : got == expected)
                  << toString(type) << " " << toString(op) << " of " << count << ", case "
                  << i % kCases << ": " << got << " instead of " << expected;
            }
          }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, SpecialValues, testing::Values(2, 3, 4));

}  // namespace
}  // namespace tutti::tests
