#pragma once

// What the table of memory_cases.h is made with.

#include <string>
#include <utility>
#include <vector>

#include "bench/gpu/memory_cases.h"
#include "parallel/kernels/norm_slices.h"

namespace tutti::bench {

using parallel::Kernels;
using Tensors = std::span<const Tensor>;

inline constexpr DType kNarrow = DType::BFloat16, kWide = DType::Float32, kInt = DType::Int32;

using ShapeOf = std::function<Shape(int64_t)>;

inline ShapeOf fixed(const Shape& shape) {
  return [shape](int64_t) { return shape; };
}
/// `units` of them.
inline ShapeOf each(const Shape& shape) {
  return [shape](int64_t units) {
    std::vector<int64_t> extents{units};
    for (int i = 0; i < shape.rank(); ++i) extents.push_back(shape[i]);
    return Shape(extents);
  };
}
inline MemoryOperand in(DType type, ShapeOf shape, Content content = Content::Random) {
  return {type, std::move(shape), content};
}
inline MemoryOperand out(DType type, ShapeOf shape) {
  return {type, std::move(shape), Content::Random, false, true};
}
inline MemoryOperand updated(DType type, ShapeOf shape, Content content = Content::Random) {
  return {type, std::move(shape), content, true, true};
}

/// A call that returns nothing.
template <class Body>
auto quiet(Body body) {
  return [body](Kernels& kernels, Tensors x) {
    body(kernels, x);
    return 0.0;
  };
}

/// Zero, and neither asked for nor a result; of any units.
inline MemoryOperand unasked(DType type, int64_t count) {
  return {type, fixed({count}), Content::Zero, false, false};
}

using Cases = std::vector<MemoryCase>;

struct Maker {
  MemorySizes sizes;
  int64_t period;  ///< rows
  Cases cases;
  ShapeOf row() const { return each({sizes.width}); }
  ShapeOf one() const { return each({}); }
  ShapeOf width() const { return fixed({sizes.width}); }
  /// What a norm leaves of slices of the rows, where it does: neither asked for nor a result.
  MemoryOperand sums(int64_t each) const {
    const auto shape = [each, columns = sizes.width](int64_t units) {
      return Shape{each, parallel::normSlicesOf(units).count, columns};
    };
    return {kWide, shape, Content::Random, false, false};
  }
  template <class Body>
  void rows(const std::string& name, std::vector<MemoryOperand> operands, Body body) {
    cases.push_back({name, sizes.rows, period, std::move(operands), quiet(body)});
  }
};

/// What follows the name of a call whose kernel is by itself.
inline constexpr const char* kAlone = ", the kernel";

/// Calls of the optimizers.
void addOptimizer(Maker& m);

}  // namespace tutti::bench
