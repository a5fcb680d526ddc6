// Row 16: NaN and infinities of any rank reach every rank that gets a result, through every
// reduction, in every type that has them, by small messages, by large ones and by mapped buffers.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
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

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

bool hasInfinity(DataType type) { return type != DataType::Float8E4M3; }

uint64_t encode(DataType type, double value) {
  switch (type) {
    case DataType::Float32: return std::bit_cast<uint32_t>(static_cast<float>(value));
    case DataType::Float64: return std::bit_cast<uint64_t>(value);
    default: return reference::encodeReduced(type, value);
  }
}

// What `rank` of `size` contributes to element `index`; without infinities only NaN is special.
constexpr size_t kCases = 7;
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

// One infinity changes its sign by it, another does not.
double scalarOf(int rank) { return rank % 2 ? -1 : 2; }

// std::min and std::max would drop a NaN of one side.
double combine(ReduceOp op, double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return kNan;
  switch (op) {
    case ReduceOp::Prod: return a * b;
    case ReduceOp::Min: return std::min(a, b);
    case ReduceOp::Max: return std::max(a, b);
    default: return a + b;
  }
}

// Finite sums and products are integers below 2^4, or 18, on which every type that gets them is
// exact in any order; only Avg rounds, once, as encode() does.
double expectedOf(DataType type, ReduceOp op, int size, size_t index) {
  const auto term = [&](int rank) {
    const double value = valueOf(rank, size, index, hasInfinity(type));
    return op == ReduceOp::PreMulSum ? value * scalarOf(rank) : value;
  };
  double result = term(0);
  for (int rank = 1; rank < size; ++rank) result = combine(op, result, term(rank));
  return op == ReduceOp::Avg ? reference::decode(type, encode(type, result / size)) : result;
}

constexpr size_t kLarge = 20'011;  // so many bytes are worth a mapped plan

/// The buffers of one rank: elements are counted from 0 over all blocks.
class Buffers {
 public:
  Buffers(Communicator& c, bool windows) : ranks_(static_cast<size_t>(c.size())) {
    const size_t bytes = kLarge * sizeof(double) * ranks_;
    if (windows) {
      windows_ = {c.allocate(bytes), c.allocate(bytes)};
      in = windows_[0].as<std::byte>();
      out = windows_[1].as<std::byte>();
    } else {
      ordinary_.resize(2 * bytes);
      in = ordinary_.data();
      out = in + bytes;
    }
  }
  void fill(const Communicator& c, DataType type, size_t count) {
    std::array<uint64_t, kCases> bits;
    for (size_t i = 0; i < kCases; ++i)
      bits[i] = encode(type, valueOf(c.rank(), c.size(), i, hasInfinity(type)));
    for (size_t i = 0; i < count * ranks_; ++i) {
      reference::storeBits(type, in, i, bits[i % kCases]);
      reference::storeBits(type, out, i, 0);
    }
  }
  std::byte *in, *out;

 private:
  size_t ranks_;
  std::array<Memory, 2> windows_;
  std::vector<std::byte> ordinary_;
};

struct Call {
  DataType type;
  ReduceOp op;
  size_t count;
};

/// `count` elements at out, the first of which is element `first`.
void expectElements(const Communicator& c, const char* name, const Call& call, size_t first,
                    const std::byte* out) {
  std::array<double, kCases> expected;
  for (size_t i = 0; i < kCases; ++i) expected[i] = expectedOf(call.type, call.op, c.size(), i);
  for (size_t i = 0; i < call.count; ++i) {
    const double got = reference::valueAt(call.type, out, i);
    const double wanted = expected[(first + i) % kCases];
    ASSERT_TRUE(std::isnan(wanted) ? std::isnan(got) : got == wanted)
        << name << " of " << call.count << " " << toString(call.type) << ", " << toString(call.op)
        << ", rank " << c.rank() << " of " << c.size() << ", case " << (first + i) % kCases << ": "
        << got << " instead of " << wanted;
  }
}

void checkCall(Communicator& c, Buffers& b, const Call& call) {
  const auto [type, op, count] = call;
  const double scalar = scalarOf(c.rank());
  b.fill(c, type, count);
  c.allReduce({b.in, b.out, count, type, op, scalar});
  expectElements(c, "all_reduce", call, 0, b.out);
  const int root = c.size() - 1;
  b.fill(c, type, count);
  c.reduce({b.in, b.out, count, type, op, scalar, root});
  if (c.rank() == root) expectElements(c, "reduce", call, 0, b.out);
  b.fill(c, type, count);
  c.reduceScatter({b.in, b.out, count, type, op, scalar});
  expectElements(c, "reduce_scatter", call, count * static_cast<size_t>(c.rank()), b.out);
}

class SpecialValues : public testing::TestWithParam<int> {};

TEST_P(SpecialValues, ReachEveryRank) {
  for (const bool deterministic : {false, true}) {
    auto ranks = Communicator::createLocal(GetParam(), {.deterministic = deterministic});
    runRanks(ranks, [](Communicator& c) {
      for (const bool windows : {false, true}) {
        Buffers buffers(c, windows);
        for (const DataType type : {DataType::Float16, DataType::BFloat16, DataType::Float32,
                                    DataType::Float64, DataType::Float8E4M3, DataType::Float8E5M2})
          for (int op = 0; op < kReduceOpCount; ++op)
            for (const size_t count : {kCases, kLarge})
              if (isDefined(static_cast<ReduceOp>(op), type))
                checkCall(c, buffers, {type, static_cast<ReduceOp>(op), count});
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, SpecialValues, testing::Values(2, 3, 4));

}  // namespace
}  // namespace tutti::tests
