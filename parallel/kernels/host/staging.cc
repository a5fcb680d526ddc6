#include "parallel/kernels/host/staging.h"

#include <algorithm>

#include "parallel/kernels/host/elementwise.h"
#include "parallel/kernels/host/strided.h"

namespace tutti::parallel::host {
namespace {

Arena& arena() {
  thread_local Arena arena{"float32 staging"};
  return arena;
}

const ElementwiseSet& elementwise() {
  static const ElementwiseSet& best = *availableElementwise().sets[0];
  return best;
}

}  // namespace

void widen(DType type, const uint16_t* from, float* to, int64_t count) {
  (type == DType::BFloat16 ? elementwise().widenBrain : elementwise().widenHalf)(from, to, count);
}

void narrow(DType type, const float* from, uint16_t* to, int64_t count) {
  (type == DType::BFloat16 ? elementwise().narrowBrain : elementwise().narrowHalf)(from, to, count);
}

Staging::Staging() : mark_(arena().mark()) {}

Staging::~Staging() {
  for (const Result& result : results_)
    forEachRow(result.narrow, result.wide, [&](int64_t to, int64_t from, int64_t count) {
      narrow(result.narrow.type, static_cast<const float*>(result.wide.data) + from,
             static_cast<uint16_t*>(result.narrow.data) + to, count);
    });
  arena().rewind(mark_);
}

bool Staging::needed(std::initializer_list<Tensor> operands) {
  return std::ranges::any_of(operands, [](const Tensor& x) { return isNarrow(x.type); });
}

Tensor Staging::allocate(DType type, const Shape& shape) { return arena().allocate(type, shape); }

void Staging::stage(Tensor& x, bool read, bool write) {
  if (!isNarrow(x.type)) return;
  if (x.data == nullptr) {  // left out, or without rows: no elements, but of the others' type
    x.type = DType::Float32;
    return;
  }
  require(x.contiguous() || (x.shape.rank() > 0 && x.strides[-1] == 1), toString(x.type), ": ", x,
          " has no rows of adjacent elements");
  const Tensor wide = arena().allocate(DType::Float32, x.shape);
  if (read)
    forEachRow(x, wide, [&](int64_t from, int64_t to, int64_t count) {
      widen(x.type, static_cast<const uint16_t*>(x.data) + from,
            static_cast<float*>(wide.data) + to, count);
    });
  if (write) results_.push_back({x, wide});
  x = wide;
}

}  // namespace tutti::parallel::host
