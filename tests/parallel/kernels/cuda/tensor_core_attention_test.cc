// Trainings in bfloat16 with heads of 64 columns, whose attention tensor cores compute on emulated
// GPUs: of whole sequences, of the blocks that ranks along cp pass around and merge, and launched
// by graphs, with the tensor maps that were captured. Counts of kernels say that it was theirs.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>

#include "parallel/kernels/cuda/make_cuda_kernels.h"
#include "tests/emulation/runtime/launched_kernels.h"
#include "tests/parallel/kernels/cuda/setting.h"
#include "tests/parallel/parity/rungs.h"

namespace tutti::parallel {
namespace {

using emulation::LaunchedKernels;

// Two heads; Llama's share one of keys and values. More positions than a tile has.
constexpr int64_t kContext = 139;
std::vector<RunModel> wideHeads() {
  return {
      {"gpt", "",
       GptOptions{.vocabulary = 128, .context = kContext, .layers = 1, .width = 128, .heads = 2}},
      {"llama", "",
       LlamaOptions{.vocabulary = 128,
                    .context = kContext,
                    .layers = 1,
                    .width = 128,
                    .heads = 2,
                    .kvHeads = 1,
                    .inner = 64}}};
}

RunOptions oneStep(const RunModel& model) {
  return {.types = DType::BFloat16,
          .model = model.options,
          .batch = 2,
          .validationBytes = 300,
          .groups = 2};
}

RunOptions onGpus(const Arrangement& layout, const RunOptions& options) {
  RunOptions result = under(layout, options);
  result.gpuKernels = [](const DeviceMesh& mesh) { return makeCudaKernels(mesh.stream()); };
  return result;
}

template <class T>
double elementOf(const std::vector<char>& bytes, size_t i) {
  T value{};
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return double{value};
}
/// The length of the difference of one parameter's gradients, which are of these types.
template <class A, class B>
double distance(const std::vector<char>& a, const std::vector<char>& b) {
  double squares = 0;
  for (size_t i = 0; i < a.size() / sizeof(A); ++i)
    squares += std::pow(elementOf<A>(a, i) - elementOf<B>(b, i), 2);
  return std::sqrt(squares);
}

struct Taken {
  RunResult result;
  LaunchedKernels::Count forward, gradient;  ///< by wgmma; two of the latter a backward
  int64_t others;                            ///< of attention
  int64_t tall;                              ///< of forward
  bool inOnePass;
};
Taken taken(const RunOptions& options) {
  const LaunchedKernels kernels;
  Taken taken{.result = run(options)[0],
              .forward = {},
              .gradient = {},
              .others = 0,
              .tall = 0,
              .inOnePass = false};
  taken.forward = kernels.of("::wgmmaAttentionForward<");
  taken.tall = kernels.of("Numbers, 64, 3>").begun;
  for (const char* name :
       {"::wgmmaAttentionGradient<", "::onePassAttentionGradient<", "::finishQueryGradients<"}) {
    const LaunchedKernels::Count count = kernels.of(name);
    taken.gradient.asked += count.asked, taken.gradient.begun += count.begun;
    taken.inOnePass |= count.begun > 0 && name != std::string("::wgmmaAttentionGradient<");
  }
  for (const char* name : {"::attention<", "::attentionForward<", "::attentionQueryGradient<",
                           "::attentionKeyGradient<", "::attentionGradient<"})
    taken.others += kernels.of(name).begun;
  return taken;
}
/// Each has two: of queries, and of keys and values; or of both, and of what is left to do of
/// queries.
int64_t backwards(const Taken& all) { return all.gradient.begun / 2; }
/// What the environment asks for: one pass backward, and tall tiles forward besides.
bool asksForTall() {
  const char* const asked = std::getenv("TUTTI_ATTENTION");
  return asked != nullptr && asked == std::string("tall");
}
bool asksForOnePass() {
  const char* const asked = std::getenv("TUTTI_ATTENTION");
  return asksForTall() || (asked != nullptr && asked == std::string("onepass"));
}

// Of each parameter. Tensor cores' probabilities and gradients of scores are rounded to 16 bits,
// which float32's are not: two roundings more than the host's, among the dozens of a step, so that
// no error is twice the host's, as in the other rungs of 16 bits. Nor is the distance between two
// computations whose errors are as the host's and independent: sqrt(2) of that, and what the two
// roundings add. Of a key's bias, whose gradient is 0, rounding is all there is, and these two have
// the larger part in it.
void compare(const RunModel& model, const Arrangement& layout, const Float32Reference& reference) {
  const RunOptions options = onGpus(layout, oneStep(model));
  const Taken tuned = taken(options);
  EXPECT_GT(tuned.forward.begun, 0);
  EXPECT_GT(backwards(tuned), 0);
  EXPECT_EQ(tuned.inOnePass, asksForOnePass());
  EXPECT_EQ(tuned.tall, asksForTall() ? tuned.forward.begun : 0);
  EXPECT_EQ(tuned.others, 0);
  const Setting forced("TUTTI_ATTENTION", "reference");
  const Taken slow = taken(options);
  EXPECT_EQ(slow.forward.begun + slow.gradient.begun, 0);
  EXPECT_GT(slow.others, 0);

  const std::string on = (layout.name.empty() ? "one rank" : layout.name) + " on GPUs, ";
  Finding fromHost{"rung 2", on + model.name + ", heads of 64"};
  Finding fromReference{"rung 2", on + model.name + ", reference attention"};
  for (size_t p = 0; p < reference.right.size(); ++p) {
    const auto& right = reference.right[p];
    const auto &one = reference.one.gradients[p], &many = tuned.result.gradients[p];
    const std::string& name = reference.one.names[p];
    const double bound = (name.ends_with("key.bias") ? 4 : 2) * distance<double, float>(right, one);
    fromHost.note(distance<double, float>(right, many), bound, name);
    fromReference.note(distance<float, float>(slow.result.gradients[p], many), bound, name);
  }
  expectWithin(fromHost);
  expectWithin(fromReference);
  EXPECT_FALSE(slow.result.gradients == tuned.result.gradients);
}

TEST(TrainingByTensorCores, OfOneRank) {
  for (const RunModel& model : wideHeads())
    compare(model, arrangement(""), float32Reference(oneStep(model)));
}

// Blocks of keys that are passed around, and heads that are exchanged for positions.
TEST(TrainingByTensorCores, OfRanksThatShareOutSequences) {
  for (const RunModel& model : wideHeads()) {
    const Float32Reference reference = float32Reference(oneStep(model));
    compare(model, arrangement("cp=2"), reference);
    if (model.name == "gpt") compare(model, exchanging(arrangement("cp=2")), reference);
  }
}

// Gradients of norms' weights come from what the gradients of their inputs leave, in one pass over
// both; nothing computes them by a second one.
TEST(TrainingByTensorCores, HasNormsThatLeaveSums) {
  for (const RunModel& model : wideHeads()) {
    const LaunchedKernels kernels;
    run(onGpus(arrangement(""), oneStep(model)));
    EXPECT_GT(kernels.of("::normBackwardOfSlices<").begun, 0) << model.name;
    EXPECT_EQ(kernels.of("::normBackwardOfRows<").begun, 0) << model.name;
  }
}

// Three steps, of which only the first kernels of their kind are launched one by one: to the bit
// what they give where all are.
TEST(TrainingByTensorCores, AsGraphs) {
  for (const RunModel& model : wideHeads()) {
    SCOPED_TRACE(model.name);
    RunOptions options = onGpus(arrangement(""), oneStep(model));
    options.steps = 3;
    const Taken graphs = taken(options);
    const Setting none("TUTTI_GRAPHS", "0");
    const Taken single = taken(options);
    EXPECT_GT(graphs.forward.begun, graphs.forward.asked);
    EXPECT_GT(graphs.gradient.begun, graphs.gradient.asked);
    EXPECT_EQ(graphs.inOnePass, asksForOnePass());
    EXPECT_EQ(single.forward.begun, single.forward.asked);
    EXPECT_EQ(graphs.forward.begun, single.forward.begun);
    EXPECT_EQ(graphs.gradient.begun, single.gradient.begun);
    EXPECT_EQ(graphs.others + single.others, 0);
    EXPECT_EQ(graphs.result.losses, single.result.losses);
    EXPECT_TRUE(graphs.result.gradients == single.result.gradients);
    EXPECT_TRUE(graphs.result.weights == single.result.weights);
  }
}

}  // namespace
}  // namespace tutti::parallel
