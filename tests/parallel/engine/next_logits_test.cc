// Logits of the next token from kept keys and values: those of a forward pass over the whole text,
// and so the same text, under every axis; and that a token then costs one row.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "parallel/engine/generate.h"
#include "parallel/kernels/dry/dry_kernels.h"
#include "parallel/kernels/host/host_kernels.h"
#include "parallel/nn/model_options.h"
#include "tests/parallel/support/on_ranks.h"

namespace tutti::parallel {
namespace {

// Sums of a row have other orders, in another shape of the same product: float64, as on rung 1.
constexpr double kBound = 1e-12;
constexpr int64_t kContext = 20;

constexpr GptOptions kGpt{
    .vocabulary = 61, .context = kContext, .layers = 3, .width = 32, .heads = 4};
constexpr LlamaOptions kLlama{.vocabulary = 61,
                              .context = kContext,
                              .layers = 3,
                              .width = 32,
                              .heads = 4,
                              .kvHeads = 2,
                              .inner = 45,
                              .ropeBase = 100};

template <class Options>
Options with(Options options, const std::function<void(Options&)>& change) {
  change(options);
  return options;
}
template <class Options>
Options mixture(Options options, double capacity) {
  options.experts = {.count = 4, .perToken = 2, .capacityFactor = capacity, .every = 2};
  return options;
}

std::vector<int32_t> textOf(int64_t tokens) {
  std::vector<int32_t> text;
  for (int32_t t = 0; t < tokens; ++t) text.push_back((7 * t + t * t + 3) % 61);
  return text;
}

Tensor idsOf(std::vector<int32_t>& text, int64_t begin, int64_t count) {
  return Tensor(text.data() + begin, DType::Int32, {1, count});
}

std::vector<double> numbers(const Tensor& logits) {
  const auto* data = logits.as<double>();
  return {data, data + logits.count()};
}

struct Case {
  const char* mesh;
  ModelOptions model;
  ShardPolicy policy = {};
  ScheduleKind schedule = ScheduleKind::OneFOneB;
};

struct Small {
  Small(DeviceMesh& mesh, const Case& c, DType type = DType::Float64)
      : model(makeModel(c.model)),
        engine(mesh, kernels, *model,
               {.policy = c.policy, .types = type, .pipeline = {.schedule = c.schedule}}) {}
  HostKernels kernels;
  std::unique_ptr<Model> model;
  Engine engine;
};

/// The largest difference of a logit from a whole pass's, over the largest logit, where the text
/// comes `first` tokens at once, `then` at once, and then one by one.
double worstOf(DeviceMesh& mesh, const Case& c, int64_t first, int64_t then) {
  Small small(mesh, c);
  std::vector<int32_t> text = textOf(kContext);
  KeyValues before(kContext);
  double worst = 0;
  for (int64_t end = first; end <= kContext; end += end == first ? then : 1) {
    const std::vector<double> next =
        numbers(small.engine.nextLogits(idsOf(text, before.seen(), end - before.seen()), before));
    EXPECT_EQ(before.seen(), end);
    const Tensor all = small.engine.logits(idsOf(text, 0, end));
    const std::vector<double> whole = numbers(all.part(1, end - 1, 1));
    EXPECT_EQ(next.size(), whole.size());
    double most = 0;
    for (const double logit : whole) most = std::max(most, std::abs(logit));
    for (size_t i = 0; i < whole.size(); ++i)
      worst = std::max(worst, std::abs(next[i] - whole[i]) / most);
  }
  small.engine.forget();
  return worst;
}

TEST(NextLogits, AreThoseOfAPassOverTheWholeText) {
  const GptOptions cut = with<GptOptions>(kGpt, [](auto& o) { o.sequenceParallel = true; });
  const GptOptions placed = with<GptOptions>(kGpt, [](auto& o) { o.branches = Branches::Placed; });
  const GptOptions again = with<GptOptions>(kGpt, [](auto& o) { o.recompute = Recompute::Block; });
  const LlamaOptions attention =
      with<LlamaOptions>(kLlama, [](auto& o) { o.recompute = Recompute::Attention; });
  const LlamaOptions tied = with<LlamaOptions>(kLlama, [](auto& o) { o.tied = true; });
  for (const Case& c : std::vector<Case>{{"", kGpt},
                                         {"", kLlama},
                                         {"", mixture(kGpt, 0)},
                                         {"", mixture(kLlama, 0)},
                                         {"", again},
                                         {"", attention},
                                         {"tp=2", kGpt},
                                         {"tp=2", cut},
                                         {"tp=2", placed},
                                         {"tp=2", kLlama},
                                         {"tp=2,rep=2", kLlama},
                                         {"tp=2", mixture(kLlama, 0)},
                                         {"fsdp=2", kGpt, ShardPolicy::fsdp()},
                                         {"fsdp=2,tp=2", cut, ShardPolicy::fsdp()},
                                         {"pp=2", kGpt},
                                         {"pp=2", tied, {}, ScheduleKind::ZeroBubbleH1},
                                         {"pp=3,tp=2", kLlama},
                                         {"ep=2", mixture(kGpt, 0)},
                                         {"ep=2,tp=2", mixture(kLlama, 0)}})
    for (const auto& [first, then] : {std::pair<int64_t, int64_t>{1, 1}, {7, 5}}) {
      const auto worst =
          onRanks(MeshShape::parse(c.mesh), false,
                  [&, f = first, t = then](DeviceMesh& mesh) { return worstOf(mesh, c, f, t); });
      EXPECT_LE(*std::max_element(worst.begin(), worst.end()), kBound)
          << c.mesh << " from " << first << " tokens";
    }
}

// The token that a pass over all of the text, or over as much of it as the model sees, likes best.
std::vector<int32_t> likeliestOf(Engine& engine, std::vector<int32_t> text, int64_t tokens) {
  const auto prompt = std::ssize(text);
  for (int64_t i = 0; i < tokens; ++i) {
    const int64_t seen = std::min<int64_t>(std::ssize(text), kContext);
    const Tensor logits = engine.logits(idsOf(text, std::ssize(text) - seen, seen));
    const auto* row = logits.as<double>() + (seen - 1) * logits.shape[2];
    text.push_back(static_cast<int32_t>(std::max_element(row, row + logits.shape[2]) - row));
  }
  return {text.begin() + prompt, text.end()};
}

// Past the context each token has other positions with every one that comes; experts with a
// capacity drop others, and ranks of context parallelism have some positions each.
TEST(NextLogits, WriteTheSameText) {
  for (const Case& c : std::vector<Case>{{"", kGpt},
                                         {"", kLlama},
                                         {"", mixture(kGpt, 0)},
                                         {"", mixture(kGpt, 0.75)},
                                         {"tp=2", kGpt},
                                         {"cp=2", kLlama},
                                         {"pp=2", kLlama}})
    onRanks(MeshShape::parse(c.mesh), false, [&](DeviceMesh& mesh) {
      Small small(mesh, c);
      const std::vector<int32_t> prompt = textOf(5);
      const int64_t tokens = 2 * kContext;
      EXPECT_EQ(
          generate(small.engine,
                   {.prompt = prompt, .tokens = tokens, .context = kContext, .temperature = 0}),
          likeliestOf(small.engine, prompt, tokens))
          << c.mesh;
    });
}

TEST(NextLogits, AreOfNarrowTypesToo) {
  for (const DType type : {DType::Float32, DType::BFloat16, DType::Float16})
    onRanks(MeshShape::parse("tp=2"), false, [&](DeviceMesh& mesh) {
      Small small(mesh, {"", kLlama}, type);
      const auto text =
          generate(small.engine, {.prompt = textOf(3), .tokens = 8, .context = kContext});
      EXPECT_EQ(text.size(), 8u);
    });
}

TEST(NextLogits, BeginAgainWhereNothingIsKept) {
  DeviceMesh mesh;
  Small dropping(mesh, {"", mixture(kGpt, 1.25)});
  EXPECT_FALSE(dropping.engine.goesOn());
  std::vector<int32_t> text = textOf(4);
  KeyValues before(kContext);
  dropping.engine.nextLogits(idsOf(text, 0, 4), before);
  EXPECT_EQ(before.seen(), 0);
  Small going(mesh, {"", kGpt});
  EXPECT_TRUE(going.engine.goesOn());
  KeyValues few(3);
  EXPECT_THROW(going.engine.nextLogits(idsOf(text, 0, 4), few), Error) << "there is no room";
}

/// Of products with weights, in a pass without data over `tokens` behind `seen`.
double flopsOf(int64_t seen, int64_t tokens) {
  DeviceMesh mesh = DeviceMesh::dry({}, 0);
  DryKernels kernels;
  const auto model = makeModel(kGpt);
  Engine engine(mesh, kernels, *model, {});
  std::vector<int32_t> text = textOf(kContext);
  KeyValues before(kContext);
  if (seen > 0) engine.nextLogits(idsOf(text, 0, seen), before);
  kernels.reset();
  engine.nextLogits(idsOf(text, seen, tokens), before);
  return kernels.counts().at("gemm").gemmFlops;
}

// Of each token the maps of the blocks, 12 width^2, and of the last one alone its logits.
TEST(NextLogits, CostARowOfATokenAndOneRowOfLogits) {
  const double width = kGpt.width, maps = 2 * 12 * width * width * kGpt.layers;
  const double logits = 2 * width * kGpt.vocabulary;
  EXPECT_EQ(flopsOf(0, 12), 12 * maps + logits);
  EXPECT_EQ(flopsOf(12, 1), maps + logits);
  EXPECT_EQ(flopsOf(12, 3), 3 * maps + logits);
}

}  // namespace
}  // namespace tutti::parallel
