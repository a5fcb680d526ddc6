// Whole models' losses and gradients against an outside witness: model_witness.py, which
// knows only the definitions of the models, and differentiates by complex steps.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "parallel/kernels/host/host_kernels.h"
#include "parallel/nn/gpt.h"
#include "parallel/nn/llama.h"
#include "parallel/nn/loss.h"

namespace tutti::parallel {
namespace {

constexpr GptOptions kGpt{.vocabulary = 11, .context = 6, .layers = 2, .width = 8, .heads = 2};
constexpr LlamaOptions kLlama{.vocabulary = 11,
                              .context = 6,
                              .layers = 2,
                              .width = 16,
                              .heads = 4,
                              .kvHeads = 2,
                              .inner = 10,
                              .ropeBase = 100};
constexpr int kBatch = 2;

struct Witness {
  double loss = 0;
  std::map<std::string, std::vector<double>> gradients;
  double medianNorm = 0;
};

double norm(const std::vector<double>& values) {
  double total = 0;
  for (double v : values) total += v * v;
  return std::sqrt(total);
}

Witness readWitness(const std::string& path) {
  Witness witness;
  std::ifstream file(path);
  std::string name;
  file >> name >> witness.loss;
  size_t count = 0;
  while (file >> name >> count) {
    auto& values = witness.gradients[name];
    values.resize(count);
    for (double& value : values) file >> value;
  }
  std::vector<double> norms;
  for (const auto& [key, values] : witness.gradients) norms.push_back(norm(values));
  std::nth_element(norms.begin(), norms.begin() + static_cast<long>(norms.size() / 2), norms.end());
  witness.medianNorm = norms.at(norms.size() / 2);
  return witness;
}

struct Run {
  DeviceMesh mesh;
  HostKernels kernels;
  Arena scratch{"scratch"};
  Module& model;
  ParameterStore store;
  ActivationStash stash;
  ParallelContext context{mesh, kernels, store, scratch};
  double loss = 0;

  Run(Module& itsModel, bool deferWeights)
      : model(itsModel), store(mesh, kernels, {}, DType::Float64) {
    stash.deferWeights = deferWeights;
    model.declare(store);
    store.initialize(0);
    for (size_t p = 0; p < store.parameterCount(); ++p) {
      const Tensor weight = store.weight(store.parameter(p));
      for (int64_t i = 0; i < weight.count(); ++i) {
        const double e = static_cast<double>(i);
        weight.as<double>()[i] =
            0.6 * std::sin(1.0 + 2.3 * static_cast<double>(p) + 0.7 * e + 0.001 * e * e);
      }
    }
    step();
  }

  void step() {
    int32_t ids[kBatch * 6], labels[kBatch * 6];
    for (int b = 0; b < kBatch; ++b)
      for (int t = 0; t < 6; ++t) {
        ids[b * 6 + t] = (7 * b + 3 * t + t * t) % 11;
        labels[b * 6 + t] = (5 * b + 4 * t + 1) % 11;
      }
    labels[1 * 6 + 2] = -1;
    constexpr double perToken = 1.0 / 11;  // of 12 labels one does not count
    store.beginStep(1);
    const Tensor logits = model.forward(context, Tensor(ids, DType::Int32, {kBatch, 6}), stash);
    const Tensor labelTensor(labels, DType::Int32, {kBatch * 6});
    store.addLoss(crossEntropy(context, {.logits = logits,
                                         .labels = labelTensor,
                                         .vocabulary = kGpt.vocabulary,
                                         .scale = perToken}),
                  0);
    model.backward(context, logits, stash);
    if (stash.deferWeights) {
      stash.drain(context);
      stash.reset();
    }
    EXPECT_TRUE(stash.empty());
    EXPECT_EQ(scratch.usedBytes(), 0u);
    loss = store.finishLoss() * perToken;
  }
};

void expectWitness(Module& model, const std::string& file, bool deferWeights) {
  const Witness witness = readWitness(TUTTI_WITNESSES "/" + file);
  Run run(model, deferWeights);
  EXPECT_NEAR(run.loss, witness.loss, 1e-13 * witness.loss);
  ASSERT_EQ(run.store.parameterCount(), witness.gradients.size());
  double worst = 0;
  std::string where;
  for (size_t p = 0; p < run.store.parameterCount(); ++p) {
    const Parameter& parameter = run.store.parameter(p);
    ASSERT_EQ(witness.gradients.count(parameter.name), 1u) << parameter.name;
    const auto& expected = witness.gradients.at(parameter.name);
    const Tensor gradient = run.store.finishedGradient(parameter);
    ASSERT_EQ(static_cast<size_t>(gradient.count()), expected.size()) << parameter.name;
    std::vector<double> difference(expected.size());
    for (size_t i = 0; i < expected.size(); ++i)
      difference[i] = gradient.as<double>()[i] - expected[i];
    const double relative = norm(difference) / std::max(norm(expected), 1e-3 * witness.medianNorm);
    EXPECT_LE(relative, 1e-12) << parameter.name;
    if (relative > worst) worst = relative, where = parameter.name;
  }
  std::printf("worst relative difference %.2g, %s\n", worst, where.c_str());
}

class Witnessed : public testing::TestWithParam<bool> {};  // weight gradients are deferred

TEST_P(Witnessed, Gpt) {
  Gpt model(kGpt);
  expectWitness(model, "gpt_witness.txt", GetParam());
}
TEST_P(Witnessed, Llama) {
  Llama model(kLlama);
  expectWitness(model, "llama_witness.txt", GetParam());
}
INSTANTIATE_TEST_SUITE_P(WeightGradients, Witnessed, testing::Bool(),
                         [](const auto& test) { return test.param ? "Deferred" : "AtOnce"; });

}  // namespace
}  // namespace tutti::parallel
