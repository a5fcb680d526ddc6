#pragma once

// What an MLP makes of a product on its way to memory, for gemm_speed: by the product's epilogue,
// and by calls of their own behind a product of somebody else.

#include <functional>
#include <string>
#include <vector>

#include "bench/gpu/gpu.h"

namespace tutti::bench {

using parallel::GemmArgs;

/// A kind of product: which of its operands are transposed, and its epilogue.
struct ProductKind {
  const char* name;
  bool transposeA = false, transposeB = false;
  parallel::Activation activation = parallel::Activation::None;
  bool hasBias = false, hasResidual = false;

  bool hasEpilogue() const {
    return activation != parallel::Activation::None || hasBias || hasResidual;
  }
  /// Columns of c, of so many columns of the product.
  int64_t results(int64_t columns) const {
    return activation == parallel::Activation::SwiGluBackward ? 2 * columns : columns;
  }
};

/// Null where there is none of that name.
const ProductKind* findKind(const std::string& name);
/// Their names, for messages.
std::string kindsInWords();

/// Operands of the epilogue for a product of that shape, each with `period` over and over.
parallel::GemmEpilogue epilogueOf(Gpu& gpu, const ProductKind& kind, const Shape& product,
                                  const std::vector<float>& period);

/// The call in parts: `gemm`, which is given no epilogue, and then this library's kernels.
Call inParts(Gpu& gpu, const GemmArgs& args, std::function<void(const GemmArgs&)> gemm);

/// An element of c, and a number to which the errors of an activation are in proportion, 0 without
/// one; of Gelu and SwiGlu what is kept in `inner`, too, and its column there.
struct Expected {
  double value, scale;
  int64_t keptColumn = -1;
  double kept = 0;
};
/// From the exact sum of its product.
Expected behindEpilogue(const GemmArgs& args, double sum, int64_t row, int64_t column,
                        const std::vector<float>& period);

}  // namespace tutti::bench
