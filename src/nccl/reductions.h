#pragma once

// ncclDataType_t and ncclRedOp_t in Tutti's terms, and the reductions that a program has made.

#include <map>
#include <mutex>

#include <tutti-nccl/nccl.h>

#include <tutti/types.h>

namespace tutti::nccl {

/// Throws InvalidArgument for a number that is no type.
DataType dataTypeOf(ncclDataType_t type);

struct ReductionFacts {
  ReduceOp op = ReduceOp::Sum;
  double scalar = 1.0;
};

/// The reductions of one communicator. Thread safe.
class Reductions {
 public:
  /// A new handle, which no other communicator of the process has. Throws InvalidArgument for a
  /// 64-bit integer that a double cannot hold.
  ncclRedOp_t addPreMulSum(const void* scalar, ncclDataType_t type, ncclScalarResidence_t where);
  /// Throws InvalidArgument when it is built in or was not made here.
  void remove(ncclRedOp_t op);
  /// For a call on elements of `type`; reads a scalar in device memory now. Throws InvalidArgument
  /// for one that is neither built in nor made here for this type.
  ReductionFacts find(ncclRedOp_t op, ncclDataType_t type) const;

 private:
  struct PreMulSum {
    ncclDataType_t type;
    double scalar;         // when it was read already
    const void* location;  // else null
  };
  mutable std::mutex mutex_;
  std::map<int, PreMulSum> made_;
};

}  // namespace tutti::nccl
