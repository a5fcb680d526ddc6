#include "parallel/engine/generate.h"

#include <algorithm>
#include <cmath>

#include "parallel/tensor/random.h"

namespace tutti::parallel {

namespace {

/// The last of the rows, in float64 whatever the model computes in.
std::vector<double> lastRow(const Tensor& logits) {
  const int64_t width = logits.shape[-1], begin = logits.count() - width;
  std::vector<double> row(static_cast<size_t>(width));
  for (int64_t i = 0; i < width; ++i)
    row[static_cast<size_t>(i)] = logits.type == DType::Float64 ? logits.as<double>()[begin + i]
                                                                : logits.as<float>()[begin + i];
  return row;
}

/// Index i with probability proportional to exp(logits[i] / temperature); at 0 the first of the
/// largest.
size_t sample(std::vector<double> logits, double temperature, double uniform) {
  const auto most = std::max_element(logits.begin(), logits.end());
  if (temperature == 0) return static_cast<size_t>(most - logits.begin());
  double total = 0;
  for (const double largest = *most; double& logit : logits)
    total += logit = std::exp((logit - largest) / temperature);
  double left = uniform * total;
  for (size_t i = 0; i < logits.size(); ++i)
    if ((left -= logits[i]) < 0) return i;
  return logits.size() - 1;
}

}  // namespace

std::string generate(Engine& engine, const GenerateOptions& options) {
  require(options.temperature >= 0, "a temperature of ", options.temperature,
          ": 0 takes the likeliest byte, more than 0 samples");
  require(options.bytes >= 0 && options.context > 0, options.bytes, " bytes from a context of ",
          options.context);
  require(!engine.scratch().dry(), "a dry run has no logits to choose from");
  const Random random(options.seed, "generate");
  const std::string prompt = options.prompt.empty() ? "\n" : options.prompt;
  std::string text = prompt;
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < options.bytes; ++i) {
    const size_t seen = std::min(text.size(), static_cast<size_t>(options.context));
    ids.assign(seen, 0);
    std::transform(text.end() - static_cast<std::ptrdiff_t>(seen), text.end(), ids.begin(),
                   [](char c) { return static_cast<unsigned char>(c); });
    const Tensor logits =
        engine.logits(Tensor(ids.data(), DType::Int32, {1, static_cast<int64_t>(seen)}));
    text += static_cast<char>(
        sample(lastRow(logits), options.temperature, random.uniform(static_cast<uint64_t>(i))));
  }
  engine.saved().reset();
  return text.substr(prompt.size());
}

}  // namespace tutti::parallel
