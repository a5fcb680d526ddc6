// The notation of products, and that what the algebra says of sharded operands is so: ranks that
// multiply what they hold get the product, as it is said to lie, or nothing that lies anyhow.

#include "parallel/sharding/contraction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/parallel/sharding/simulated_ranks.h"

namespace tutti::parallel {
namespace {

constexpr Axis x = static_cast<Axis>(0), y = static_cast<Axis>(1), z = static_cast<Axis>(2);
const AxisLetters kLetters("xyzw");

Product parsed(const std::string& text) { return parseProduct(text, kLetters); }

MeshShape meshOf(std::initializer_list<int> extents) {
  MeshShape mesh;
  std::ranges::copy(extents, mesh.extents.begin());
  return mesh;
}

// ---- notation

TEST(Notation, IsReadAndWritten) {
  const Product p = parsed("A[I,Jxy] W1[Jxy,K]{Uz} -> C[I,K]{Uxyz}");
  EXPECT_EQ(p.a.name, "A");
  EXPECT_EQ(p.b.name, "W1");
  EXPECT_EQ(p.a.indices, "IJ");
  EXPECT_EQ(p.a.axesOf('J'), (AxisList{x, y}));
  EXPECT_TRUE(p.a.axesOf('I').empty());
  EXPECT_TRUE(p.a.axesOf('Q').empty());
  EXPECT_EQ(p.b.layout.partial, AxisSet{z});
  EXPECT_EQ(p.c.layout.partial, (AxisSet{x, y, z}));
  for (const std::string text :
       {"A[I,Jxy] W1[Jxy,K]{Uz} -> C[I,K]{Uxyz}", "A[B,I,Jx] B[B,Jx,K] -> C[B,I,K]{Ux}",
        "A[Jx] B[Jx] -> C[]{Ux}", "A[Iyx] B[J] -> C[Iyx,J]"})
    EXPECT_EQ(describe(parsed(text), kLetters), text);
  EXPECT_EQ(parsed("  A [ I , J x ]B[Jx,K]->C[I,K] { U x }  "),
            parsed("A[I,Jx] B[Jx,K] -> C[I,K]{Ux}"));
  EXPECT_EQ(describeLayout(p.c, kLetters), "[I,K]{Uxyz}");
}

TEST(Notation, RefusesByNameAndPlace) {
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      parsed(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
      const std::string what = error.what();
      const std::string quoted = "\"" + text + "\"";
      return what.starts_with(quoted) ? what.substr(quoted.size()) : what;
    }
    return "taken";
  };
  EXPECT_EQ(refusal(""),
            ", character 1: the name of a tensor, like A or W1 is expected, and nothing follows");
  EXPECT_EQ(refusal("a[I]"), ", character 1: the name of a tensor, like A or W1 is expected");
  EXPECT_EQ(refusal("A(I)"), ", character 2: \"[\" is expected");
  EXPECT_EQ(refusal("A[i]"), ", character 3: an index, which is a capital letter is expected");
  EXPECT_EQ(refusal("A[I J]"), ", character 5: a comma or \"]\" is expected");
  EXPECT_EQ(refusal("A[I,]"), ", character 5: an index, which is a capital letter is expected");
  EXPECT_EQ(refusal("A[Iq]"), ", character 4: there is no axis q in the mesh, but xyzw");
  EXPECT_EQ(refusal("A[Ix,Jx]"), ", character 7: x is twice in A");
  EXPECT_EQ(refusal("A[Ix]{Ux}"), ", character 8: x is twice in A");
  EXPECT_EQ(refusal("A[I,I]"), ", character 6: I is twice in A");
  EXPECT_EQ(refusal("A[I]{x}"),
            ", character 6: \"U\" and the axes that values are summands over is expected");
  EXPECT_EQ(refusal("A[I]{U}"), ", character 7: \"U\" names no axis");
  EXPECT_EQ(refusal("A[H,I,J,K,L]"), ", character 12: A has more than 4 indices");
  EXPECT_EQ(refusal("A[I] -> C[I]"),
            ", character 6: the name of a tensor, like A or W1 is expected");
  EXPECT_EQ(refusal("A[I] B[I] C[I]"), ", character 11: \"->\" and the result is expected");
  EXPECT_EQ(refusal("A[I] B[I] -> C[I] D"), ", character 19: the end is expected");
  EXPECT_EQ(refusal("A[I,J] B[I] -> C[I]"), ": J is in A alone");
  EXPECT_EQ(refusal("A[I] B[I,J] -> C[I]"), ": J is in B alone");
  EXPECT_EQ(refusal("A[I] B[I] -> C[I,J]"), ": J is in C alone");
  EXPECT_EQ(refusal("A[I] B[I] -> C[I]" + std::string(300, ' ')),
            "an expression has at most 256 characters, not 317");
  EXPECT_NE(refusal("A" + std::string(20, 'b') + "[I]").find("at most 16"), std::string::npos);
  EXPECT_NE(refusal(std::string("A[I\0] B", 7)), "taken");
}

TEST(AxisLetters, AreSmallAndDifferent) {
  EXPECT_THROW(AxisLetters("xyzabcde"), Error);
  EXPECT_THROW(AxisLetters("xX"), Error);
  EXPECT_THROW(AxisLetters("xyx"), Error);
  EXPECT_EQ(AxisLetters("yx")[x], 'y');
}

// ---- multiplication

/// C[.] = sum of A times B over what C does not have, of the elements at hand; nothing where the
/// extents of an index differ.
std::optional<Values> product(const Product& p, const Values& a, const Values& b) {
  std::map<char, int64_t> extents;
  const auto add = [&](const Term& term, const Values& values) {
    for (size_t d = 0; d < term.indices.size(); ++d) {
      const int64_t extent = values.shape[static_cast<int>(d)];
      if (extents.try_emplace(term.indices[d], extent).first->second != extent) return false;
    }
    return true;
  };
  if (!add(p.a, a) || !add(p.b, b)) return std::nullopt;
  const auto at = [&](const Term& term, std::map<char, int64_t>& place) {
    int64_t offset = 0;
    for (const char index : term.indices) offset = offset * extents[index] + place[index];
    return static_cast<size_t>(offset);
  };
  Values c{globalShape(p.c, extents), {}};
  c.elements.resize(static_cast<size_t>(c.shape.count()));
  int64_t all = 1;
  for (const auto& [index, extent] : extents) all *= extent;
  for (int64_t i = 0; i < all; ++i) {
    std::map<char, int64_t> place;
    int64_t rest = i;
    for (const auto& [index, extent] : extents) {
      place[index] = rest % extent;
      rest /= extent;
    }
    c.elements[at(p.c, place)] += a.elements[at(p.a, place)] * b.elements[at(p.b, place)];
  }
  return c;
}

/// What all ranks get, if they can.
std::optional<SimulatedRanks> multiplied(const Product& p, const MeshShape& mesh,
                                         const SimulatedRanks& a, const SimulatedRanks& b) {
  std::vector<Values> parts;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    auto part = product(p, a.part(rank), b.part(rank));
    if (!part) return std::nullopt;
    parts.push_back(std::move(*part));
  }
  return SimulatedRanks(mesh, std::move(parts));
}

