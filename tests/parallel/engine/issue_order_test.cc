// The calls that ranks issue over all their communicators have one order: performed one after the
// other on each rank, they all come to an end. Of every layout, from runs without data, which issue
// what runs with data do; and an order that was spoiled is seen.

#include "parallel/mesh/issue_order.h"

#include <gtest/gtest.h>

#include "parallel/dry/dry_run.h"
#include "parallel/kernels/host/host_kernels.h"
#include "parallel/nn/model_options.h"
#include "tests/parallel/support/layouts.h"

namespace tutti::parallel {
namespace {

constexpr int kGroups = 4, kLayers = 4;

EngineOptions engineOf(const Arrangement& layout) {
  return {.policy = layout.policy,
          .reductionGroups = kGroups * layout.mesh.ranks({Axis::Data, Axis::Fsdp, Axis::Expert}),
          .rounds = 2,
          .pipeline = layout.pipeline};
}

int64_t batchOf(const Arrangement& layout) { return 2 * engineOf(layout).reductionGroups; }

std::unique_ptr<Model> modelOf(const Arrangement& layout) {
  GptOptions gpt = kRunGpt;
  gpt.layers = kLayers;
  if (layout.mesh[Axis::Expert] > 1) gpt.experts = {.count = 4};
  return makeModel(cut(layout, gpt));
}

/// Of a second step, without data.
IssueOrder issued(const Arrangement& layout, int rank) {
  const auto model = modelOf(layout);
  const auto optimizer = makeSgd({});
  return dryRun({.mesh = layout.mesh,
                 .rank = rank,
                 .engine = engineOf(layout),
                 .batch = batchOf(layout),
                 .context = kRunGpt.context,
                 .calls = true},
                *model, *optimizer)
      .calls;
}

std::vector<IssueOrder> issued(const Arrangement& layout) {
  std::vector<IssueOrder> all;
  for (int rank = 0; rank < layout.mesh.ranks(); ++rank) all.push_back(issued(layout, rank));
  return all;
}

std::string verdict(const Arrangement& layout, const std::vector<IssueOrder>& calls) {
  return unfinishedOrder(layout.mesh, calls).value_or("ends");
}

/// Each axis, pairs, and all of them, under every schedule.
std::vector<Arrangement> allLayouts() {
  std::vector<Arrangement> all = layoutsOfEachKind("tp=4");
  for (const Arrangement& layout :
       {arrangement("cp=2,ep=2"), exchanging(arrangement("cp=2,ep=2")),
        arrangement("fsdp=2,cp=2,ep=2", zero(3)), arrangement("cp=2,ep=2,tp=2", zero(0), true)})
    all.push_back(layout);
  for (const auto kind :
       {ScheduleKind::Naive, ScheduleKind::GPipe, ScheduleKind::OneFOneB, ScheduleKind::Interleaved,
        ScheduleKind::ZeroBubbleH1, ScheduleKind::ZeroBubbleV})
    for (const std::string mesh : {"pp=2", "pp=2,dp=2", "pp=2,fsdp=2", "pp=2,ep=2", "pp=2,cp=2",
                                   "pp=2,cp=2,ep=2", "pp=2,ep=2,tp=2", "pp=2,tp=2",
                                   "pp=2,dp=2,tp=2", "pp=2,fsdp=2,tp=2", "pp=2,dp=2,fsdp=2,tp=2"}) {
      const ShardPolicy policy = zero(mesh.find("fsdp") != mesh.npos ? 3 : 0);
      const bool two = kind == ScheduleKind::Interleaved || kind == ScheduleKind::ZeroBubbleV;
      all.push_back(piped(arrangement(mesh, policy, mesh.find("tp") != mesh.npos),
                          {.schedule = kind, .chunks = two ? 2 : 1}));
    }
  return all;
}

TEST(IssueOrder, EndsOnEveryLayout) {
  for (const Arrangement& layout : allLayouts()) {
    const auto calls = issued(layout);
    EXPECT_EQ(verdict(layout, calls), "ends") << layout.name;
    size_t most = 0;
    for (const IssueOrder& order : calls) most = std::max(most, order.size());
    EXPECT_GE(most, 2u) << layout.name;
  }
}

TEST(IssueOrder, IsThatOfARunWithData) {
  for (const Arrangement& layout :
       {arrangement("ep=2,tp=2", zero(0), true), arrangement("cp=2,fsdp=2", zero(3)),
        arrangement("cp=2,ep=2"), arrangement("dp=2,fsdp=2", zero(3)),
        arrangement("fsdp=2,tp=2", zero(2), true),
        piped(arrangement("pp=2,tp=2"), {.schedule = ScheduleKind::ZeroBubbleV, .chunks = 2})}) {
    const auto real = onRanks(layout.mesh, false, [&](DeviceMesh& mesh) {
      HostKernels kernels;
      const auto model = modelOf(layout);
      const auto optimizer = makeSgd({});
      Engine engine(mesh, kernels, *model, engineOf(layout));
      const auto text = makeText();
      Loader loader(text, kRunGpt.context, batchOf(layout), kRunSeed);
      engine.step(loader, 0, *optimizer, 0.01);
      const auto calls = mesh.recordCalls();
      engine.step(loader, 1, *optimizer, 0.01);
      return *calls;
    });
    EXPECT_EQ(real, issued(layout)) << layout.name;
  }
}

IssuedCall collective(Axis axis, Purpose purpose) {
  return {.axes = {axis}, .purpose = purpose, .form = PurposeForm::AllReduce, .messages = {}};
}
IssuedCall message(int peer, bool sends) {
  return {.axes = {Axis::Pipeline},
          .purpose = Purpose::StageOutput,
          .form = PurposeForm::Exchange,
          .messages = {{peer, sends}}};
}

// Each rank has the order of one neighbour, and together they wait in a ring.
TEST(IssueOrder, ThatHasARingIsSeen) {
  const MeshShape shape = MeshShape::parse("dp=2,tp=2");
  const IssuedCall sum = collective(Axis::Data, Purpose::GradientSum);
  const IssuedCall heads = collective(Axis::Tensor, Purpose::AttentionSum);
  EXPECT_EQ(unfinishedOrder(shape, std::vector<IssueOrder>(4, {sum, heads})), std::nullopt);
  EXPECT_EQ(
      unfinishedOrder(
          shape, std::vector<IssueOrder>{{sum, heads}, {heads, sum}, {heads, sum}, {sum, heads}}),
      "rank 0 waits in call 0, sum of gradients over {dp}, for rank 2, which is in call 0, "
      "sum of attention over {tp}");
}

TEST(IssueOrder, ThatDiffersIsSeen) {
  const MeshShape shape = MeshShape::along(Axis::Data, 2);
  const IssuedCall sum = collective(Axis::Data, Purpose::GradientSum);
  const IssuedCall loss = collective(Axis::Data, Purpose::LossSum);
  EXPECT_EQ(unfinishedOrder(shape, std::vector<IssueOrder>{{sum, loss}, {sum}}),
            "rank 0 waits in call 1, sum of losses over {dp}, for rank 1, which makes no such");
  EXPECT_EQ(unfinishedOrder(shape, std::vector<IssueOrder>{{sum, loss}, {loss, sum}}),
            "rank 0 waits in call 0, sum of gradients over {dp}, where rank 1 has sum of losses "
            "over {dp}");
  EXPECT_THROW(unfinishedOrder(shape, std::vector<IssueOrder>{{sum}}), Error);
}

TEST(IssueOrder, OfMessagesIsThatOfTheirOtherEnds) {
  const MeshShape shape = MeshShape::along(Axis::Pipeline, 2);
  const auto walk = [&](const IssueOrder& first, const IssueOrder& second) {
    return unfinishedOrder(shape, std::vector<IssueOrder>{first, second}).value_or("ends");
  };
  EXPECT_EQ(walk({message(1, true), message(1, false)}, {message(0, false), message(0, true)}),
            "ends");
  EXPECT_EQ(
      walk({message(1, true), message(1, false)}, {message(0, true), message(0, false)}),
      "rank 0 waits in call 0, what a stage gives the next over {pp}, for rank 1, which is in "
      "call 0, what a stage gives the next over {pp}");
  IssuedCall both = message(1, true);
  both.messages.push_back({1, false});
  EXPECT_EQ(walk({both}, {message(0, true), message(0, false)}), "ends");
  EXPECT_EQ(
      walk({both}, {message(0, true)}),
      "rank 0 waits in call 0, what a stage gives the next over {pp}, for rank 1, which makes "
      "no such");
}

TEST(IssueOrder, ThatLacksAnyCallIsSeen) {
  const Arrangement layout = arrangement("dp=2,fsdp=2,tp=2", zero(3));
  const auto good = issued(layout);
  for (size_t i = 0; i < good[3].size(); ++i) {
    auto bad = good;
    bad[3].erase(bad[3].begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_NE(verdict(layout, bad), "ends") << i;
  }
}

}  // namespace
}  // namespace tutti::parallel
