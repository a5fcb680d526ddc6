#pragma once

// Rows of tables that operands name: token ids, and positions in a sequence.

#include <cstdint>

#include "parallel/tensor/check.h"
#include "parallel/tensor/tensor.h"

namespace tutti::parallel::host {

/// Throws InvalidArgument, naming the operation, unless `id` is in [lowest, end).
inline void requireId(const char* operation, int64_t id, int64_t lowest, int64_t end) {
  require(id >= lowest && id < end, operation, ": id ", id, " is not in [", lowest, ", ", end, ")");
}

/// Where the rows of sequences of `context` tokens are in a table of `rows` positions.
class Positions {
 public:
  /// Throws InvalidArgument where one of `at`, if there are any, is not in the table.
  Positions(const char* operation, const Tensor& at, int64_t context, int64_t rows)
      : at_(at.data == nullptr ? nullptr : at.as<int32_t>()), context_(context) {
    for (int64_t t = 0; at_ != nullptr && t < context; ++t) requireId(operation, at_[t], 0, rows);
  }
  int64_t of(int64_t row) const {
    const int64_t t = row % context_;
    return at_ == nullptr ? t : at_[t];
  }

 private:
  const int32_t* const at_;
  const int64_t context_;
};

}  // namespace tutti::parallel::host
