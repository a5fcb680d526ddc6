#include "parallel/engine/generate.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "parallel/tensor/random.h"

namespace tutti::parallel {

namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// The last of the rows, of the first `vocabulary` or, for 0, of all tokens, in float64 whatever
/// the model computes in.
std::vector<double> lastRow(const Tensor& logits, int64_t vocabulary) {
  const int64_t width = logits.shape[-1], begin = logits.count() - width;
  const int64_t drawn = vocabulary > 0 ? std::min(vocabulary, width) : width;
  std::vector<double> row(static_cast<size_t>(drawn));
  for (int64_t i = 0; i < drawn; ++i)
    row[static_cast<size_t>(i)] = logits.type == DType::Float64 ? logits.as<double>()[begin + i]
                                                                : logits.as<float>()[begin + i];
  return row;
}

/// What the k largest have at least; equal ones may be more than k.
double leastOfTop(std::vector<double> logits, int64_t k) {
  const auto last = logits.begin() + std::min<int64_t>(k, std::ssize(logits)) - 1;
  std::nth_element(logits.begin(), last, logits.end(), std::greater<>());
  return *last;
}

/// Index i with probability proportional to exp(logits[i] / temperature), of the k largest or, for
/// k 0, of all; at temperature 0 the first of the largest.
int32_t sample(std::vector<double> logits, const GenerateOptions& o, double uniform) {
  const auto most = std::max_element(logits.begin(), logits.end());
  if (o.temperature == 0) return static_cast<int32_t>(most - logits.begin());
  const double least = o.topK > 0 ? leastOfTop(logits, o.topK) : *most - kNoLimit;
  double total = 0;
  for (const double largest = *most; double& logit : logits)
    total += logit = logit < least ? 0 : std::exp((logit - largest) / o.temperature);
  double left = uniform * total;
  for (size_t i = 0; i < logits.size(); ++i)
    if ((left -= logits[i]) < 0) return static_cast<int32_t>(i);
  return static_cast<int32_t>(most - logits.begin());  // of rounding: the last may have no chance
}

}  // namespace

std::vector<int32_t> generate(Engine& engine, const GenerateOptions& options) {
  require(options.temperature >= 0, "a temperature of ", options.temperature,
          ": 0 takes the likeliest token, more than 0 draws");
  require(
      options.tokens >= 0 && options.context > 0 && options.topK >= 0 && options.vocabulary >= 0,
      options.tokens, " tokens of the ", options.topK, " likeliest, from a context of ",
      options.context);
  require(!options.prompt.empty(), "a prompt of no tokens");
  require(!engine.scratch().dry(), "a dry run has no logits to choose from");
  const Random random(options.seed, "generate");
  std::vector<int32_t> text = options.prompt;
  for (int64_t i = 0; i < options.tokens; ++i) {
    const int64_t seen = std::min<int64_t>(std::ssize(text), options.context);
    const Tensor logits =
        engine.logits(Tensor(text.data() + (std::ssize(text) - seen), DType::Int32, {1, seen}));
    text.push_back(sample(lastRow(logits, options.vocabulary), options,
                          random.uniform(static_cast<uint64_t>(i))));
  }
  engine.forget();
  return {text.begin() + std::ssize(options.prompt), text.end()};
}

}  // namespace tutti::parallel