/// Tries all layouts of both operands.
void tryAllOperands(const std::string& text, const Sizes& sizes, const MeshShape& mesh,
                    const std::vector<Axis>& axes, std::set<Conflict::Kind>& seen) {
  std::mt19937 random(11);
  Product p = parsed(text);
  const Values a = Values::random(globalShape(p.a, sizes), random);
  const Values b = Values::random(globalShape(p.b, sizes), random);
  const Values c = product(p, a, b).value();
  const auto layoutsOf = [&](const Term& term) {
    return allLayouts(axes, static_cast<int>(term.indices.size()));
  };
  int possible = 0;
  for (const Layout& layoutA : layoutsOf(p.a))
    for (const Layout& layoutB : layoutsOf(p.b)) {
      p.a.layout = layoutA;
      p.b.layout = layoutB;
      SCOPED_TRACE(describe(p.a, kLetters) + " " + describe(p.b, kLetters));
      const auto ranks = multiplied(p, mesh, SimulatedRanks(mesh, a, layoutA, random),
                                    SimulatedRanks(mesh, b, layoutB, random));
      const auto said = multiply(p.a, p.b, p.c.indices);
      if (const Layout* layout = std::get_if<Layout>(&said)) {
        ASSERT_TRUE(ranks && ranks->hold(c, *layout));
        ++possible;
        continue;
      }
      seen.insert(std::get<Conflict>(said).kind);
      if (!ranks) continue;
      for (const Layout& layout : layoutsOf(p.c)) ASSERT_FALSE(ranks->hold(c, layout));
    }
  EXPECT_GT(possible, 4);
}

