// Context parallelism: what ranks exchange, hold and compute is counted, they write one rank's
// text, and heads that cannot be shared are refused. That gradients and steps are one rank's is the
// parity ladder's (parity/).

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "parallel/dry/dry_run.h"
#include "parallel/engine/generate.h"
#include "parallel/kernels/host/host_kernels.h"
#include "tests/parallel/support/layouts.h"

namespace tutti::parallel {
namespace {

constexpr int kRanks = 4, kLayers = 2;
constexpr int64_t kContext = 64, kSequences = 3;  // of the only micro-batch
constexpr LlamaOptions kLlama{
    .context = kContext, .layers = kLayers, .width = 64, .heads = 8, .kvHeads = 4, .inner = 45};
constexpr size_t kTokens = kSequences * kContext, kRows = kTokens * 64, kKvRows = kTokens * 32;

DryRun dryOf(const Arrangement& layout, int rank, DType type = DType::Float32,
             LlamaOptions options = kLlama) {
  const auto model = makeModel(cut(layout, options));
  const auto optimizer = makeSgd({});
  return dryRun({.mesh = layout.mesh,
                 .rank = rank,
                 .engine = {.types = type, .reductionGroups = 1},
                 .batch = kSequences,
                 .context = options.context},
                *model, *optimizer);
}

const CollectiveCounters& ofContext(const DryRun& run) {
  return run.collectives.at({Axis::Context});
}

// Of each layer, with n ranks: what a rank has of keys and values n - 1 times in forward and as
// often in backward, and its gradients n times. That is dry_test's to the byte with data, too.
TEST(ContextParallel, MessagesOfTheRingAreCounted) {
  const size_t pair = 2 * kKvRows / kRanks;
  for (int rank = 0; rank < kRanks; ++rank) {
    const CollectiveCounters plain = ofContext(dryOf(arrangement("cp=4"), rank));
    EXPECT_EQ(plain.sent.calls, kLayers * (3 * kRanks - 2));
    EXPECT_EQ(plain.sent.bytes, kLayers * (3 * kRanks - 2) * pair * sizeof(float));
    EXPECT_EQ(plain.allToAll, CollectiveCount{});
    // Gradients travel as they are added up: in float32.
    const CollectiveCounters half = ofContext(dryOf(arrangement("cp=4"), rank, DType::BFloat16));
    EXPECT_EQ(half.sent.bytes, kLayers * ((2 * kRanks - 2) * pair * 2 + kRanks * pair * 4));
  }
}

// Of each layer: queries, keys and values, what attention gives, and the gradients of both, of this
// rank's positions.
TEST(ContextParallel, ExchangesOfHeadsAreCounted) {
  for (int rank = 0; rank < kRanks; ++rank) {
    const CollectiveCounters even = ofContext(dryOf(exchanging(arrangement("cp=4")), rank));
    EXPECT_EQ(even.sent, CollectiveCount{});
    EXPECT_EQ(even.allToAll.calls, 4 * kLayers);
    EXPECT_EQ(even.allToAll.bytes,
              kLayers * 2 * (2 * kRows + 2 * kKvRows) / kRanks * sizeof(float));
    // Of two heads of keys each goes to two ranks.
    LlamaOptions shared = kLlama;
    shared.kvHeads = 2;
    EXPECT_EQ(
        ofContext(dryOf(exchanging(arrangement("cp=4")), rank, DType::Float32, shared)).allToAll,
        even.allToAll);
  }
}

double attentionFlops(const DryRun& run) {
  double flops = 0;
  for (const std::string name :
       {"attention", "attentionBackward", "attentionBlock", "attentionBlockBackward"})
    if (const auto found = run.kernels.find(name); found != run.kernels.end())
      flops += found->second.gemmFlops;
  return flops;
}

/// What each rank computes when the sequence is cut into so many consecutive parts of equal size.
std::vector<double> flopsOfConsecutiveParts() {
  std::vector<double> flops;
  Arena scratch("test", {.dry = true});
  constexpr int64_t kPart = kContext / kRanks;
  for (int rank = 0; rank < kRanks; ++rank) {
    DryKernels kernels;
    const Tensor q = scratch.allocate(DType::Float32, {kSequences, kPart, 64});
    const Tensor k = scratch.allocate(DType::Float32, {kSequences, kPart, 32});
    const Tensor sums = scratch.allocate(DType::Float32, {kSequences, 8, kPart});
    for (int owner = 0; owner <= rank; ++owner)
      for (int layer = 0; layer < kLayers; ++layer) {
        const int64_t queries = rank * kPart, keys = owner * kPart;
        kernels.attentionBlock({q, k, k, q, sums, 8, 4, queries, keys}, scratch);
        kernels.attentionBlockBackward({q, q, k, k, q, sums, q, k, k, 8, 4, queries, keys},
                                       scratch);
      }
    flops.push_back(kernels.total().gemmFlops);
  }
  return flops;
}

// All ranks compute as much, and in all what one rank does: nothing that causality hides. In
// consecutive parts the last rank would compute seven times what the first does, and the others
// would wait for it.
TEST(ContextParallel, PiecesFromBothEndsBalanceAttention) {
  const double one = attentionFlops(dryOf(arrangement(""), 0));
  for (const Arrangement& layout : {arrangement("cp=4"), exchanging(arrangement("cp=4"))})
    for (int rank = 0; rank < kRanks; ++rank)
      EXPECT_EQ(attentionFlops(dryOf(layout, rank)), one / kRanks) << layout.name << rank;
  // Three pairs of a rank's own pieces, and two with each other rank's, of four.
  for (const std::string name : {"attentionBlock", "attentionBlockBackward"})
    EXPECT_EQ(dryOf(arrangement("cp=4"), 1).kernels.at(name).calls,
              kLayers * (3 + 2 * (kRanks - 1)));
  const std::vector<double> parts = flopsOfConsecutiveParts();
  double sum = 0;
  for (const double flops : parts) sum += flops;
  EXPECT_EQ(sum, one);
  EXPECT_GT(parts.back(), 6.5 * parts.front());
  EXPECT_GT(parts.back(), 1.7 * one / kRanks);
}

// In every step of the ring, too: whoever has more to do than the others makes them wait.
TEST(ContextParallel, EachStepOfTheRingIsBalanced) {
  const SequenceCut cut{kContext, kRanks};
  for (int step = 0; step < kRanks; ++step)
    for (int rank = 0; rank < kRanks; ++rank) {
      double pairs = 0;
      for (const Range& q : cut.pieces(rank))
        for (const Range& k : cut.pieces((rank + kRanks - step) % kRanks))
          for (int64_t t = q.begin; t < q.end; ++t)
            pairs += static_cast<double>(std::clamp<int64_t>(t + 1 - k.begin, 0, k.count()));
      const double piece = static_cast<double>(kContext) / (2 * kRanks);
      EXPECT_EQ(pairs, step == 0 ? piece * (piece + 1) + piece * piece : 2 * piece * piece);
    }
}

// A rank keeps 1/n of what one rank keeps of a micro-batch until backward.
TEST(ContextParallel, RanksShareOutActivations) {
  const auto kept = [](const Arrangement& layout) {
    const TrainingMemory memory = dryOf(layout, 0).memory;
    return static_cast<double>(memory.untilBackward.peak + memory.untilWeights.peak);
  };
  const double one = kept(arrangement(""));
  EXPECT_NEAR(kept(arrangement("cp=4")), one / 4, one * 0.01);
  // And what attention gives twice: of its heads, and of its positions.
  const double again = kLayers * kRows * sizeof(float) / 4.0;
  EXPECT_NEAR(kept(exchanging(arrangement("cp=4"))), one / 4 + again, one * 0.01);
}

// Prompts that are shorter than there are ranks, and that grow.
TEST(ContextParallel, WritesTheTextOfOneRank) {
  const auto text = [](const std::string& mesh, const ModelOptions& options) {
    return onRanks(MeshShape::parse(mesh), false, [&](DeviceMesh& m) {
      HostKernels kernels;
      const auto model = makeModel(options);
      Engine engine(m, kernels, *model, {.policy = {}, .types = DType::Float64});
      return generate(engine, {.prompt = {'a'}, .tokens = 30, .context = 23, .temperature = 0});
    });
  };
  GptOptions mixture = kRunGpt;
  mixture.experts = {.count = 4, .capacityFactor = 0.8};
  for (const ModelOptions& model :
       {ModelOptions(kRunGpt), ModelOptions(kRunLlama), ModelOptions(mixture)}) {
    const std::vector<int32_t> one = text("", model)[0];
    for (const Arrangement& ring : {arrangement("cp=2"), arrangement("cp=4"),
                                    arrangement("dp=2,cp=2"), arrangement("cp=2,tp=2")})
      for (const Arrangement& layout : {ring, exchanging(ring)})
        for (const std::vector<int32_t>& many : text(layout.mesh.describe(), cut(layout, model)))
          EXPECT_EQ(many, one) << layout.name;
  }
}

std::string refusal(const std::string& mesh, const ModelOptions& options) {
  DeviceMesh dry = DeviceMesh::dry(MeshShape::parse(mesh), 0);
  DryKernels kernels;
  const auto model = makeModel(cut(exchanging(arrangement(mesh)), options));
  try {
    Engine(dry, kernels, *model, {});
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    return error.what();
  }
}

TEST(ContextParallel, HeadsThatCannotBeSharedAreRefused) {
  for (const std::string mesh : {"cp=2", "cp=4", "cp=8", "cp=4,tp=2"})
    EXPECT_EQ(refusal(mesh, kLlama), "") << mesh;
  EXPECT_NE(refusal("cp=3", kLlama)
                .find("8 heads, 4 of keys and values, cannot be exchanged among "
                      "3 ranks of context parallelism"),
            std::string::npos);
  EXPECT_NE(refusal("cp=16", kLlama), "");
  EXPECT_NE(refusal("cp=4,tp=4", kLlama).find("2 heads, 1 of"), std::string::npos);
  LlamaOptions three = kLlama;
  three.width = 60;
  three.heads = 6;
  three.kvHeads = 3;
  EXPECT_NE(refusal("cp=2", three), "");  // neither divides the other
  EXPECT_EQ(refusal("cp=3", three), "");
}

}  // namespace
}  // namespace tutti::parallel
