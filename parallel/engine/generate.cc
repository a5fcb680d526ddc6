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

/// The character that `lead` begins, if it is UTF-8: its length, the bits of the lead that count,
/// and the least code point that needs so many bytes.
struct Lead {
  size_t length = 0;
  uint32_t bits = 0, least = 0;
};
Lead leadOf(unsigned char lead) {
  if (lead < 0x80) return {1, lead, 0};
  if (lead >> 5 == 0b110) return {2, lead & 0x1fu, 0x80};
  if (lead >> 4 == 0b1110) return {3, lead & 0xfu, 0x800};
  if (lead >> 3 == 0b11110) return {4, lead & 7u, 0x10000};
  return {};
}

bool shows(uint32_t point) {
  const bool control = point < 0x20 || (point >= 0x7f && point < 0xa0);
  const bool surrogate = point >= 0xd800 && point < 0xe000;
  return point == '\n' || point == '\t' || (!control && !surrogate && point <= 0x10ffff);
}

/// Length of the UTF-8 character at `at`, or 0 when there is none that a terminal shows.
size_t characterBytes(const std::string& text, size_t at) {
  const Lead lead = leadOf(static_cast<unsigned char>(text[at]));
  if (lead.length == 0 || at + lead.length > text.size()) return 0;
  uint32_t point = lead.bits;
  for (size_t i = 1; i < lead.length; ++i) {
    const auto byte = static_cast<unsigned char>(text[at + i]);
    if (byte >> 6 != 0b10) return 0;
    point = point << 6 | (byte & 0x3fu);
  }
  return point >= lead.least && shows(point) ? lead.length : 0;
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
  engine.forget();
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
