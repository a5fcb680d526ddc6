#pragma once

// What a user asked for, as a value: the input of the chooser.

#include <cstdint>
#include <string>

#include "src/plan/plan.h"

namespace tutti::plan {

struct CollectiveRequest {
  Collective collective = Collective::AllReduce;
  uint64_t count = 0;  ///< elements of one block
  DataType type = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  int root = 0;
  bool deterministic = false;
  bool uneven = false;    ///< blocks differ in size; `count` is their mean
  bool mappable = false;  ///< ranks of one host can address each other's windows
  /// Only plans that are safe in place: ranks may call in place of which the others do not know.
  bool mayBeInPlace = false;
  std::string algorithm;  ///< forced, or empty; "mapped" asks for the mapped form

  uint64_t blockBytes() const { return count * sizeOf(type); }
  std::string describe() const;  ///< "all_reduce of 1024 float32, sum"
};

}  // namespace tutti::plan
