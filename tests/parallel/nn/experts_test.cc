// A mixture of experts on one rank: against a plain one, which goes from token to token and puts no
// rows together, its backward against differences of forward and of the plain one's losses, and at
// the edges.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "parallel/kernels/host/host_kernels.h"
#include "parallel/nn/gradcheck.h"
#include "parallel/nn/transformer.h"
#include "parallel/tensor/random.h"

namespace tutti::parallel {
namespace {

constexpr uint64_t kSeed = 5;
constexpr double kTolerance = 1e-10;  // derived in gradcheck.h
constexpr int64_t kWidth = 6, kInner = 5, kSequences = 2, kLength = 7;
constexpr double kBalance = 0.3, kZ = 0.2;

struct Case {
  std::string name;
  bool gated;
  ExpertOptions experts;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const bool gated : {false, true})
    for (const int64_t k : {1, 2, 3})
      for (const double factor : {0.0, 1.0, 0.4})
        for (const bool normalized : {false, true})
          all.push_back({message(gated ? "gated" : "gelu", ", ", k, " of 4, capacity ", factor,
                                 normalized ? ", normalized" : ""),
                         gated,
                         {.count = 4,
                          .perToken = k,
                          .capacityFactor = factor,
                          .auxLoss = kBalance,
                          .zLoss = kZ,
                          .normalized = normalized}});
  return all;
}

Experts makeExperts(const Case& c) {
  return Experts({.name = "block",
                  .width = kWidth,
                  .inner = kInner,
                  .gated = c.gated,
                  .bias = !c.gated,
                  .purposes = kMlpPurposes,
                  .experts = c.experts});
}

using Row = std::vector<double>;

/// weight [rows, columns] of an expert, times x, plus its bias.
Row product(const ParameterStore& all, ParameterStore& store, const std::string& name,
            int64_t expert, const Row& x, bool bias) {
  Row y;
  for (size_t p = 0; p < all.parameterCount(); ++p) {
    const Parameter& parameter = all.parameter(p);
    if (parameter.name != name + ".weight") continue;
    const auto rows = parameter.global[1], columns = parameter.global[2];
    const double* w = store.weight(parameter).as<double>() + expert * rows * columns;
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (int64_t c = 0; c < columns; ++c) sum += w[r * columns + c] * x[static_cast<size_t>(c)];
      y.push_back(sum);
    }
  }
  for (size_t p = 0; bias && p < all.parameterCount(); ++p)
    if (const Parameter& parameter = all.parameter(p); parameter.name == name + ".bias")
      for (size_t r = 0; r < y.size(); ++r)
        y[r] += store.weight(parameter)
                    .as<double>()[expert * parameter.global[1] + static_cast<int64_t>(r)];
  return y;
}

/// The plain mixture.
class Plain {
 public:
  Plain(const Case& c, ParameterStore& store) : case_(c), store_(store) {}

  struct Token {
    Row probabilities;
    double logSum = 0;
    std::vector<int64_t> chosen;
  };

  Token route(const double* x) {
    const Parameter& router = store_.parameter(0);
    EXPECT_EQ(router.name, "block.router.weight");
    const double* w = store_.weight(router).as<double>();
    const int64_t experts = case_.experts.count;
    Token token;
    double sum = 0;
    for (int64_t e = 0; e < experts; ++e) {
      double logit = 0;
      for (int64_t i = 0; i < kWidth; ++i) logit += w[e * kWidth + i] * x[i];
      token.probabilities.push_back(std::exp(logit));
      sum += token.probabilities.back();
      token.chosen.push_back(e);
    }
    for (double& p : token.probabilities) p /= sum;
    token.logSum = std::log(sum);
    std::stable_sort(token.chosen.begin(), token.chosen.end(), [&](int64_t a, int64_t b) {
      return token.probabilities[static_cast<size_t>(a)] >
             token.probabilities[static_cast<size_t>(b)];
    });
    token.chosen.resize(static_cast<size_t>(case_.experts.perToken));
    return token;
  }

