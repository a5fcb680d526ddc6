// Which box of a tensor each rank holds, and that the steps of every redistribution of small
// tensors lead where they should, with numbers.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "tests/parallel/sharding/simulated_ranks.h"

namespace tutti::parallel {
namespace {

constexpr Axis dp = Axis::Data, fsdp = Axis::Fsdp, tp = Axis::Tensor;

Layout split(int dimension, AxisList axes) {
  Layout layout;
  layout.dims[static_cast<size_t>(dimension)] = axes;
  return layout;
}
Layout partialOver(AxisSet axes, Layout layout = {}) {
  layout.partial = axes;
  return layout;
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

TEST(PartOf, CoversEverythingInOrderAndEvenly) {
  for (const int64_t count : {0, 1, 5, 7, 12, 1000})
    for (const int parts : {1, 2, 3, 7, 13}) {
      int64_t next = 0;
      for (int i = 0; i < parts; ++i) {
        const Range part = partOf(count, parts, i);
        EXPECT_EQ(part.begin, next);
        EXPECT_GE(part.count(), count / parts);
        EXPECT_LE(part.count(), (count + parts - 1) / parts);
        if (i > 0) {
          EXPECT_LE(part.count(), partOf(count, parts, i - 1).count());
        }
        next = part.end;
      }
      EXPECT_EQ(next, count);
    }
}

TEST(BoxOf, CoversEveryElementOnceForEachReplica) {
  const MeshShape mesh = MeshShape::parse("dp=2,fsdp=3,tp=2");
  const Shape global{5, 4, 7};
  for (const Layout& layout : allLayouts({dp, fsdp, tp}, 3)) {
    int replicas = mesh.ranks();
    for (const AxisList& axes : layout.dims)
      for (const Axis axis : axes) replicas /= mesh[axis];
    std::vector<int> held(static_cast<size_t>(global.count()), 0);
    const Shape most = localShape(global, layout, mesh, {});
    for (int rank = 0; rank < mesh.ranks(); ++rank) {
      const auto box = boxOf(global, layout, mesh, placeOf(mesh, rank));
      const Shape local = localShape(global, layout, mesh, placeOf(mesh, rank));
      ASSERT_EQ(local, Shape({box[0].count(), box[1].count(), box[2].count()}));
      for (int d = 0; d < 3; ++d) ASSERT_LE(local[d], most[d]);
      for (int64_t i = box[0].begin; i < box[0].end; ++i)
        for (int64_t j = box[1].begin; j < box[1].end; ++j)
          for (int64_t k = box[2].begin; k < box[2].end; ++k)
            ++held[static_cast<size_t>((i * global[1] + j) * global[2] + k)];
    }
    for (const int times : held) ASSERT_EQ(times, replicas) << layout.describe(3);
  }
}

TEST(BoxOf, CutsByTheFirstAxisFirst) {
  const MeshShape mesh = MeshShape::parse("dp=2,tp=3");
  MeshPlace place{};
  place[static_cast<size_t>(dp)] = 1;
  EXPECT_EQ(boxOf({12}, split(0, {dp, tp}), mesh, place)[0], (Range{6, 8}));
  EXPECT_EQ(boxOf({12}, split(0, {tp, dp}), mesh, place)[0], (Range{2, 4}));
  // Unevenly: 11 are 6 and 5, and 5 are 2, 2 and 1.
  place[static_cast<size_t>(tp)] = 2;
  EXPECT_EQ(boxOf({11}, split(0, {dp, tp}), mesh, place)[0], (Range{10, 11}));
}

TEST(BoxOf, RefusesLayoutsThatCannotBe) {
  Layout twice = split(0, {tp});
  twice.dims[1] = {tp};
  EXPECT_EQ(refusal([&] { boxOf({4, 4}, twice, {}, {}); }), "the layout [tp, tp] names tp twice");
  EXPECT_EQ(refusal([&] {
              boxOf({4, 4}, partialOver({tp}, split(0, {tp})), {}, {});
            }),
            "the layout [tp, _] {tp} names tp twice");
  EXPECT_EQ(refusal([&] {
              boxOf({4, 4}, split(2, {tp}), {}, {});
            }),
            "a layout splits dimension 2 of a tensor of 2 dimensions");
}

// ---- redistribution

/// All ways between layouts of `global`: each arrives with the right numbers and sends as much as
/// it says, which is no more than the plain way sends.
void tryAllPairs(const MeshShape& mesh, const std::vector<Axis>& axes, const Shape& global,
                 std::set<Move>& seen) {
  std::mt19937 random(7);
  const Values whole = Values::random(global, random);
  const std::vector<Layout> layouts = allLayouts(axes, global.rank());
  int pairs = 0;
  for (const Layout& from : layouts) {
    const SimulatedRanks start(mesh, whole, from, random);
    ASSERT_TRUE(start.hold(whole, from)) << from.describe(global.rank());
    for (const Layout& to : layouts) {
      bool possible = true;
      for (const Axis axis : axes)
        possible &= from.partial.contains(axis) || !to.partial.contains(axis);
      if (!possible) {
        EXPECT_NE(refusal([&] { redistribution(global, mesh, from, to); }).find("no summands over"),
                  std::string::npos);
        continue;
      }
      SCOPED_TRACE(from.describe(global.rank()) + " -> " + to.describe(global.rank()));
      SimulatedRanks ranks = start;
      Layout now = from;
      for (const RedistributionStep& step : redistribution(global, mesh, from, to)) {
        ASSERT_EQ(step.before, now);
        ASSERT_EQ(ranks.perform(step), step.sent) << toString(step.move);
        ASSERT_TRUE(ranks.hold(whole, step.after)) << step.after.describe(global.rank());
        seen.insert(step.move);
        now = step.after;
      }
      ASSERT_EQ(now, to);
      ++pairs;
    }
  }
  EXPECT_GT(pairs, 100);
}

TEST(Redistribution, ArrivesFromEveryLayoutAtEveryOther) {
  std::set<Move> seen;
  tryAllPairs(MeshShape::parse("dp=2,fsdp=3,tp=2"), {dp, fsdp, tp}, {5, 4}, seen);
  tryAllPairs(MeshShape::parse("dp=3,tp=2"), {dp, tp}, {4, 3, 5}, seen);
  tryAllPairs(MeshShape::parse("dp=3,tp=4"), {dp, tp}, {2, 7}, seen);       // fewer than ranks
  tryAllPairs(MeshShape::parse("dp=3,fsdp=2"), {dp, fsdp, tp}, {7}, seen);  // tp has one rank
  EXPECT_EQ(seen.size(), 5U);
}

// ---- that no way sends less

using Cost = std::pair<int64_t, int>;  // elements sent, and steps
constexpr Cost kNoWay{int64_t{1} << 60, 0};

/// All that one step can make of a layout, whatever good it does.
std::vector<RedistributionStep> allSteps(const Layout& before, const std::vector<Axis>& axes,
                                         int dimensions) {
  std::vector<RedistributionStep> steps;
  const auto add = [&](Move move, Axis axis, int from, int to, Layout after) {
    if (to >= 0) after.dims[static_cast<size_t>(to)].append(axis);
    steps.push_back({move, axis, from, to, before, after, 0});
  };
  for (const Axis axis : axes) {
    Layout without = before;
    without.partial.remove(axis);
    int from = -1;
    for (int d = 0; d < dimensions; ++d) {
      AxisList& list = without.dims[static_cast<size_t>(d)];
      if (list.empty() || list.innermost() != axis) continue;
      list.removeInnermost();
      from = d;
    }
    const bool isPartial = before.partial.contains(axis), isIdle = !before.axes().contains(axis);
    if (isPartial) add(Move::AllReduce, axis, -1, -1, without);
    if (from >= 0) add(Move::AllGather, axis, from, -1, without);
    for (int to = 0; to < dimensions; ++to) {
      if (isPartial) add(Move::ReduceScatter, axis, -1, to, without);
      if (from >= 0 && from != to) add(Move::AllToAll, axis, from, to, without);
      if (isIdle) add(Move::Slice, axis, -1, to, without);
    }
  }
  return steps;
}

/// Whether each axis lies otherwise in the two, and none is named in neither.
bool allMove(const Layout& from, const Layout& to, const std::vector<Axis>& axes) {
  for (size_t d = 0; d < from.dims.size(); ++d)
    if (!from.dims[d].empty() && !to.dims[d].empty() && from.dims[d][0] == to.dims[d][0])
      return false;
  return std::ranges::all_of(axes, [&](Axis axis) {
    if (from.partial.contains(axis) && to.partial.contains(axis)) return false;
    return from.axes().contains(axis) || to.axes().contains(axis);
  });
}

/// Compares with the best of all ways through all layouts, by what each step is seen to send.
void compareWithAllWays(const MeshShape& mesh, const std::vector<Axis>& axes, const Shape& global) {
  std::mt19937 random(19);
  const Values whole = Values::random(global, random);
  const std::vector<Layout> layouts = allLayouts(axes, global.rank());
  const auto indexOf = [&](const Layout& layout) {
    return static_cast<size_t>(std::ranges::find(layouts, layout) - layouts.begin());
  };
  std::vector best(layouts.size(), std::vector<Cost>(layouts.size(), kNoWay));
  for (size_t i = 0; i < layouts.size(); ++i) {
    const SimulatedRanks start(mesh, whole, layouts[i], random);
    best[i][i] = {0, 0};
    for (const RedistributionStep& step : allSteps(layouts[i], axes, global.rank())) {
      SimulatedRanks ranks = start;
      Cost& cost = best[i].at(indexOf(step.after));
      cost = std::min(cost, Cost{ranks.perform(step), 1});
    }
  }
  for (size_t via = 0; via < layouts.size(); ++via)
    for (size_t i = 0; i < layouts.size(); ++i)
      for (size_t j = 0; j < layouts.size(); ++j)
        best[i][j] = std::min(best[i][j], {best[i][via].first + best[via][j].first,
                                           best[i][via].second + best[via][j].second});
  int compared = 0;
  for (size_t i = 0; i < layouts.size(); ++i)
    for (size_t j = 0; j < layouts.size(); ++j) {
      if (best[i][j] >= kNoWay || !allMove(layouts[i], layouts[j], axes)) continue;
      const auto steps = redistribution(global, mesh, layouts[i], layouts[j]);
      ASSERT_EQ(Cost(elementsSent(steps), static_cast<int>(steps.size())), best[i][j])
          << layouts[i].describe(global.rank()) << " -> " << layouts[j].describe(global.rank());
      ++compared;
    }
  EXPECT_GT(compared, 30);
}

TEST(Redistribution, IsTheBestOfAllWays) {
  compareWithAllWays(MeshShape::parse("dp=2,tp=3"), {dp, tp}, {8, 9});
  compareWithAllWays(MeshShape::parse("dp=4,tp=2"), {dp, tp}, {3, 16});
  compareWithAllWays(MeshShape::parse("dp=2,fsdp=3,tp=2"), {dp, fsdp, tp}, {6, 10});
}

/// Such as "slice dp, AllGather tp".
std::string wayOf(const Shape& global, const Layout& from, const Layout& to) {
  std::string text;
  for (const RedistributionStep& step :
       redistribution(global, MeshShape::parse("dp=4,fsdp=2,tp=4"), from, to))
    text += message(text.empty() ? "" : ", ", toString(step.move), " ", toString(step.axis));
  return text;
}

TEST(Redistribution, NamesTheCollective) {
  const Shape global{64, 64};
  const auto only = [&](const Layout& from, const Layout& to) {
    const auto steps = redistribution(global, MeshShape::parse("tp=4"), from, to);
    EXPECT_EQ(steps.size(), 1U);
    return steps.at(0);
  };
  const Layout whole, rows = split(0, {tp}), columns = split(1, {tp}), sums = partialOver({tp});
  EXPECT_EQ(only(sums, whole),
            (RedistributionStep{Move::AllReduce, tp, -1, -1, sums, whole, 2 * 4096 * 3 / 4}));
  EXPECT_EQ(only(sums, columns),
            (RedistributionStep{Move::ReduceScatter, tp, -1, 1, sums, columns, 3072}));
  EXPECT_EQ(only(rows, whole), (RedistributionStep{Move::AllGather, tp, 0, -1, rows, whole, 3072}));
  EXPECT_EQ(only(rows, columns),
            (RedistributionStep{Move::AllToAll, tp, 0, 1, rows, columns, 768}));
  EXPECT_EQ(only(whole, columns), (RedistributionStep{Move::Slice, tp, -1, 1, whole, columns, 0}));
  EXPECT_EQ(wayOf(global, columns, columns), "");
  EXPECT_EQ(wayOf(global, sums, sums), "");
}

TEST(Redistribution, SendsAsLittleAsCanBe) {
  const Shape global{64, 64};
  // What is split first is less to gather or to add up.
  EXPECT_EQ(wayOf(global, split(0, {tp}), split(1, {dp})), "slice dp, AllGather tp");
  EXPECT_EQ(wayOf(global, partialOver({tp}), split(1, {dp})), "slice dp, AllReduce tp");
  // Over two axes only one of them adds up the whole (an AllReduce over hosts and inside them).
  EXPECT_EQ(wayOf(global, partialOver({dp, tp}), {}),
            "ReduceScatter dp, AllReduce tp, AllGather dp");
  EXPECT_EQ(wayOf({}, partialOver({dp, tp}), {}), "AllReduce tp, AllReduce dp");  // a scalar
  EXPECT_EQ(wayOf(global, partialOver({dp}, split(0, {tp})), {}), "AllReduce dp, AllGather tp");
  // Gathers are from the innermost outwards.
  EXPECT_EQ(wayOf(global, split(0, {dp, tp}), split(0, {dp})), "AllGather tp");
  EXPECT_EQ(wayOf(global, split(0, {dp, tp}), {}), "AllGather tp, AllGather dp");
  // Axes change places by way of another dimension, where there is one.
  EXPECT_EQ(wayOf({64}, split(0, {dp, tp}), split(0, {tp, dp})),
            "AllGather tp, AllGather dp, slice tp, slice dp");
  EXPECT_EQ(wayOf(global, split(0, {dp, tp}), split(0, {tp, dp})),
            "AllGather tp, AllToAll dp, slice tp, AllToAll dp");
}

// AllReduce costs twice an AllGather, and is a ReduceScatter and an AllGather.
TEST(Redistribution, OfAnAllReduceSendsAsMuchAsItsTwoHalves) {
  const MeshShape mesh = MeshShape::parse("tp=4");
  const Shape global{8, 100};
  const auto sent = [&](const Layout& from, const Layout& to) {
    return elementsSent(redistribution(global, mesh, from, to));
  };
  const int64_t allReduce = sent(partialOver({tp}), {});
  const int64_t reduceScatter = sent(partialOver({tp}), split(0, {tp}));
  const int64_t allGather = sent(split(0, {tp}), {});
  EXPECT_EQ(allReduce, 2 * 800 * 3 / 4);
  EXPECT_EQ(reduceScatter, allGather);
  EXPECT_EQ(allReduce, reduceScatter + allGather);
}

TEST(Redistribution, RefusesWhatCannotBe) {
  EXPECT_EQ(refusal([] {
              redistribution({4, 4}, {}, split(0, {tp}), partialOver({tp}));
            }),
            "a tensor that lies as [tp, _] has no summands over tp to lie as [_, _] {tp}");
  EXPECT_NE(refusal([] { redistribution({4}, {}, {}, split(1, {tp})); }), "taken");
  EXPECT_NE(refusal([] {
              redistribution({int64_t{1} << 30, int64_t{1} << 30}, {}, {}, split(1, {tp}));
            }),
            "taken");
}

TEST(GradientLayout, IsWhatSummandsGet) {
  EXPECT_EQ(gradientLayout(partialOver({dp}, split(0, {tp}))), split(0, {tp}));
  const Shape global{64, 64};
  const auto backward = [&](const Layout& x, const Layout& dy) {
    return wayOf(global, dy, gradientLayout(x));
  };
  const Layout whole, rows = split(0, {tp}), columns = split(1, {tp}), sums = partialOver({tp});
  EXPECT_EQ(backward(sums, whole), "");                 // of an AllReduce
  EXPECT_EQ(backward(sums, rows), "AllGather tp");      // of a ReduceScatter
  EXPECT_EQ(backward(rows, sums), "ReduceScatter tp");  // of an AllGather, y used in parts
  EXPECT_EQ(backward(rows, whole), "slice tp");         // of one, y used alike
  EXPECT_EQ(backward(rows, columns), "AllToAll tp");
  EXPECT_EQ(backward(whole, rows), "AllGather tp");  // of a slice
  EXPECT_EQ(backward(whole, sums), "AllReduce tp");  // x used in parts, as it was
}

}  // namespace
}  // namespace tutti::parallel
