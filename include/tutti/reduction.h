#pragma once

// Reductions of the caller's own, for AllReduce, Reduce, ReduceScatter, their uneven forms and
// Scan.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include <tutti/types.h>

namespace tutti {

/// A commutative and associative operation on values of one type. Copies are the same reduction.
class Reduction {
 public:
  /// inout[i] = in[i] combined with inout[i], for i from 0 to count - 1. Both are aligned to 64
  /// bytes, do not overlap and are no buffers of the caller. It is called on whichever thread runs
  /// the operation, several times and for parts of the buffers in any order. It may not call the
  /// communicator that calls it (InvalidArgument there). What it throws fails the communicator, by
  /// InvalidArgument with its text, or OutOfMemory for std::bad_alloc. In deterministic mode `in`
  /// is the left part of the tree over ranks.
  using Function = std::function<void(const void* in, void* inout, size_t count)>;

  static constexpr size_t kLongestName = 16;

  /// None: calls use their `op`.
  Reduction() = default;
  /// The name, of 1 to kLongestName printable characters, stands for the reduction where ranks
  /// compare their calls. Throws InvalidArgument.
  Reduction(std::string name, DataType type, Function function);

  explicit operator bool() const { return definition_ != nullptr; }
  const std::string& name() const { return definition_->name; }
  DataType type() const { return definition_->type; }
  const Function& function() const { return definition_->function; }

 private:
  struct Definition {
    std::string name;
    DataType type;
    Function function;
  };
  std::shared_ptr<const Definition> definition_;
};

}  // namespace tutti