  Row expert(int64_t e, const Row& x) {
    const std::string name = "block.experts.";
    Row up = product(store_, store_, name + "up", e, x, !case_.gated);
    if (case_.gated) {
      const Row gate = product(store_, store_, name + "gate", e, x, false);
      for (size_t i = 0; i < up.size(); ++i) up[i] *= gate[i] / (1 + std::exp(-gate[i]));
    } else {
      for (double& u : up)
        u = u / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (u + 0.044715 * u * u * u)));
    }
    return product(store_, store_, name + "down", e, up, !case_.gated);
  }

  /// y of all tokens; also how many choices were dropped.
  Row forward(const double* x) {
    Row all;
    dropped = 0;
    const ExpertOptions& o = case_.experts;
    const double share =
        o.capacityFactor * static_cast<double>(o.perToken * kLength) / static_cast<double>(o.count);
    for (int64_t s = 0; s < kSequences; ++s) {
      std::vector<double> got(static_cast<size_t>(o.count), 0);
      for (int64_t t = 0; t < kLength; ++t) {
        const double* row = x + (s * kLength + t) * kWidth;
        const Token token = route(row);
        double sum = 0;
        for (const int64_t e : token.chosen) sum += token.probabilities[static_cast<size_t>(e)];
        Row y(kWidth, 0);
        for (const int64_t e : token.chosen) {
          if (o.capacityFactor > 0 && got[static_cast<size_t>(e)] >= std::ceil(share)) {
            ++dropped;
            continue;
          }
          ++got[static_cast<size_t>(e)];
          const double weight =
              token.probabilities[static_cast<size_t>(e)] / (o.normalized ? sum : 1);
          const Row result = expert(e, {row, row + kWidth});
          for (size_t i = 0; i < y.size(); ++i) y[i] += weight * result[i];
        }
        all.insert(all.end(), y.begin(), y.end());
      }
    }
    return all;
  }

  /// Of both losses, as much as they count.
  double losses(const double* x) {
    double total = 0;
    const auto experts = static_cast<size_t>(case_.experts.count);
    for (int64_t s = 0; s < kSequences; ++s) {
      Row share(experts, 0), mean(experts, 0);
      for (int64_t t = 0; t < kLength; ++t) {
        const Token token = route(x + (s * kLength + t) * kWidth);
        for (size_t e = 0; e < experts; ++e) mean[e] += token.probabilities[e] / kLength;
        for (const int64_t e : token.chosen)
          share[static_cast<size_t>(e)] +=
              1.0 / static_cast<double>(kLength * case_.experts.perToken);
        total += kZ * token.logSum * token.logSum / kLength;
      }
      for (size_t e = 0; e < experts; ++e)
        total += kBalance * static_cast<double>(experts) * share[e] * mean[e];
    }
    return total;
  }

  int dropped = 0;

 private:
  const Case& case_;
  ParameterStore& store_;
};

/// Experts, with one more row whose first element is the plain mixture's losses.
class WithLosses final : public Module {
 public:
  explicit WithLosses(const Case& c) : case_(c), experts_(makeExperts(c)) {}
  void declare(ParameterStore& store) override { experts_.declare(store); }
  Tensor forward(ParallelContext& context, const Tensor& x, ActivationStash& stash) override {
    const Tensor y = experts_.forward(context, x, stash);
    const Tensor all = stash.untilWeights.allocate(x.type, {x.shape[0] + 1, kWidth});
    context.kernels.fillZero(all);
    context.kernels.copy(y, all.rows(0, x.shape[0]));
    all.as<double>()[x.count()] = Plain(case_, context.store).losses(x.as<double>());
    return all;
  }
  Tensor backward(ParallelContext& context, const Tensor& dy, ActivationStash& stash) override {
    const Tensor rows = dy.rows(0, dy.shape[0] - 1);
    context.experts.perSequence = dy.as<double>()[rows.count()];
    return experts_.backward(context, rows, stash);
  }

 private:
  const Case& case_;
  Experts experts_;
};

Tensor normalInput(Arena& arena) {
  const Tensor x = arena.allocate(DType::Float64, {kSequences, kLength, kWidth});
  const Random random(kSeed, "input");
  for (int64_t i = 0; i < x.count(); ++i)
    x.as<double>()[i] = random.normal(static_cast<uint64_t>(i));
  return x;
}

TEST(Experts, BackwardBelongsToForwardAndTheLosses) {
  Arena arena("input");
  const Tensor x = normalInput(arena);
  for (const Case& c : cases()) {
    DeviceMesh mesh;
    HostKernels kernels;
    WithLosses module(c);
    const GradcheckReport report = gradcheck(mesh, kernels, module, {.input = x, .seed = kSeed});
    std::printf("%s: %lld elements, worst %.2g at %s\n", c.name.c_str(),
                static_cast<long long>(report.elements), report.worst, report.where.c_str());
    EXPECT_LE(report.worst, kTolerance) << c.name << ", " << report.where << ", seed " << kSeed;
  }
}

