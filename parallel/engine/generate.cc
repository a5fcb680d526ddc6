#include "parallel/engine/generate.h"

#include <algorithm>
#include <cmath>

#include "parallel/tensor/random.h"

namespace tutti::parallel {

namespace {

/// Index i with probability proportional to exp(logits[i] / temperature).
int64_t sample(const float* logits, int64_t count, double temperature, double uniform) {
  const double most = *std::max_element(logits, logits + count);
  std::vector<double> weights(static_cast<size_t>(count));
  double total = 0;
  for (int64_t i = 0; i < count; ++i)
    total += weights[static_cast<size_t>(i)] = std::exp((logits[i] - most) / temperature);
  double left = uniform * total;
  for (int64_t i = 0; i < count; ++i)
    if ((left -= weights[static_cast<size_t>(i)]) < 0) return i;
  return count - 1;
}

/// Length of the UTF-8 character at `at`, or 0 when there is none.
size_t characterBytes(const std::string& text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  if (lead == '\n' || lead == '\t' || (lead >= 0x20 && lead < 0x7f)) return 1;
  const size_t length = lead >= 0xf1 && lead <= 0xf3   ? 4
                        : lead >= 0xe1 && lead <= 0xec ? 3
                        : lead >= 0xc3 && lead <= 0xdf ? 2
                                                       : 0;  // rarer leads are not worth a table
  if (length == 0 || at + length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  return length;
}

}  // namespace

std::string generate(Engine& engine, const GenerateOptions& options) {
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
    const int64_t vocabulary = logits.shape[2];
    const float* last = logits.as<float>() + (static_cast<int64_t>(seen) - 1) * vocabulary;
    text += static_cast<char>(
        sample(last, vocabulary, options.temperature, random.uniform(static_cast<uint64_t>(i))));
  }
  engine.saved().reset();
  return text.substr(prompt.size());
}

std::string printable(const std::string& text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t length = characterBytes(text, at);
    result += length == 0 ? std::string("?") : text.substr(at, length);
    at += std::max<size_t>(1, length);
  }
  return result;
}

}  // namespace tutti::parallel
