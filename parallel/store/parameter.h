#pragma once

// Parameter: what a module declares about one of its weights. It holds no memory: the
// ParameterStore decides where the values live, so that the same module runs under every sharding.

#include <cstdint>
#include <string>

#include "parallel/mesh/purpose.h"
#include "parallel/tensor/tensor.h"

namespace tutti::parallel {

/// Element i starts as a pure function of (seed, parameter name, i in the global tensor).
struct Init {
  enum Kind { Zero, One, Normal } kind = Zero;
  double deviation = 0;  ///< of Normal, whose mean is 0
};

/// Names a group of parameters that are gathered, reduced and released together: one block's.
using UnitId = int;

/// That what modules write of a gradient is a summand: each rank along `axes`, which are others
/// than those of the data-parallel ranks, has seen some of the rows, or some of the uses.
struct PartialGradient {
  AxisSet axes = {};  ///< none: it is the whole gradient
  Purpose purpose{};  ///< of the collective that adds up

  PartialGradient() = default;
  PartialGradient(AxisSet over, Purpose itsPurpose) : axes(over), purpose(itsPurpose) {}
};

struct Parameter {
  std::string name;  ///< global, stable: "blocks.0.attention.query.weight"
  Shape global;      ///< of the whole tensor, whatever the layout
  Init init;
  Layout layout;
  PartialGradient gradientPartial = {};
  UnitId unit = -1;
  bool perExpert = false;  ///< the first dimension counts experts, each with a weight of its own
  /// The parameter of another unit that this one is a copy of: the two have the same name, values
  /// and layout, and both are updated with the sum of their gradients.
  const Parameter* tiedTo = nullptr;
  /// Of the ranks of tensor parallelism the only one that has it, which is index `owner` modulo
  /// their number; -1: all do, whole or in part.
  int owner = -1;
  int id = -1;  ///< index among the store's that are here, set when it is added; -1: it is not here

  /// Along these axes ranks have other parts of the layout, or all of it is with one of them.
  AxisSet dividing() const { return owner < 0 ? layout.axes() : layout.axes() | kTensorAxes; }
  /// Weight decay applies to matrices only.
  bool decays() const { return global.rank() > (perExpert ? 2 : 1); }
};

}  // namespace tutti::parallel
