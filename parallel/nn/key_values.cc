#include "parallel/nn/key_values.h"

#include <numeric>

namespace tutti::parallel {

Tensor KeyValues::extend(Kernels& kernels, UnitId unit, const Tensor& keysValues) {
  const int64_t count = keysValues.shape[1], columns = keysValues.shape[2];
  ensure(keysValues.shape[0] == 1 && seen_ + count <= capacity_, keysValues, " behind ", seen_,
         " tokens of ", capacity_);
  Tensor& rows = rows_[unit];
  if (rows.data == nullptr) rows = memory_.allocate(keysValues.type, {1, capacity_, columns});
  kernels.copy(keysValues, rows.part(1, seen_, count));
  return rows.part(1, 0, seen_ + count);
}

Tensor KeyValues::positions(int64_t count) {
  positions_.resize(static_cast<size_t>(count));
  std::iota(positions_.begin(), positions_.end(), static_cast<int32_t>(seen_));
  return Tensor(positions_.data(), DType::Int32, {count});
}

}  // namespace tutti::parallel
