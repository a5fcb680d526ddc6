#pragma once

// LossScale: the factor that keeps small gradients above what float16 can hold. The loss's gradient
// is multiplied by it before backward, and the weights' gradients are divided by it before they are
// clipped. It grows while all goes well, and where a gradient is no longer finite it shrinks and
// the step is skipped. Source: Micikevicius et al., "Mixed Precision Training".

#include <cstdint>

namespace tutti::parallel {

/// Factors are powers of two, so that scaling rounds nothing.
struct LossScaling {
  double initial = 65536;
  double growth = 2;           ///< it grows by that, and shrinks by that
  int64_t growthSteps = 2000;  ///< after so many good steps in a row; 0: it stays as it is
  int patience = 1;            ///< overflows until it shrinks, since it last grew (hysteresis)
  double minimum = 1;          ///< it shrinks no further

  /// Throws InvalidArgument unless the scales are powers of two, initial at least `minimum`, growth
  /// above 1, and the counts not below 0, patience not below 1.
  void check() const;
};

/// What a checkpoint keeps of it.
struct LossScaleState {
  double current = 1;
  int64_t goodSteps = 0;  ///< since it changed, or since an overflow
  int64_t patience = 1;   ///< overflows that are left until it shrinks
  bool operator==(const LossScaleState&) const = default;
};

class LossScale {
 public:
  /// Throws InvalidArgument as LossScaling::check().
  explicit LossScale(const LossScaling& options);

  double value() const { return state_.current; }
  const LossScaleState& state() const { return state_; }
  void restored(const LossScaleState& state) { state_ = state; }

  /// After a step. False when it has overflowed with the least scale: smaller ones cannot help.
  bool update(bool overflowed);

 private:
  LossScaling options_;
  LossScaleState state_;
};

}  // namespace tutti::parallel
