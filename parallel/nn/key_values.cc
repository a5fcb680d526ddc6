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

Tensor KeyValues::positions(const DeviceMesh& mesh, int64_t count) {
  const auto first = static_cast<int32_t>(seen_);
  if (std::ssize(numbers_) == count && count > 0 && numbers_[0] == first) return positions_;
  numbers_.resize(static_cast<size_t>(count));
  std::iota(numbers_.begin(), numbers_.end(), first);
  positions_ = Tensor(numbers_.data(), DType::Int32, {count});
  if (!mesh.stream()) return positions_;
  if (onDevice_.data == nullptr) onDevice_ = memory_.allocate(DType::Int32, {capacity_});
  positions_.data = onDevice_.data;
  mesh.upload(numbers_.data(), positions_);
  return positions_;
}

}  // namespace tutti::parallel
