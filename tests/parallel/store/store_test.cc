// The ParameterStore by itself: first values, refusals, and the order of the gradient tree.

#include "parallel/store/parameter_store.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "parallel/kernels/host/host_kernels.h"
#include "parallel/nn/gpt.h"
#include "parallel/store/gradient_tree.h"

namespace tutti::parallel {
namespace {

/// Weights of a Gpt by name, as the seed makes them.
class FirstValues : public testing::Test {
 protected:
  FirstValues() {
    model_.declare(store_);
    store_.initialize(1);
  }
  const Parameter& parameter(const std::string& name) {
    for (size_t i = 0; i < store_.parameterCount(); ++i)
      if (store_.parameter(i).name == name) return store_.parameter(i);
    fail(ErrorCode::InvalidArgument, "no parameter ", name);
  }
  const double* values(const std::string& name) {
    return store_.weight(parameter(name)).as<double>();
  }
  /// Root of the mean square.
  double size(const std::string& name) {
    const Tensor w = store_.weight(parameter(name));
    double total = 0;
    for (int64_t i = 0; i < w.count(); ++i) total += w.as<double>()[i] * w.as<double>()[i];
    return std::sqrt(total / static_cast<double>(w.count()));
  }

  DeviceMesh mesh_;
  HostKernels kernels_;
  Gpt model_{{.context = 32, .layers = 2, .width = 64, .heads = 2}};
  ParameterStore store_{mesh_, kernels_, {}, DType::Float64};
};

// As tensor_test's numbers, from a second implementation, times GPT-2's 0.02.
TEST_F(FirstValues, NeverChange) {
  const double* w = values("blocks.0.attention.query.weight");
  EXPECT_NEAR(w[0], 0.0071485646913899475, 1e-17);
  EXPECT_NEAR(w[1], -0.02318678000594668, 1e-17);
  EXPECT_NEAR(w[2], -0.011219892401312541, 1e-17);
}

// A sample of n has its root mean square within 1 / sqrt(2 n) of the true one, relatively; five
// such deviations are allowed, for the smallest of these, 2048 values: 0.078.
TEST_F(FirstValues, HaveTheirSizes) {
  const auto expectSize = [&](const std::string& name, double deviation) {
    EXPECT_NEAR(size(name) / deviation, 1, 0.078) << name;
  };
  expectSize("tokens", 0.05);
  expectSize("positions", 0.05);
  for (const std::string block : {"blocks.0.", "blocks.1."}) {
    for (const std::string map : {"query", "key", "value"})
      expectSize(block + "attention." + map + ".weight", 0.02);
    expectSize(block + "mlp.up.weight", 0.02);
    expectSize(block + "attention.project.weight", 0.01);  // 0.02 / sqrt(2 layers)
    expectSize(block + "mlp.down.weight", 0.01);
    for (const std::string zero : {"attention.key.bias", "mlp.down.bias", "beforeMlp.bias"})
      EXPECT_EQ(size(block + zero), 0);
    EXPECT_EQ(values(block + "beforeAttention.weight")[63], 1);
    EXPECT_EQ(size(block + "beforeMlp.weight"), 1);
  }
}

TEST(ParameterStore, RefusesWhatItCannotHold) {
  DeviceMesh mesh;
  HostKernels kernels;
  EXPECT_THROW(ParameterStore(mesh, kernels, {.gradients = true}, DType::Float32), Error);

  ParameterStore store(mesh, kernels, {}, DType::Float32);
  EXPECT_THROW(store.initialize(1), Error);  // nothing was added
  EXPECT_THROW(store.acquire(0, Phase::Forward), Error);
  EXPECT_THROW(store.beginStep(1), Error);
  Parameter first{.name = "first", .global = {2}, .unit = 0}, second = first, skips = first;
  second.unit = 1;
  skips.unit = 3;
  store.add(first);
  EXPECT_THROW(store.add(skips), Error);
  store.add(second);
  EXPECT_THROW(store.add(first), Error);  // units ascend
  store.initialize(1);
  Parameter late{.name = "late", .global = {1}, .unit = 1};
  EXPECT_THROW(store.add(late), Error);
  EXPECT_THROW(store.initialize(1), Error);
  EXPECT_THROW(store.weight(late), Error);
  EXPECT_THROW(store.beginStep(0), Error);
}

// A step whose gradients are not all there must not be taken for a finished one.
TEST(ParameterStore, RefusesAnIncompleteRound) {
  DeviceMesh mesh;
  HostKernels kernels;
  ParameterStore store(mesh, kernels, {}, DType::Float32);
  Parameter only{.name = "only", .global = {2}, .unit = 0};
  store.add(only);
  store.initialize(1);
  store.beginStep(2);
  EXPECT_THROW(store.weightsDone(0, 1), Error);  // micro-batch 0 comes first
  store.weightsDone(0, 0);
  EXPECT_THROW(store.clip(1), Error);
  EXPECT_THROW(store.finishedGradient(only), Error);
  EXPECT_THROW(store.gradient(only, 2), Error);
  store.weightsDone(0, 1);
  EXPECT_NO_THROW(store.finishedGradient(only));
}

// The merges of a binary counter leave one balanced tree at level 0.
TEST(GradientTree, IsBalanced) {
  for (int count : {1, 2, 4, 8, 16}) {
    std::vector<std::string> levels(static_cast<size_t>(treeLevels(count)));
    const std::function<std::string(int, int)> expected = [&](int begin, int size) {
      if (size == 1) return std::to_string(begin);
      return message("(", expected(begin, size / 2), "+", expected(begin + size / 2, size / 2),
                     ")");
    };
    for (int k = 0; k < count; ++k) {
      const GradientTreePlace place = treePlace(k);
      auto at = levels.begin() + place.level;
      *at = std::to_string(k);
      for (int i = 0; i < place.merges; ++i, --at)
        *(at - 1) = message("(", *(at - 1), "+", *at, ")");
    }
    EXPECT_EQ(levels[0], expected(0, count));
  }
}

}  // namespace
}  // namespace tutti::parallel
