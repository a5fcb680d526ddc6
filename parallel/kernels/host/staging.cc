#include "parallel/kernels/host/staging.h"

#include <algorithm>
#include <bit>

#include "parallel/kernels/host/strided.h"

namespace tutti::parallel::host {
namespace {

Arena& arena() {
  thread_local Arena arena{"float32 staging"};
  return arena;
}

float widenedBrain(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// Adding half of what is cut off, less one if the last bit that stays is even, rounds to nearest
// even. It would turn a NaN with only low bits into infinity, so those get a bit that stays.
uint16_t narrowedBrain(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return static_cast<uint16_t>(value == value ? rounded : (bits >> 16 | 0x40));
}

// Shifted to where float32 has them, exponent and mantissa are a number that is too small by 2^112,
// also where the exponent is 0; all of its bits set stay so.
float widenedHalf(uint16_t bits) {
  const uint32_t size = (bits & 0x7fffu) << 13;
  const uint32_t scaled = std::bit_cast<uint32_t>(std::bit_cast<float>(size) * 0x1p112f);
  const uint32_t special = size >= 0x7c00u << 13 ? 0x7f800000u : 0;
  return std::bit_cast<float>((bits & 0x8000u) << 16 | scaled | special);
}

// Below 2^-14, adding 0.5 has the processor round to a multiple of 2^-24, the least there is; the
// others as in bfloat16.
uint16_t narrowedHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), size = bits & 0x7fffffffu;
  const uint32_t least =
      std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5f) - std::bit_cast<uint32_t>(0.5f);
  const uint32_t rounded = (size + 0xfff + (size >> 13 & 1) - (112u << 23)) >> 13;
  const uint32_t finite = size < 113u << 23 ? least : rounded;
  const uint32_t special = size > 0x7f800000u ? (0x7e00u | (size >> 13 & 0x3ffu)) : 0x7c00u;
  return static_cast<uint16_t>((bits >> 16 & 0x8000u) | (size < 0x477ff000u ? finite : special));
}

}  // namespace

void widen(DType type, const uint16_t* from, float* to, int64_t count) {
  if (type == DType::BFloat16)
    for (int64_t i = 0; i < count; ++i) to[i] = widenedBrain(from[i]);
  else
    for (int64_t i = 0; i < count; ++i) to[i] = widenedHalf(from[i]);
}

void narrow(DType type, const float* from, uint16_t* to, int64_t count) {
  if (type == DType::BFloat16)
    for (int64_t i = 0; i < count; ++i) to[i] = narrowedBrain(from[i]);
  else
    for (int64_t i = 0; i < count; ++i) to[i] = narrowedHalf(from[i]);
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
