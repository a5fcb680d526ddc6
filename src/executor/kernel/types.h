#pragma once

// Element types and reductions as kernels know them: the numbers of tutti::DataType and
// tutti::ReduceOp, which types.cc compares.

#include <cstdint>

namespace tutti::executor::kernel {

enum Type : uint8_t {
  kInt8,
  kUInt8,
  kInt16,
  kUInt16,
  kInt32,
  kUInt32,
  kInt64,
  kUInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kFloat8E4M3,
  kFloat8E5M2
};
enum Op : uint8_t {
  kSum,
  kProd,
  kMin,
  kMax,
  kAvg,
  kPreMulSum,
  kBitAnd,
  kBitOr,
  kBitXor,
  kLogicalAnd,
  kLogicalOr,
  kLogicalXor
};

}  // namespace tutti::executor::kernel