/// One rank's experts with weights that are far from zero.
struct OneRank {
  explicit OneRank(const Case& c)
      : experts(makeExperts(c)), store(mesh, kernels, {}, DType::Float64) {
    experts.declare(store);
    store.initialize(kSeed);
    for (size_t p = 0; p < store.parameterCount(); ++p) {
      const Tensor weight = store.weight(store.parameter(p));
      for (int64_t i = 0; i < weight.count(); ++i)
        weight.as<double>()[i] = std::sin(static_cast<double>(i) * 0.7 + static_cast<double>(p));
    }
    beginTokens(context, {kSequences, kLength}, stash);
    context.experts.perSequence = 1;
  }
  Tensor forward(const Tensor& x) { return experts.forward(context, x.matrix(), stash); }
  /// What backward gives of dy = y, and leaves in the store.
  Tensor step(const Tensor& x) {
    store.beginStep(1);
    stash.openUnit(0);
    const Tensor y = forward(x);
    const Tensor dx = experts.backward(context, y, stash);
    const Tensor kept = memory.allocate(dx.type, dx.shape);
    kernels.copy(dx, kept);
    stash.closeUnit(context, {});
    store.addLoss(0, 0);
    return kept;
  }
  Tensor gradient(const std::string& name) {
    for (size_t p = 0; p < store.parameterCount(); ++p)
      if (store.parameter(p).name == name) return store.finishedGradient(store.parameter(p));
    ADD_FAILURE() << name;
    return {};
  }
  const RouterTally& tally() const { return context.experts.tally; }

  HostKernels kernels;
  DeviceMesh mesh;
  Experts experts;
  ParameterStore store;
  Arena scratch{"scratch"}, memory{"test"};
  ActivationStash stash;
  ParallelContext context{mesh, kernels, store, scratch};
};

TEST(Experts, GiveWhatAPlainMixtureGives) {
  Arena arena("input");
  const Tensor x = normalInput(arena);
  int dropped = 0;
  for (const Case& c : cases()) {
    OneRank rank(c);
    Plain plain(c, rank.store);
    const Row right = plain.forward(x.as<double>());
    const Tensor y = rank.forward(x);
    double worst = 0;
    for (int64_t i = 0; i < y.count(); ++i)
      worst = std::max(worst, std::fabs(y.as<double>()[i] - right[static_cast<size_t>(i)]));
    EXPECT_LE(worst, 1e-12) << c.name;
    dropped += plain.dropped;
  }
  EXPECT_GT(dropped, 50);
}

// The tally has the losses, and the choices that were not dropped.
TEST(Experts, TallyWhatTheyDid) {
  Arena arena("input");
  const Tensor x = normalInput(arena);
  for (const Case& c : cases()) {
    OneRank rank(c);
    Plain plain(c, rank.store);
    plain.forward(x.as<double>());
    rank.step(x);
    const RouterTally& tally = rank.tally();
    EXPECT_NEAR(kBalance * tally.balance + kZ * tally.z, plain.losses(x.as<double>()), 1e-12);
    double got = 0;
    for (const double load : tally.loads) got += load;
    EXPECT_EQ(tally.choices, kSequences * kLength * c.experts.perToken);
    EXPECT_EQ(got, tally.choices - plain.dropped) << c.name;
  }
}

/// With a router that gives everything to one expert, and all others the same.
void expectOneExpertOnly(Case c, int64_t only, double got) {
  Arena arena("input");
  const Tensor x = arena.allocate(DType::Float64, {kSequences, kLength, kWidth});
  for (int64_t i = 0; i < x.count(); ++i)
    x.as<double>()[i] = 1 + std::cos(static_cast<double>(i)) / 8;
  OneRank rank(c);
  const Tensor router = rank.store.weight(rank.store.parameter(0));
  for (int64_t i = 0; i < router.count(); ++i) router.as<double>()[i] = i / kWidth == only ? 1 : -1;
  for (int step = 0; step < 2; ++step) rank.step(x);
  for (int64_t e = 0; e < c.experts.count; ++e) {
    EXPECT_EQ(rank.tally().loads[static_cast<size_t>(e)], e == only ? 2 * got : 0);
    for (const std::string name : {"up.weight", "down.weight", "up.bias", "down.bias"}) {
      const Tensor gradient = rank.gradient("block.experts." + name).rows(e, 1);
      double sum = 0;
      for (int64_t i = 0; i < gradient.count(); ++i) sum += std::fabs(gradient.as<double>()[i]);
      EXPECT_EQ(sum > 0, e == only) << name << ", expert " << e;
    }
  }
}

