#include "src/nccl/reductions.h"

#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "src/base/check.h"
#include "src/numbers/element.h"

namespace tutti::nccl {
namespace {

constexpr std::array<DataType, ncclNumTypes> kTypes{
    DataType::Int8,    DataType::UInt8,    DataType::Int32,      DataType::UInt32,
    DataType::Int64,   DataType::UInt64,   DataType::Float16,    DataType::Float32,
    DataType::Float64, DataType::BFloat16, DataType::Float8E4M3, DataType::Float8E5M2};
constexpr std::array<ReduceOp, ncclNumOps> kOps{ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max,
                                                ReduceOp::Min, ReduceOp::Avg};

/// Beyond 2^53 not every integer is a double.
template <class T>
void requireDouble(const void* at, double scalar) {
  T value;
  std::memcpy(&value, at, sizeof value);
  constexpr int kBits = std::numeric_limits<T>::digits;
  TUTTI_REQUIRE(scalar < std::ldexp(1.0, kBits) && static_cast<T>(scalar) == value, "the scalar ",
                value, " has more than 53 significant bits, which is not supported");
}

double scalarAt(const void* at, int type) {
  const double scalar = numbers::elementAt(dataTypeOf(type), at);
  if (type == ncclInt64) requireDouble<int64_t>(at, scalar);
  if (type == ncclUint64) requireDouble<uint64_t>(at, scalar);
  return scalar;
}

bool builtIn(int op) { return op >= 0 && op < ncclNumOps; }

}  // namespace

DataType dataTypeOf(int type) {
  TUTTI_REQUIRE(type >= 0 && type < ncclNumTypes, "datatype ", type, " is not one of 0..",
                ncclNumTypes - 1);
  return kTypes[static_cast<size_t>(type)];
}

ncclRedOp_t Reductions::addPreMulSum(const void* scalar, int type, int residence) {
  static std::atomic<int> next{ncclNumOps};
  dataTypeOf(type);
  TUTTI_REQUIRE(scalar, "the scalar is null");
  TUTTI_REQUIRE(residence == ncclScalarDevice || residence == ncclScalarHostImmediate, "residence ",
                residence, " is neither ncclScalarDevice nor ncclScalarHostImmediate");
  const PreMulSum made = residence == ncclScalarDevice
                             ? PreMulSum{type, 1.0, scalar}
                             : PreMulSum{type, scalarAt(scalar, type), nullptr};
  int handle = next.load();
  do {
    if (handle == ncclMaxRedOp)
      base::fail(ErrorCode::InvalidUsage, "this process has made ", handle, " reductions: no more");
  } while (!next.compare_exchange_weak(handle, handle + 1));
  std::lock_guard lock(mutex_);
  made_.emplace(handle, made);
  return static_cast<ncclRedOp_t>(handle);
}

void Reductions::remove(int op) {
  TUTTI_REQUIRE(!builtIn(op), "reduction ", op, " is built in");
  std::lock_guard lock(mutex_);
  TUTTI_REQUIRE(made_.erase(op) == 1, "reduction ", op, " was not made for this communicator");
}

ReductionFacts Reductions::find(int op, int type) const {
  if (builtIn(op)) return {.op = kOps[static_cast<size_t>(op)]};
  std::lock_guard lock(mutex_);
  const auto found = made_.find(op);
  TUTTI_REQUIRE(found != made_.end(), "reduction ", op,
                " is neither built in nor made for this communicator");
  const PreMulSum& made = found->second;
  TUTTI_REQUIRE(made.type == type, "reduction ", op, " was made for datatype ", made.type,
                ", and the call's is ", type);
  return {.op = ReduceOp::PreMulSum, .scalar = made.scalar, .scalarAt = made.location};
}

}  // namespace tutti::nccl
