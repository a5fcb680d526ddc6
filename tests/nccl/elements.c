#include "elements.h"

#include <math.h>
#include <stdint.h>

#include "harness.h"

/* Formats as exponent and mantissa bits; integers have none. */
typedef struct {
  size_t bytes;
  int exponent_bits, mantissa_bits, infinities;
} Format;

static const Format formats[ncclNumTypes] = {
    [ncclInt8] = {1, 0, 0, 0},     [ncclUint8] = {1, 0, 0, 0},      [ncclInt32] = {4, 0, 0, 0},
    [ncclUint32] = {4, 0, 0, 0},   [ncclInt64] = {8, 0, 0, 0},      [ncclUint64] = {8, 0, 0, 0},
    [ncclFloat16] = {2, 5, 10, 1}, [ncclFloat32] = {4, 8, 23, 1},   [ncclFloat64] = {8, 11, 52, 1},
    [ncclBfloat16] = {2, 8, 7, 1}, [ncclFloat8e4m3] = {1, 4, 3, 0}, [ncclFloat8e5m2] = {1, 5, 2, 1},
};

size_t element_bytes(ncclDataType_t type) { return formats[type].bytes; }
int is_floating(ncclDataType_t type) { return formats[type].exponent_bits > 0; }
double element_epsilon(ncclDataType_t type) { return ldexp(1, -formats[type].mantissa_bits); }

static uint64_t load(const void* data, size_t bytes) {
  uint64_t bits = 0;
  memcpy(&bits, data, bytes); /* little-endian */
  return bits;
}

static double decode(const Format* f, uint64_t bits) {
  const int bias = (1 << (f->exponent_bits - 1)) - 1, top = (1 << f->exponent_bits) - 1;
  const int sign = bits >> (f->exponent_bits + f->mantissa_bits) & 1;
  const int exponent = bits >> f->mantissa_bits & (uint64_t)top;
  const uint64_t mantissa = bits & ((UINT64_C(1) << f->mantissa_bits) - 1);
  if (exponent == top && f->infinities) return mantissa ? NAN : sign ? -INFINITY : INFINITY;
  if (exponent == top && mantissa + 1 == UINT64_C(1) << f->mantissa_bits) return NAN;
  const double significand = ldexp((double)mantissa, -f->mantissa_bits) + (exponent > 0);
  const double value = ldexp(significand, (exponent > 0 ? exponent : 1) - bias);
  return sign ? -value : value;
}

double get_element(ncclDataType_t type, const void* data, size_t index) {
  const Format* f = &formats[type];
  const uint64_t bits = load((const char*)data + index * f->bytes, f->bytes);
  switch (type) {
    case ncclInt8: return (int8_t)bits;
    case ncclInt32: return (int32_t)bits;
    case ncclInt64: return (double)(int64_t)bits;
    case ncclUint8:
    case ncclUint32:
    case ncclUint64: return (double)bits;
    default: return decode(f, bits);
  }
}

static uint64_t encode(ncclDataType_t type, double value) {
  if (!is_floating(type)) return (uint64_t)(int64_t)value;
  const Format* f = &formats[type];
  if (value == 0) return 0;
  int exponent = 0;
  const double significand = frexp(fabs(value), &exponent) * 2 - 1; /* 0 up to 1 */
  const int bias = (1 << (f->exponent_bits - 1)) - 1;
  const uint64_t mantissa = (uint64_t)ldexp(significand, f->mantissa_bits);
  const uint64_t sign = (uint64_t)(value < 0) << (f->exponent_bits + f->mantissa_bits);
  return sign | (uint64_t)(exponent - 1 + bias) << f->mantissa_bits | mantissa;
}

void set_element(ncclDataType_t type, void* data, size_t index, double value) {
  const uint64_t bits = encode(type, value);
  memcpy((char*)data + index * formats[type].bytes, &bits, formats[type].bytes);
  CHECK(get_element(type, data, index) == value);
}
