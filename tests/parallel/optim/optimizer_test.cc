// The optimizers, the schedule, clipping and weight decay, against their definitions: numbers
// worked out here by the textbook's formulas, not by the library's.

#include "parallel/optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "parallel/kernels/host/host_kernels.h"
#include "parallel/store/parameter_store.h"

namespace tutti::parallel {
namespace {

constexpr int kElements = 5;

struct Moments {
  double weight, first = 0, second = 0;
};

/// "Decoupled Weight Decay Regularization" (Loshchilov and Hutter), algorithm 2, one element.
void adamWByHand(Moments& m, double gradient, int step, double rate, const AdamWOptions& o) {
  m.first = o.beta1 * m.first + (1 - o.beta1) * gradient;
  m.second = o.beta2 * m.second + (1 - o.beta2) * gradient * gradient;
  const double first = m.first / (1 - std::pow(o.beta1, step));
  const double second = m.second / (1 - std::pow(o.beta2, step));
  m.weight -= rate * (first / (std::sqrt(second) + o.epsilon) + o.weightDecay * m.weight);
}

/// Five steps with other gradients, and an epsilon and a decay that are large enough to be seen.
/// float64: each step has some 15 roundings, so 1e-14 of the numbers, which are about 1.
TEST(AdamW, FollowsItsDefinition) {
  const AdamWOptions options{.beta1 = 0.8, .beta2 = 0.9, .epsilon = 0.05, .weightDecay = 0.3};
  const auto optimizer = makeAdamW(options);
  ASSERT_EQ(optimizer->stateCount(), 2);
  for (bool decay : {true, false}) {
    std::vector<double> weight{1, -1, 0.5, 2, -3}, gradient(kElements), m(kElements), v(kElements);
    std::vector<Moments> expected(weight.size());
    for (size_t i = 0; i < weight.size(); ++i) expected[i].weight = weight[i];
    const auto view = [](std::vector<double>& x) {
      return Tensor(x.data(), DType::Float64, {kElements});
    };
    std::vector<Tensor> state{view(m), view(v)};
    HostKernels kernels;
    AdamWOptions byHand = options;
    if (!decay) byHand.weightDecay = 0;
    for (int step = 1; step <= 5; ++step) {
      for (size_t i = 0; i < gradient.size(); ++i)
        gradient[i] = std::sin(static_cast<double>(3 * step) + static_cast<double>(i));
      const double rate = 0.1 / step;
      optimizer->beginStep(step, rate);
      const UpdateArgs update{
          .weight = view(weight), .gradient = view(gradient), .state = state, .decay = decay};
      optimizer->update({&update, 1}, 0.25, kernels);
      for (size_t i = 0; i < weight.size(); ++i) {
        adamWByHand(expected[i], 0.25 * gradient[i], step, rate, byHand);
        EXPECT_NEAR(weight[i], expected[i].weight, 1e-14) << "step " << step << ", " << i;
      }
    }
  }
}

// The first step of Adam is learning rate times sign, whatever the gradient: what the two bias
// corrections are for.
TEST(AdamW, FirstStepHasTheSizeOfTheRate) {
  const auto optimizer = makeAdamW({.epsilon = 1e-30, .weightDecay = 0});
  float weight[3] = {1, 1, 1}, gradient[3] = {1e-3f, -7, 300}, m[3] = {}, v[3] = {};
  std::vector<Tensor> state{Tensor(m, DType::Float32, {3}), Tensor(v, DType::Float32, {3})};
  HostKernels kernels;
  optimizer->beginStep(1, 0.125);
  const UpdateArgs update{.weight = Tensor(weight, DType::Float32, {3}),
                          .gradient = Tensor(gradient, DType::Float32, {3}),
                          .state = state};
  optimizer->update({&update, 1}, 1, kernels);
  // Six roundings in the quotient of about 1, one in the weight.
  EXPECT_NEAR(weight[0], 0.875, 1e-6);
  EXPECT_NEAR(weight[1], 1.125, 1e-6);
  EXPECT_NEAR(weight[2], 0.875, 1e-6);
}

TEST(Sgd, FollowsItsDefinition) {
  const auto optimizer = makeSgd({.weightDecay = 0.5});
  EXPECT_EQ(optimizer->stateCount(), 0);
  HostKernels kernels;
  for (bool decay : {true, false}) {
    double weight[2] = {2, -4}, gradient[2] = {8, 1};
    optimizer->beginStep(1, 0.25);
    const UpdateArgs update{.weight = Tensor(weight, DType::Float64, {2}),
                            .gradient = Tensor(gradient, DType::Float64, {2}),
                            .state = {},
                            .decay = decay};
    optimizer->update({&update, 1}, 0.5, kernels);
    EXPECT_EQ(weight[0], decay ? 2 - 0.25 * (4 + 1) : 2 - 0.25 * 4);
    EXPECT_EQ(weight[1], decay ? -4 - 0.25 * (0.5 - 2) : -4 - 0.25 * 0.5);
  }
}

// PyTorch's: decay belongs to the gradient, and the rate is applied behind the velocity. Numbers
// that binary fractions hold exactly.
TEST(Sgd, KeepsItsVelocity) {
  const auto optimizer = makeSgd({.weightDecay = 0.5, .momentum = 0.75});
  ASSERT_EQ(optimizer->stateCount(), 1);
  EXPECT_EQ(optimizer->stateNames()[0], "momentum_buffer");
  HostKernels kernels;
  double weight = 2, velocity = 0, expected = 2, byHand = 0;
  std::vector<Tensor> state{Tensor(&velocity, DType::Float64, {1})};
  for (const double rate : {0.25, 0.5, 0.125}) {
    double gradient = 8 * rate;
    optimizer->beginStep(1, rate);
    const UpdateArgs update{.weight = Tensor(&weight, DType::Float64, {1}),
                            .gradient = Tensor(&gradient, DType::Float64, {1}),
                            .state = state};
    optimizer->update({&update, 1}, 0.5, kernels);
    byHand = 0.75 * byHand + (0.5 * gradient + 0.5 * expected);
    expected -= rate * byHand;
    EXPECT_EQ(velocity, byHand);
    EXPECT_EQ(weight, expected);
  }
}

// Whichever optimizer, and with a velocity or without: the weight behind the update, rounded to
// bfloat16.
TEST(Optimizers, WriteCopies) {
  HostKernels kernels;
  std::vector<std::unique_ptr<Optimizer>> all;
  all.push_back(makeAdamW({}));
  all.push_back(makeSgd({}));
  all.push_back(makeSgd({.momentum = 0.75}));
  for (const auto& optimizer : all) {
    float weight[3] = {1, -2.125f, 300}, gradient[3] = {1e-3f, -7, 300}, first[3] = {},
          second[3] = {};
    uint16_t copy[3] = {}, expected[3] = {};
    const std::vector<Tensor> state{Tensor(first, DType::Float32, {3}),
                                    Tensor(second, DType::Float32, {3})};
    optimizer->beginStep(1, 0.125);
    const UpdateArgs update{
        .weight = Tensor(weight, DType::Float32, {3}),
        .gradient = Tensor(gradient, DType::Float32, {3}),
        .state = std::span(state).first(static_cast<size_t>(optimizer->stateCount())),
        .copy = Tensor(copy, DType::BFloat16, {3})};
    optimizer->update({&update, 1}, 1, kernels);
    EXPECT_NE(weight[0], 1);
    kernels.copy(update.weight, Tensor(expected, DType::BFloat16, {3}));
    EXPECT_TRUE(std::equal(copy, copy + 3, expected));
  }
}

TEST(CosineSchedule, GoesThroughItsLandmarks) {
  const CosineSchedule s{.peak = 2, .warmupSteps = 10, .totalSteps = 110, .finalFraction = 0.1};
  EXPECT_DOUBLE_EQ(s.at(1), 0.2);
  EXPECT_DOUBLE_EQ(s.at(5), 1);
  EXPECT_DOUBLE_EQ(s.at(10), 2);
  EXPECT_DOUBLE_EQ(s.at(35), 0.2 + 1.8 * (1 + std::sqrt(0.5)) / 2);
  EXPECT_DOUBLE_EQ(s.at(60), (2 + 0.2) / 2);
  EXPECT_DOUBLE_EQ(s.at(110), 0.2);
  EXPECT_DOUBLE_EQ(s.at(111), 0.2);  // and stays there
  EXPECT_DOUBLE_EQ(s.at(100000), 0.2);
  for (int64_t step = 11; step <= 110; ++step) EXPECT_LT(s.at(step), s.at(step - 1)) << step;
  EXPECT_DOUBLE_EQ((CosineSchedule{.peak = 3, .totalSteps = 1}.at(1)), 3 * 0.1);
  EXPECT_DOUBLE_EQ((CosineSchedule{.peak = 3, .warmupSteps = 5, .totalSteps = 5}.at(5)), 3);
}

/// A matrix and a bias in a store of one rank, with gradients that the test writes.
struct Pair {
  DeviceMesh mesh;
  HostKernels kernels;
  Parameter matrix{.name = "m", .global = {2, 2}, .init = {Init::One}, .unit = 0};
  Parameter bias{.name = "b", .global = {1}, .init = {Init::One}, .unit = 0};
  ParameterStore store{mesh, kernels, {}, DType::Float64};

