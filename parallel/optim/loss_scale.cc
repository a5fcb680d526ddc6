#include "parallel/optim/loss_scale.h"

#include <algorithm>
#include <cmath>

#include "parallel/tensor/check.h"

namespace tutti::parallel {

namespace {

void requirePowerOfTwo(const char* what, double value) {
  int exponent = 0;
  require(std::isfinite(value) && value > 0 && std::frexp(value, &exponent) == 0.5, what, " ",
          value, " is no power of two");
}

}  // namespace

void LossScaling::check() const {
  requirePowerOfTwo("a loss scale of", initial);
  requirePowerOfTwo("a least loss scale of", minimum);
  requirePowerOfTwo("a growth of the loss scale by", growth);
  require(initial >= minimum, "a loss scale of ", initial, " is below the least, ", minimum);
  require(growth > 1, "a loss scale that grows by ", growth);
  require(growthSteps >= 0, "a loss scale that grows after ", growthSteps, " steps");
  require(patience >= 1, "a loss scale that shrinks after ", patience, " overflows");
}

LossScale::LossScale(const LossScaling& options)
    : options_(options), state_{.current = options.initial, .patience = options.patience} {
  options.check();
}

bool LossScale::update(bool overflowed) {
  if (options_.growthSteps == 0) return true;
  if (!overflowed) {
    if (++state_.goodSteps < options_.growthSteps) return true;
    // Where it would overflow a float32, which gradients are added up in, it has no use.
    state_ = {.current = std::min(state_.current * options_.growth, 0x1p100),
              .patience = options_.patience};
    return true;
  }
  state_.goodSteps = 0;
  if (state_.patience > 1) {
    --state_.patience;
    return true;
  }
  const bool smaller = state_.current > options_.minimum;
  state_.current = std::max(state_.current / options_.growth, options_.minimum);
  return smaller;
}

}  // namespace tutti::parallel
