// Redistribution with memory and communicators: ranks are threads, and get what the definition
// says.

#include "parallel/mesh/redistribute.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <set>

#include "tests/parallel/sharding/simulated_ranks.h"
#include "tests/parallel/support/on_ranks.h"

namespace tutti::parallel {
namespace {

constexpr Purpose kPurpose = Purpose::LogitGather;  // any
constexpr Axis dp = Axis::Data, fsdp = Axis::Fsdp, tp = Axis::Tensor;

Layout split(int dimension, AxisList axes) {
  Layout layout;
  layout.dims[static_cast<size_t>(dimension)] = axes;
  return layout;
}

void store(double value, DType type, void* data, int64_t i) {
  const auto single = static_cast<float>(value);
  switch (type) {
    case DType::Float64: static_cast<double*>(data)[i] = value; break;
    case DType::Float32: static_cast<float*>(data)[i] = single; break;
    case DType::BFloat16:
      static_cast<uint16_t*>(data)[i] =
          static_cast<uint16_t>(std::bit_cast<uint32_t>(single) >> 16);
      break;
    default: FAIL() << toString(type);
  }
}

double load(DType type, const void* data, int64_t i) {
  switch (type) {
    case DType::Float64: return static_cast<const double*>(data)[i];
    case DType::Float32: return static_cast<const float*>(data)[i];
    case DType::BFloat16:
      return std::bit_cast<float>(uint32_t{static_cast<const uint16_t*>(data)[i]} << 16);
    default: ADD_FAILURE() << toString(type); return 0;
  }
}

Tensor tensorOf(const Values& values, DType type, const Layout& layout, Arena& arena) {
  Tensor tensor = arena.allocate(type, values.shape);
  for (int64_t i = 0; i < tensor.count(); ++i)
    store(values.elements[static_cast<size_t>(i)], type, tensor.data, i);
  tensor.layout = layout;
  return tensor;
}

Values valuesOf(const Tensor& tensor) {
  Values values{tensor.shape, {}};
  for (int64_t i = 0; i < tensor.count(); ++i)
    values.elements.push_back(load(tensor.type, tensor.data, i));
  return values;
}

struct Case {
  Layout from, to;
  SimulatedRanks start, end;
};

/// All pairs of layouts, and the parts before and after.
std::vector<Case> allCases(const MeshShape& mesh, const std::vector<Axis>& axes,
                           const Values& whole, int most) {
  std::mt19937 random(17);
  std::vector<Case> cases;
  const std::vector<Layout> layouts = allLayouts(axes, whole.shape.rank());
  for (const Layout& from : layouts)
    for (const Layout& to : layouts) {
      bool possible = true;
      for (const Axis axis : axes)
        possible &= from.partial.contains(axis) || !to.partial.contains(axis);
      if (!possible) continue;
      const SimulatedRanks start(mesh, whole, from, random, most);
      SimulatedRanks end = start;
      for (const RedistributionStep& step : redistribution(whole.shape, mesh, from, to))
        end.perform(step);
      cases.push_back({from, to, start, end});
    }
  return cases;
}

void tryAllPairs(const MeshShape& shape, const std::vector<Axis>& axes, const Shape& global,
                 DType type) {
  std::mt19937 random(13);
  // bfloat16 has all whole numbers up to 256.
  const int most = type == DType::BFloat16 ? 50 : 1000;
  const Values whole = Values::random(global, random, most);
  const std::vector<Case> cases = allCases(shape, axes, whole, most);
  EXPECT_GT(cases.size(), 10U);
  onRanks(shape, false, [&](DeviceMesh& mesh) {
    Arena arena("test", {}, 1 << 10);
    for (const Case& c : cases) {
      SCOPED_TRACE(message("rank ", mesh.rank(), ": ", c.from.describe(global.rank()), " -> ",
                           c.to.describe(global.rank())));
      const ArenaScope scope(arena);
      const Tensor x = tensorOf(c.start.part(mesh.rank()), type, c.from, arena);
      const size_t before = arena.usedBytes();
      const Tensor y = redistribute(kPurpose, mesh, x, global, c.to, arena);
      EXPECT_EQ(y.layout, c.to);
      EXPECT_EQ(y.type, type);
      EXPECT_EQ(valuesOf(y), c.end.part(mesh.rank()));
      EXPECT_EQ(valuesOf(x), c.start.part(mesh.rank())) << "the operand has changed";
      // Of all memory that was taken only the result's is kept.
      const size_t kept = y.data == x.data ? 0 : (y.bytes() + 63) / 64 * 64;
      EXPECT_EQ(arena.usedBytes() - before, kept);
    }
  });
}

TEST(Redistribute, MovesTensorsBetweenAllLayouts) {
  tryAllPairs(MeshShape::parse("dp=2,tp=3"), {dp, tp}, {7, 5}, DType::Float64);
}

TEST(Redistribute, MovesEvenPartsToo) {
  tryAllPairs(MeshShape::parse("tp=3"), {tp}, {6, 9}, DType::Float32);
  tryAllPairs(MeshShape::parse("tp=2"), {tp}, {4, 3, 2}, DType::Float64);
}

TEST(Redistribute, CutsAnyDimension) {
  tryAllPairs(MeshShape::parse("tp=3"), {tp}, {4, 5, 3, 2}, DType::Float64);
  tryAllPairs(MeshShape::parse("tp=3"), {tp}, {3, 6, 2, 9}, DType::Float64);
}

TEST(Redistribute, MovesWhatIsSmallerThanTheMesh) {
  tryAllPairs(MeshShape::parse("tp=4"), {tp}, {2, 1}, DType::Float32);
  tryAllPairs(MeshShape::parse("tp=2"), {tp}, {0, 3}, DType::Float32);
}

TEST(Redistribute, MovesBfloat16) {
  tryAllPairs(MeshShape::parse("tp=3"), {tp}, {5, 4}, DType::BFloat16);
}

TEST(Redistribute, LeavesAxesOfOneRankToNames) {
  tryAllPairs(MeshShape::parse("fsdp=2"), {fsdp, tp}, {5, 3}, DType::Float64);
  DeviceMesh alone;
  Arena arena("test");
  Tensor x = arena.allocate(DType::Float32, {3, 2});
  x.layout.partial.insert(tp);
  const Tensor y = redistribute(kPurpose, alone, x, x.shape, split(0, {tp}), arena);
  EXPECT_EQ(y.data, x.data);
  EXPECT_EQ(y.layout, split(0, {tp}));
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    return error.what();
  }
  return "taken";
}

TEST(Redistribute, RefusesWhatIsNotItsPart) {
  onRanks(MeshShape::parse("tp=2"), false, [](DeviceMesh& mesh) {
    Arena arena("test");
    Tensor x = arena.allocate(DType::Float32, {3, 2});
    x.layout = split(0, {tp});
    EXPECT_EQ(refusal([&] {
                redistribute(kPurpose, mesh, x, {8, 2}, {}, arena);
              }),
              message("rank ", mesh.rank(),
                      " holds [4, 2] of a [8, 2] that lies as [tp, _], and not [3, 2]"));
    const Tensor columns = x.part(1, 0, 1);
    EXPECT_EQ(refusal([&] {
                redistribute(kPurpose, mesh, columns, {6, 1}, {}, arena);
              }),
              "only a contiguous tensor can be redistributed: float32 [3, 1]");
    Layout partial;
    partial.partial.insert(tp);
    EXPECT_NE(refusal([&] { redistribute(kPurpose, mesh, x, {6, 2}, partial, arena); }), "taken");
  });
}

/// Loss = sum of w f(x) over all elements of y = redistribute(x), where y is used as `uses` says:
/// as a part by each rank where that is partial over an axis over which y is replicated.
TEST(Backward, OfARedistributionIsTheOtherWay) {
  struct Row {
    Layout x, y, dy;
  };
  Layout sums;
  sums.partial.insert(tp);
  const Layout whole, rows = split(0, {tp}), columns = split(1, {tp});
  const std::vector<Row> table = {
      {rows, whole, sums},      {rows, whole, whole}, {sums, whole, whole}, {sums, rows, rows},
      {rows, columns, columns}, {whole, rows, rows},  {whole, whole, sums}};
  const MeshShape shape = MeshShape::parse("tp=3");
  std::mt19937 random(23);
  const Values w = Values::random({5, 4}, random);
  for (const Row& row : table) {
    const SimulatedRanks dy(shape, w, row.dy, random);
    onRanks(shape, false, [&](DeviceMesh& mesh) {
      Arena arena("test");
      const Tensor given = tensorOf(dy.part(mesh.rank()), DType::Float64, row.dy, arena);
      const Tensor dx = redistribute(kPurpose, mesh, given, {5, 4}, gradientLayout(row.x), arena);
      // x's part moves the loss by w, of a summand too.
      EXPECT_EQ(valuesOf(dx), w.box(boxOf(w.shape, gradientLayout(row.x), shape, mesh.place())));
    });
  }
}

}  // namespace
}  // namespace tutti::parallel
