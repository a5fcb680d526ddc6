// fold() against the reference, to the bit: every type, operation, order and number of sources,
// over counts around every vector width, misaligned and in-place buffers, plain and streaming
// stores, with each kernel variant that this machine runs. Guards around the targets catch stray
// stores.

#include "src/numbers/fold.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <limits>
#include <sstream>
#include <vector>

#include "src/numbers/variants.h"
#include "tests/numbers/reference.h"
#include "tests/numbers/sample.h"
#include "tests/support/sanitized.h"

namespace tutti::numbers {
namespace {

constexpr uint64_t kSeed = 20240607;
constexpr size_t kMaxCount = tests::kSanitized ? 511 : 4097;
constexpr size_t kCounts[] = {0,  1,  2,  3,  5,   7,   8,   9,   15,  16,   17,  31,
                              32, 33, 63, 65, 127, 129, 255, 257, 511, 1027, 4097};
constexpr FoldOrder kOrders[] = {FoldOrder::Listed, FoldOrder::ListedRounded, FoldOrder::Canonical};
constexpr int kSourceCounts[] = {1, 2, 3, 4, 5, 8, 9};
constexpr char kGuard = 0x5a;

/// Where the buffers lie. Offsets are bytes from a 64-byte boundary.
struct Layout {
  int targets;
  int sourceOffset;
  int targetOffset;
  int targetStride;  ///< each target's offset is this much larger than the one before
  bool inPlace;      ///< target i is source i, as far as there are sources
  bool streaming;
};
constexpr Layout kLayouts[] = {
    {1, 0, 0, 0, false, false}, {1, 1, 3, 0, false, false},  {2, 8, 8, 0, false, false},
    {2, 0, 0, 0, true, false},  {3, 5, 0, 0, true, true},    {1, 0, 8, 0, false, true},
    {2, 3, 16, 0, false, true}, {2, 0, 0, 4, false, true},   {3, 0, 1, 1, false, true},
    {1, 7, 0, 0, true, false},  {3, 0, 24, 8, false, false}, {1, 0, 1, 0, false, true},
    {2, 5, 3, 0, false, true},
};

/// A buffer with guards on both sides, at any offset from a 64-byte boundary.
class Buffer {
 public:
  Buffer() : bytes_(kMaxCount * 8 + 4 * 64) {}
  char* place(int offset) {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
    data_ = bytes_.data() + (64 - address % 64) + 64 + offset;
    return data_;
  }
  void guard(size_t size) {
    std::fill(data_ - 64, data_, kGuard);
    std::fill(data_ + size, data_ + size + 64, kGuard);
  }
  bool guardsIntact(size_t size) const {
    const auto intact = [](char c) { return c == kGuard; };
    return std::all_of(data_ - 64, data_, intact) &&
           std::all_of(data_ + size, data_ + size + 64, intact);
  }
  char* data() { return data_; }

 private:
  std::vector<char> bytes_;
  char* data_ = nullptr;
};

/// One arithmetic problem with its solution.
struct Problem {
  DataType type;
  ReduceOp op;
  FoldOrder order;
  reference::Scalars scalars;
  std::vector<std::vector<char>> sources;
  std::vector<char> expected;
};

reference::Scalars scalarsFor(ReduceOp op, size_t sources) {
  static constexpr double kScalars[] = {0.5,  1.0, -2.0,  3.3,
                                        1e30, 0.0, -0.75, std::numeric_limits<double>::quiet_NaN()};
  reference::Scalars scalars;
  if (op == ReduceOp::Avg) scalars.divideBy = sources == 4 ? 7 : static_cast<int>(sources);
  if (op == ReduceOp::PreMulSum)
    for (size_t s = 0; s < sources; ++s)
      scalars.premultiply.push_back(kScalars[(s + sources) % std::size(kScalars)]);
  return scalars;
}

Problem makeProblem(DataType type, ReduceOp op, FoldOrder order, size_t sources) {
  Problem problem{type, op, order, scalarsFor(op, sources), {}, {}};
  sample::Random random(kSeed + sources);
  const size_t size = sizeOf(type);
  problem.sources.assign(sources, std::vector<char>(kMaxCount * size));
  problem.expected.resize(kMaxCount * size);
  std::vector<uint64_t> bits(sources);
  for (size_t i = 0; i < kMaxCount; ++i) {
    for (size_t s = 0; s < sources; ++s) {
      bits[s] = sample::element(type, static_cast<int>(i), random);
      reference::storeBits(type, problem.sources[s].data(), i, bits[s]);
    }
    reference::storeBits(type, problem.expected.data(), i,
                         reference::fold(type, op, order, bits, problem.scalars));
  }
  return problem;
}

class FoldGrid : public testing::TestWithParam<DataType> {
 protected:
  std::vector<Buffer> sources_ = std::vector<Buffer>(9);
  std::vector<Buffer> targets_ = std::vector<Buffer>(3);

