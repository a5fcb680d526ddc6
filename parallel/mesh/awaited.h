#pragma once

// Awaited: for whom a rank waits, by what they do together. Metrics, traces and compare_strategies
// split time so, and all of them take what Trace has counted. The table of purposes (purpose.h)
// says for whom each exchange waits.

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

namespace tutti::parallel {

enum class Awaited : uint8_t {
  Pipeline,  ///< for what other stages give
  Data,      ///< for weights, and gradients of other tokens
  Tensor,    ///< for the other parts of a layer
  Context,   ///< for other positions of a sequence
  Experts,   ///< for tokens of experts, and their results
  All        ///< for sums of numbers of all ranks: losses, norms, verdicts
};
inline constexpr std::array kAwaited{Awaited::Pipeline, Awaited::Data,    Awaited::Tensor,
                                     Awaited::Context,  Awaited::Experts, Awaited::All};
const char* toString(Awaited awaited);  ///< "pipeline", "data", ...

/// Seconds, by for whom.
struct Waited {
  std::array<double, kAwaited.size()> seconds{};

  double& operator[](Awaited awaited) { return seconds[static_cast<size_t>(awaited)]; }
  double operator[](Awaited awaited) const { return seconds[static_cast<size_t>(awaited)]; }
  double total() const { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }
  Waited& operator+=(const Waited& more) {
    for (const Awaited awaited : kAwaited) (*this)[awaited] += more[awaited];
    return *this;
  }
  Waited since(const Waited& before) const {
    Waited result = *this;
    for (const Awaited awaited : kAwaited) result[awaited] -= before[awaited];
    return result;
  }
};

}  // namespace tutti::parallel
