#include "src/tools/perf_options.h"

#include <charconv>

#include "src/base/check.h"

namespace tutti::tools {

uint64_t parseBytes(const std::string& flag, const std::string& text) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, value);
  int shift = 0;
  if (error == std::errc() && rest + 1 == end) {
    switch (*rest++) {
      case 'k':
      case 'K': shift = 10; break;
      case 'm':
      case 'M': shift = 20; break;
      case 'g':
      case 'G': shift = 30; break;
      default: --rest;
    }
  }
  TUTTI_REQUIRE(error == std::errc() && rest == end && value <= UINT64_MAX >> shift, flag, " ",
                text, " is not a size: a whole number of bytes, or one with K, M or G");
  return value << shift;
}

std::vector<uint64_t> PerfOptions::sizes() const {
  if (collective == Collective::Barrier) return {0};
  std::vector<uint64_t> all;
  const uint64_t step = stepBytes ? stepBytes : uint64_t{1} << 20;
  for (uint64_t s = minBytes; s <= maxBytes;) {
    all.push_back(s);
    if (factor > 1 && s > 0) {
      if (s > UINT64_MAX / static_cast<uint64_t>(factor)) break;
      s *= static_cast<uint64_t>(factor);
    } else {
      s += factor > 1 ? sizeOf(type) : step;
    }
  }
  return all;
}

}  // namespace tutti::tools