TEST(Experts, MayGetNothingOrEverything) {
  Case c{"", false, {.count = 4, .perToken = 1, .normalized = false}};
  for (const int64_t only : {0, 2, 3}) expectOneExpertOnly(c, only, kSequences * kLength);
  c.experts.capacityFactor = 0.6;  // ceil(1.05) of each sequence
  expectOneExpertOnly(c, 1, kSequences * 2);
  c.experts.capacityFactor = 1e-9;  // one at least
  expectOneExpertOnly(c, 1, kSequences);
  c.experts.capacityFactor = 1e9;
  expectOneExpertOnly(c, 1, kSequences * kLength);
}

// Of equal probabilities the lower numbers, and of these the first tokens.
TEST(Experts, TiesGoToLowerNumbers) {
  HostKernels kernels;
  Arena arena("test");
  const Tensor logits = arena.allocate(DType::Float64, {6, 4});
  for (int64_t i = 0; i < logits.count(); ++i) logits.as<double>()[i] = i % 4 == 2 ? 1.0 : 0.5;
  const auto ints = [&](const Shape& shape) { return arena.allocate(DType::Int32, shape); };
  const auto doubles = [&](const Shape& shape) { return arena.allocate(DType::Float64, shape); };
  const Tensor chosen = ints({6, 3}), places = ints({6, 3}), pieces = ints({2, 2, 4}),
               choices = ints({2, 4});
  kernels.route({.logits = logits,
                 .probabilities = doubles({6, 4}),
                 .logSumExp = doubles({6}),
                 .chosen = chosen,
                 .weights = doubles({6, 3})});
  std::vector<int64_t> loads(4);
  kernels.countChoices({.chosen = chosen, .choices = pieces, .early = 1});
  kernels.placeTokens({.chosen = chosen,
                       .places = places,
                       .pieces = pieces,
                       .choices = choices,
                       .early = 1,
                       .length = 3,
                       .capacity = 2,
                       .loads = loads});
  const std::vector<int32_t> expert(chosen.as<int32_t>(), chosen.as<int32_t>() + 3);
  EXPECT_EQ(expert, (std::vector{2, 0, 1}));
  EXPECT_EQ(loads, (std::vector<int64_t>{4, 4, 4, 0}));
  const std::vector<int32_t> all(places.as<int32_t>(), places.as<int32_t>() + 18);
  EXPECT_EQ(all, (std::vector{8, 0, 4, 9, 1, 5, -1, -1, -1, 10, 2, 6, 11, 3, 7, -1, -1, -1}));
  for (int64_t i = 0; i < choices.count(); ++i)
    EXPECT_EQ(choices.as<int32_t>()[i], i % 4 == 3 ? 0 : 3);
}

// A stack of biases is no matrix.
TEST(Experts, DecayOfMatricesOnly) {
  OneRank rank({"", false, {.count = 4}});
  EXPECT_EQ(rank.store.parameterCount(), 5U);
  for (size_t p = 0; p < rank.store.parameterCount(); ++p) {
    const Parameter& parameter = rank.store.parameter(p);
    EXPECT_EQ(parameter.decays(), parameter.name.ends_with(".weight")) << parameter.name;
  }
}

TEST(Experts, BadOptionsAreRefused) {
  const auto refused = [](const ExpertOptions& options, const std::string& named) {
    try {
      check(options, 4);
      ADD_FAILURE() << named << " was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
      EXPECT_NE(std::string(error.what()).find(named), std::string::npos) << error.what();
    }
  };
  EXPECT_NO_THROW(check(ExpertOptions{.count = 2}, 4));
  refused({.count = -1}, "-1 experts");
  refused({.count = 4, .perToken = 0}, "0 of 4");
  refused({.count = 4, .perToken = 5}, "5 of 4");
  refused({.count = 4, .capacityFactor = -1}, "-1");
  refused({.count = 4, .capacityFactor = HUGE_VAL}, "inf");
  refused({.count = 4, .auxLoss = -1}, "-1");
  refused({.count = 4, .zLoss = std::nan("")}, "nan");
  refused({.count = 4, .every = 0}, "0th");
  refused({.count = 4, .every = 5}, "5th");
}

}  // namespace
}  // namespace tutti::parallel