  static void SetUpTestSuite() { std::cout << "seed " << kSeed << std::endl; }

  void verify(const Problem& problem, const Layout& layout, size_t count, const Variant& variant) {
    const size_t size = count * sizeOf(problem.type);
    std::vector<const void*> from;
    std::vector<void*> to;
    std::vector<Buffer*> outputs;
    for (size_t s = 0; s < problem.sources.size(); ++s) {
      from.push_back(sources_[s].place(layout.sourceOffset));
      std::memcpy(sources_[s].data(), problem.sources[s].data(), size);
    }
    for (int t = 0; t < layout.targets; ++t) {
      const bool inPlace = layout.inPlace && static_cast<size_t>(t) < from.size();
      Buffer& buffer = inPlace ? sources_[t] : targets_[t];
      if (!inPlace) {
        buffer.place(layout.targetOffset + t * layout.targetStride);
        std::fill_n(buffer.data(), size,
                    kGuard);  // nothing of the call before may pass for a result
      }
      buffer.guard(size);
      outputs.push_back(&buffer);
      to.push_back(buffer.data());
    }
    foldWith(*variant.kernels, {.type = problem.type,
                                .op = problem.op,
                                .order = problem.order,
                                .sources = from,
                                .targets = to,
                                .count = count,
                                .premultiply = problem.scalars.premultiply,
                                .divideBy = problem.scalars.divideBy,
                                .streaming = layout.streaming});
    for (size_t t = 0; t < outputs.size(); ++t) {
      ASSERT_TRUE(outputs[t]->guardsIntact(size)) << "a store left target " << t;
      expectEqual(problem, outputs[t]->data(), count, t);
      if (HasFatalFailure()) return;
    }
    for (size_t s = layout.inPlace ? outputs.size() : 0; s < from.size(); ++s)
      ASSERT_EQ(std::memcmp(from[s], problem.sources[s].data(), size), 0) << "source " << s;
  }

  static void expectEqual(const Problem& problem, const char* got, size_t count, size_t target) {
    if (std::memcmp(got, problem.expected.data(), count * sizeOf(problem.type)) == 0) return;
    for (size_t i = 0; i < count; ++i) {
      const uint64_t is = reference::loadBits(problem.type, got, i);
      const uint64_t must = reference::loadBits(problem.type, problem.expected.data(), i);
      if (is == must) continue;
      std::ostringstream operands;
      for (const auto& source : problem.sources)
        operands << " " << reference::loadBits(problem.type, source.data(), i);
      FAIL() << "target " << target << " element " << i << " is " << std::hex << is << ", not "
             << must << std::dec << "; sources (bits):" << operands.str();
    }
  }
};

TEST_P(FoldGrid, EqualsTheReferenceToTheBit) {
  const DataType type = GetParam();
  for (int o = 0; o < kReduceOpCount; ++o)
    for (const FoldOrder order : kOrders)
      for (const int sources : kSourceCounts) {
        const auto op = static_cast<ReduceOp>(o);
        if (!isDefined(op, type)) continue;
        const Problem problem = makeProblem(type, op, order, static_cast<size_t>(sources));
        for (const Layout& layout : kLayouts)
          for (const size_t count : kCounts) {
            if (count > kMaxCount) break;
            for (const Variant& variant : variants()) {
              verify(problem, layout, count, variant);
              if (HasFatalFailure())
                FAIL() << toString(type) << " " << toString(op) << " order "
                       << static_cast<int>(order) << ", " << sources << " sources, count " << count
                       << ", layout " << &layout - kLayouts << ", variant " << variant.name;
            }
          }
      }
}

/// More sources than any vector register file, through every depth of the tree.
TEST_P(FoldGrid, TakesManySources) {
  const DataType type = GetParam();
  sources_.resize(70);
  for (const FoldOrder order : kOrders)
    for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::PreMulSum})
      for (const size_t sources : {16, 31, 33, 70}) {
        const Problem problem = makeProblem(type, op, order, sources);
        for (const size_t count : {size_t{3}, size_t{300}})
          for (const Variant& variant : variants()) {
            verify(problem, kLayouts[2], count, variant);
            if (HasFatalFailure())
              FAIL() << toString(type) << " " << sources << " " << variant.name;
          }
      }
}

std::vector<DataType> allTypes() {
  std::vector<DataType> types;
  for (int t = 0; t < kDataTypeCount; ++t) types.push_back(static_cast<DataType>(t));
  return types;
}
INSTANTIATE_TEST_SUITE_P(Types, FoldGrid, testing::ValuesIn(allTypes()),
                         [](const auto& instance) { return toString(instance.param); });

}  // namespace
}  // namespace tutti::numbers
