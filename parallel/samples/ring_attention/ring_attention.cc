// ring_attention: one layer of attention over a sequence that ranks share out, forward and
// backward, in both ways: keys and values go round a ring, or positions are exchanged for heads.
// Each rank also computes the whole by itself and compares: results, gradients of the input and of
// the weights, in float64; and what the layer saved, held at most and sent against formulas.
// `--device dry` says that of lengths that no machine here has. `ring_attention --ranks 4 --length
// 4096`

#include <CLI/CLI.hpp>
#include <cmath>

#include "parallel/engine/describe.h"
#include "parallel/nn/transformer.h"
#include "parallel/samples/device.h"
#include "parallel/samples/elements.h"
#include "parallel/samples/options/flags.h"
#include "parallel/samples/ring_attention/attention_layer.h"
#include "parallel/samples/ring_attention/ring_drawing.h"
#include "parallel/samples/sample.h"
#include "parallel/tensor/random.h"
#include "src/base/one_of.h"

namespace {

using namespace tutti::parallel;

constexpr double kRounding = 1e-12;  // of float64's 1e-16, for sums of thousands of terms

struct RingOptions {
  AttentionLayer layer{.length = 1024, .width = 64, .heads = 4, .kvHeads = 4};
  std::string attention = "both";
  std::string svg;  // a file; empty: none
};

void addFlags(CLI::App& app, RingOptions& options) {
  AttentionLayer& o = options.layer;
  const auto add = [&](const char* flag, int64_t& value, const char* about) {
    app.add_option(flag, value, about)->check(positiveSize())->capture_default_str();
  };
  add("--length", o.length, "positions of the sequence: a multiple of twice the ranks");
  add("--width", o.width, "of a position");
  add("--heads", o.heads, "of queries");
  add("--kv-heads", o.kvHeads, "of keys and values");
  app.add_option("--attention", options.attention, "ring, heads, or both of them in turn")
      ->check(tutti::base::oneOf({"ring", "heads", "both"}))
      ->capture_default_str();
  app.add_option("--svg", options.svg, "write the ring, step by step, to this file as a picture");
}

void check(const AttentionLayer& o, int ranks) {
  const int64_t pieces = int64_t{2} * ranks;
  require(o.length % pieces == 0, "--length ", o.length, " is no multiple of twice ", ranks,
          ranks == 1 ? " rank" : " ranks", ": the next is --length ",
          (o.length / pieces + 1) * pieces);
  require(o.width % o.heads == 0, "--width ", o.width, " does not split into ", o.heads, " heads");
  require(o.heads % o.kvHeads == 0, "--heads ", o.heads, " do not share --kv-heads ", o.kvHeads,
          " evenly");
}

/// What came of forward and backward on this rank.
struct Computed {
  std::vector<double> result, inputGradient;  // of its positions
  std::vector<double> weightGradients;        // of all weights: some, as the keys' bias, have none
  LayerCost cost;
};

/// The layer on one rank of `mesh`, with everything that it needs.
class Layer {
 public:
  Layer(DeviceMesh& mesh, Kernels& kernels, const AttentionLayer& o)
      : mesh_(mesh),
        options_(o),
        attention_({.name = "layer",
                    .width = o.width,
                    .heads = o.heads,
                    .kvHeads = o.kvHeads,
                    .deviation = 0.1,
                    .residualDeviation = 0.1,
                    .context = o.attention}),
        store_(mesh, kernels, ShardPolicy::ddp(), DType::Float64),
        memory_("input", mesh.backing()),
        scratch_("scratch", mesh.backing()),
        stash_(mesh.backing()),
        context_{mesh, kernels, store_, scratch_} {
    attention_.declare(store_);
    store_.initialize(kSampleSeed);
  }

  Computed compute() {
    const Tensor x = positions("input"), dy = positions("gradient of the result");
    Computed computed;
    store_.beginStep(1);
    stash_.openUnit(0);
    beginTokens(context_, {1, options_.length}, stash_);
    const size_t before = sentBytes();
    const Tensor y = attention_.forward(context_, x, stash_);
    computed.cost.forward = sentBytes() - before;
    computed.cost.saved = stash_.untilBackward.usedBytes() + stash_.untilWeights.usedBytes();
    if (!mesh_.dry()) computed.result = elementsOf(mesh_, y);
    const Tensor dx = stash_.closeUnit(context_, attention_.backward(context_, dy, stash_));
    computed.cost.backward = sentBytes() - before - computed.cost.forward;
    computed.cost.peak =
        stash_.untilBackward.peakBytes() + stash_.untilWeights.peakBytes() + scratch_.peakBytes();
    store_.addLoss(0, 0);
    store_.finishLoss();
    if (mesh_.dry()) return computed;
    computed.inputGradient = elementsOf(mesh_, dx);
    for (const Parameter* parameter : store_.declared())
      for (const double gradient : elementsOf(mesh_, store_.finishedGradient(*parameter)))
        computed.weightGradients.push_back(gradient);
    return computed;
  }

 private:
  /// This rank's positions of a sequence of numbers, each a function of its place in the whole.
  Tensor positions(const std::string& what) {
    const Shape own = context_.sequences.own({1, options_.length});
    const Tensor x = memory_.allocate(DType::Float64, {own[1], options_.width});
    if (mesh_.dry()) return x;
    const Random random(kSampleSeed, what);
    const int64_t width = options_.width;
    std::vector<double> elements;
    const SequenceCut cut = context_.sequences.cutOf(options_.length);
    for (const Range& piece : cut.pieces(context_.sequences.rank()))
      for (int64_t i = piece.begin * width; i < piece.end * width; ++i)
        elements.push_back(random.normal(static_cast<uint64_t>(i)));
    setElements(mesh_, x, elements);
    return x;
  }

