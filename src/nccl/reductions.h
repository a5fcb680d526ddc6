#pragma once

// ncclDataType_t and ncclRedOp_t in Tutti's terms, and the reductions that a program has made.

#include <cstring>
#include <map>
#include <mutex>

#include <tutti-nccl/nccl.h>

#include <tutti/types.h>

namespace tutti::nccl {

/// What a C program has passed as an enumerator. It may be any number, and C++ has no meaning for
/// an enumeration with another value.
template <class Enum>
int numberOf(const Enum& enumerator) {
  int number = 0;
  static_assert(sizeof number == sizeof enumerator);
  std::memcpy(&number, &enumerator, sizeof number);
  return number;
}

/// Throws InvalidArgument for a number that is no type.
DataType dataTypeOf(int type);

struct ReductionFacts {
  ReduceOp op = ReduceOp::Sum;
  double scalar = 1.0;
  const void* scalarAt = nullptr;  ///< read by the call instead, if given
};

/// The reductions of one communicator. Thread safe.
class Reductions {
 public:
  /// A new handle, which no other communicator of the process has. Throws InvalidArgument for a
  /// 64-bit integer that a double cannot hold.
  ncclRedOp_t addPreMulSum(const void* scalar, int type, int residence);
  /// Throws InvalidArgument when it is built in or was not made here.
  void remove(int op);
  /// For a call on elements of `type`. Throws InvalidArgument for one that is neither built in nor
  /// made here for this type.
  ReductionFacts find(int op, int type) const;

 private:
  struct PreMulSum {
    int type;
    double scalar;         // when it was read already
    const void* location;  // else null
  };
  mutable std::mutex mutex_;
  std::map<int, PreMulSum> made_;
};

}  // namespace tutti::nccl