TEST(Multiply, KnowsWhatRanksGet) {
  std::set<Conflict::Kind> seen;
  tryAllOperands("A[I,J] B[J,K] -> C[I,K]", {{'I', 7}, {'J', 8}, {'K', 9}}, meshOf({2, 3}), {x, y},
                 seen);
  EXPECT_EQ(seen.size(), 5U);
  tryAllOperands("A[B,I,J] B[B,J,K] -> C[B,I,K]", {{'B', 3}, {'I', 4}, {'J', 5}, {'K', 3}},
                 meshOf({3}), {x}, seen);
  tryAllOperands("A[I] B[J] -> C[J,I]", {{'I', 5}, {'J', 7}}, meshOf({2, 2}), {x, y}, seen);
  tryAllOperands("A[J] B[J] -> C[]", {{'J', 7}}, meshOf({2, 2}), {x, y}, seen);
}

TEST(Multiply, NamesTheConflict) {
  const auto conflict = [](const std::string& text) {
    const Product p = parsed(text);
    return std::get<Conflict>(multiply(p.a, p.b, p.c.indices));
  };
  EXPECT_EQ(conflict("A[Ix,J] B[J,Kx] -> C[I,K]"),
            (Conflict{Conflict::SplitsDifferentIndices, x, 'I', 'K'}));
  EXPECT_EQ(conflict("A[I,J] B[Jy,K] -> C[I,K]"),
            (Conflict{Conflict::SplitsOneOperand, y, 0, 'J'}));
  EXPECT_EQ(conflict("A[I,Jxy] B[Jyx,K] -> C[I,K]"), (Conflict{Conflict::OtherOrder, x, 'J', 'J'}));
  EXPECT_EQ(conflict("A[I,J]{Ux} B[J,K]{Ux} -> C[I,K]"),
            (Conflict{Conflict::BothPartial, x, 0, 0}));
  EXPECT_EQ(conflict("A[I,J]{Ux} B[J,Kx] -> C[I,K]"),
            (Conflict{Conflict::PartialAndSplit, x, 0, 'K'}));
}

// ---- derivations

/// Such as "AllGather A x; multiply; AllReduce C x".
std::string wayOf(const Derivation& d, const Product& p) {
  std::string text;
  const auto add = [&](const std::vector<RedistributionStep>& steps, const Term& term) {
    for (const RedistributionStep& step : steps)
      text += message(text.empty() ? "" : "; ", toString(step.move), " ", term.name, " ",
                      kLetters[step.axis]);
  };
  add(d.stepsOfA, p.a);
  add(d.stepsOfB, p.b);
  text += text.empty() ? "multiply" : "; multiply";
  add(d.stepsOfC, p.c);
  return text;
}

std::string bestWay(const std::string& text, const Sizes& sizes, const MeshShape& mesh) {
  return wayOf(derive(parsed(text), sizes, mesh, 1).at(0), parsed(text));
}

const Sizes kEqual = {{'I', 64}, {'J', 64}, {'K', 64}};

TEST(Derive, KnowsTheFourCases) {
  const auto best = [](const std::string& text) { return bestWay(text, kEqual, meshOf({4, 2})); };
  EXPECT_EQ(best("A[Ix,J] B[J,Ky] -> C[Ix,Ky]"), "multiply");
  EXPECT_EQ(best("A[I,Jx] B[J,K] -> C[I,K]"), "AllGather A x; multiply");
  EXPECT_EQ(best("A[I,J] B[Jx,K] -> C[I,K]"), "AllGather B x; multiply");
  EXPECT_EQ(best("A[I,Jx] B[Jx,K] -> C[I,K]"), "multiply; AllReduce C x");
  EXPECT_EQ(best("A[I,Jx] B[Jx,K] -> C[I,K]{Ux}"), "multiply");
  EXPECT_EQ(best("A[I,Jx] B[Jx,K] -> C[I,Kx]"), "multiply; ReduceScatter C x");
  EXPECT_EQ(best("A[Ix,J] B[J,Kx] -> C[Ix,K]"), "AllGather B x; multiply");
  EXPECT_EQ(best("A[Ix,J] B[J,Kx] -> C[I,Kx]"), "AllGather A x; multiply");
}

