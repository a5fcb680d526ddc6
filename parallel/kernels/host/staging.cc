#include "parallel/kernels/host/staging.h"

#include <algorithm>
#include <bit>

#include "parallel/kernels/host/strided.h"

namespace tutti::parallel::host {
namespace {

Arena& arena() {
  thread_local Arena arena{"bfloat16 staging"};
  return arena;
}

}  // namespace

void widen(const uint16_t* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = std::bit_cast<float>(uint32_t{from[i]} << 16);
}

// Adding half of what is cut off, less one if the last bit that stays is even, rounds to nearest
// even. It would turn a NaN with only low bits into infinity, so those get a bit that stays.
void narrow(const float* from, uint16_t* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(from[i]);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    to[i] = static_cast<uint16_t>(from[i] == from[i] ? rounded : (bits >> 16 | 0x40));
  }
}

Staging::Staging() : mark_(arena().mark()) {}

Staging::~Staging() {
  for (const Result& result : results_)
    forEachRow(result.narrow, result.wide, [&](int64_t to, int64_t from, int64_t count) {
      narrow(static_cast<const float*>(result.wide.data) + from,
             static_cast<uint16_t*>(result.narrow.data) + to, count);
    });
  arena().rewind(mark_);
}

bool Staging::needed(std::initializer_list<Tensor> operands) {
  return std::ranges::any_of(operands, [](const Tensor& x) { return x.type == DType::BFloat16; });
}

void Staging::stage(Tensor& x, bool read, bool write) {
  if (x.type != DType::BFloat16 || x.data == nullptr) return;
  require(x.contiguous() || (x.shape.rank() > 0 && x.strides[-1] == 1), "bfloat16: ", x,
          " has no rows of adjacent elements");
  const Tensor wide = arena().allocate(DType::Float32, x.shape);
  if (read)
    forEachRow(x, wide, [&](int64_t from, int64_t to, int64_t count) {
      widen(static_cast<const uint16_t*>(x.data) + from, static_cast<float*>(wide.data) + to,
            count);
    });
  if (write) results_.push_back({x, wide});
  x = wide;
}

}  // namespace tutti::parallel::host
