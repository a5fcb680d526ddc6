// The engine against numbers worked out by hand: what the loss, the gradient and the validation
// loss are means over, and of what.

#include "parallel/engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "parallel/kernels/host/host_kernels.h"

namespace tutti::parallel {
namespace {

constexpr int64_t kContext = 5, kVocabulary = 4;

/// The model whose logits are one vector of weights, whatever it sees.
class Unigram final : public Model {
 public:
  Tensor forward(ParallelContext& context, UnitRange, const Tensor& ids,
                 ActivationStash& saved) override {
    saved.openUnit(0);
    context.store.acquire(0, Phase::Forward);
    const Tensor weight = context.store.weight(logits_);
    const Tensor y =
        saved.untilWeights.allocate(weight.type, {ids.shape[0], ids.shape[1], kVocabulary});
    for (int64_t row = 0; row < ids.count(); ++row)
      std::memcpy(y.as<double>() + row * kVocabulary, weight.data, weight.bytes());
    context.store.release(0, Phase::Forward);
    return y;
  }
  Tensor backward(ParallelContext& context, UnitRange, const Tensor& dy,
                  ActivationStash& saved) override {
    context.store.acquire(0, Phase::Backward);
    saved.work.push_back({[this, dy](ParallelContext& c, int microBatch) {
      const GradientSlot slot = c.store.gradient(logits_, microBatch);
      c.kernels.biasGradient(dy, slot.buffer, slot.beta);
    }});
    saved.closeUnit(context, {});
    context.store.release(0, Phase::Backward);
    return {};
  }
  void declare(ParameterStore& store) override { store.add(logits_); }
  int64_t vocabulary() const override { return kVocabulary; }
  UnitId unitCount() const override { return 1; }
  std::vector<int64_t> unitCosts() const override { return {1}; }
  Shape shapeBetween(const ParallelContext&, const Shape&) const override { return {}; }
  const Parameter& parameter() const { return logits_; }

 private:
  Parameter logits_{.name = "logits", .global = {kVocabulary}, .unit = 0};
};

/// An engine over a Unigram whose logits are 0, 1, 0, -1.
struct Setting {
  DeviceMesh mesh;
  HostKernels kernels;
  Unigram model;
  Engine engine;
  double logSum;