TEST(Derive, SendsTheLeastAndThenComputesTheLeast) {
  // A small result is better added up than a large operand gathered.
  const Sizes narrow = {{'I', 64}, {'J', 64}, {'K', 4}};
  EXPECT_EQ(bestWay("A[I,Jx] B[J,K] -> C[I,K]", narrow, meshOf({4})),
            "slice B x; multiply; AllReduce C x");
  // Nothing is sent either way, but a quarter computed.
  EXPECT_EQ(bestWay("A[I,J] B[J,K] -> C[Ix,K]", kEqual, meshOf({4})), "slice A x; multiply");
  EXPECT_EQ(bestWay("A[I,J] B[J,K] -> C[I,K]", kEqual, meshOf({4})), "multiply");
  // Summands may wait until they are fewer.
  EXPECT_EQ(bestWay("A[I,J]{Ux} B[J,K] -> C[I,K]", narrow, meshOf({4})), "multiply; AllReduce C x");
  EXPECT_EQ(bestWay("A[I,J]{Ux} B[J,K] -> C[I,K]", {{'I', 4}, {'J', 4}, {'K', 64}}, meshOf({4})),
            "AllReduce A x; multiply");
  const auto way = derive(parsed("A[I,Jx] B[Jx,K] -> C[I,K]"), kEqual, meshOf({4}), 1).at(0);
  EXPECT_EQ(way.sent, 2 * 64 * 64 * 3 / 4);
  EXPECT_EQ(way.flops, 2.0 * 64 * 64 * 16);
  EXPECT_EQ(way.multiplied.c.layout.partial, AxisSet{x});
  // 64 over 3 is 22 at most.
  const auto uneven = derive(parsed("A[Ix,J] B[J,K] -> C[Ix,K]"), kEqual, meshOf({3}), 1).at(0);
  EXPECT_EQ(uneven.flops, 2.0 * 22 * 64 * 64);
}

/// Follows every way that is found with numbers.
void follow(const Product& p, const Sizes& sizes, const MeshShape& mesh, size_t most) {
  SCOPED_TRACE(describe(p, kLetters));
  std::mt19937 random(5);
  const Values a = Values::random(globalShape(p.a, sizes), random);
  const Values b = Values::random(globalShape(p.b, sizes), random);
  const std::vector<Derivation> ways = derive(p, sizes, mesh, most);
  ASSERT_GE(ways.size(), 1U);
  ASSERT_LE(ways.size(), most);
  for (const Derivation& d : ways) {
    SimulatedRanks ranksA(mesh, a, p.a.layout, random), ranksB(mesh, b, p.b.layout, random);
    int64_t sent = 0;
    for (const RedistributionStep& step : d.stepsOfA) sent += ranksA.perform(step);
    for (const RedistributionStep& step : d.stepsOfB) sent += ranksB.perform(step);
    ASSERT_TRUE(ranksA.hold(a, d.multiplied.a.layout));
    ASSERT_TRUE(ranksB.hold(b, d.multiplied.b.layout));
    auto c = multiplied(p, mesh, ranksA, ranksB);
    ASSERT_TRUE(c);
    for (const RedistributionStep& step : d.stepsOfC) sent += c->perform(step);
    ASSERT_TRUE(c->hold(product(p, a, b).value(), p.c.layout)) << wayOf(d, p);
    ASSERT_EQ(sent, d.sent);
    ASSERT_GE(d.sent, ways[0].sent);
  }
}

TEST(Derive, IsRightForAllLayoutsOnOneAxis) {
  Product p = parsed("A[I,J] B[J,K] -> C[I,K]");
  const Sizes sizes = {{'I', 5}, {'J', 7}, {'K', 6}};
  for (const Layout& a : allLayouts({x}, 2))
    for (const Layout& b : allLayouts({x}, 2))
      for (const Layout& c : allLayouts({x}, 2)) {
        p.a.layout = a;
        p.b.layout = b;
        p.c.layout = c;
        // Summands are of an operand, or of products whose sum goes over a part; a replicated
        // operand can be sliced for that.
        follow(p, sizes, meshOf({3}), 100);
      }
}

