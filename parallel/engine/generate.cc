#include "parallel/engine/generate.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "parallel/tensor/random.h"

namespace tutti::parallel {

namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// Of the first `vocabulary` or, for 0, of all tokens.
std::vector<double> numbersOf(const DeviceMesh& mesh, const Tensor& logits, int64_t vocabulary) {
  std::vector<double> numbers(static_cast<size_t>(logits.count()));
  mesh.download(logits, numbers.data());
  if (vocabulary > 0) numbers.resize(std::min(numbers.size(), static_cast<size_t>(vocabulary)));
  return numbers;
}

/// The tokens that are to be computed next. Once the text is longer than the context each of them
/// has another position with every token, and what was seen before is of no use.
Tensor unseen(std::vector<int32_t>& text, bool goesOn, KeyValues& before) {
  const auto length = std::ssize(text);
  if (!goesOn || length > before.capacity()) before.forget();
  const int64_t count = std::min<int64_t>(length - before.seen(), before.capacity());
  return Tensor(text.data() + (length - count), DType::Int32, {1, count});
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

int64_t seenAtOnce(const GenerateOptions& options) {
  const auto prompt = std::ssize(options.prompt);
  if (prompt >= options.context) return options.context;
  return prompt + std::min(options.tokens, options.context - prompt);
}

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
  KeyValues before(seenAtOnce(options), engine.mesh().backing());
  for (int64_t i = 0; i < options.tokens && !(options.stop && options.stop()); ++i) {
    const Tensor logits = engine.nextLogits(unseen(text, engine.goesOn(), before), before);
    text.push_back(sample(numbersOf(engine.mesh(), logits, options.vocabulary), options,
                          random.uniform(static_cast<uint64_t>(i))));
  }
  engine.forget();
  return {text.begin() + std::ssize(options.prompt), text.end()};
}

}  // namespace tutti::parallel