  explicit Pair(const std::vector<double>& gradients) {
    store.add(matrix);
    store.add(bias);
    store.initialize(1);
    store.beginStep(1);
    auto* m = store.gradient(matrix, 0).buffer.as<double>();
    for (size_t i = 0; i < 4; ++i) m[i] = gradients[i];
    *store.gradient(bias, 0).buffer.as<double>() = gradients[4];
    store.weightsDone(0, 0);
    store.addLoss(0, 0);
  }
  double weight(const Parameter& parameter, int i = 0) {
    return store.weight(parameter).as<double>()[i];
  }
};

TEST(Clip, ScalesTheWholeGradientToTheLargestNorm) {
  const auto optimizer = makeSgd({});
  Pair large({2, 4, 4, 0, 8});  // norm 10
  EXPECT_EQ(large.store.clip(5), 10);
  large.store.step(*optimizer, 1);
  EXPECT_EQ(large.weight(large.matrix, 0), 1 - 1);
  EXPECT_EQ(large.weight(large.matrix, 1), 1 - 2);
  EXPECT_EQ(large.weight(large.bias), 1 - 4);
  for (double bound : {0.0, 10.0, 11.0}) {  // off, just enough, more than enough
    Pair small({2, 4, 4, 0, 8});
    EXPECT_EQ(small.store.clip(bound), 10);
    small.store.step(*optimizer, 1);
    EXPECT_EQ(small.weight(small.bias), 1 - 8) << "clipped to " << bound;
  }
}

/// Notes of how many parameters it was told in each call.
class Counting final : public Optimizer {
 public:
  std::span<const std::string> stateNames() const override { return {}; }
  void beginStep(int64_t, double) override {}
  void update(std::span<const UpdateArgs> all, double gradientScale, Kernels&) override {
    counts.push_back(all.size());
    EXPECT_EQ(gradientScale, 0.5);
  }
  std::vector<size_t> counts;
};

TEST(Update, IsOfAllParametersTogether) {
  Pair pair({2, 4, 4, 0, 8});  // norm 10
  pair.store.clip(5);
  Counting optimizer;
  pair.store.step(optimizer, 1);
  EXPECT_EQ(optimizer.counts, std::vector<size_t>{2});
}

TEST(WeightDecay, IsOfMatricesOnly) {
  Pair pair({0, 0, 0, 0, 0});
  pair.store.clip(0);
  pair.store.step(*makeSgd({.weightDecay = 0.5}), 0.5);
  EXPECT_EQ(pair.weight(pair.matrix), 0.75);
  EXPECT_EQ(pair.weight(pair.bias), 1);
}

}  // namespace
}  // namespace tutti::parallel