  /// Of the layer, to other ranks: of an exchange of n blocks one stays. The store's sums of weight
  /// gradients, which do not grow with the length, are not counted.
  size_t sentBytes() {
    const MeshCommunicator* group = mesh_.communicator({Axis::Context});
    if (group == nullptr) return 0;
    const auto ranks = static_cast<size_t>(options_.ranks);
    return group->counters().sent.bytes + group->counters().allToAll.bytes / ranks * (ranks - 1);
  }

  DeviceMesh& mesh_;
  const AttentionLayer options_;
  Attention attention_;
  ParameterStore store_;
  Arena memory_, scratch_;
  ActivationStash stash_;
  ParallelContext context_;
};

/// Relative to the largest element.
double largestDifference(const std::vector<double>& a, const std::vector<double>& b) {
  ensure(a.size() == b.size(), a.size(), " numbers and ", b.size());
  double most = 0, difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::fabs(a[i]));
    difference = std::max(difference, std::fabs(a[i] - b[i]));
  }
  return most > 0 ? difference / most : difference;
}

/// Of a sequence's rows, those of this rank's positions.
std::vector<double> ownRows(const std::vector<double>& all, const AttentionLayer& o, int rank) {
  std::vector<double> own;
  for (const Range& piece : SequenceCut{o.length, o.ranks}.pieces(rank))
    own.insert(own.end(), all.begin() + piece.begin * o.width, all.begin() + piece.end * o.width);
  return own;
}

/// The worst of all there is.
double difference(const Computed& whole, const Computed& part, const AttentionLayer& o, int rank) {
  return std::max({largestDifference(ownRows(whole.result, o, rank), part.result),
                   largestDifference(ownRows(whole.inputGradient, o, rank), part.inputGradient),
                   largestDifference(whole.weightGradients, part.weightGradients)});
}

void sayAndCheck(SampleRank& rank, const AttentionLayer& o, const LayerCost& counted) {
  const LayerCost predicted = predict(o);
  const auto line = [&](const char* what, size_t LayerCost::*part) {
    rank.say(message("  ", what, bytesText(counted.*part), ", predicted ",
                     bytesText(predicted.*part), "\n"));
    ensure(counted.*part == predicted.*part, "rank ", rank.mesh.rank(), ": ", what, counted.*part,
           " bytes, and ", predicted.*part, " were predicted");
  };
  line("saved activations  ", &LayerCost::saved);
  line("peak activations   ", &LayerCost::peak);
  line("sent in forward    ", &LayerCost::forward);
  line("sent in backward   ", &LayerCost::backward);
}

/// The whole, by this rank and its device.
Computed computeAlone(SampleRank& rank, const AttentionLayer& o) {
  if (rank.mesh.dry()) {
    DeviceMesh alone = DeviceMesh::dry({}, 0, o.device);
    return Layer(alone, rank.kernels, o).compute();
  }
  DeviceMesh alone(rank.mesh.device());
  const auto kernels = kernelsFor(alone);
  return Layer(alone, *kernels, o).compute();
}

void attend(SampleRank& rank, const RingOptions& options) {
  AttentionLayer o = options.layer;
  check(o, rank.mesh.ranks());
  require(options.svg.empty() || options.attention != "heads",
          "--svg draws the ring, and --attention heads has none");
  const std::string picture =
      options.svg.empty() ? "" : ringSvg({.length = o.length, .ranks = rank.mesh.ranks()});
  o.device = kindOf(rank.options.device);
  const Computed whole = computeAlone(rank, o);
  rank.say(message("one rank: ", o.length, " positions of ", o.width, "\n"));
  sayAndCheck(rank, o, whole.cost);
  o.ranks = rank.mesh.ranks();
  for (const ContextAttention way : {ContextAttention::Ring, ContextAttention::Heads}) {
    const std::string name = way == ContextAttention::Ring ? "ring" : "heads";
    if (o.ranks == 1 || (options.attention != "both" && options.attention != name)) continue;
    o.attention = way;
    const Computed part = Layer(rank.mesh, rank.kernels, o).compute();
    rank.say(message(name, ", ", o.ranks, " ranks: ", o.own(), " positions each\n"));
    sayAndCheck(rank, o, part.cost);
    if (rank.mesh.dry()) continue;
    const double worst = difference(whole, part, o, rank.mesh.rank());
    rank.say(message("  worst difference from one rank  ", worst, "\n"));
    ensure(worst <= kRounding, "rank ", rank.mesh.rank(), " differs by ", worst);
  }
  if (!options.svg.empty()) rank.write("--svg", options.svg, picture);
}

}  // namespace

int main(int argc, char** argv) {
  RingOptions options;
  return runSample(
      argc, argv,
      {.name = "ring_attention",
       .about = "Computes attention over a sequence that ranks share out, in two ways.",
       .flags = [&](CLI::App& app, SampleOptions&) { addFlags(app, options); },
       .mesh = [](int ranks) { return MeshShape::along(Axis::Context, ranks); },
       .train = [&](SampleRank& rank) { attend(rank, options); }});
}