  explicit Setting(int groups)
      : engine(mesh, kernels, model, {.types = DType::Float64, .reductionGroups = groups}) {
    double* w = engine.store().weight(model.parameter()).as<double>();
    w[1] = 1;
    w[3] = -1;
    logSum = std::log(2 + std::exp(1.0) + std::exp(-1.0));
  }
  double lossOf(uint8_t token) const { return logSum - (token == 1) + (token == 3); }
};

std::vector<uint8_t> makeText(size_t size) {
  std::vector<uint8_t> text(size);
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<uint8_t>(i * i % 7 % kVocabulary);
  return text;
}

// float64 over at most 400 terms of about 1: 1e-13 is 400 roundings, 100 of them more than enough.
constexpr double kTolerance = 1e-13;

/// Loss, gradient and norm of a step against sums over the labels of its whole batch.
void expectMeans(Loader& loader, int64_t step, int groups) {
  Setting s(groups);
  const double loss = s.engine.gradients(loader, step);
  const Batch whole = loader.next(step, {0, 1});
  double sum = 0, tokens = 0, counts[kVocabulary] = {};
  for (int64_t i = 0; i < whole.labels.count(); ++i) {
    const int32_t label = whole.labels.as<int32_t>()[i];
    if (label < 0) continue;
    sum += s.lossOf(static_cast<uint8_t>(label));
    ++counts[label];
    ++tokens;
  }
  EXPECT_EQ(static_cast<double>(loader.countedTokens(step)), tokens);
  EXPECT_NEAR(loss, sum / tokens, kTolerance) << groups << " micro-batches";
  double squares = 0;
  for (size_t v = 0; v < kVocabulary; ++v) {
    const double slope = std::exp(-s.lossOf(static_cast<uint8_t>(v))) - counts[v] / tokens;
    const Tensor gradient = s.engine.store().finishedGradient(s.model.parameter());
    EXPECT_NEAR(gradient.as<double>()[v], slope, kTolerance) << groups << ", token " << v;
    squares += slope * slope;
  }
  EXPECT_NEAR(s.engine.store().clip(0), std::sqrt(squares), kTolerance);
}

TEST(Engine, LossAndGradientAreMeansOverTheGlobalBatch) {
  const auto text = makeText(400);
  for (const int groups : {1, 2, 4}) {
    Loader loader(text, kContext, 8, 3);
    expectMeans(loader, 2, groups);
  }
}

/// Of 1 to 12 tokens, of which some have a prompt.
std::vector<Document> makeDocuments(int64_t size) {
  std::vector<Document> documents;
  for (int64_t i = 0, begin = 0; begin < size; ++i) {
    const int64_t end = std::min(size, begin + 1 + i * 5 % 12);
    documents.push_back({begin, end, i % 2 == 0 ? 0 : 6});
    begin = end;
  }
  return documents;
}

// Each label that counts weighs as much as another one, in whatever micro-batch it is.
TEST(Engine, LossAndGradientAreMeansOverTheLabelsThatCount) {
  const auto text = makeText(400);
  const Documents documents(makeDocuments(400), kContext);
  for (const int groups : {1, 2, 4, 8})
    for (const int64_t step : {0, 1, 2, 3}) {
      Loader loader(text, documents, 8, 3);
      expectMeans(loader, step, groups);
    }
  Loader loader(text, documents, 8, 3);
  Setting s(4);
  const auto sgd = makeSgd({});
  EXPECT_EQ(s.engine.step(loader, 1, *sgd, 0.1).tokens, loader.countedTokens(1));
  EXPECT_LT(loader.countedTokens(1), 8 * kContext);
}

TEST(Engine, RefusesABatchWithoutLabelsThatCount) {
  const auto text = makeText(40);
  const Documents prompts({{0, 20, 20}, {20, 40, 30}}, kContext);
  Loader loader(text, prompts, 4, 3);
  Windows windows(text, prompts);
  Setting s(4);
  EXPECT_THROW(s.engine.gradients(loader, 0), Error);
  EXPECT_THROW(s.engine.evaluate(windows, 4), Error);
}

TEST(Engine, ValidationLossIsTheMeanOverTheLabelsThatCount) {
  const auto text = makeText(400);
  Windows windows(text, Documents(makeDocuments(400), kContext));
  double sum = 0;
  int64_t tokens = 0;
  Setting s(1);
  const Batch all = windows.read(0, windows.count());
  for (int64_t i = 0; i < all.labels.count(); ++i)
    if (const int32_t label = all.labels.as<int32_t>()[i]; label >= 0) {
      sum += s.lossOf(static_cast<uint8_t>(label));
      ++tokens;
    }
  EXPECT_LT(tokens, 300);
  for (const int64_t sequences : {1, 3, 1000})
    EXPECT_NEAR(s.engine.evaluate(windows, sequences), sum / static_cast<double>(tokens),
                kTolerance);
}

// Every byte but the first counts once, however the windows are taken; 401 bytes leave no short
// window, 398 leave one.
TEST(Engine, ValidationLossIsTheMeanOverTheText) {
  for (size_t size : {401u, 398u, 2u}) {
    const auto text = makeText(size);
    double expected = 0;
    Setting s(1);
    for (size_t i = 1; i < size; ++i) expected += s.lossOf(text[i]) / static_cast<double>(size - 1);
    for (int64_t sequences : {1, 3, 1000}) {
      Windows windows(text, kContext);
      EXPECT_NEAR(s.engine.evaluate(windows, sequences), expected, kTolerance)
          << size << " bytes, " << sequences << " at a time";
    }
  }
}

// Before each batch, with the windows that are behind.
TEST(Engine, ValidationAsksWhetherToStop) {
  const auto text = makeText(401);
  Windows windows(text, kContext);
  Setting s(1);
  std::vector<int64_t> asked, all;
  for (int64_t done = 0; done < windows.count(); done += 3) all.push_back(done);
  ASSERT_GT(all.size(), 2u);
  EXPECT_TRUE(s.engine.evaluate(windows, 3, [&](int64_t done) {
    asked.push_back(done);
    return false;
  }));
  EXPECT_EQ(asked, all);
  EXPECT_EQ(s.engine.evaluate(windows, 3, [](int64_t done) { return done > 3; }), std::nullopt);
}

TEST(Engine, StepReportsTheLossBeforeTheUpdateAndDescends) {
  const auto text = makeText(400);
  Setting s(1);
  Loader loader(text, kContext, 8, 3);
  const auto sgd = makeSgd({});
  const StepReport first = s.engine.step(loader, 0, *sgd, 0.5);
  const StepReport again = s.engine.step(loader, 0, *sgd, 0.5);  // the same samples
  EXPECT_LT(again.loss, first.loss);
  Setting fresh(1);
  EXPECT_EQ(fresh.engine.gradients(loader, 0), first.loss);
}

}  // namespace
}  // namespace tutti::parallel
