// Every module's backward against its forward, in float64, at every element. The device is the
// argument: host, or in a program with emulated GPUs, emulated.

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "parallel/nn/gpt.h"
#include "parallel/nn/gradcheck.h"
#include "parallel/nn/llama.h"
#include "parallel/samples/device.h"
#include "parallel/tensor/random.h"
#include "tests/support/test_main.h"

namespace tutti::parallel {
namespace {

constexpr uint64_t kSeed = 5;
constexpr double kTolerance = 1e-10;  // derived in gradcheck.h

std::string device = "host";
const tests::Arguments commandLine{{"[DEVICE]", &device}};

GradcheckReport checked(Module& module, const GradcheckOptions& options) {
  DeviceMesh mesh(deviceFor(device, 0));
  const auto kernels = kernelsFor(mesh);
  const GradcheckReport report = gradcheck(mesh, *kernels, module, options);
  std::printf("%lld elements, worst %.2g at %s\n", static_cast<long long>(report.elements),
              report.worst, report.where.c_str());
  return report;
}

struct Input {
  explicit Input(const Shape& shape) : x(arena.allocate(DType::Float64, shape)) {
    const Random random(kSeed, "input");
    for (int64_t i = 0; i < x.count(); ++i)
      x.as<double>()[i] = random.normal(static_cast<uint64_t>(i));
  }
  Arena arena{"input"};
  Tensor x;
};

void expectRight(Module& module, const Shape& shape) {
  Input input(shape);
  const GradcheckReport report = checked(module, {.input = input.x, .seed = kSeed});
  EXPECT_LE(report.worst, kTolerance) << report.where << ", seed " << kSeed;
}

TEST(Gradcheck, ColumnLinear) {
  ColumnLinear module(
      {.maps = {{"first", 5}, {"second", 3}, {"third", 1}}, .purposes = kMlpPurposes, .inputs = 7});
  expectRight(module, {6, 7});
}

TEST(Gradcheck, RowLinear) {
  RowLinear module({.name = "linear", .purposes = kMlpPurposes, .inputs = 7, .outputs = 5});
  expectRight(module, {6, 7});
}

TEST(Gradcheck, LayerNorm) {
  LayerNorm module({.name = "norm", .width = 19});
  expectRight(module, {5, 19});
}

TEST(Gradcheck, Mlp) {
  Mlp module({.name = "block", .width = 6, .heads = 1});
  expectRight(module, {4, 6});
}

TEST(Gradcheck, Attention) {
  Attention module({.name = "block", .width = 6, .heads = 3, .kvHeads = 3});
  expectRight(module, {2, 5, 6});
}

TEST(Gradcheck, AttentionOfSeveralBlocksOfRows) {
  Attention module({.name = "block", .width = 2, .heads = 1, .kvHeads = 1});
  expectRight(module, {1, 131, 2});
}

TEST(Gradcheck, Block) {
  GptBlock module({.name = "block", .width = 8, .heads = 2});
  expectRight(module, {2, 4, 8});
}

TEST(Gradcheck, ParallelBlock) {
  ParallelBlock module(gptParts({.name = "block", .width = 8, .heads = 2}), false);
  expectRight(module, {2, 4, 8});
}

TEST(Gradcheck, LinearWithoutBias) {
  ColumnLinear columns({.maps = {{"first", 5}, {"second", 3}},
                        .purposes = kMlpPurposes,
                        .inputs = 7,
                        .bias = false});
  expectRight(columns, {6, 7});
  RowLinear rows(
      {.name = "linear", .purposes = kMlpPurposes, .inputs = 7, .outputs = 5, .bias = false});
  expectRight(rows, {6, 7});
}

TEST(Gradcheck, RmsNorm) {
  RmsNorm module({.name = "norm", .width = 19});
  expectRight(module, {5, 19});
}

TEST(Gradcheck, SwiGluMlp) {
  SwiGluMlp module({.name = "block", .width = 6, .inner = 9});
  expectRight(module, {4, 6});
}

TEST(Gradcheck, RotaryAttentionWithFewerHeadsOfKeys) {
  for (const int64_t kvHeads : {1, 2, 4}) {
    RotaryAttention module({.name = "block",
                            .context = 5,
                            .width = 16,
                            .heads = 4,
                            .kvHeads = kvHeads,
                            .ropeBase = 50});
    expectRight(module, {2, 5, 16});
  }
}

TEST(Gradcheck, RotaryAttentionOfSeveralBlocksOfRows) {
  RotaryAttention module(
      {.name = "block", .context = 71, .width = 4, .heads = 2, .kvHeads = 1, .ropeBase = 50});
  expectRight(module, {1, 71, 4});
}

TEST(Gradcheck, LlamaBlock) {
  LlamaBlock module({.name = "block",
                     .context = 4,
                     .width = 8,
                     .heads = 2,
                     .kvHeads = 1,
                     .inner = 5,
                     .ropeBase = 50});
  expectRight(module, {2, 4, 8});
}

/// `weightScale`: the difference's own error is that of the model's fifth derivative, which is
/// small only where one layer after the other is nearly linear.
void expectRight(Module& model, double weightScale) {
  int32_t ids[8] = {0, 3, 3, 6, 1, 0, 5, 2};
  const GradcheckReport report = checked(
      model,
      {.input = Tensor(ids, DType::Int32, {2, 4}), .seed = kSeed, .weightScale = weightScale});
  EXPECT_LE(report.worst, kTolerance) << report.where << ", seed " << kSeed;
  EXPECT_GT(report.elements, 700);
}

TEST(Gradcheck, WholeGpt) {
  Gpt model({.vocabulary = 7, .context = 5, .layers = 2, .width = 6, .heads = 2});
  expectRight(model, 0.5);
}

TEST(Gradcheck, WholeLlama) {
  for (const bool tied : {false, true}) {
    Llama model({.vocabulary = 7,
                 .context = 5,
                 .layers = 2,
                 .width = 16,
                 .heads = 4,
                 .kvHeads = 2,
                 .inner = 5,
                 .ropeBase = 50,
                 .tied = tied});
    expectRight(model, 0.15);
  }
}

/// A module whose backward is wrong by `factor`: what gradcheck is for.
class Wrong final : public Module {
 public:
  explicit Wrong(double factor) : factor_(factor) {}
  Tensor forward(ParallelContext& context, const Tensor& x, ActivationStash& stash) override {
    return right_.forward(context, x, stash);
  }
  Tensor backward(ParallelContext& context, const Tensor& dy, ActivationStash& stash) override {
    const Tensor dx = right_.backward(context, dy, stash);
    std::vector<double> wrong(static_cast<size_t>(dx.count()));
    context.mesh.download(dx, wrong.data());
    for (double& element : wrong) element *= factor_;
    context.mesh.upload(wrong.data(), dx);
    return dx;
  }
  void declare(ParameterStore& store) override { right_.declare(store); }

 private:
  double factor_;
  RowLinear right_{{.name = "linear", .purposes = kMlpPurposes, .inputs = 3, .outputs = 3}};
};

TEST(Gradcheck, SeesAWrongFactor) {
  Input input({2, 3});
  Wrong module(1 + 1e-8);
  const GradcheckReport report = checked(module, {.input = input.x, .seed = kSeed});
  EXPECT_GT(report.worst, kTolerance);
  EXPECT_EQ(report.where.substr(0, 5), "input");
}

}  // namespace
}  // namespace tutti::parallel