/// The fewest elements that are sent by way of any layouts of the operands.
int64_t leastSent(const Product& p, const Sizes& sizes, const MeshShape& mesh,
                  const std::vector<Axis>& axes) {
  const auto sent = [&](const Term& term, const Layout& from, const Layout& to) {
    for (const Axis axis : axes)
      if (to.partial.contains(axis) && !from.partial.contains(axis)) return int64_t{-1};
    return elementsSent(redistribution(globalShape(term, sizes), mesh, from, to));
  };
  int64_t least = -1;
  Term a = p.a, b = p.b;
  for (const Layout& layoutA : allLayouts(axes, static_cast<int>(a.indices.size())))
    for (const Layout& layoutB : allLayouts(axes, static_cast<int>(b.indices.size()))) {
      a.layout = layoutA;
      b.layout = layoutB;
      const auto product = multiply(a, b, p.c.indices);
      if (!std::holds_alternative<Layout>(product)) continue;
      const int64_t ofA = sent(a, p.a.layout, layoutA), ofB = sent(b, p.b.layout, layoutB);
      const int64_t ofC = sent(p.c, std::get<Layout>(product), p.c.layout);
      if (ofA < 0 || ofB < 0 || ofC < 0) continue;
      if (least < 0 || ofA + ofB + ofC < least) least = ofA + ofB + ofC;
    }
  return least;
}

TEST(Derive, SendsTheLeastOfAllLayouts) {
  std::mt19937 random(29);
  Product p = parsed("A[I,J] B[J,K] -> C[I,K]");
  const std::vector<Layout> layouts = allLayouts({x, y}, 2);
  const auto pick = [&] {
    return layouts[std::uniform_int_distribution<size_t>(0, layouts.size() - 1)(random)];
  };
  for (int run = 0; run < 30; ++run) {
    p.a.layout = pick();
    p.b.layout = pick();
    p.c.layout = gradientLayout(pick());
    SCOPED_TRACE(describe(p, kLetters));
    const Sizes sizes = {{'I', 4 + run}, {'J', 40 - run}, {'K', 7}};
    const MeshShape mesh = meshOf({2, 3});
    ASSERT_EQ(derive(p, sizes, mesh, 1).at(0).sent, leastSent(p, sizes, mesh, {x, y}));
  }
}

TEST(Derive, IsRightForLayoutsOnSeveralAxes) {
  std::mt19937 random(3);
  Product p = parsed("A[B,I,J] B[B,J,K] -> C[B,I,K]");
  const Sizes sizes = {{'B', 3}, {'I', 5}, {'J', 4}, {'K', 2}};
  const auto pick = [&](const std::vector<Axis>& axes, int dimensions) {
    const auto all = allLayouts(axes, dimensions);
    return all[std::uniform_int_distribution<size_t>(0, all.size() - 1)(random)];
  };
  for (int run = 0; run < 40; ++run) {
    const std::vector<Axis> axes = run % 2 == 0 ? std::vector{x, y} : std::vector{x, y, z};
    p.a.layout = pick(axes, 3);
    p.b.layout = pick(axes, 3);
    p.c.layout = gradientLayout(pick(axes, 3));
    follow(p, sizes, meshOf({2, 3, 2}), 3);
  }
}

TEST(Derive, RefusesWhatItCannot) {
  const auto refusal = [](const std::string& text, const Sizes& sizes) -> std::string {
    try {
      derive(parseProduct(text, AxisLetters("xyzwv")), sizes, meshOf({2, 2, 2, 2, 2}), 1);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
      return error.what();
    }
    return "taken";
  };
  EXPECT_EQ(refusal("A[I,J] B[J,K] -> C[I,K]", {{'I', 4}, {'J', 4}}), "the size of K is missing");
  EXPECT_EQ(refusal("A[Ix,Jyz] B[J,Kw] -> C[I,K]", kEqual),
            "a product names at most 3 axes of the mesh, not 4");
  EXPECT_EQ(refusal("A[I] B[K] -> C[I,K]{Ux}", kEqual),
            "no product of A and B is partial as C is to be");
  EXPECT_EQ(refusal("A[Ixyz] B[K] -> C[I,Kzyx]", kEqual), "taken");
}

}  // namespace
}  // namespace tutti::parallel
