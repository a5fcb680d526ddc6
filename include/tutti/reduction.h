#pragma once

/// \file
/// User-defined reductions, for AllReduce, Reduce, ReduceScatter, ReduceScatterV and Scan.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include <tutti/types.h>

namespace tutti {

/// A commutative and associative operation on values of one type. A copy is the same reduction.
class Reduction {
 public:
  /// Sets inout[i] to in[i] combined with inout[i], for i from 0 to count - 1. Both are aligned to
  /// 64 bytes and do not overlap. They are not the buffers of the call. In deterministic mode `in`
  /// is the left part of the tree over ranks.
  ///
  /// The thread that runs the operation calls it, several times, for parts of the buffers in any
  /// order. It must not call the communicator that calls it: that throws InvalidArgument.
  ///
  /// If it throws, the communicator fails: with OutOfMemory for std::bad_alloc, otherwise with
  /// InvalidArgument and the text of the exception.
  using Function = std::function<void(const void* in, void* inout, size_t count)>;

  static constexpr size_t kLongestName = 16;

  /// No reduction: the call uses its `op`.
  Reduction() = default;
  /// When ranks compare their calls, they compare the name of the reduction. It has 1 to
  /// kLongestName printable characters. Throws InvalidArgument.
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
